// The packed contraction for one instruction set: a register tile of vectors over packed panels, cache blocks around it, blocks
// handed to the threads. Included by one source for each instruction set; the tag `Isa` keeps the copies apart.
//
// A block keeps its sums in the accumulation type until the last term, so 16-bit outputs are rounded once, and every element's
// sum has one order whatever the blocks and threads are.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/host_pack.hpp"

namespace attune::packing {

template <class T>
using Micro = void (*)(std::int64_t terms, const T* a, const T* b, T* acc, bool first);

template <class T, int Bytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(Bytes)));
};

template <class Isa, class T, int Vectors, int Columns>
void micro(std::int64_t terms, const T* a, const T* b, T* acc, bool first) {
  using Vector = typename VectorOf<T, vector_bytes(Isa::isa)>::type;
  constexpr int lanes = vector_bytes(Isa::isa) / static_cast<int>(sizeof(T));
  Vector sum[Columns][Vectors];
  Vector* tile = reinterpret_cast<Vector*>(acc);
#pragma GCC unroll 16
  for (int j = 0; j < Columns; ++j)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sum[j][v] = first ? Vector{} : tile[j * Vectors + v];
  for (std::int64_t l = 0; l < terms; ++l, a += Vectors * lanes, b += Columns) {
    Vector x[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) x[v] = reinterpret_cast<const Vector*>(a)[v];
#pragma GCC unroll 16
    for (int j = 0; j < Columns; ++j)
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sum[j][v] += x[v] * b[j];
  }
#pragma GCC unroll 16
  for (int j = 0; j < Columns; ++j)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) tile[j * Vectors + v] = sum[j][v];
}

template <class Isa, class T, int Row>
constexpr Micro<T> micro_of_row() {
  if constexpr (host_rows[Row].isa == Isa::isa && packs(host_rows[Row].family))
    return micro<Isa, T, host_rows[Row].vectors, host_rows[Row].columns>;
  else
    return nullptr;
}
template <class Isa, class T, int... Rows>
Micro<T> micro_of(int row, std::integer_sequence<int, Rows...>) {
  static constexpr Micro<T> table[] = {micro_of_row<Isa, T, Rows>()...};
  return table[row];
}

template <class Isa, class T>
struct StridedOperands {
  const StridedContraction& p;
  const HostCall& call;

  std::int64_t m() const { return p.m; }
  std::int64_t n() const { return p.n; }
  std::int64_t k() const { return p.k; }
  std::int64_t batch() const { return p.batch[0] * p.batch[1]; }
  std::int64_t at(const std::int64_t* step, std::int64_t z) const {
    return z % p.batch[0] * step[0] + z / p.batch[0] * step[1];
  }
  void pack_m(std::int64_t z, Range i, Range l, int width, T* to) const {
    with_type(p.a_type, [&](auto tag) {
      const auto* from = static_cast<const decltype(tag)*>(p.swapped ? call.b : call.a) + at(p.a_z, z);
      pack_strided<Isa>(from + i.from * p.a_i + l.from * p.a_l, p.a_i, p.a_l, i.count, l.count, width, to);
    });
  }
  void pack_n(std::int64_t z, Range j, Range l, int width, T* to) const {
    with_type(p.b_type, [&](auto tag) {
      const auto* from = static_cast<const decltype(tag)*>(p.swapped ? call.a : call.b) + at(p.b_z, z);
      pack_strided<Isa>(from + j.from * p.b_j + l.from * p.b_l, p.b_j, p.b_l, j.count, l.count, width, to);
    });
  }
  DType out_type() const { return p.c_type; }
  void rows(std::int64_t z, Range i, Lines& lines) const {
    lines.count = static_cast<int>(i.count);
    for (int x = 0; x < lines.count; ++x) {
      lines.d[x] = at(p.d_z, z) + (i.from + x) * p.d_i;
      lines.c[x] = at(p.c_z, z) + (i.from + x) * p.c_i;
      lines.bias[x] = at(p.bias_z, z) + (i.from + x) * p.bias_i;
    }
  }
  void cols(std::int64_t, Range j, Lines& lines) const {
    lines.count = static_cast<int>(j.count);
    for (int x = 0; x < lines.count; ++x) {
      lines.d[x] = (j.from + x) * p.d_j, lines.c[x] = (j.from + x) * p.c_j;
      lines.bias[x] = (j.from + x) * p.bias_j;
    }
  }
};

template <class Isa, class T>
struct ImageOperands {
  const ImageContraction& p;
  const HostCall& call;

  std::int64_t m() const { return p.image_on_m ? p.cols() : p.rows; }
  std::int64_t n() const { return p.image_on_m ? p.rows : p.cols(); }
  std::int64_t k() const { return p.terms(); }
  std::int64_t batch() const { return p.groups; }
  void pack(bool image, std::int64_t z, Range lines, Range l, int width, T* to) const {
    if (image) {
      with_type(p.image_type, [&](auto tag) {
        pack_image<Isa>(p, static_cast<const decltype(tag)*>(call.a) + z * p.image_group, lines, l, width, to);
      });
    } else {
      with_type(p.other_type, [&](auto tag) {
        pack_other<Isa>(p, static_cast<const decltype(tag)*>(call.b) + z * p.other_group, lines, l, width, to);
      });
    }
  }
  void pack_m(std::int64_t z, Range i, Range l, int width, T* to) const { pack(p.image_on_m, z, i, l, width, to); }
  void pack_n(std::int64_t z, Range j, Range l, int width, T* to) const { pack(!p.image_on_m, z, j, l, width, to); }
  DType out_type() const { return p.out_type; }
  void lines(bool columns, std::int64_t z, Range range, Lines& out) const {
    out.count = static_cast<int>(range.count);
    if (columns) {
      Walk at(range.from, p.position);
      for (int x = 0; x < out.count; ++x, at.next(p.position)) {
        out.d[x] = out.c[x] =
            at.outer * p.out_outer + at.at[0] * p.out_position[0] + at.at[1] * p.out_position[1] + at.at[2] * p.out_position[2];
        out.bias[x] = 0;
      }
    } else {
      for (int x = 0; x < out.count; ++x) {
        out.d[x] = out.c[x] = z * p.out_group + (range.from + x) * p.out_row;
        out.bias[x] = z * p.rows + range.from + x;
      }
    }
  }
  void rows(std::int64_t z, Range i, Lines& out) const { lines(p.image_on_m, z, i, out); }
  void cols(std::int64_t z, Range j, Lines& out) const { lines(!p.image_on_m, z, j, out); }
};

template <class T, class Operands>
struct Block {
  const Operands& operands;
  const PackedShape& shape;
  Micro<T> kernel;
  T *a, *b, *acc;

  template <class Isa>
  void run(std::int64_t z, Range i, Range j, T alpha, T beta) const {
    const int mr = shape.mr, nr = shape.nr;
    const std::int64_t tile = static_cast<std::int64_t>(mr) * nr, k = operands.k();
    for (std::int64_t l0 = 0; l0 < k; l0 += shape.kc) {
      const Range l{l0, least(shape.kc, k - l0)};
      operands.pack_m(z, i, l, mr, a);
      operands.pack_n(z, j, l, nr, b);
      T* to = acc;
      for (std::int64_t y = 0; y < j.count; y += nr)
        for (std::int64_t x = 0; x < i.count; x += mr, to += tile)
          kernel(l.count, a + x * l.count, b + y * l.count, to, l0 == 0);
    }
    with_type(operands.out_type(), [&](auto tag) {
      using S = decltype(tag);
      S* d = static_cast<S*>(operands.call.d);
      const S* c = static_cast<const S*>(operands.call.c);
      const S* bias = static_cast<const S*>(operands.call.bias);
      const Activation activation = operands.call.activation;
      const bool plain = bias == nullptr && activation == Activation::none;
      const T* from = acc;
      Lines rows, cols;
      for (std::int64_t y = 0; y < j.count; y += nr) {
        operands.cols(z, {j.from + y, least(nr, j.count - y)}, cols);
        for (std::int64_t x = 0; x < i.count; x += mr, from += tile) {
          operands.rows(z, {i.from + x, least(mr, i.count - x)}, rows);
          if constexpr (std::is_same_v<S, std::int32_t>)
            store_integers<Isa>(d, c, rows, cols, mr, from, alpha, beta);
          else if (plain)
            store_tile<Isa>(d, c, rows, cols, mr, from, alpha, beta);
          else
            finish_tile<Isa>(d, c, bias, activation, rows, cols, mr, from, alpha, beta);
        }
      }
    });
  }
};

template <class Isa, class T, class Operands>
void contract(const Operands& operands, const PackedShape& shape) {
  const Micro<T> kernel = micro_of<Isa, T>(shape.row, std::make_integer_sequence<int, static_cast<int>(host_row_count)>{});
  const std::int64_t m = operands.m(), n = operands.n(), blocks = shape.m_blocks * shape.n_blocks;
  const T alpha = static_cast<T>(operands.call.alpha), beta = static_cast<T>(operands.call.beta);
  auto body = [&](int worker, std::int64_t task) {
    char* memory = static_cast<char*>(operands.call.workspace) + static_cast<std::size_t>(worker) * shape.worker_bytes();
    const Block<T, Operands> block{operands,
                                   shape,
                                   kernel,
                                   reinterpret_cast<T*>(memory),
                                   reinterpret_cast<T*>(memory + shape.a_bytes),
                                   reinterpret_cast<T*>(memory + shape.a_bytes + shape.b_bytes)};
    const std::int64_t z = task / blocks, at = task % blocks;
    const std::int64_t i = at % shape.m_blocks * shape.mc, j = at / shape.m_blocks * shape.nc;
    block.template run<Isa>(z, {i, least(shape.mc, m - i)}, {j, least(shape.nc, n - j)}, alpha, beta);
  };
  operands.call.pool->run(operands.batch() * blocks, shape.threaded, body);
}

template <class Isa>
void run_strided(const StridedContraction& p, const PackedShape& shape, const HostCall& call) {
  if (shape.wide)
    contract<Isa, double>(StridedOperands<Isa, double>{p, call}, shape);
  else
    contract<Isa, float>(StridedOperands<Isa, float>{p, call}, shape);
}
template <class Isa>
void run_image(const ImageContraction& p, const PackedShape& shape, const HostCall& call) {
  if (shape.wide)
    contract<Isa, double>(ImageOperands<Isa, double>{p, call}, shape);
  else
    contract<Isa, float>(ImageOperands<Isa, float>{p, call}, shape);
}

}  // namespace attune::packing

#include "kernels/host_loops.hpp"

#include <algorithm>

#include "kernels/common/number.hpp"

namespace attune {
namespace {

/// Scalars, C and the epilogue around one sum; rounds once.
ATTUNE_INLINE void finish(const HostCall& call, DType type, double sum, std::int64_t c, std::int64_t d, std::int64_t bias) {
  if (type == DType::i32) {
    const double before = call.c != nullptr ? load_number(call.c, type, c) : 0;
    static_cast<std::int32_t*>(call.d)[d] = finished_integer(call.alpha, sum, call.beta, before);
    return;
  }
  double value = call.alpha * sum;
  if (call.c != nullptr) value += call.beta * load_number(call.c, type, c);
  if (call.bias != nullptr) value += load_number(call.bias, type, bias);
  store_number(call.d, type, d, activated(call.activation, value));
}

/// The bias of row i in matrix z is at i + z * bias_z: the matrices of a convolution are its groups.
template <class T, class View>
void reference(const View& v, DType a_type, DType b_type, DType out_type, bool threaded, const HostCall& call) {
  const std::int64_t bias_z = std::is_same_v<View, ConvView> ? v.rows() : 0;
  auto body = [&](int, std::int64_t task) {
    const std::int64_t j = task % v.cols(), z = task / v.cols();
    for (std::int64_t i = 0; i < v.rows(); ++i) {
      T sum = 0;
      for (std::int64_t l = 0; l < v.terms(); ++l) {
        std::int64_t a = 0, b = 0;
        if (!v.product(i, j, z, l, a, b)) continue;
        sum += static_cast<T>(load_number(call.a, a_type, a)) * static_cast<T>(load_number(call.b, b_type, b));
      }
      finish(call, out_type, static_cast<double>(sum), v.c_offset(i, j, z), v.d_offset(i, j, z), z * bias_z + i);
    }
  };
  call.pool->run(v.cols() * v.batches(), threaded, body);
}

template <class View>
void reference(const View& v, Compute compute, DType a, DType b, DType out, bool threaded, const HostCall& call) {
  if (compute != Compute::f32)  // integers below 2^53 are exact in double
    reference<double>(v, a, b, out, threaded, call);
  else
    reference<float>(v, a, b, out, threaded, call);
}

/// The operands of one GEMM at work in T, inputs stored as S.
template <class T, class S>
struct Loops {
  const GemmView& v;
  DType out_type;
  const HostCall& call;

  const S* a(std::int64_t z) const { return static_cast<const S*>(call.a) + z * v.a_z; }
  const S* b(std::int64_t z) const { return static_cast<const S*>(call.b) + z * v.b_z; }
  static T get(const S* from, std::int64_t at) { return static_cast<T>(widen(from[at])); }
  void put(std::int64_t i, std::int64_t j, std::int64_t z, T sum) const {
    finish(call, out_type, static_cast<double>(sum), v.c_offset(i, j, z), v.d_offset(i, j, z), i);
  }

  void dot(std::int64_t task) const {
    constexpr int lanes = 8;
    const std::int64_t j = task % v.n, z = task / v.n;
    for (std::int64_t i = 0; i < v.m; ++i) {
      const S* x = a(z) + i * v.a_i;
      const S* y = b(z) + j * v.b_j;
      T part[lanes] = {};
      std::int64_t l = 0;
      for (; l + lanes <= v.k; l += lanes)
        for (int p = 0; p < lanes; ++p) part[p] += get(x, (l + p) * v.a_l) * get(y, (l + p) * v.b_l);
      for (; l < v.k; ++l) part[0] += get(x, l * v.a_l) * get(y, l * v.b_l);
      put(i, j, z, ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7])));
    }
  }

  static constexpr std::int64_t strip = 256;  ///< rows summed together by axpy
  void axpy(std::int64_t task) const {
    const std::int64_t strips = (v.m + strip - 1) / strip;
    const std::int64_t i0 = task % strips * strip, j = task / strips % v.n, z = task / strips / v.n;
    const std::int64_t rows = std::min(strip, v.m - i0);
    T sum[strip] = {};
    for (std::int64_t l = 0; l < v.k; ++l) {
      const T scale = get(b(z), l * v.b_l + j * v.b_j);
      const S* x = a(z) + i0 * v.a_i + l * v.a_l;
      if (v.a_i == 1) {
        for (std::int64_t i = 0; i < rows; ++i) sum[i] += get(x, i) * scale;
      } else {
        for (std::int64_t i = 0; i < rows; ++i) sum[i] += get(x, i * v.a_i) * scale;
      }
    }
    for (std::int64_t i = 0; i < rows; ++i) put(i0 + i, j, z, sum[i]);
  }

  static constexpr std::int64_t tile = 4;  ///< rows and columns of blocked's tile
  void blocked(std::int64_t task) const {
    const std::int64_t strips = (v.n + tile - 1) / tile;
    const std::int64_t j0 = task % strips * tile, z = task / strips;
    const std::int64_t cols = std::min(tile, v.n - j0);
    for (std::int64_t i0 = 0; i0 < v.m; i0 += tile) {
      const std::int64_t rows = std::min(tile, v.m - i0);
      const S* x = a(z) + i0 * v.a_i;
      const S* y = b(z) + j0 * v.b_j;
      T sum[tile][tile] = {};
      const auto add = [&](std::int64_t height, std::int64_t width) {
        for (std::int64_t l = 0; l < v.k; ++l)
          for (std::int64_t j = 0; j < width; ++j)
            for (std::int64_t i = 0; i < height; ++i)
              sum[j][i] += get(x, i * v.a_i + l * v.a_l) * get(y, l * v.b_l + j * v.b_j);
      };
      if (rows == tile && cols == tile)
        add(tile, tile);
      else
        add(rows, cols);
      for (std::int64_t j = 0; j < cols; ++j)
        for (std::int64_t i = 0; i < rows; ++i) put(i0 + i, j0 + j, z, sum[j][i]);
    }
  }

  void run(HostFamily family, bool threaded) const {
    HostPool& pool = *call.pool;
    if (family == HostFamily::axpy)
      pool.run((v.m + strip - 1) / strip * v.n * v.batch, threaded, [this](int, std::int64_t task) { axpy(task); });
    else if (family == HostFamily::blocked)
      pool.run((v.n + tile - 1) / tile * v.batch, threaded, [this](int, std::int64_t task) { blocked(task); });
    else
      pool.run(v.n * v.batch, threaded, [this](int, std::int64_t task) { dot(task); });
  }
};

}  // namespace

void reference_gemm(const GemmProblem& p, bool threaded, const HostCall& call) {
  reference(view(p), p.compute, p.a_type, p.b_type, p.c_type, threaded, call);
}

void reference_conv(const ConvProblem& p, bool threaded, const HostCall& call) {
  const DType a = p.direction == Direction::dgrad ? p.y_type : p.x_type;
  const DType b = p.direction == Direction::wgrad ? p.y_type : p.w_type;
  const DType out = p.direction == Direction::fwd ? p.y_type : p.direction == Direction::dgrad ? p.x_type : p.w_type;
  reference(view(p), p.compute, a, b, out, threaded, call);
}

bool loops_take(const GemmProblem& p) noexcept { return p.a_type == p.b_type; }

void loop_gemm(HostFamily family, const GemmProblem& p, bool threaded, const HostCall& call) {
  const GemmView v = view(p);
  with_type(p.a_type, [&](auto tag) {
    using S = decltype(tag);
    if (p.compute != Compute::f32)
      Loops<double, S>{v, p.c_type, call}.run(family, threaded);
    else
      Loops<float, S>{v, p.c_type, call}.run(family, threaded);
  });
}

}  // namespace attune

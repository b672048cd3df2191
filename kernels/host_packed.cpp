#include "kernels/host_packed.hpp"

#include <algorithm>
#include <utility>

namespace attune {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// The block of at most `most` that divides `size` evenly into blocks of whole tiles.
std::int64_t balanced(std::int64_t size, std::int64_t most, std::int64_t tile) {
  return round_up(ceil_div(size, ceil_div(size, std::max(most / tile * tile, tile))), tile);
}

void exchange_roles(StridedContraction& s) {
  std::swap(s.a_type, s.b_type);
  std::swap(s.m, s.n);
  std::swap(s.a_i, s.b_j);
  std::swap(s.a_l, s.b_l);
  for (int z = 0; z < 2; ++z) std::swap(s.a_z[z], s.b_z[z]);
  std::swap(s.c_i, s.c_j);
  std::swap(s.d_i, s.d_j);
  std::swap(s.bias_i, s.bias_j);
  s.swapped = !s.swapped;
}

}  // namespace

StridedContraction strided(const GemmProblem& p) noexcept {
  const GemmView v = view(p);
  StridedContraction s;
  s.a_type = p.a_type, s.b_type = p.b_type, s.c_type = p.c_type;
  s.m = v.m, s.n = v.n, s.k = v.k, s.batch[0] = v.batch;
  s.a_i = v.a_i, s.a_l = v.a_l, s.a_z[0] = v.a_z;
  s.b_l = v.b_l, s.b_j = v.b_j, s.b_z[0] = v.b_z;
  s.c_i = 1, s.c_j = v.ldc, s.c_z[0] = v.c_z;
  s.d_i = 1, s.d_j = v.ldd, s.d_z[0] = v.d_z;
  s.bias_i = 1;
  return s;
}

bool pointwise(const ConvProblem& p, StridedContraction& s) noexcept {
  const ConvView v = view(p);
  for (int i = 0; i < 3; ++i)
    if (v.filter[i] != 1 || v.stride[i] != 1 || v.pad[i] != 0 || v.in[i] != v.out[i]) return false;
  // One step walks all positions if each dimension of more than one goes on where the next inner one ends.
  const auto collapse = [&](const std::int64_t* step, std::int64_t& flat) {
    std::int64_t span = 0;
    for (int i = 2; i >= 0; --i) {
      if (v.in[i] == 1) continue;
      if (span == 0)
        flat = step[2 + i];
      else if (step[2 + i] != span)
        return false;
      span = step[2 + i] * v.in[i];
    }
    if (span == 0) flat = step[4];
    return true;
  };
  std::int64_t x = 0, y = 0;
  if (!collapse(v.x_step, x) || !collapse(v.y_step, y)) return false;
  const std::int64_t positions = ConvView::volume(v.in);
  s = {};
  s.c_type = p.direction == Direction::fwd ? p.y_type : p.direction == Direction::dgrad ? p.x_type : p.w_type;
  if (p.direction == Direction::wgrad) {
    std::int64_t terms = positions;
    if (v.n > 1) {  // the batch is a part of the sum
      if (positions > 1 && (v.x_step[0] != x * positions || v.y_step[0] != y * positions)) return false;
      if (positions == 1) x = v.x_step[0], y = v.y_step[0];
      terms *= v.n;
    }
    s.a_type = p.x_type, s.b_type = p.y_type;
    s.m = v.c, s.n = v.k, s.k = terms, s.batch[0] = v.groups;
    s.a_i = v.x_step[1], s.a_l = x, s.a_z[0] = v.c * v.x_step[1];
    s.b_l = y, s.b_j = v.y_step[1], s.b_z[0] = v.k * v.y_step[1];
    s.d_i = v.w_step[1], s.d_j = v.w_step[0], s.d_z[0] = v.k * v.w_step[0];
  } else {
    const bool fwd = p.direction == Direction::fwd;
    const std::int64_t* in = fwd ? v.x_step : v.y_step;
    const std::int64_t* out = fwd ? v.y_step : v.x_step;
    const std::int64_t in_c = fwd ? v.c : v.k, out_c = fwd ? v.k : v.c;
    s.a_type = fwd ? p.x_type : p.y_type, s.b_type = p.w_type;
    s.m = positions, s.n = out_c, s.k = in_c, s.batch[0] = v.n, s.batch[1] = v.groups;
    s.a_i = fwd ? x : y, s.a_l = in[1], s.a_z[0] = in[0], s.a_z[1] = in_c * in[1];
    s.b_l = v.w_step[fwd ? 1 : 0], s.b_j = v.w_step[fwd ? 0 : 1], s.b_z[1] = v.k * v.w_step[0];
    s.d_i = fwd ? y : x, s.d_j = out[1], s.d_z[0] = out[0], s.d_z[1] = out_c * out[1];
    s.bias_j = 1, s.bias_z[1] = out_c;
    if (v.n > 1 && s.a_z[0] == s.a_i * positions && s.d_z[0] == s.d_i * positions) s.m *= v.n, s.batch[0] = 1;
  }
  s.c_i = s.d_i, s.c_j = s.d_j;
  for (int z = 0; z < 2; ++z) s.c_z[z] = s.d_z[z];
  if (s.d_i > s.d_j) exchange_roles(s);
  return true;
}

PackedShape packed_shape(int row, bool wide, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch,
                         int threads) noexcept {
  const HostRow& r = host_rows[row];
  const std::int64_t element = wide ? 8 : 4;
  PackedShape s;
  s.row = row;
  s.wide = wide;
  s.threaded = r.threaded;
  s.mr = r.vectors * vector_bytes(r.isa) / static_cast<int>(element);
  s.nr = r.columns;
  s.kc = std::max<std::int64_t>(1, balanced(k, r.kc, 1));
  s.mc = balanced(m, wide ? r.mc / 2 : r.mc, s.mr);
  s.nc = balanced(n, r.nc, s.nr);
  // Smaller blocks where threads would be without one; every element's sum keeps its order.
  if (r.threaded) {
    while (ceil_div(m, s.mc) * ceil_div(n, s.nc) * batch < threads) {
      if (s.nc >= 2 * s.nr && s.nc >= s.mc)
        s.nc = round_up(s.nc / 2, s.nr);
      else if (s.mc >= 2 * s.mr)
        s.mc = round_up(s.mc / 2, s.mr);
      else if (s.nc >= 2 * s.nr)
        s.nc = round_up(s.nc / 2, s.nr);
      else
        break;
    }
  }
  s.m_blocks = ceil_div(m, s.mc), s.n_blocks = ceil_div(n, s.nc);
  const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(round_up(elements * element, 64)); };
  s.a_bytes = bytes(s.mc * s.kc), s.b_bytes = bytes(s.nc * s.kc), s.acc_bytes = bytes(s.mc * s.nc);
  return s;
}

bool host_supports(HostIsa isa) noexcept {
#if defined(__x86_64__)
  switch (isa) {
    case HostIsa::base: return true;
    case HostIsa::avx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case HostIsa::avx512: return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma");
  }
#endif
  return isa == HostIsa::base;
}

PackedEntries packed_entries(HostIsa isa) noexcept {
#if defined(__x86_64__)
  if (isa == HostIsa::avx512) return packed_avx512();
  if (isa == HostIsa::avx2) return packed_avx2();
#endif
  return packed_base();
}

}  // namespace attune

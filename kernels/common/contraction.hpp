// One output element of any problem as a sum of products: the index arithmetic shared by the double-precision reference on the
// host and the sampled check on the GPU. Slow and obvious on purpose: this is what fast kernels are compared with.
//
// An output is a stack of `batches` matrices of `rows` x `cols`; an element is the sum of `terms` products a[..] * b[..], some of
// which may not exist (padding).
#pragma once

#include <attune/problem.hpp>
#include <cstdint>

#if defined(__CUDACC__)
#define ATTUNE_HD __host__ __device__
#else
#define ATTUNE_HD
#endif

namespace attune {

struct GemmView {
  std::int64_t m = 0, n = 0, k = 0, batch = 0;
  std::int64_t a_i = 0, a_l = 0, a_z = 0;  ///< element steps along m, k and the batch
  std::int64_t b_l = 0, b_j = 0, b_z = 0;
  std::int64_t ldc = 0, c_z = 0;
  std::int64_t ldd = 0, d_z = 0;

  ATTUNE_HD std::int64_t rows() const { return m; }
  ATTUNE_HD std::int64_t cols() const { return n; }
  ATTUNE_HD std::int64_t batches() const { return batch; }
  ATTUNE_HD std::int64_t terms() const { return k; }
  ATTUNE_HD std::int64_t c_offset(std::int64_t i, std::int64_t j, std::int64_t z) const { return i + j * ldc + z * c_z; }
  ATTUNE_HD std::int64_t d_offset(std::int64_t i, std::int64_t j, std::int64_t z) const { return i + j * ldd + z * d_z; }
  /// The offsets of product l of element (i, j, z); false where there is none.
  ATTUNE_HD bool product(std::int64_t i, std::int64_t j, std::int64_t z, std::int64_t l, std::int64_t& a,
                         std::int64_t& b) const {
    a = i * a_i + l * a_l + z * a_z;
    b = l * b_l + j * b_j + z * b_z;
    return true;
  }
};

/// `problem` is resolved.
inline GemmView view(const GemmProblem& p) noexcept {
  GemmView v;
  v.m = p.m, v.n = p.n, v.k = p.k, v.batch = p.batch;
  v.a_i = p.op_a == Op::N ? 1 : p.lda, v.a_l = p.op_a == Op::N ? p.lda : 1, v.a_z = p.stride_a;
  v.b_l = p.op_b == Op::N ? 1 : p.ldb, v.b_j = p.op_b == Op::N ? p.ldb : 1, v.b_z = p.stride_b;
  v.ldc = p.ldc, v.c_z = p.stride_c, v.ldd = p.ldd, v.d_z = p.stride_d;
  return v;
}

/// Always three spatial dimensions: missing ones lead, with extent 1. Rows are channels of the output, columns its other indices;
/// batches are the groups.
struct ConvView {
  Direction direction = Direction::fwd;
  std::int64_t n = 0, c = 0, k = 0, groups = 1;  ///< c and k count the channels of one group
  std::int64_t in[3] = {1, 1, 1}, filter[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  std::int64_t pad[3] = {0, 0, 0}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  std::int64_t x_step[5] = {}, w_step[5] = {}, y_step[5] = {};  ///< N, C, D, H, W; K, C, T, R, S; N, K, O, P, Q

  ATTUNE_HD static std::int64_t volume(const std::int64_t* s) { return s[0] * s[1] * s[2]; }
  ATTUNE_HD static void split(std::int64_t flat, const std::int64_t* s, std::int64_t* index) {
    index[2] = flat % s[2];
    flat /= s[2];
    index[1] = flat % s[1];
    index[0] = flat / s[1];
  }
  ATTUNE_HD static std::int64_t offset(const std::int64_t* step, std::int64_t i0, std::int64_t i1, const std::int64_t* s) {
    return i0 * step[0] + i1 * step[1] + s[0] * step[2] + s[1] * step[3] + s[2] * step[4];
  }

  ATTUNE_HD std::int64_t rows() const { return direction == Direction::dgrad ? c : k; }
  ATTUNE_HD std::int64_t cols() const {
    if (direction == Direction::wgrad) return c * volume(filter);
    return n * volume(direction == Direction::fwd ? out : in);
  }
  ATTUNE_HD std::int64_t batches() const { return groups; }
  ATTUNE_HD std::int64_t terms() const {
    if (direction == Direction::wgrad) return n * volume(out);
    return (direction == Direction::fwd ? c : k) * volume(filter);
  }
  ATTUNE_HD std::int64_t d_offset(std::int64_t row, std::int64_t col, std::int64_t group) const {
    std::int64_t s[3];
    if (direction == Direction::wgrad) {
      const std::int64_t taps = volume(filter);
      split(col % taps, filter, s);
      return offset(w_step, group * k + row, col / taps, s);
    }
    const bool fwd = direction == Direction::fwd;
    const std::int64_t* extent = fwd ? out : in;
    const std::int64_t positions = volume(extent);
    split(col % positions, extent, s);
    return offset(fwd ? y_step : x_step, col / positions, group * rows() + row, s);
  }
  ATTUNE_HD std::int64_t c_offset(std::int64_t row, std::int64_t col, std::int64_t group) const {
    return d_offset(row, col, group);
  }
  ATTUNE_HD bool product(std::int64_t row, std::int64_t col, std::int64_t group, std::int64_t l, std::int64_t& a,
                         std::int64_t& b) const {
    std::int64_t x[3], w[3], y[3];
    if (direction == Direction::wgrad) {  // a = x, b = dy
      const std::int64_t taps = volume(filter), positions = volume(out);
      split(col % taps, filter, w);
      split(l % positions, out, y);
      for (int i = 0; i < 3; ++i) {
        x[i] = y[i] * stride[i] - pad[i] + w[i] * dilation[i];
        if (x[i] < 0 || x[i] >= in[i]) return false;
      }
      a = offset(x_step, l / positions, group * c + col / taps, x);
      b = offset(y_step, l / positions, group * k + row, y);
      return true;
    }
    const std::int64_t taps = volume(filter);
    split(l % taps, filter, w);
    if (direction == Direction::fwd) {  // a = x, b = w
      const std::int64_t positions = volume(out);
      split(col % positions, out, y);
      for (int i = 0; i < 3; ++i) {
        x[i] = y[i] * stride[i] - pad[i] + w[i] * dilation[i];
        if (x[i] < 0 || x[i] >= in[i]) return false;
      }
      a = offset(x_step, col / positions, group * c + l / taps, x);
      b = offset(w_step, group * k + row, l / taps, w);
      return true;
    }
    const std::int64_t positions = volume(in);  // dgrad: a = dy, b = w
    split(col % positions, in, x);
    for (int i = 0; i < 3; ++i) {
      const std::int64_t at = x[i] + pad[i] - w[i] * dilation[i];
      if (at < 0 || at % stride[i] != 0 || at / stride[i] >= out[i]) return false;
      y[i] = at / stride[i];
    }
    a = offset(y_step, col / positions, group * k + l / taps, y);
    b = offset(w_step, group * k + l / taps, row, w);
    return true;
  }
};

/// `problem` is resolved.
inline ConvView view(const ConvProblem& p) noexcept {
  ConvView v;
  const Dims y = p.y();
  const int lead = 3 - p.spatial();
  v.direction = p.direction;
  v.n = p.x.size[0], v.groups = p.groups, v.c = p.w.size[1], v.k = p.w.size[0] / p.groups;
  for (int i = 0; i < 2; ++i) v.x_step[i] = p.x_stride[i], v.w_step[i] = p.w_stride[i], v.y_step[i] = p.y_stride[i];
  for (int i = 0; i < p.spatial(); ++i) {
    const int to = lead + i;
    v.in[to] = p.x.size[2 + i], v.filter[to] = p.w.size[2 + i], v.out[to] = y.size[2 + i];
    v.pad[to] = p.pad.before[i], v.stride[to] = p.stride[i], v.dilation[to] = p.dilation[i];
    v.x_step[2 + to] = p.x_stride[2 + i], v.w_step[2 + to] = p.w_stride[2 + i], v.y_step[2 + to] = p.y_stride[2 + i];
  }
  return v;
}

}  // namespace attune

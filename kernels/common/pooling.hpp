// One element of a pooling's output in double precision: the reference of the checks on the host and on the GPU, and the host
// engine's slowest variant. Slow and obvious on purpose.
#pragma once

#include <attune/pool.hpp>

#include "kernels/common/contraction.hpp"

namespace attune {

/// What a sampled element should be, and the sum of the squares of all that was added to form it (before its activation).
struct Reference {
  double value = 0;
  double squares = 0;
};

/// Always three spatial dimensions: missing ones lead, with extent 1. The output is one matrix: rows are channels, columns its
/// other indices.
struct PoolView {
  PoolDirection direction = PoolDirection::fwd;
  PoolMode mode = PoolMode::max;
  std::int64_t n = 0, c = 0;
  std::int64_t in[3] = {1, 1, 1}, window[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  std::int64_t pad[3] = {0, 0, 0}, stride[3] = {1, 1, 1};
  std::int64_t x_step[5] = {}, y_step[5] = {};  ///< N, C, D, H, W

  ATTUNE_HD bool forward() const { return direction == PoolDirection::fwd; }
  ATTUNE_HD std::int64_t rows() const { return c; }
  ATTUNE_HD std::int64_t cols() const { return n * ConvView::volume(forward() ? out : in); }
  ATTUNE_HD std::int64_t batches() const { return 1; }
  ATTUNE_HD std::int64_t terms() const { return ConvView::volume(window); }
  ATTUNE_HD std::int64_t d_offset(std::int64_t row, std::int64_t col, std::int64_t) const {
    std::int64_t s[3];
    return offset_of(forward() ? y_step : x_step, forward() ? out : in, row, col, s);
  }

  /// What the elements of a window are divided by.
  ATTUNE_HD double divisor(const std::int64_t* at) const {
    if (mode == PoolMode::max) return 1;
    std::int64_t count = 1;
    for (int i = 0; i < 3; ++i) {
      const std::int64_t begin = at[i] * stride[i] - pad[i], end = begin + window[i];
      count *= mode == PoolMode::average_padded ? window[i] : (end < in[i] ? end : in[i]) - (begin > 0 ? begin : 0);
    }
    return static_cast<double>(count);
  }

  /// f(offset in x, number of the tap) for each tap that lies in x of the window at `at` of y, in the order of the window.
  template <class F>
  ATTUNE_HD void for_each_tap(std::int64_t sample, std::int64_t channel, const std::int64_t* at, F&& f) const {
    std::int64_t x[3], w[3];
    for (std::int64_t tap = 0; tap < terms(); ++tap) {
      ConvView::split(tap, window, w);
      bool inside = true;
      for (int i = 0; i < 3; ++i) {
        x[i] = at[i] * stride[i] - pad[i] + w[i];
        inside = inside && x[i] >= 0 && x[i] < in[i];
      }
      if (inside) f(ConvView::offset(x_step, sample, channel, x), tap);
    }
  }

  /// The first maximum of a window, or its first NaN.
  template <class X>
  ATTUNE_HD void maximum(const X& x, std::int64_t sample, std::int64_t channel, const std::int64_t* at, double& most,
                         std::int64_t& tap_of_most) const {
    tap_of_most = -1;
    for_each_tap(sample, channel, at, [&](std::int64_t from, std::int64_t tap) {
      const double v = x(from);
      if (tap_of_most < 0 || v > most || (v != v && most == most)) most = v, tap_of_most = tap;
    });
  }

  /// Element (row, col) of y. x(offset) gives an element of x as double.
  template <class X>
  ATTUNE_HD Reference pooled(const X& x, std::int64_t row, std::int64_t col) const {
    std::int64_t at[3];
    const std::int64_t positions = ConvView::volume(out), sample = col / positions;
    ConvView::split(col % positions, out, at);
    Reference r;
    if (mode == PoolMode::max) {
      std::int64_t tap = 0;
      maximum(x, sample, row, at, r.value, tap);
      r.squares = r.value * r.value;
      return r;
    }
    const double by = divisor(at);
    for_each_tap(sample, row, at, [&](std::int64_t from, std::int64_t) {
      const double term = x(from) / by;
      r.value += term;
      r.squares += term * term;
    });
    return r;
  }

  /// Element (row, col) of dx. x is not asked for the gradient of an average.
  template <class X, class DY>
  ATTUNE_HD Reference spread(const X& x, const DY& dy, std::int64_t row, std::int64_t col) const {
    std::int64_t s[3], at[3], w[3];
    const std::int64_t positions = ConvView::volume(in), sample = col / positions;
    ConvView::split(col % positions, in, s);
    Reference r;
    for (std::int64_t tap = 0; tap < terms(); ++tap) {  // the window in which this element is number `tap`
      ConvView::split(tap, window, w);
      bool exists = true;
      for (int i = 0; i < 3; ++i) {
        const std::int64_t begin = s[i] + pad[i] - w[i];
        exists = exists && begin >= 0 && begin % stride[i] == 0 && begin / stride[i] < out[i];
        at[i] = begin / stride[i];
      }
      if (!exists) continue;
      if (mode == PoolMode::max) {
        double most = 0;
        std::int64_t first = 0;
        maximum(x, sample, row, at, most, first);
        if (first != tap) continue;
      }
      const double term = dy(ConvView::offset(y_step, sample, row, at)) / divisor(at);
      r.value += term;
      r.squares += term * term;
    }
    return r;
  }

 private:
  ATTUNE_HD static std::int64_t offset_of(const std::int64_t* step, const std::int64_t* extent, std::int64_t row,
                                          std::int64_t col, std::int64_t* s) {
    const std::int64_t positions = ConvView::volume(extent);
    ConvView::split(col % positions, extent, s);
    return ConvView::offset(step, col / positions, row, s);
  }
};

/// `problem` is resolved.
inline PoolView view(const PoolProblem& p) noexcept {
  PoolView v;
  const Dims y = p.y();
  const int lead = 3 - p.spatial();
  v.direction = p.direction, v.mode = p.mode;
  v.n = p.x.size[0], v.c = p.x.size[1];
  for (int i = 0; i < 2; ++i) v.x_step[i] = p.x_stride[i], v.y_step[i] = p.y_stride[i];
  for (int i = 0; i < p.spatial(); ++i) {
    const int to = lead + i;
    v.in[to] = p.x.size[2 + i], v.window[to] = p.window[i], v.out[to] = y.size[2 + i];
    v.pad[to] = p.pad.before[i], v.stride[to] = p.stride[i];
    v.x_step[2 + to] = p.x_stride[2 + i], v.y_step[2 + to] = p.y_stride[2 + i];
  }
  return v;
}

}  // namespace attune

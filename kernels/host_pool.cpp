#include "kernels/host_pool.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/common/number.hpp"
#include "kernels/common/pooling.hpp"

namespace attune {
namespace {

/// Channels at work at once: their sums stay in the first-level cache.
constexpr std::int64_t strip = 256;

template <class S>
using SumOf = std::conditional_t<std::is_same_v<S, double>, double, float>;

/// The first maximum stays, a NaN beats all.
template <class A>
ATTUNE_INLINE A larger(A most, A v) {
  return v > most || v != v ? (most != most ? most : v) : most;
}
template <class A>
ATTUNE_INLINE bool same(A a, A b) {
  return a == b || (a != a && b != b);
}

/// The windows along one dimension of y that hold element `at` of x: [first, end).
struct Range {
  std::int64_t first, end;
};
Range windows_over(const PoolView& v, int i, std::int64_t at) {
  const std::int64_t last = at + v.pad[i];  // first and last begin of such a window, counted from the padding's edge
  const std::int64_t begin = last - v.window[i] + 1;
  return {begin <= 0 ? 0 : (begin + v.stride[i] - 1) / v.stride[i], std::min(v.out[i], last / v.stride[i] + 1)};
}
/// The elements of x along one dimension that lie in window `at`: [first, end).
Range taps_of(const PoolView& v, int i, std::int64_t at) {
  const std::int64_t begin = at * v.stride[i] - v.pad[i];
  return {std::max<std::int64_t>(begin, 0), std::min(begin + v.window[i], v.in[i])};
}
template <class F>
ATTUNE_INLINE void for_each(const Range (&r)[3], F&& f) {
  std::int64_t s[3];
  for (s[0] = r[0].first; s[0] < r[0].end; ++s[0])
    for (s[1] = r[1].first; s[1] < r[1].end; ++s[1])
      for (s[2] = r[2].first; s[2] < r[2].end; ++s[2]) f(s);
}
void ranges(const PoolView& v, Range (*along)(const PoolView&, int, std::int64_t), const std::int64_t* at, Range (&r)[3]) {
  for (int i = 0; i < 3; ++i) r[i] = along(v, i, at[i]);
}

template <class S>
struct Pooling {
  using A = SumOf<S>;
  const PoolView& v;
  const HostPoolCall& call;
  const S* x = static_cast<const S*>(call.x);
  const S* y = static_cast<const S*>(call.y);
  const S* dy = static_cast<const S*>(call.dy);
  S* out = static_cast<S*>(call.out);

  static A get(S value) { return static_cast<A>(widen(value)); }
  static S put(A value) { return narrow<S>(static_cast<double>(value)); }

  /// One position of y, `count` channels from c on; all lie side by side.
  void channels_forward(std::int64_t n, const std::int64_t* at, std::int64_t c, std::int64_t count) const {
    A sum[strip];
    const bool max = v.mode == PoolMode::max;
    std::fill(sum, sum + count, max ? -std::numeric_limits<A>::infinity() : A(0));
    Range taps[3];
    ranges(v, taps_of, at, taps);
    for_each(taps, [&](const std::int64_t* s) {
      const S* from = x + ConvView::offset(v.x_step, n, c, s);
      if (max)
        for (std::int64_t i = 0; i < count; ++i) sum[i] = larger(sum[i], get(from[i]));
      else
        for (std::int64_t i = 0; i < count; ++i) sum[i] += get(from[i]);
    });
    const A by = static_cast<A>(v.divisor(at));
    S* to = out + ConvView::offset(v.y_step, n, c, at);
    for (std::int64_t i = 0; i < count; ++i) to[i] = put(sum[i] / by);
  }

  /// One position of dx: what each window around it gives back.
  void channels_backward(std::int64_t n, const std::int64_t* s, std::int64_t c, std::int64_t count) const {
    A sum[strip] = {};
    bool mine[strip];
    const S* here = x == nullptr ? nullptr : x + ConvView::offset(v.x_step, n, c, s);
    Range windows[3];
    ranges(v, windows_over, s, windows);
    for_each(windows, [&](const std::int64_t* at) {
      const std::int64_t from = ConvView::offset(v.y_step, n, c, at);
      const S* gradient = dy + from;
      if (v.mode != PoolMode::max) {
        const A by = static_cast<A>(v.divisor(at));
        for (std::int64_t i = 0; i < count; ++i) sum[i] += get(gradient[i]) / by;
        return;
      }
      const S* most = y + from;
      for (std::int64_t i = 0; i < count; ++i) mine[i] = same(get(here[i]), get(most[i]));
      Range taps[3];
      ranges(v, taps_of, at, taps);
      for_each(taps, [&](const std::int64_t* tap) {  // those before this one must be smaller
        const S* before = x + ConvView::offset(v.x_step, n, c, tap);
        const std::int64_t order[2] = {(tap[0] * v.in[1] + tap[1]) * v.in[2] + tap[2],
                                       (s[0] * v.in[1] + s[1]) * v.in[2] + s[2]};
        if (order[0] < order[1])
          for (std::int64_t i = 0; i < count; ++i) mine[i] = mine[i] && !same(get(before[i]), get(most[i]));
      });
      for (std::int64_t i = 0; i < count; ++i) sum[i] += mine[i] ? get(gradient[i]) : A(0);
    });
    S* to = out + ConvView::offset(v.x_step, n, c, s);
    for (std::int64_t i = 0; i < count; ++i) to[i] = put(sum[i]);
  }

  /// A row of the output, all its channels.
  void channels_row(std::int64_t task) const {
    const std::int64_t* extent = v.forward() ? v.out : v.in;
    std::int64_t s[3] = {task / extent[1] % extent[0], task % extent[1], 0};
    const std::int64_t n = task / extent[1] / extent[0];
    for (s[2] = 0; s[2] < extent[2]; ++s[2])
      for (std::int64_t c = 0; c < v.c; c += strip) {
        const std::int64_t count = std::min(strip, v.c - c);
        v.forward() ? channels_forward(n, s, c, count) : channels_backward(n, s, c, count);
      }
  }

  /// A plane of y: row by row, tap by tap along it. `sum` holds a row.
  void plane_forward(std::int64_t n, std::int64_t c, A* sum) const {
    const bool max = v.mode == PoolMode::max;
    std::int64_t at[3] = {0, 0, 0}, s[3] = {0, 0, 0};
    for (at[0] = 0; at[0] < v.out[0]; ++at[0])
      for (at[1] = 0; at[1] < v.out[1]; ++at[1]) {
        std::fill(sum, sum + v.out[2], max ? -std::numeric_limits<A>::infinity() : A(0));
        const Range deep = taps_of(v, 0, at[0]), high = taps_of(v, 1, at[1]);
        for (s[0] = deep.first; s[0] < deep.end; ++s[0])
          for (s[1] = high.first; s[1] < high.end; ++s[1]) {
            s[2] = 0;
            const S* row = x + ConvView::offset(v.x_step, n, c, s);
            for (std::int64_t tap = 0; tap < v.window[2]; ++tap) {
              const std::int64_t shift = tap - v.pad[2];  // of x against stride * position
              const std::int64_t first = shift >= 0 ? 0 : (-shift + v.stride[2] - 1) / v.stride[2];
              const std::int64_t end = shift >= v.in[2] ? 0 : std::min(v.out[2], (v.in[2] - 1 - shift) / v.stride[2] + 1);
              const S* from = row + shift;
              if (max)
                for (std::int64_t q = first; q < end; ++q) sum[q] = larger(sum[q], get(from[q * v.stride[2]]));
              else
                for (std::int64_t q = first; q < end; ++q) sum[q] += get(from[q * v.stride[2]]);
            }
          }
        at[2] = 0;
        S* to = out + ConvView::offset(v.y_step, n, c, at);
        for (; at[2] < v.out[2]; ++at[2]) to[at[2]] = put(sum[at[2]] / static_cast<A>(v.divisor(at)));
      }
  }

  /// A plane of dx: what the windows give back is added up in `sum`, which holds the plane.
  void plane_backward(std::int64_t n, std::int64_t c, A* sum) const {
    std::fill(sum, sum + ConvView::volume(v.in), A(0));
    const Range all[3] = {{0, v.out[0]}, {0, v.out[1]}, {0, v.out[2]}};
    const auto place = [&](const std::int64_t* s) { return (s[0] * v.in[1] + s[1]) * v.in[2] + s[2]; };
    for_each(all, [&](const std::int64_t* at) {
      const std::int64_t from = ConvView::offset(v.y_step, n, c, at);
      const A gradient = get(dy[from]);
      Range taps[3];
      ranges(v, taps_of, at, taps);
      if (v.mode != PoolMode::max) {
        const A share = gradient / static_cast<A>(v.divisor(at));
        for_each(taps, [&](const std::int64_t* s) { sum[place(s)] += share; });
        return;
      }
      const A most = get(y[from]);
      bool found = false;
      for_each(taps, [&](const std::int64_t* s) {
        if (found || !same(get(x[ConvView::offset(v.x_step, n, c, s)]), most)) return;
        sum[place(s)] += gradient;
        found = true;
      });
    });
    const Range whole[3] = {{0, v.in[0]}, {0, v.in[1]}, {0, v.in[2]}};
    for_each(whole, [&](const std::int64_t* s) { out[ConvView::offset(v.x_step, n, c, s)] = put(sum[place(s)]); });
  }

  void reference_column(std::int64_t col) const {
    const auto value = [&](const void* base) {
      return [base](std::int64_t at) { return static_cast<double>(widen(static_cast<const S*>(base)[at])); };
    };
    for (std::int64_t row = 0; row < v.c; ++row) {
      const Reference r = v.forward() ? v.pooled(value(x), row, col) : v.spread(value(x), value(dy), row, col);
      out[v.d_offset(row, col, 0)] = narrow<S>(r.value);
    }
  }

  void run(HostFamily family, bool threaded) const {
    HostPool& pool = *call.threads;
    const std::int64_t* extent = v.forward() ? v.out : v.in;
    if (family == HostFamily::channels) {
      pool.run(v.n * extent[0] * extent[1], threaded, [this](int, std::int64_t task) { channels_row(task); });
    } else if (family == HostFamily::planes) {
      const std::int64_t each = v.forward() ? v.out[2] : ConvView::volume(v.in);
      pool.run(v.n * v.c, threaded, [&](int worker, std::int64_t task) {
        A* sum = static_cast<A*>(call.workspace) + worker * each;
        v.forward() ? plane_forward(task / v.c, task % v.c, sum) : plane_backward(task / v.c, task % v.c, sum);
      });
    } else {
      pool.run(v.cols(), threaded, [this](int, std::int64_t task) { reference_column(task); });
    }
  }
};

}  // namespace

bool host_pool_takes(HostFamily family, const PoolProblem& p) noexcept {
  if (family == HostFamily::channels) return p.x.size[1] == 1 || (p.x_stride[1] == 1 && p.y_stride[1] == 1);
  const int last = p.x.count - 1;
  if (family == HostFamily::planes)
    return (p.x.size[last] == 1 || p.x_stride[last] == 1) && (p.y().size[last] == 1 || p.y_stride[last] == 1);
  return family == HostFamily::reference;
}

std::size_t host_pool_workspace(HostFamily family, const PoolProblem& p, int threads) noexcept {
  if (family != HostFamily::planes) return 0;
  const PoolView v = view(p);
  const std::int64_t each = v.forward() ? v.out[2] : ConvView::volume(v.in);
  return static_cast<std::size_t>(each) * (p.type == DType::f64 ? sizeof(double) : sizeof(float)) *
         static_cast<std::size_t>(threads);
}

void pool_on_host(HostFamily family, const PoolProblem& p, bool threaded, const HostPoolCall& call) {
  const PoolView v = view(p);
  switch (p.type) {
    case DType::f16: return Pooling<F16>{v, call}.run(family, threaded);
    case DType::bf16: return Pooling<BF16>{v, call}.run(family, threaded);
    case DType::f64: return Pooling<double>{v, call}.run(family, threaded);
    default: return Pooling<float>{v, call}.run(family, threaded);
  }
}

}  // namespace attune

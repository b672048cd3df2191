// Convolutions without a GEMM: rows of the output, or strips of channels, summed in place.
#include <algorithm>

#include "kernels/common/number.hpp"
#include "kernels/host_loops.hpp"

namespace attune {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b > 0); }
std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }

/// The q in [from, to) with 0 <= q * stride + shift < extent.
struct Reach {
  std::int64_t from, to;
  Reach(std::int64_t first, std::int64_t last, std::int64_t stride, std::int64_t shift, std::int64_t extent)
      : from(std::max(first, ceil_div(-shift, stride))), to(std::min(last, floor_div(extent - 1 - shift, stride) + 1)) {}
};

template <class T, class S>
struct Direct {
  const ConvView& v;
  const HostCall& call;

  static constexpr std::int64_t strip = 256;  ///< output elements summed together
  static T get(const S* from, std::int64_t at) { return static_cast<T>(widen(from[at])); }
  const S* image() const { return static_cast<const S*>(call.a); }
  const S* other() const { return static_cast<const S*>(call.b); }
  void put(std::int64_t at, std::int64_t channel, T sum) const {
    T value = static_cast<T>(call.alpha) * sum;
    if (call.c != nullptr) value += static_cast<T>(call.beta) * get(static_cast<const S*>(call.c), at);
    if (call.bias != nullptr) value += get(static_cast<const S*>(call.bias), channel);
    static_cast<S*>(call.d)[at] = narrow<S>(activated(call.activation, value));
  }

  /// Along one filter row: sum[q] += w * x.
  void add_row(T* sum, std::int64_t q0, std::int64_t count, const S* x, const S* w) const {
    const std::int64_t step = v.stride[2] * v.x_step[4];
    for (std::int64_t s = 0; s < v.filter[2]; ++s) {
      const std::int64_t shift = s * v.dilation[2] - v.pad[2];
      const Reach q(q0, q0 + count, v.stride[2], shift, v.in[2]);
      const T scale = get(w, s * v.w_step[4]);
      const S* from = x + shift * v.x_step[4];
      if (step == 1) {
        for (std::int64_t i = q.from; i < q.to; ++i) sum[i - q0] += scale * get(from, i);
      } else {
        for (std::int64_t i = q.from; i < q.to; ++i) sum[i - q0] += scale * get(from, i * step);
      }
    }
  }
  /// Its transpose: sum[x] += w * dy, where output q of the forward pass met input x.
  void scatter_row(T* sum, std::int64_t x0, std::int64_t count, const S* dy, const S* w) const {
    for (std::int64_t s = 0; s < v.filter[2]; ++s) {
      const std::int64_t shift = s * v.dilation[2] - v.pad[2] - x0;
      const Reach q(0, v.out[2], v.stride[2], shift, count);
      const T scale = get(w, s * v.w_step[4]);
      for (std::int64_t i = q.from; i < q.to; ++i) sum[i * v.stride[2] + shift] += scale * get(dy, i * v.y_step[4]);
    }
  }

  void fwd(std::int64_t task) const {
    const std::int64_t p = task % v.out[1], o = task / v.out[1] % v.out[0];
    const std::int64_t channel = task / (v.out[0] * v.out[1]) % (v.k * v.groups),
                       n = task / (v.out[0] * v.out[1] * v.k * v.groups);
    const std::int64_t to = n * v.y_step[0] + channel * v.y_step[1] + o * v.y_step[2] + p * v.y_step[3];
    for (std::int64_t q0 = 0; q0 < v.out[2]; q0 += strip) {
      const std::int64_t count = std::min(strip, v.out[2] - q0);
      T sum[strip] = {};
      for (std::int64_t c = 0; c < v.c; ++c)
        for (std::int64_t t = 0; t < v.filter[0]; ++t) {
          const std::int64_t d = o * v.stride[0] - v.pad[0] + t * v.dilation[0];
          if (d < 0 || d >= v.in[0]) continue;
          for (std::int64_t r = 0; r < v.filter[1]; ++r) {
            const std::int64_t h = p * v.stride[1] - v.pad[1] + r * v.dilation[1];
            if (h < 0 || h >= v.in[1]) continue;
            const std::int64_t x =
                n * v.x_step[0] + (channel / v.k * v.c + c) * v.x_step[1] + d * v.x_step[2] + h * v.x_step[3];
            const std::int64_t w = channel * v.w_step[0] + c * v.w_step[1] + t * v.w_step[2] + r * v.w_step[3];
            add_row(sum, q0, count, image() + x, other() + w);
          }
        }
      for (std::int64_t i = 0; i < count; ++i) put(to + (q0 + i) * v.y_step[4], channel, sum[i]);
    }
  }

  void dgrad(std::int64_t task) const {
    const std::int64_t h = task % v.in[1], d = task / v.in[1] % v.in[0];
    const std::int64_t channel = task / (v.in[0] * v.in[1]) % (v.c * v.groups), n = task / (v.in[0] * v.in[1] * v.c * v.groups);
    const std::int64_t group = channel / v.c, c = channel % v.c;
    const std::int64_t to = n * v.x_step[0] + channel * v.x_step[1] + d * v.x_step[2] + h * v.x_step[3];
    for (std::int64_t x0 = 0; x0 < v.in[2]; x0 += strip) {
      const std::int64_t count = std::min(strip, v.in[2] - x0);
      T sum[strip] = {};
      for (std::int64_t k = group * v.k; k < (group + 1) * v.k; ++k)
        for (std::int64_t t = 0; t < v.filter[0]; ++t) {
          const std::int64_t o = d + v.pad[0] - t * v.dilation[0];
          if (o < 0 || o % v.stride[0] != 0 || o / v.stride[0] >= v.out[0]) continue;
          for (std::int64_t r = 0; r < v.filter[1]; ++r) {
            const std::int64_t p = h + v.pad[1] - r * v.dilation[1];
            if (p < 0 || p % v.stride[1] != 0 || p / v.stride[1] >= v.out[1]) continue;
            const std::int64_t y =
                n * v.y_step[0] + k * v.y_step[1] + o / v.stride[0] * v.y_step[2] + p / v.stride[1] * v.y_step[3];
            const std::int64_t w = k * v.w_step[0] + c * v.w_step[1] + t * v.w_step[2] + r * v.w_step[3];
            scatter_row(sum, x0, count, image() + y, other() + w);
          }
        }
      for (std::int64_t i = 0; i < count; ++i) put(to + (x0 + i) * v.x_step[4], channel, sum[i]);
    }
  }

  void wgrad(std::int64_t task) const {
    constexpr int lanes = 8;
    const std::int64_t taps = ConvView::volume(v.filter);
    const std::int64_t c = task / taps % v.c, channel = task / taps / v.c;
    std::int64_t w[3];
    ConvView::split(task % taps, v.filter, w);
    std::int64_t shift[3];
    for (int i = 0; i < 3; ++i) shift[i] = w[i] * v.dilation[i] - v.pad[i];
    const Reach o(0, v.out[0], v.stride[0], shift[0], v.in[0]), p(0, v.out[1], v.stride[1], shift[1], v.in[1]),
        q(0, v.out[2], v.stride[2], shift[2], v.in[2]);
    T part[lanes] = {};
    for (std::int64_t n = 0; n < v.n; ++n)
      for (std::int64_t oi = o.from; oi < o.to; ++oi)
        for (std::int64_t pi = p.from; pi < p.to; ++pi) {
          const S* x = image() + n * v.x_step[0] + (channel / v.k * v.c + c) * v.x_step[1] +
                       (oi * v.stride[0] + shift[0]) * v.x_step[2] + (pi * v.stride[1] + shift[1]) * v.x_step[3];
          const S* y = other() + n * v.y_step[0] + channel * v.y_step[1] + oi * v.y_step[2] + pi * v.y_step[3];
          const auto term = [&](std::int64_t i) {
            return get(x, (i * v.stride[2] + shift[2]) * v.x_step[4]) * get(y, i * v.y_step[4]);
          };
          std::int64_t i = q.from;
          for (; i + lanes <= q.to; i += lanes)
            for (int lane = 0; lane < lanes; ++lane) part[lane] += term(i + lane);
          for (int lane = 0; i < q.to; ++i, ++lane) part[lane] += term(i);
        }
    const T sum = ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
    put(channel * v.w_step[0] + c * v.w_step[1] + w[0] * v.w_step[2] + w[1] * v.w_step[3] + w[2] * v.w_step[4], channel, sum);
  }

  /// One position of the output, channel strips of it: image and output hold their channels next to each other.
  void depthwise(std::int64_t task) const {
    const bool fwd = v.direction == Direction::fwd;
    const std::int64_t* extent = fwd ? v.out : v.in;
    const std::int64_t* from_step = fwd ? v.x_step : v.y_step;
    const std::int64_t* to_step = fwd ? v.y_step : v.x_step;
    std::int64_t at[3];
    ConvView::split(task % ConvView::volume(extent), extent, at);
    const std::int64_t n = task / ConvView::volume(extent);
    const std::int64_t to = n * to_step[0] + at[0] * to_step[2] + at[1] * to_step[3] + at[2] * to_step[4];
    for (std::int64_t g0 = 0; g0 < v.groups; g0 += strip) {
      const std::int64_t count = std::min(strip, v.groups - g0);
      T sum[strip] = {};
      for (std::int64_t tap = 0; tap < ConvView::volume(v.filter); ++tap) {
        std::int64_t w[3];
        ConvView::split(tap, v.filter, w);
        std::int64_t from = n * from_step[0];
        bool inside = true;
        for (int i = 0; i < 3; ++i) {
          std::int64_t x =
              fwd ? at[i] * v.stride[i] - v.pad[i] + w[i] * v.dilation[i] : at[i] + v.pad[i] - w[i] * v.dilation[i];
          if (!fwd) {
            inside &= x >= 0 && x % v.stride[i] == 0;
            x /= v.stride[i];
          }
          inside &= x >= 0 && x < (fwd ? v.in[i] : v.out[i]);
          from += x * from_step[2 + i];
        }
        if (!inside) continue;
        const S* x = image() + from + g0;
        const S* y = other() + g0 * v.w_step[0] + w[0] * v.w_step[2] + w[1] * v.w_step[3] + w[2] * v.w_step[4];
        if (v.w_step[0] == 1) {
          for (std::int64_t i = 0; i < count; ++i) sum[i] += get(x, i) * get(y, i);
        } else {
          for (std::int64_t i = 0; i < count; ++i) sum[i] += get(x, i) * get(y, i * v.w_step[0]);
        }
      }
      for (std::int64_t i = 0; i < count; ++i) put(to + g0 + i, g0 + i, sum[i]);
    }
  }

  void run(bool by_channel, bool threaded) const {
    HostPool& pool = *call.pool;
    const std::int64_t images = v.direction == Direction::fwd ? ConvView::volume(v.out) : ConvView::volume(v.in);
    if (by_channel)
      pool.run(v.n * images, threaded, [this](int, std::int64_t task) { depthwise(task); });
    else if (v.direction == Direction::fwd)
      pool.run(v.n * v.k * v.groups * v.out[0] * v.out[1], threaded, [this](int, std::int64_t task) { fwd(task); });
    else if (v.direction == Direction::dgrad)
      pool.run(v.n * v.c * v.groups * v.in[0] * v.in[1], threaded, [this](int, std::int64_t task) { dgrad(task); });
    else
      pool.run(v.k * v.groups * v.c * ConvView::volume(v.filter), threaded, [this](int, std::int64_t task) { wgrad(task); });
  }
};

void run_direct(const ConvProblem& p, bool by_channel, bool threaded, const HostCall& call) {
  const ConvView v = view(p);
  with_type(p.x_type, [&](auto tag) {
    using S = decltype(tag);
    if (p.compute == Compute::f64)
      Direct<double, S>{v, call}.run(by_channel, threaded);
    else
      Direct<float, S>{v, call}.run(by_channel, threaded);
  });
}

}  // namespace

bool direct_takes(const ConvProblem& p) noexcept { return p.x_type == p.w_type && p.x_type == p.y_type; }

bool depthwise_takes(const ConvProblem& p) noexcept {
  return direct_takes(p) && p.direction != Direction::wgrad && p.w.size[1] == 1 && p.w.size[0] == p.groups && p.groups > 1 &&
         p.x_stride[1] == 1 && p.y_stride[1] == 1;
}

void direct_conv(const ConvProblem& p, bool threaded, const HostCall& call) { run_direct(p, false, threaded, call); }
void depthwise_conv(const ConvProblem& p, bool threaded, const HostCall& call) { run_direct(p, true, threaded, call); }

}  // namespace attune

// The kernels of pooling. Work is a list of rows (sample, depth, height) of the output; threads share out a row's places and
// channels.
#pragma once

#include <cmath>
#include <utility>

#include "kernels/common/packet.cuh"
#include "kernels/pool.hpp"

namespace attune::pool {

constexpr int threads = 256;
constexpr unsigned most_rows_at_once = 32768;  ///< of a grid; the blocks walk on

template <typename T>
__device__ T nan_or_larger(T a, T b) {
  if constexpr (sizeof(T) == 2) {
    return __hmax_nan(a, b);
  } else {
#if __CUDA_ARCH__ >= 800
    if constexpr (sizeof(T) == 4) {
      asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
      return a;
    }
#endif
    return b > a || b != b ? b : a;  // a NaN in `a` stays: no comparison with it holds
  }
}

template <typename T, int Width>
__device__ void take_larger(Packet<T, Width>& most, const Packet<T, Width>& v) {
  if constexpr (sizeof(T) == 2 && Width % 2 == 0) {
    using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    auto* a = reinterpret_cast<Pair*>(most.value);
    const auto* b = reinterpret_cast<const Pair*>(v.value);
#pragma unroll
    for (int i = 0; i < Width / 2; ++i) a[i] = __hmax2_nan(a[i], b[i]);
  } else {
#pragma unroll
    for (int i = 0; i < Width; ++i) most.value[i] = nan_or_larger(most.value[i], v.value[i]);
  }
}

template <typename T>
__device__ T least() {
  return rounded<T>(static_cast<SumType<T>>(-INFINITY));
}

/// What a window has given so far: maxima in T, sums in the wider type.
template <typename T, int Width, bool Max>
struct Collected {
  std::conditional_t<Max, Packet<T, Width>, Packet<SumType<T>, 1>> most;
  SumType<T> sum[Max ? 1 : Width];

  __device__ Collected() {
    if constexpr (Max) {
#pragma unroll
      for (int i = 0; i < Width; ++i) most.value[i] = least<T>();
    } else {
#pragma unroll
      for (int i = 0; i < Width; ++i) sum[i] = 0;
    }
  }
  __device__ void take(const Packet<T, Width>& v) {
    if constexpr (Max) {
      take_larger(most, v);
    } else {
#pragma unroll
      for (int i = 0; i < Width; ++i) sum[i] += widened(v.value[i]);
    }
  }
  __device__ Packet<T, Width> finished(SumType<T> divisor) const {
    if constexpr (Max) {
      return most;
    } else {
      Packet<T, Width> packet;
#pragma unroll
      for (int i = 0; i < Width; ++i) packet.value[i] = rounded<T>(sum[i] / divisor);
      return packet;
    }
  }
};

/// One dimension in 32 bits.
struct Axis {
  int in, out, window, stride, pad;

  __device__ int first(int at) const { return max(at * stride - pad, 0); }
  __device__ int end(int at) const { return min(at * stride - pad + window, in); }
  __device__ int inside(int at) const { return end(at) - first(at); }
  /// The windows that hold element `at`.
  __device__ int first_over(int at) const {
    const int begin = at + pad - window + 1;
    return begin <= 0 ? 0 : (begin + stride - 1) / stride;
  }
  __device__ int end_over(int at) const { return min(out, (at + pad) / stride + 1); }
};

struct Shape {
  Axis d, h, w;
  std::int64_t x[5], y[5];  ///< steps
  std::int64_t n;
  int c;
  bool padded;  ///< averages count the padding too
  bool channels_fast;

  __device__ int divisor(int od, int oh, int ow) const {
    return padded ? d.window * h.window * w.window : d.inside(od) * h.inside(oh) * w.inside(ow);
  }
};

inline Shape shape_of(const PoolView& v, bool channels_fast) noexcept {
  Shape s;
  Axis* const axes[3] = {&s.d, &s.h, &s.w};
  for (int i = 0; i < 3; ++i)
    *axes[i] = {static_cast<int>(v.in[i]), static_cast<int>(v.out[i]), static_cast<int>(v.window[i]),
                static_cast<int>(v.stride[i]), static_cast<int>(v.pad[i])};
  for (int i = 0; i < 5; ++i) s.x[i] = v.x_step[i], s.y[i] = v.y_step[i];
  s.n = v.n, s.c = static_cast<int>(v.c);
  s.padded = v.mode == PoolMode::average_padded, s.channels_fast = channels_fast;
  return s;
}

/// A thread's place in a row: the group of places and the packet of channels.
template <int Width>
__device__ void split_item(const Shape& s, int item, int groups, int& group, int& c) {
  const int packets = s.c / Width;
  if (s.channels_fast) {
    group = item / packets;
    c = (item - group * packets) * Width;
  } else {
    c = item / groups * Width;
    group = item - item / groups * groups;
  }
}

/// Window and Stride of 0 stand for any.
template <typename T, int Width, bool Max, int Window, int Stride, int Outs>
__global__ void __launch_bounds__(threads) forward(Shape s, const T* __restrict__ x, T* __restrict__ y) {
  const std::int64_t rows = s.n * s.d.out * s.h.out;
  const int groups = (s.w.out + Outs - 1) / Outs, items = s.c / Width * groups;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const int oh = static_cast<int>(row % s.h.out), od = static_cast<int>(row / s.h.out % s.d.out);
    const std::int64_t n = row / s.h.out / s.d.out;
    for (int item = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); item < items;
         item += static_cast<int>(gridDim.x * blockDim.x)) {
      int group, c;
      split_item<Width>(s, item, groups, group, c);
      const int ow = group * Outs;
      const T* const image = x + n * s.x[0] + c * s.x[1];
      Collected<T, Width, Max> found[Outs];
      for (int d = s.d.first(od); d < s.d.end(od); ++d) {
        if constexpr (Window != 0) {
          constexpr int columns = (Outs - 1) * Stride + Window;
          const int h0 = oh * Stride - s.h.pad, w0 = ow * Stride - s.w.pad;
#pragma unroll
          for (int r = 0; r < Window; ++r) {
            const bool row_inside = h0 + r >= 0 && h0 + r < s.h.in;
            const T* const line = image + d * s.x[2] + (h0 + r) * s.x[3];
            Packet<T, Width> column[columns];
#pragma unroll
            for (int i = 0; i < columns; ++i) {
              const bool inside = row_inside && w0 + i >= 0 && w0 + i < s.w.in;
              if (inside) {
                column[i] = load_packet<T, Width>(line + (w0 + i) * s.x[4]);
              } else {
#pragma unroll
                for (int e = 0; e < Width; ++e) column[i].value[e] = Max ? least<T>() : rounded<T>(0);
              }
            }
#pragma unroll
            for (int o = 0; o < Outs; ++o)
#pragma unroll
              for (int i = 0; i < Window; ++i) found[o].take(column[o * Stride + i]);
          }
        } else {
          for (int h = s.h.first(oh); h < s.h.end(oh); ++h) {
            const T* const line = image + d * s.x[2] + h * s.x[3];
#pragma unroll 4
            for (int w = s.w.first(ow); w < s.w.end(ow); ++w) found[0].take(load_packet<T, Width>(line + w * s.x[4]));
          }
        }
      }
      T* const to = y + n * s.y[0] + c * s.y[1] + od * s.y[2] + oh * s.y[3];
#pragma unroll
      for (int o = 0; o < Outs; ++o)
        if (ow + o < s.w.out)
          store_packet(to + (ow + o) * s.y[4], found[o].finished(static_cast<SumType<T>>(s.divisor(od, oh, ow + o))));
    }
  }
}

/// Packets: 8 warps share a window, each lane a packet of its own. Single elements: the lanes of a warp share a window.
template <typename T, int Width, bool Max>
__global__ void __launch_bounds__(threads) forward_split(Shape s, const T* __restrict__ x, T* __restrict__ y) {
  constexpr int shares = 8;
  __shared__ Packet<T, Width> most_of[Max && Width > 1 ? shares : 1][32];
  __shared__ SumType<T> sum_of[!Max && Width > 1 ? shares : 1][32][Width];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int packets = Width > 1 ? (s.c / Width + 31) / 32 : s.c;  // of 32 lanes each, or single
  const std::int64_t work = s.n * s.d.out * s.h.out * s.w.out * packets;
  const std::int64_t first = Width > 1 ? blockIdx.x : std::int64_t{blockIdx.x} * shares + warp;
  for (std::int64_t at = first; at < work; at += std::int64_t{gridDim.x} * (Width > 1 ? 1 : shares)) {
    const std::int64_t place = at / packets;
    const int c = Width > 1 ? (static_cast<int>(at % packets) * 32 + lane) * Width : static_cast<int>(at % packets);
    const int ow = static_cast<int>(place % s.w.out), oh = static_cast<int>(place / s.w.out % s.h.out);
    const int od = static_cast<int>(place / s.w.out / s.h.out % s.d.out);
    const std::int64_t n = place / s.w.out / s.h.out / s.d.out;
    const int high = s.h.inside(oh), wide = s.w.inside(ow), taps = s.d.inside(od) * high * wide;
    const T* const image =
        x + n * s.x[0] + c * s.x[1] + s.d.first(od) * s.x[2] + s.h.first(oh) * s.x[3] + s.w.first(ow) * s.x[4];
    T* const to = y + n * s.y[0] + c * s.y[1] + od * s.y[2] + oh * s.y[3] + ow * s.y[4];
    Collected<T, Width, Max> found;
    if (c < s.c) {
#pragma unroll 4
      for (int tap = Width > 1 ? warp : lane; tap<taps; tap += Width> 1 ? shares : 32) {
        const int w = tap % wide, h = tap / wide % high, d = tap / wide / high;
        found.take(load_packet<T, Width>(image + d * s.x[2] + h * s.x[3] + w * s.x[4]));
      }
    }
    const auto divisor = static_cast<SumType<T>>(s.divisor(od, oh, ow));
    if constexpr (Width > 1) {
      if constexpr (Max)
        most_of[warp][lane] = found.most;
      else
#pragma unroll
        for (int i = 0; i < Width; ++i) sum_of[warp][lane][i] = found.sum[i];
      __syncthreads();
      if (warp == 0 && c < s.c) {
        for (int share = 1; share < shares; ++share) {
          if constexpr (Max)
            take_larger(found.most, most_of[share][lane]);
          else
#pragma unroll
            for (int i = 0; i < Width; ++i) found.sum[i] += sum_of[share][lane][i];
        }
        store_packet(to, found.finished(divisor));
      }
      __syncthreads();
    } else {
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2) {
        if constexpr (Max)
          found.most.value[0] = nan_or_larger(found.most.value[0], __shfl_xor_sync(0xffffffffu, found.most.value[0], lanes));
        else
          found.sum[0] += __shfl_xor_sync(0xffffffffu, found.sum[0], lanes);
      }
      if (lane == 0) store_packet(to, found.finished(divisor));
    }
  }
}

template <typename T>
__device__ bool same(T a, T b) {
  return a == b || (a != a && b != b);
}

/// A thread collects what the windows over its element of x give back. A maximum's gradient is the element's where it equals y
/// and nothing before it in the window does.
template <typename T, int Width, bool Max>
__global__ void __launch_bounds__(threads)
    backward(Shape s, const T* __restrict__ x, const T* __restrict__ y, const T* __restrict__ dy, T* __restrict__ dx) {
  using Sum = SumType<T>;
  const std::int64_t rows = s.n * s.d.in * s.h.in;
  const int items = s.c / Width * s.w.in;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const int h = static_cast<int>(row % s.h.in), d = static_cast<int>(row / s.h.in % s.d.in);
    const std::int64_t n = row / s.h.in / s.d.in;
    const int oh0 = s.h.first_over(h), oh1 = s.h.end_over(h), od0 = s.d.first_over(d), od1 = s.d.end_over(d);
    for (int item = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); item < items;
         item += static_cast<int>(gridDim.x * blockDim.x)) {
      int w, c;
      split_item<Width>(s, item, s.w.in, w, c);
      const T* const image = x + n * s.x[0] + c * s.x[1];
      const std::int64_t here = d * s.x[2] + h * s.x[3] + w * s.x[4];
      Packet<T, Width> mine;
      if constexpr (Max) mine = load_packet<T, Width>(image + here);
      Sum sum[Width] = {};
      const int ow0 = s.w.first_over(w), ow1 = s.w.end_over(w);
      for (int od = od0; od < od1; ++od)
        for (int oh = oh0; oh < oh1; ++oh)
          for (int ow = ow0; ow < ow1; ++ow) {
            const std::int64_t from = n * s.y[0] + c * s.y[1] + od * s.y[2] + oh * s.y[3] + ow * s.y[4];
            unsigned winners = (1u << Width) - 1;
            if constexpr (Max) {
              const Packet<T, Width> most = load_packet<T, Width>(y + from);
              winners = 0;
#pragma unroll
              for (int i = 0; i < Width; ++i) winners |= same(widened(mine.value[i]), widened(most.value[i])) ? 1u << i : 0u;
              for (int bd = s.d.first(od); winners != 0 && bd <= d; ++bd)
                for (int bh = s.h.first(oh); winners != 0 && bh < (bd < d ? s.h.end(oh) : h + 1); ++bh) {
                  const int end = bd == d && bh == h ? w : s.w.end(ow);
                  for (int bw = s.w.first(ow); winners != 0 && bw < end; ++bw) {
                    const Packet<T, Width> before = load_packet<T, Width>(image + bd * s.x[2] + bh * s.x[3] + bw * s.x[4]);
#pragma unroll
                    for (int i = 0; i < Width; ++i)
                      if (same(widened(before.value[i]), widened(most.value[i]))) winners &= ~(1u << i);
                  }
                }
              if (winners == 0) continue;
            }
            const Packet<T, Width> gradient = load_packet<T, Width>(dy + from);
            const Sum divisor = Max ? Sum(1) : static_cast<Sum>(s.divisor(od, oh, ow));
#pragma unroll
            for (int i = 0; i < Width; ++i)
              if (winners >> i & 1) sum[i] += Max ? widened(gradient.value[i]) : widened(gradient.value[i]) / divisor;
          }
      Packet<T, Width> packet;
#pragma unroll
      for (int i = 0; i < Width; ++i) packet.value[i] = rounded<T>(sum[i]);
      store_packet(dx + n * s.x[0] + c * s.x[1] + here, packet);
    }
  }
}

template <typename T, int Row>
cudaError_t launch(const PoolView& v, const PoolCall& call, cudaStream_t stream) {
  constexpr PoolRow r = pool_rows[Row];
  const Shape s = shape_of(v, r.channels_fast);
  const auto* x = static_cast<const T*>(call.x);
  auto* out = static_cast<T*>(call.out);
  if constexpr (r.way == PoolWay::split) {
    const std::int64_t packets = r.width > 1 ? (v.c / r.width + 31) / 32 : v.c;
    const std::int64_t work = v.n * ConvView::volume(v.out) * packets, blocks = r.width > 1 ? work : (work + 7) / 8;
    const auto grid = static_cast<unsigned>(blocks < 65536 ? blocks : 65536);
    forward_split<T, r.width, r.max><<<grid, threads, 0, stream>>>(s, x, out);
  } else {
    const std::int64_t* extent = r.forward ? v.out : v.in;
    const std::int64_t items = v.c / r.width * ((extent[2] + r.outs - 1) / r.outs), rows = v.n * extent[0] * extent[1];
    const int width = items > 128 ? threads : items > 64 ? 128 : items > 32 ? 64 : 32;
    const std::int64_t across = (items + width - 1) / width;
    const dim3 grid(static_cast<unsigned>(across < 65536 ? across : 65536),
                    static_cast<unsigned>(rows < most_rows_at_once ? rows : most_rows_at_once));
    if constexpr (r.forward)
      forward<T, r.width, r.max, r.window, r.stride, r.outs><<<grid, width, 0, stream>>>(s, x, out);
    else
      backward<T, r.width, r.max>
          <<<grid, width, 0, stream>>>(s, x, static_cast<const T*>(call.y), static_cast<const T*>(call.dy), out);
  }
  return cudaGetLastError();
}

template <typename T, DType Type, std::size_t... I>
cudaError_t launch_one_of(int row, const PoolView& v, const PoolCall& call, cudaStream_t stream, std::index_sequence<I...>) {
  cudaError_t error = cudaErrorInvalidValue;
  const auto try_row = [&](auto index) {
    constexpr int at = decltype(index)::value;
    if constexpr (pool_rows[at].type == Type)
      if (at == row) error = launch<T, at>(v, call, stream);
  };
  (try_row(std::integral_constant<int, static_cast<int>(I)>{}), ...);
  return error;
}

template <typename T, DType Type>
cudaError_t launch_pool_of(int row, const PoolView& v, const PoolCall& call, cudaStream_t stream) {
  return launch_one_of<T, Type>(row, v, call, stream, std::make_index_sequence<pool_rows.size()>());
}

}  // namespace attune::pool

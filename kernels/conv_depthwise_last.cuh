// Depthwise convolution of channels-last tensors. A thread owns a pair of channels and a strip of four neighbouring outputs,
// and walks down the image: its filter stays in registers, every row of the image is loaded once and added to the few rows of
// outputs that it reaches, each of which is written when its last row has come by.
#pragma once

#include "kernels/conv_depthwise.cuh"

namespace attune {

template <int Filter, int Stride>
struct Walk {
  static constexpr int live = (Filter + Stride - 1) / Stride;   ///< rows of outputs that one row of the image reaches, at most
  static constexpr int period = live * Stride;                  ///< rows of the image after which the roles repeat
  static constexpr int across = (strip - 1) * Stride + Filter;  ///< columns of the image under a strip
  /// The filter's row through which row `j` of a period reaches live row `k`.
  __device__ static constexpr int tap(int j, int k) { return (j - k * Stride + period) % period; }
};

template <typename T, int Filter, int Stride>
__global__ void __launch_bounds__(depthwise_threads) depthwise_last(const __grid_constant__ DepthwiseShape s, ConvCall call) {
  using W = Walk<Filter, Stride>;
  const int pairs = s.channels / 2, strips = (s.out[1] + strip - 1) / strip, bands = (s.out[0] + s.rows_each - 1) / s.rows_each;
  const std::int64_t id = grid_index();
  if (id >= static_cast<std::int64_t>(pairs) * strips * bands * s.images) return;
  int rest = static_cast<int>(id / pairs);
  const int channel = static_cast<int>(id % pairs) * 2;
  const int q0 = rest % strips * strip;
  rest /= strips;
  const int p0 = rest % bands * s.rows_each, n = rest / bands;
  const int p_end = min(p0 + s.rows_each, s.out[0]);
  const T* filter = static_cast<const T*>(call.other) + channel * s.filter_c;
  float2 w[Filter][Filter];
#pragma unroll
  for (int r = 0; r < Filter; ++r)
#pragma unroll
    for (int c = 0; c < Filter; ++c) {
      const int from =
          (s.flipped ? Filter - 1 - r : r) * s.filter_step[0] + (s.flipped ? Filter - 1 - c : c) * s.filter_step[1];
      w[r][c] = {static_cast<float>(filter[from]), static_cast<float>(filter[from + s.filter_c])};
    }
  const int h0 = p0 * Stride - s.pad[0], w0 = q0 * Stride - s.pad[1];
  const T* image = static_cast<const T*>(call.image) + static_cast<std::int64_t>(n) * s.image_n + channel;
  unsigned inside = 0;  // columns
#pragma unroll
  for (int c = 0; c < W::across; ++c)
    if (static_cast<unsigned>(w0 + c) < static_cast<unsigned>(s.image[1])) inside |= 1u << c;

  const Output<float> out = depthwise_output(s, call);
  const bool plain = is_plain<T>(out);
  float2 sum[W::live][strip] = {};
  const int rows = (p_end - p0 - 1) * Stride + Filter;
  for (int i0 = 0; i0 < rows; i0 += W::period) {
#pragma unroll
    for (int j = 0; j < W::period; ++j) {
      const int i = i0 + j, h = h0 + i;
      if (i >= rows) break;
      if (static_cast<unsigned>(h) < static_cast<unsigned>(s.image[0])) {
        float2 x[W::across];
        const T* row = image + h * s.image_step[0] + w0 * s.image_step[1];
#pragma unroll
        for (int c = 0; c < W::across; ++c) x[c] = inside >> c & 1 ? load_pair(row + c * s.image_step[1]) : float2{0, 0};
#pragma unroll
        for (int k = 0; k < W::live; ++k) {
          const int r = W::tap(j, k);
          if (r >= Filter) continue;
#pragma unroll
          for (int q = 0; q < strip; ++q)
#pragma unroll
            for (int c = 0; c < Filter; ++c)
              sum[k][q].x += x[q * Stride + c].x * w[r][c].x, sum[k][q].y += x[q * Stride + c].y * w[r][c].y;
        }
      }
#pragma unroll
      for (int k = 0; k < W::live; ++k) {
        if (W::tap(j, k) != Filter - 1) continue;
        // Rows before the first begin in the middle: nobody wants them.
        const int p = p0 + (i - (Filter - 1)) / Stride;
        if (i >= Filter - 1) {
          const int at = n * s.out_n + p * s.out_step[0] + q0 * s.out_step[1] + channel, count = min(strip, s.out[1] - q0);
          if (plain) {
#pragma unroll
            for (int q = 0; q < strip; ++q)
              if (q < count) {
                const float pair[2] = {out.alpha * sum[k][q].x, out.alpha * sum[k][q].y};
                store_pack<T, 2>(static_cast<T*>(out.d) + at + q * s.out_step[1], pair);
              }
          } else {
            finish_strip(out, {sum[k][0].x, sum[k][0].y, sum[k][1].x, sum[k][1].y},
                         {sum[k][2].x, sum[k][2].y, sum[k][3].x, sum[k][3].y}, at, s.out_step[1], count, channel, true);
          }
        }
#pragma unroll
        for (int q = 0; q < strip; ++q) sum[k][q] = {0, 0};
      }
    }
  }
}

}  // namespace attune

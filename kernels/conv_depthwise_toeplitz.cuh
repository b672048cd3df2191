// Depthwise convolution with a large filter, on tensor cores. For one channel and one of the filter's rows, outputs along a row
// are the image's row times a banded (Toeplitz) matrix of the filter's row; the rows of the image are those of the other
// operand. The fragments of the band depend on the distance to the diagonal only and are read from the filter's row between
// zeros. What lies in the image up to 40 columns beside a window is thus multiplied by zero: an infinity there becomes a NaN.
#pragma once

#include "kernels/common/mma.cuh"
#include "kernels/conv_depthwise.cuh"

namespace attune {

/// A warp has 32 x 32 outputs of one image; the warps of a block share the channel, and with it the filter.
struct ToeplitzTile {
  static constexpr int side = 32, warps = 4;
  static constexpr int columns = 64, pitch = 72;  ///< of the image's tile; lines 144 bytes apart fall into different banks
  /// A row of the filter lies twice, from 16 zeros on, the second time one element to the left, so that all pairs are aligned.
  static constexpr int lead = 16, length = 64, copy_pitch = 80, filter_pitch = 2 * copy_pitch;

  __host__ __device__ static int rows(const DepthwiseShape& s) { return side + s.filter[0] - 1; }
  __host__ __device__ static int filter_elements(const DepthwiseShape& s) { return s.filter[0] * filter_pitch; }
  __host__ __device__ static std::int64_t bytes(const DepthwiseShape& s) {
    return 2 * (std::int64_t{filter_elements(s)} + std::int64_t{warps} * rows(s) * pitch);
  }
};

/// Brings the window whose corner is (h0, w0) to shared memory; what is outside of the image becomes zero.
template <typename T>
__device__ inline void stage_toeplitz(T* tile, const T* image, const DepthwiseShape& s, int h0, int w0, int lane) {
  const int rows = ToeplitzTile::rows(s);
#pragma unroll 4
  for (int i = lane; i < rows * (ToeplitzTile::pitch / 8); i += 32) reinterpret_cast<uint4*>(tile)[i] = uint4{0, 0, 0, 0};
  __syncwarp();
  const int end = min(rows, s.image[0] - h0);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int c = lane + half * 32, w = w0 + c;
    if (static_cast<unsigned>(w) >= static_cast<unsigned>(s.image[1])) continue;
#pragma unroll 8
    for (int r = max(0, -h0); r < end; ++r)
      tile[r * ToeplitzTile::pitch + c] = image[(h0 + r) * s.image_step[0] + w * s.image_step[1]];
  }
}

template <typename T>
__global__ void __launch_bounds__(ToeplitzTile::warps * 32)
    depthwise_toeplitz(const __grid_constant__ DepthwiseShape s, ConvCall call) {
  using Tile = ToeplitzTile;
  extern __shared__ __align__(16) unsigned char toeplitz_shared[];
  T* const filter = reinterpret_cast<T*>(toeplitz_shared);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  T* const tile = filter + Tile::filter_elements(s) + warp * Tile::rows(s) * Tile::pitch;
  int rest = static_cast<int>(blockIdx.x);
  const int channel = rest % s.channels;
  rest /= s.channels;
  const int across = (s.out[1] + Tile::side - 1) / Tile::side, down = (s.out[0] + Tile::side - 1) / Tile::side;
  const int q0 = rest % across * Tile::side, p0 = rest / across % down * Tile::side;
  const int n = rest / across / down * Tile::warps + warp;

  const T* weights = static_cast<const T*>(call.other) + channel * s.filter_c;
  for (int i = static_cast<int>(threadIdx.x); i < s.filter[0] * 2 * Tile::length; i += Tile::warps * 32) {
    const int e = i % Tile::length, copy = i / Tile::length % 2, r = i / Tile::length / 2, c = e + copy - Tile::lead;
    const bool exists = static_cast<unsigned>(c) < static_cast<unsigned>(s.filter[1]);
    const int from_r = s.flipped ? s.filter[0] - 1 - r : r, from_c = s.flipped ? s.filter[1] - 1 - c : c;
    filter[r * Tile::filter_pitch + copy * Tile::copy_pitch + e] =
        exists ? weights[from_r * s.filter_step[0] + from_c * s.filter_step[1]] : T(0.0f);
  }
  if (n < s.images)
    stage_toeplitz(tile, static_cast<const T*>(call.image) + n * s.image_n + channel * s.image_c, s, p0 - s.pad[0],
                   q0 - s.pad[1], lane);
  __syncthreads();
  if (n >= s.images) return;

  const int rows = min(Tile::side, s.out[0] - p0), columns = min(Tile::side, s.out[1] - q0);
  const bool lower = rows > 16;
  float sum[2][4][4] = {};
  const int k = lane % 4 * 2, column = lane / 4;
  // Of step 0 and distance -8, which is the least.
  const T* band = filter + column % 2 * Tile::copy_pitch + Tile::lead - 8 + k - column - column % 2;
  std::uint32_t line = shared_address(tile) + (lane % 16 * Tile::pitch + lane / 16 * 8) * 2;
#pragma unroll 1
  for (int r = 0; r < s.filter[0]; ++r, band += Tile::filter_pitch, line += Tile::pitch * 2) {
    std::uint32_t y[2][3][2];  // of even and odd blocks of eight columns
#pragma unroll
    for (int odd = 0; odd < 2; ++odd)
#pragma unroll
      for (int step = 0; step < 3; ++step)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          y[odd][step][half] = *reinterpret_cast<const std::uint32_t*>(band + (odd ? 0 : 8) + step * 16 + half * 8);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      if (m == 1 && !lower) break;
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        std::uint32_t x[4];
        load_matrices(x, line + (m * 16 * Tile::pitch + step * 16) * 2);
#pragma unroll
        for (int b = 0; b < 4; ++b)
          if (step >= b / 2 && step <= b / 2 + 2)
            multiply<T>(sum[m][b], x, y[b % 2][step - b / 2][0], y[b % 2][step - b / 2][1]);
      }
    }
  }

  const Output<float> out = depthwise_output(s, call);
  T* const to = static_cast<T*>(out.d);
  const bool plain = is_plain<T>(out);
  const bool pairs = plain && s.out_step[1] == 1 && (s.out_step[0] | s.out_n | s.out_c) % 2 == 0 &&
                     reinterpret_cast<std::uintptr_t>(to) % (2 * sizeof(T)) == 0;
  const int base = n * s.out_n + channel * s.out_c + p0 * s.out_step[0] + q0 * s.out_step[1];
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int b = 0; b < 4; ++b)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int p = m * 16 + half * 8 + lane / 4, q = b * 8 + k, count = min(2, columns - q);
        if (p >= rows || count <= 0) continue;
        const int at = base + p * s.out_step[0] + q * s.out_step[1];
        const float low = sum[m][b][half * 2], high = sum[m][b][half * 2 + 1];
        if (pairs && count == 2) {
          const float value[2] = {out.alpha * low, out.alpha * high};
          store_pack<T, 2>(to + at, value);
        } else {
          finish_strip(out, {low, high, 0, 0}, {0, 0, 0, 0}, at, s.out_step[1], count, channel, false);
        }
      }
}

}  // namespace attune

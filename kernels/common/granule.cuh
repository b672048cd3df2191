// Sixteen bytes from any address, made from the two aligned granules that they lie in.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

namespace attune {

/// The sixteen bytes from `off` on (0 to 15) of two granules that follow one another.
__device__ inline uint4 joined(const uint4& low, const uint4& high, int off) {
  std::uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  if (off & 8)
#pragma unroll
    for (int j = 0; j < 6; ++j) w[j] = w[j + 2];
  if (off & 4)
#pragma unroll
    for (int j = 0; j < 5; ++j) w[j] = w[j + 1];
#pragma unroll
  for (int j = 0; j < 4; ++j) w[j] = __funnelshift_r(w[j], w[j + 1], (off & 3) * 8);
  return {w[0], w[1], w[2], w[3]};
}

/// The first `valid` bytes; zeros behind them.
__device__ inline uint4 first_bytes(const uint4& from, int valid) {
  if (valid >= 16) return from;
  std::uint32_t w[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int left = valid - j * 4;
    w[j] = left <= 0 ? 0 : left < 4 ? w[j] & ((1u << (left * 8)) - 1) : w[j];
  }
  return {w[0], w[1], w[2], w[3]};
}

}  // namespace attune

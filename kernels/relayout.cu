#include "kernels/relayout.hpp"

#include <type_traits>

#include "kernels/common/overlap.cuh"

namespace attune {
namespace {

constexpr int threads = 256, warps = threads / 32;
constexpr int chunks_each = 4;   // of 16 bytes that a lane copies of one line segment
constexpr int edge = 64;         // of the tiles that are turned
constexpr int most_jobs = 2;

struct Jobs {
  Relayout shape[most_jobs];
  RelayoutCall call[most_jobs];
  std::int64_t units[most_jobs];  ///< of work: warps' segments, or turned tiles
};

/// Sixteen bytes from any address, of which `valid` exist; the rest is zero. Reads nothing outside [begin, end).
__device__ uint4 load_bytes(const char* from, int valid, const char* begin, const char* end) {
  const auto off = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) & 15);
  const char* granule = from - off;
  const bool second = off + valid > 16;
  std::uint32_t w[8] = {};
  if (granule >= begin && granule + (second ? 32 : 16) <= end) {
    const uint4 low = __ldg(reinterpret_cast<const uint4*>(granule));
    const uint4 high = second ? __ldg(reinterpret_cast<const uint4*>(granule) + 1) : uint4{0, 0, 0, 0};
    w[0] = low.x, w[1] = low.y, w[2] = low.z, w[3] = low.w, w[4] = high.x, w[5] = high.y, w[6] = high.z, w[7] = high.w;
    if (off & 4)
#pragma unroll
      for (int j = 0; j < 7; ++j) w[j] = w[j + 1];
    if (off & 8)
#pragma unroll
      for (int j = 0; j < 5; ++j) w[j] = w[j + 2];
#pragma unroll
    for (int j = 0; j < 4; ++j) w[j] = __funnelshift_r(w[j], w[j + 1], (off & 3) * 8);
  } else {
#pragma unroll 1
    for (int b = 0; b < valid; ++b) {
      const auto byte = static_cast<std::uint32_t>(static_cast<unsigned char>(from[b]));
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (b / 4 == j) w[j] |= byte << (b % 4 * 8);
    }
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int left = valid - j * 4;
    if (left <= 0)
      w[j] = 0;
    else if (left < 4)
      w[j] &= (1u << (left * 8)) - 1;
  }
  return uint4{w[0], w[1], w[2], w[3]};
}

/// Lines that stay lines: a warp copies a segment of one.
__device__ void copy_lines(const Relayout& s, const RelayoutCall& call, std::int64_t first_unit, std::int64_t units, std::int64_t step) {
  const char* begin = static_cast<const char*>(call.from);
  const char* end = begin + s.from_elements * s.element_bytes;
  const std::int64_t line_bytes = s.padded_places * s.element_bytes, chunks = (line_bytes + 15) / 16;
  const std::int64_t segments = (chunks + 32 * chunks_each - 1) / (32 * chunks_each);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t unit = first_unit; unit < units; unit += step) {
    const std::int64_t row = unit / segments, segment = unit - row * segments;
    const std::int64_t matrix = row / s.padded_lines, line = row - matrix * s.padded_lines;
    const char* from = begin + (matrix * s.from_matrix + line * s.from_line) * s.element_bytes;
    char* to = static_cast<char*>(call.to) + (matrix * s.to_matrix + line * s.to_line) * s.element_bytes;
    const std::int64_t present = line < s.lines ? s.places * s.element_bytes : 0;
    uint4 held[chunks_each];
#pragma unroll
    for (int i = 0; i < chunks_each; ++i) {
      const std::int64_t at = (segment * 32 * chunks_each + i * 32 + lane) * 16, left = present - at;
      held[i] = left <= 0 ? uint4{0, 0, 0, 0} : load_bytes(from + at, left < 16 ? static_cast<int>(left) : 16, begin, end);
    }
#pragma unroll
    for (int i = 0; i < chunks_each; ++i) {
      const std::int64_t chunk = segment * 32 * chunks_each + i * 32 + lane;
      if (chunk < chunks) reinterpret_cast<uint4*>(to)[chunk] = held[i];
    }
  }
}

/// Tiles that are turned: neighbours in the source are lines, or lie apart both ways.
template <typename T>
__device__ void copy_turned(const Relayout& s, const RelayoutCall& call, T (&tile)[edge][edge + (sizeof(T) < 4 ? 2 : 1)],
                            std::int64_t first_unit, std::int64_t units, std::int64_t step) {
  const std::int64_t tiles_l = (s.padded_lines + edge - 1) / edge, tiles_p = (s.padded_places + edge - 1) / edge;
  const int x = static_cast<int>(threadIdx.x) % edge, y = static_cast<int>(threadIdx.x) / edge;
  constexpr int rows = threads / edge;
  for (std::int64_t unit = first_unit; unit < units; unit += step) {
    const std::int64_t l0 = unit % tiles_l * edge, p0 = unit / tiles_l % tiles_p * edge, matrix = unit / tiles_l / tiles_p;
    const T* from = static_cast<const T*>(call.from) + matrix * s.from_matrix;
    T* to = static_cast<T*>(call.to) + matrix * s.to_matrix;
#pragma unroll 4
    for (int i = y; i < edge; i += rows)
      tile[i][x] = l0 + x < s.lines && p0 + i < s.places ? __ldg(from + (l0 + x) * s.from_line + (p0 + i) * s.from_place) : T{};
    __syncthreads();
#pragma unroll 4
    for (int i = y; i < edge; i += rows)
      if (l0 + i < s.padded_lines && p0 + x < s.padded_places) to[(l0 + i) * s.to_line + p0 + x] = tile[x][i];
    __syncthreads();
  }
}

__global__ void __launch_bounds__(threads) relayout(Jobs jobs) {
  __shared__ __align__(16) char memory[edge * (edge + 2) * 8];
  let_next_begin();
#pragma unroll 1
  for (int j = 0; j < most_jobs; ++j) {
    const Relayout& s = jobs.shape[j];
    if (s.from_place == 1) {
      copy_lines(s, jobs.call[j], std::int64_t{blockIdx.x} * warps + threadIdx.x / 32, jobs.units[j], std::int64_t{gridDim.x} * warps);
      continue;
    }
    const auto turn = [&](auto element) {
      using T = decltype(element);
      using Tile = T[edge][edge + (sizeof(T) < 4 ? 2 : 1)];
      copy_turned<T>(s, jobs.call[j], *reinterpret_cast<Tile*>(memory), blockIdx.x, jobs.units[j], gridDim.x);
    };
    switch (s.element_bytes) {
      case 1: turn(static_cast<unsigned char>(0)); break;
      case 2: turn(static_cast<unsigned short>(0)); break;
      case 4: turn(0u); break;
      default: turn(0ull); break;
    }
  }
}

std::int64_t units_of(const Relayout& s) {
  if (s.from_place != 1)
    return (s.padded_lines + edge - 1) / edge * ((s.padded_places + edge - 1) / edge) * s.matrices;
  const std::int64_t chunks = (s.padded_places * s.element_bytes + 15) / 16;
  return (chunks + 32 * chunks_each - 1) / (32 * chunks_each) * s.padded_lines * s.matrices;
}

}  // namespace

cudaError_t launch_relayout(const Relayout* shapes, const RelayoutCall* calls, int count, cudaStream_t stream) noexcept {
  Jobs jobs{};
  std::int64_t blocks = 1;
  for (int j = 0; j < count && j < most_jobs; ++j) {
    jobs.shape[j] = shapes[j], jobs.call[j] = calls[j], jobs.units[j] = units_of(shapes[j]);
    const std::int64_t needed = shapes[j].from_place == 1 ? (jobs.units[j] + warps - 1) / warps : jobs.units[j];
    if (needed > blocks) blocks = needed;
  }
  // Not overlapped itself: measured, that made plans that copy up to 20 percent slower.
  relayout<<<static_cast<unsigned>(blocks < (1 << 20) ? blocks : 1 << 20), threads, 0, stream>>>(jobs);
  return cudaGetLastError();
}

}  // namespace attune

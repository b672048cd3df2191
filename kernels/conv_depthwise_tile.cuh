// Depthwise convolution of channels-last tensors by tiles: a block copies a tile of the image with its halo, up to 64 channels
// deep, to shared memory, 16 bytes at a time and all of it at once, which is what keeps the memory busy. A thread then forms a
// patch of outputs for a pair of channels, whose rows of the image it reads once each.
#pragma once

#include "kernels/conv_depthwise.cuh"

namespace attune {

/// The tile that a block has: the first output of it, its image and its channels.
struct DepthwisePlace {
  int channel, p, q, n;
  __device__ DepthwisePlace(const DepthwiseTiling& t, int place) {
    channel = t.by_groups.split(place) * t.lanes * 2;
    q = t.by_column_tiles.split(place) * t.columns;
    p = t.by_bands.split(place) * t.rows;
    n = place;
  }
};

template <int Packet>
__device__ inline void copy_packet(std::uint32_t to, const void* from, bool exists) {
  const int bytes = exists ? Packet : 0;
  if constexpr (Packet == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(Packet), "r"(bytes) : "memory");
}

/// A part of a tensor that is to be copied; coordinates outside of it become zeros.
template <typename T>
struct DepthwiseWindow {
  const T* data;  ///< of the image n, channel 0
  int extent[2], step[2];
  int h, w;  ///< of the window's corner
  int rows;
  int channel, channels;
};

template <typename T, int Packet>
__device__ inline void copy_packets(T* tile, const DepthwiseWindow<T>& v, const DepthwiseTiling& t, const Divider& by_columns) {
  constexpr int elements = Packet / static_cast<int>(sizeof(T));
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile));
  const int total = v.rows * static_cast<int>(by_columns.by * t.by_packets.by);
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < total; i += static_cast<int>(blockDim.x)) {
    int pixel = i;
    const int c = t.by_packets.split(pixel) * elements;
    int row = pixel;
    const int w = v.w + by_columns.split(row), h = v.h + row;
    const bool exists = static_cast<unsigned>(h) < static_cast<unsigned>(v.extent[0]) &&
                        static_cast<unsigned>(w) < static_cast<unsigned>(v.extent[1]) && v.channel + c < v.channels;
    const T* from = exists ? v.data + h * v.step[0] + w * v.step[1] + v.channel + c : v.data;
    copy_packet<Packet>(base + (pixel * depthwise_depth + c) * static_cast<int>(sizeof(T)), from, exists);
  }
}

template <typename T>
__device__ inline void copy_window(T* tile, const DepthwiseWindow<T>& v, const DepthwiseTiling& t, const Divider& by_columns) {
  if (t.packet == 16)
    copy_packets<T, 16>(tile, v, t, by_columns);
  else if (t.packet == 8 || sizeof(T) == 4)
    copy_packets<T, 8>(tile, v, t, by_columns);
  else
    copy_packets<T, 4>(tile, v, t, by_columns);
}
__device__ inline void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Resident blocks: what the registers of a patch leave room for.
template <typename T, int Filter, int Stride>
__global__ void __launch_bounds__(depthwise_threads, Filter == 3 ? 3 : 2)
    depthwise_tile(const __grid_constant__ DepthwiseShape s, ConvCall call) {
  constexpr DepthwisePatch patch = depthwise_patch(Filter, Stride);
  constexpr int taps = Filter * Filter, across = (patch.columns - 1) * Stride + Filter;
  extern __shared__ __align__(16) unsigned char depthwise_shared[];
  T* const tile = reinterpret_cast<T*>(depthwise_shared);
  const DepthwiseTiling& t = s.tiling;
  float* const filter = reinterpret_cast<float*>(depthwise_shared + t.image_bytes);
  const DepthwisePlace at(t, static_cast<int>(blockIdx.x));
  const int rows = min(t.rows, s.out[0] - at.p);
  copy_window(tile,
              {static_cast<const T*>(call.image) + at.n * s.image_n,
               {s.image[0], s.image[1]},
               {s.image_step[0], s.image_step[1]},
               at.p * Stride - s.pad[0],
               at.q * Stride - s.pad[1],
               (rows - 1) * Stride + Filter,
               at.channel,
               s.channels},
              t, t.by_in_columns);
  const int deep = min(t.lanes * 2, s.channels - at.channel);
  for (int i = static_cast<int>(threadIdx.x); i < deep * taps; i += static_cast<int>(blockDim.x)) {
    const int channel = i / taps, tap = i % taps, from = s.flipped ? taps - 1 - tap : tap;
    filter[tap * depthwise_filter_pitch + channel] = static_cast<float>(static_cast<const T*>(
        call.other)[(at.channel + channel) * s.filter_c + from / Filter * s.filter_step[0] + from % Filter * s.filter_step[1]]);
  }
  wait_copies();
  __syncthreads();

  const Output<float> out = depthwise_output(s, call);
  const bool plain = is_plain<T>(out);
  const int in_columns = static_cast<int>(t.by_in_columns.by), items = static_cast<int>(t.by_lanes.by) * t.patches;
#pragma unroll 1
  for (int item = static_cast<int>(threadIdx.x); item < items; item += static_cast<int>(blockDim.x)) {
    int rest = item;
    const int lane = t.by_lanes.split(rest);
    const int q0 = t.by_patch_columns.split(rest) * patch.columns, p0 = rest * patch.rows;
    const int p_count = min(patch.rows, rows - p0), q_count = min(min(patch.columns, t.columns - q0), s.out[1] - at.q - q0);
    const int channel = at.channel + lane * 2;
    if (p_count <= 0 || q_count <= 0 || channel >= s.channels) continue;
    const T* window = tile + (p0 * Stride * in_columns + q0 * Stride) * depthwise_depth + lane * 2;
    const float* weights = filter + lane * 2;
    float2 sum[patch.rows][patch.columns] = {};
#pragma unroll
    for (int i = 0; i < (patch.rows - 1) * Stride + Filter; ++i, window += in_columns * depthwise_depth) {
      float2 x[across];
#pragma unroll
      for (int c = 0; c < across; ++c) x[c] = load_pair(window + c * depthwise_depth);
#pragma unroll
      for (int p = 0; p < patch.rows; ++p) {
        const int r = i - p * Stride;
        if (r < 0 || r >= Filter) continue;
#pragma unroll
        for (int c = 0; c < Filter; ++c) {
          const float2 w = load_pair(weights + (r * Filter + c) * depthwise_filter_pitch);
#pragma unroll
          for (int q = 0; q < patch.columns; ++q)
            sum[p][q].x += x[q * Stride + c].x * w.x, sum[p][q].y += x[q * Stride + c].y * w.y;
        }
      }
    }
    const int place = at.n * s.out_n + (at.p + p0) * s.out_step[0] + (at.q + q0) * s.out_step[1] + channel;
#pragma unroll
    for (int p = 0; p < patch.rows; ++p) {
      if (p >= p_count) break;
      const int line = place + p * s.out_step[0];
      if (plain) {
#pragma unroll
        for (int q = 0; q < patch.columns; ++q)
          if (q < q_count) {
            const float pair[2] = {out.alpha * sum[p][q].x, out.alpha * sum[p][q].y};
            store_pack<T, 2>(static_cast<T*>(out.d) + line + q * s.out_step[1], pair);
          }
      } else {
#pragma unroll
        for (int q = 0; q < patch.columns; q += 4) {
          const auto pair = [&](int k) {
            return q + k < patch.columns ? sum[p][q + k < patch.columns ? q + k : 0] : float2{0, 0};
          };
          const float2 a = pair(0), b = pair(1), c = pair(2), d = pair(3);
          finish_strip(out, {a.x, a.y, b.x, b.y}, {c.x, c.y, d.x, d.y}, line + q * s.out_step[1], s.out_step[1],
                       min(4, q_count - q), channel, true);
        }
      }
    }
  }
}

/// wgrad: a warp has one row of the filter, its lanes a pair of channels each; `workers` warps share the strips of a tile.
template <typename T, int Filter, int Stride>
__global__ void __launch_bounds__(depthwise_wgrad_threads(Filter))
    depthwise_wgrad_tile(const __grid_constant__ DepthwiseShape s, ConvCall call) {
  constexpr int columns = depthwise_strip(Stride), across = (columns - 1) * Stride + Filter, taps = Filter * Filter;
  constexpr int threads = depthwise_wgrad_threads(Filter), workers = threads / 32 / Filter;
  extern __shared__ __align__(16) unsigned char depthwise_shared[];
  const DepthwiseTiling& t = s.tiling;
  T* const tile = reinterpret_cast<T*>(depthwise_shared);
  T* const gradient = reinterpret_cast<T*>(depthwise_shared + t.image_bytes);
  int rest = static_cast<int>(blockIdx.x);
  const int group = t.by_groups.split(rest), split = rest, channel = group * t.lanes * 2;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int r = warp % Filter, worker = warp / Filter, in_columns = static_cast<int>(t.by_in_columns.by);
  const bool busy = lane < t.lanes && channel + lane * 2 < s.channels;
  const DepthwiseRange range(t.tiles, s.splits, split);
  float2 sum[Filter] = {};
#pragma unroll 1
  for (int item = range.first; item < range.end; ++item) {
    const DepthwisePlace at(t, item * static_cast<int>(t.by_groups.by));
    const int rows = min(t.rows, s.out[0] - at.p);
    copy_window(tile,
                {static_cast<const T*>(call.image) + at.n * s.image_n,
                 {s.image[0], s.image[1]},
                 {s.image_step[0], s.image_step[1]},
                 at.p * Stride - s.pad[0],
                 at.q * Stride - s.pad[1],
                 (rows - 1) * Stride + Filter,
                 channel,
                 s.channels},
                t, t.by_in_columns);
    copy_window(gradient,
                {static_cast<const T*>(call.other) + at.n * s.out_n,
                 {s.out[0], s.out[1]},
                 {s.out_step[0], s.out_step[1]},
                 at.p,
                 at.q,
                 rows,
                 channel,
                 s.channels},
                t, t.by_columns);
    wait_copies();
    __syncthreads();
    const int strips = static_cast<int>(t.by_patch_columns.by);
#pragma unroll 1
    for (int strip_at = worker; busy && strip_at < rows * strips; strip_at += workers) {
      int p = strip_at;
      const int q0 = t.by_patch_columns.split(p) * columns;
      const T* window = tile + ((p * Stride + r) * in_columns + q0 * Stride) * depthwise_depth + lane * 2;
      const T* from = gradient + (p * t.columns + q0) * depthwise_depth + lane * 2;
      float2 x[across], y[columns];
#pragma unroll
      for (int q = 0; q < columns; ++q) y[q] = load_pair(from + q * depthwise_depth);
#pragma unroll
      for (int c = 0; c < across; ++c) x[c] = load_pair(window + c * depthwise_depth);
#pragma unroll
      for (int c = 0; c < Filter; ++c)
#pragma unroll
        for (int q = 0; q < columns; ++q) sum[c].x += x[q * Stride + c].x * y[q].x, sum[c].y += x[q * Stride + c].y * y[q].y;
    }
    __syncthreads();
  }
  // [worker][tap][channel], in the place of the tile.
  float* const shared = reinterpret_cast<float*>(depthwise_shared) + lane * 2;
#pragma unroll
  for (int c = 0; c < Filter; ++c)
    *reinterpret_cast<float2*>(shared + (worker * taps + r * Filter + c) * depthwise_filter_pitch) = sum[c];
  __syncthreads();
  const int deep = min(t.lanes * 2, s.channels - channel);
  float* partial = static_cast<float*>(call.partial) + (static_cast<std::int64_t>(split) * s.channels + channel) * taps;
  for (int i = static_cast<int>(threadIdx.x); i < deep * taps; i += threads) {
    const float* from = reinterpret_cast<const float*>(depthwise_shared) + i % taps * depthwise_filter_pitch + i / taps;
    float total = 0;
#pragma unroll
    for (int k = 0; k < workers; ++k) total += from[k * taps * depthwise_filter_pitch];
    partial[i] = total;
  }
}

}  // namespace attune

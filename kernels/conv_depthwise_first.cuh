// Depthwise convolution of channels-first tensors: a block stages some rows of a plane, or several whole planes, with their
// padding in shared memory; a thread sums strips of four neighbouring outputs, whose window of the image it reads 16 bytes at a
// time. Chunk: taps of a filter's row that are taken together; filters of other widths are padded with zeros to a multiple
// of 8.
#pragma once

#include "kernels/conv_depthwise.cuh"

namespace attune {

/// The shared memory of a block, in floats.
template <int Chunk, int Stride>
struct PlaneTile {
  static constexpr int vectors = ((strip - 1) * Stride + Chunk + 3) / 4;  ///< of a window
  int taps, pitch, rows, strips;

  __host__ __device__ explicit PlaneTile(const DepthwiseShape& s)
      : taps((s.filter[1] + Chunk - 1) / Chunk * Chunk),
        pitch(0),
        rows((s.rows_each - 1) * Stride + s.filter[0]),
        strips((s.out[1] + strip - 1) / strip) {
    const int last = (strips - 1) * strip * Stride + taps - Chunk;  // where the last window begins
    pitch = (last + 3) / 4 * 4 + vectors * 4;
  }
  /// Of one plane's filter, of one plane.
  __host__ __device__ int filter_floats(const DepthwiseShape& s) const { return (s.filter[0] * taps + 3) / 4 * 4; }
  __host__ __device__ int plane_floats() const { return rows * pitch; }
  __host__ __device__ int bytes(const DepthwiseShape& s) const {
    return s.planes_each * (filter_floats(s) + plane_floats()) * static_cast<int>(sizeof(float));
  }
};

template <typename T, int Chunk, int Stride>
__global__ void __launch_bounds__(depthwise_threads) depthwise_first(const __grid_constant__ DepthwiseShape s, ConvCall call) {
  extern __shared__ __align__(16) float staged[];
  const PlaneTile<Chunk, Stride> tile(s);
  const int weights = tile.filter_floats(s), plane_floats = tile.plane_floats();
  float* const filters = staged;
  float* const planes = staged + s.planes_each * weights;
  const int bands = (s.out[0] + s.rows_each - 1) / s.rows_each, all_planes = s.images * s.channels;
  const int band = static_cast<int>(blockIdx.x) % bands, plane0 = static_cast<int>(blockIdx.x) / bands * s.planes_each;
  const int count = min(s.planes_each, all_planes - plane0), p0 = band * s.rows_each, t = static_cast<int>(threadIdx.x);

  for (int e = t; e < count * weights; e += depthwise_threads) {
    const int plane = e / weights, r = e % weights / tile.taps, c = e % weights % tile.taps;
    float w = 0;
    if (r < s.filter[0] && c < s.filter[1]) {
      const int from_r = s.flipped ? s.filter[0] - 1 - r : r, from_c = s.flipped ? s.filter[1] - 1 - c : c;
      const int channel = (plane0 + plane) % s.channels;
      w = static_cast<float>(
          static_cast<const T*>(call.other)[channel * s.filter_c + from_r * s.filter_step[0] + from_c * s.filter_step[1]]);
    }
    filters[e] = w;
  }
  const int warp = t / 32, lane = t % 32;
#pragma unroll 4
  for (int row = warp; row < count * tile.rows; row += depthwise_threads / 32) {
    const int plane = row / tile.rows, h = p0 * Stride - s.pad[0] + row % tile.rows;
    const int n = (plane0 + plane) / s.channels, channel = (plane0 + plane) % s.channels;
    const bool inside = static_cast<unsigned>(h) < static_cast<unsigned>(s.image[0]);
    const T* from = static_cast<const T*>(call.image) + n * s.image_n + channel * s.image_c + h * s.image_step[0];
    for (int c = lane; c < tile.pitch; c += 32) {
      const int x = c - s.pad[1];
      const bool exists = inside && static_cast<unsigned>(x) < static_cast<unsigned>(s.image[1]);
      planes[row * tile.pitch + c] = exists ? static_cast<float>(from[x * s.image_step[1]]) : 0;
    }
  }
  __syncthreads();

  const Output<float> out = depthwise_output(s, call);
  const bool plain = is_plain<T>(out);
  const int rows = min(s.rows_each, s.out[0] - p0);
  for (int item = t; item < count * rows * tile.strips; item += depthwise_threads) {
    const int q0 = item % tile.strips * strip, row = item / tile.strips % rows, plane = item / tile.strips / rows;
    const float* window = planes + plane * plane_floats + row * Stride * tile.pitch + q0 * Stride;
    const float* w = filters + plane * weights;
    float sum[strip] = {};
#pragma unroll 1
    for (int r = 0; r < s.filter[0]; ++r, window += tile.pitch, w += tile.taps) {
#pragma unroll 1
      for (int c0 = 0; c0 < tile.taps; c0 += Chunk) {
        float4 x[PlaneTile<Chunk, Stride>::vectors];
#pragma unroll
        for (int v = 0; v < PlaneTile<Chunk, Stride>::vectors; ++v)
          x[v] = *reinterpret_cast<const float4*>(window + c0 + v * 4);
        const float* flat = reinterpret_cast<const float*>(x);
#pragma unroll
        for (int c = 0; c < Chunk; ++c) {
          const float tap = w[c0 + c];
#pragma unroll
          for (int q = 0; q < strip; ++q) sum[q] += flat[q * Stride + c] * tap;
        }
      }
    }
    const int n = (plane0 + plane) / s.channels, channel = (plane0 + plane) % s.channels, places = min(strip, s.out[1] - q0);
    const int at = n * s.out_n + channel * s.out_c + (p0 + row) * s.out_step[0] + q0 * s.out_step[1];
    T* to = static_cast<T*>(out.d) + at;
    if (plain && places == strip && s.out_step[1] == 1 && reinterpret_cast<std::uintptr_t>(to) % (strip * sizeof(T)) == 0) {
#pragma unroll
      for (int q = 0; q < strip; ++q) sum[q] *= out.alpha;
      store_pack(to, sum);
    } else {
      finish_strip(out, {sum[0], sum[1], sum[2], sum[3]}, {}, at, s.out_step[1], places, channel, false);
    }
  }
}

/// One output a thread: any strides, dilations, layouts and counts of channels.
template <typename T>
__global__ void __launch_bounds__(depthwise_threads) depthwise_any(const __grid_constant__ DepthwiseShape s, ConvCall call) {
  const bool by_channel = s.image_c == 1;
  const std::int64_t total = static_cast<std::int64_t>(s.images) * s.channels * s.out[0] * s.out[1];
  const Output<float> out = depthwise_output(s, call);
  for (std::int64_t id = grid_index(); id < total; id += grid_size()) {
    std::int64_t rest = id;
    int channel = 0;
    if (by_channel) channel = static_cast<int>(rest % s.channels), rest /= s.channels;
    const int q = static_cast<int>(rest % s.out[1]), p = static_cast<int>(rest / s.out[1] % s.out[0]);
    rest /= static_cast<std::int64_t>(s.out[1]) * s.out[0];
    if (!by_channel) channel = static_cast<int>(rest % s.channels), rest /= s.channels;
    const int n = static_cast<int>(rest);
    const T* image = static_cast<const T*>(call.image) + n * s.image_n + channel * s.image_c;
    const T* filter = static_cast<const T*>(call.other) + channel * s.filter_c;
    // The coordinate of a tap; false where there is none.
    const auto coordinate = [&](int d, int position, int tap, int& at) {
      if (s.transposed) {
        const int from = position + s.pad[d] - tap * s.dilation[d];
        at = from / s.stride[d];
        return from >= 0 && at * s.stride[d] == from && at < s.image[d];
      }
      at = position * s.stride[d] - s.pad[d] + tap * s.dilation[d];
      return static_cast<unsigned>(at) < static_cast<unsigned>(s.image[d]);
    };
    float sum = 0;
#pragma unroll 1
    for (int r = 0; r < s.filter[0]; ++r) {
      int h = 0;
      if (!coordinate(0, p, r, h)) continue;
      const int filter_r = (s.flipped ? s.filter[0] - 1 - r : r) * s.filter_step[0];
#pragma unroll 2
      for (int c = 0; c < s.filter[1]; ++c) {
        int w = 0;
        if (coordinate(1, q, c, w))
          sum += static_cast<float>(image[h * s.image_step[0] + w * s.image_step[1]]) *
                 static_cast<float>(filter[filter_r + (s.flipped ? s.filter[1] - 1 - c : c) * s.filter_step[1]]);
      }
    }
    const int at = n * s.out_n + channel * s.out_c + p * s.out_step[0] + q * s.out_step[1];
    store_as(out.d, out.type, at, finished(out, sum, at, channel));
  }
}

/// wgrad of anything: a block sums up to eight taps of a filter's row for a group of channels.
template <typename T>
__global__ void __launch_bounds__(depthwise_threads)
    depthwise_wgrad_any(const __grid_constant__ DepthwiseShape s, ConvCall call, int group) {
  constexpr int chunk = 8;
  __shared__ float shared[chunk * depthwise_threads];
  const int t = static_cast<int>(threadIdx.x), blocks_c = (s.channels + group - 1) / group;
  const int chunks = (s.filter[1] + chunk - 1) / chunk;
  int rest = static_cast<int>(blockIdx.x);
  const int channel0 = rest % blocks_c * group;
  rest /= blocks_c;
  const int c0 = rest % chunks * chunk, r = rest / chunks % s.filter[0], split = rest / chunks / s.filter[0];
  const int channel = channel0 + t % group;
  const DepthwiseRange range(s.out[0] * s.out[1] * s.images, s.splits, split);
  float sum[chunk] = {};
  if (channel < s.channels) {
    const T* image = static_cast<const T*>(call.image) + channel * s.image_c;
    const T* gradient = static_cast<const T*>(call.other) + channel * s.out_c;
#pragma unroll 1
    for (int item = range.first + t / group; item < range.end; item += depthwise_threads / group) {
      const int q = item % s.out[1], p = item / s.out[1] % s.out[0], n = item / s.out[1] / s.out[0];
      const int h = p * s.stride[0] - s.pad[0] + r * s.dilation[0];
      if (static_cast<unsigned>(h) >= static_cast<unsigned>(s.image[0])) continue;
      const float y = static_cast<float>(gradient[n * s.out_n + p * s.out_step[0] + q * s.out_step[1]]);
      const T* row = image + n * s.image_n + h * s.image_step[0];
#pragma unroll
      for (int c = 0; c < chunk; ++c) {
        const int w = q * s.stride[1] - s.pad[1] + (c0 + c) * s.dilation[1];
        if (c0 + c < s.filter[1] && static_cast<unsigned>(w) < static_cast<unsigned>(s.image[1]))
          sum[c] += static_cast<float>(row[w * s.image_step[1]]) * y;
      }
    }
  }
  const int taps = s.filter[0] * s.filter[1];
  float* partial = static_cast<float*>(call.partial) + static_cast<std::int64_t>(split) * s.channels * taps;
  reduce_workers(sum, shared, group, [&](int member, int e, float total) {
    if (c0 + e < s.filter[1] && channel0 + member < s.channels)
      partial[(channel0 + member) * taps + r * s.filter[1] + c0 + e] = total;
  });
}

}  // namespace attune

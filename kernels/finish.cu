#include "kernels/finish.hpp"

#include "kernels/common/finish.cuh"
#include "kernels/common/overlap.cuh"

namespace attune {
namespace {

constexpr int threads = 256;

template <typename Sum>
__device__ Output<Sum> output_of(const FinishShape& shape, const FinishCall& call) {
  Output<Sum> out;
  out.c = call.c, out.bias = call.bias, out.type = shape.type, out.activation = call.activation;
  out.alpha = static_cast<Sum>(call.alpha), out.beta = static_cast<Sum>(call.beta);
  return out;
}

template <typename Sum>
__device__ void finish_element(const FinishShape& shape, const FinishCall& call, const Output<Sum>& out, Sum sum, std::int64_t matrix,
                               std::int64_t line, std::int64_t place) {
  store_as(call.d, shape.type, matrix * shape.d_matrix + line * shape.d_line + place,
           finished(out, sum, matrix * shape.c_matrix + line * shape.c_line + place, shape.bias_by_line ? line : place));
}

/// Four neighbouring places a thread where `Width` is 4: the sums are then read 16 bytes at a time.
template <typename Sum, int Width>
__global__ void __launch_bounds__(threads) finish(FinishShape shape, FinishCall call) {
  const std::int64_t packets = (shape.places + Width - 1) / Width, part = shape.matrices * shape.lines * shape.places;
  const Output<Sum> out = output_of<Sum>(shape, call);
  wait_for_previous();
  let_next_begin();
  for (std::int64_t p = grid_index(); p < shape.matrices * shape.lines * packets; p += grid_size()) {
    const std::int64_t place = p % packets * Width, row = p / packets, line = row % shape.lines, matrix = row / shape.lines;
    std::int64_t from = row * shape.places + place;
    Sum sum[Width] = {};
    for (int split = 0; split < shape.splits; ++split, from += part) {
      if constexpr (Width == 4) {
        const float4 four = *reinterpret_cast<const float4*>(static_cast<const float*>(call.sums) + from);
        sum[0] += four.x, sum[1] += four.y, sum[2] += four.z, sum[3] += four.w;
      } else {
        sum[0] += load_as<Sum>(call.sums, shape.sum_type, from);
      }
    }
#pragma unroll
    for (int e = 0; e < Width; ++e) finish_element(shape, call, out, sum[e], matrix, line, place + e);
  }
}

/// Tiles of 32 x 32 go through shared memory, so that sums are read and results written along their own lines.
template <typename Sum>
__global__ void __launch_bounds__(threads) finish_turned(FinishShape shape, FinishCall call) {
  constexpr int edge = 32, rows = threads / edge;
  __shared__ Sum tile[edge][edge + 1];
  const std::int64_t part = shape.matrices * shape.lines * shape.places;
  const std::int64_t tiles_l = (shape.lines + edge - 1) / edge, tiles_p = (shape.places + edge - 1) / edge;
  const int x = static_cast<int>(threadIdx.x) % edge, y = static_cast<int>(threadIdx.x) / edge;
  const Output<Sum> out = output_of<Sum>(shape, call);
  wait_for_previous();
  let_next_begin();
  for (std::int64_t t = blockIdx.x; t < tiles_l * tiles_p * shape.matrices; t += gridDim.x) {
    const std::int64_t l0 = t % tiles_l * edge, p0 = t / tiles_l % tiles_p * edge, matrix = t / tiles_l / tiles_p;
#pragma unroll 1
    for (int i = y; i < edge; i += rows) {
      Sum sum = 0;
      if (l0 + x < shape.lines && p0 + i < shape.places) {
        std::int64_t from = (matrix * shape.places + p0 + i) * shape.lines + l0 + x;
        for (int split = 0; split < shape.splits; ++split, from += part) sum += load_as<Sum>(call.sums, shape.sum_type, from);
      }
      tile[i][x] = sum;
    }
    __syncthreads();
#pragma unroll 1
    for (int i = y; i < edge; i += rows)
      if (l0 + i < shape.lines && p0 + x < shape.places) finish_element(shape, call, out, tile[x][i], matrix, l0 + i, p0 + x);
    __syncthreads();
  }
}

}  // namespace

cudaError_t launch_finish(const FinishShape& shape, const FinishCall& call, cudaStream_t stream) noexcept {
  const std::int64_t elements = shape.matrices * shape.lines * shape.places;
  const bool wide = shape.sum_type == DType::f64;
  if (shape.turned) {
    const std::int64_t tiles = (shape.lines + 31) / 32 * ((shape.places + 31) / 32) * shape.matrices;
    const unsigned blocks = static_cast<unsigned>(tiles < (1 << 20) ? tiles : 1 << 20);
    return launch_overlapped(wide ? finish_turned<double> : finish_turned<float>, blocks, threads, 0, stream, shape, call);
  }
  const bool packed = shape.sum_type == DType::f32 && shape.places % 4 == 0;
  const auto kernel = wide ? finish<double, 1> : packed ? finish<float, 4> : finish<float, 1>;
  return launch_overlapped(kernel, blocks_for(packed ? elements / 4 : elements, threads), threads, 0, stream, shape, call);
}

}  // namespace attune

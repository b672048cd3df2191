#include "kernels/finish.hpp"

#include "kernels/common/finish.cuh"

namespace attune {
namespace {

constexpr int threads = 256;

/// Four neighbouring places a thread where `Width` is 4: the sums are then read 16 bytes at a time.
template <typename Sum, int Width>
__global__ void __launch_bounds__(threads) finish(FinishShape shape, FinishCall call) {
  const std::int64_t packets = (shape.places + Width - 1) / Width, part = shape.matrices * shape.lines * shape.places;
  Output<Sum> out;
  out.c = call.c, out.bias = call.bias, out.type = shape.type, out.activation = call.activation;
  out.alpha = static_cast<Sum>(call.alpha), out.beta = static_cast<Sum>(call.beta);
  for (std::int64_t p = grid_index(); p < shape.matrices * shape.lines * packets; p += grid_size()) {
    const std::int64_t place = p % packets * Width, row = p / packets, line = row % shape.lines, matrix = row / shape.lines;
    const Sum* from = static_cast<const Sum*>(call.sums) + row * shape.places + place;
    Sum sum[Width] = {};
    for (int split = 0; split < shape.splits; ++split, from += part) {
      if constexpr (Width == 4) {
        const float4 four = *reinterpret_cast<const float4*>(from);
        sum[0] += four.x, sum[1] += four.y, sum[2] += four.z, sum[3] += four.w;
      } else {
        sum[0] += *from;
      }
    }
#pragma unroll
    for (int e = 0; e < Width; ++e)
      store_as(call.d, shape.type, matrix * shape.d_matrix + line * shape.d_line + place + e,
               finished(out, sum[e], matrix * shape.c_matrix + line * shape.c_line + place + e, place + e));
  }
}

}  // namespace

cudaError_t launch_finish(const FinishShape& shape, const FinishCall& call, cudaStream_t stream) noexcept {
  const std::int64_t elements = shape.matrices * shape.lines * shape.places;
  if (shape.wide)
    finish<double, 1><<<blocks_for(elements, threads), threads, 0, stream>>>(shape, call);
  else if (shape.places % 4 == 0)
    finish<float, 4><<<blocks_for(elements / 4, threads), threads, 0, stream>>>(shape, call);
  else
    finish<float, 1><<<blocks_for(elements, threads), threads, 0, stream>>>(shape, call);
  return cudaGetLastError();
}

}  // namespace attune

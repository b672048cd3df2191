#include "kernels/scale.hpp"

#include "kernels/common/element.cuh"

namespace attune {
namespace {

constexpr int threads = 256;

/// 64-bit division costs as much as the rest of the loop together, so the index is as narrow as the tensor allows.
template <typename T, typename Scale, typename Index>
__global__ void __launch_bounds__(threads) scale(ScaleShape shape, Index count, Scale beta, const T* c, const T* bias,
                                                 Activation activation, T* d) {
  const bool reads = beta != Scale{0};
  const std::int64_t stride = grid_size();
  for (std::int64_t flat = grid_index(); flat < static_cast<std::int64_t>(count); flat += stride) {
    Index rest = static_cast<Index>(flat);
    std::int64_t from = 0, to = 0, row = 0;
    for (int i = 0; i + 1 < shape.dims; ++i) {
      const Index extent = static_cast<Index>(shape.extent[i]);
      const Index next = rest / extent;
      const std::int64_t at = rest - next * extent;
      from += at * shape.c_step[i];
      to += at * shape.d_step[i];
      row += at * shape.bias_step[i];
      rest = next;
    }
    from += static_cast<std::int64_t>(rest) * shape.c_step[shape.dims - 1];
    to += static_cast<std::int64_t>(rest) * shape.d_step[shape.dims - 1];
    row += static_cast<std::int64_t>(rest) * shape.bias_step[shape.dims - 1];
    if constexpr (std::is_same_v<T, std::int32_t>) {  // wraps around
      const auto word = [](std::int64_t v) { return static_cast<std::uint32_t>(v); };
      d[to] = static_cast<T>(reads ? word(static_cast<std::int64_t>(beta)) * word(c[from]) : 0u);
      continue;
    }
    Scale value = 0;
    if (reads) value = beta * static_cast<Scale>(to_double(c[from]));
    if (bias != nullptr) value += static_cast<Scale>(to_double(bias[row]));
    d[to] = from_double<T>(activated(activation, value));
  }
}

template <typename T, typename Scale>
cudaError_t launch(const ScaleShape& shape, std::int64_t count, const ScaleOperands& operands, cudaStream_t stream) {
  const unsigned blocks = blocks_for(count, threads);
  const auto beta = static_cast<Scale>(operands.beta);
  const T* c = static_cast<const T*>(operands.c);
  const T* bias = static_cast<const T*>(operands.bias);
  T* d = static_cast<T*>(operands.d);
  if (count <= INT32_MAX)
    scale<T, Scale, std::uint32_t><<<blocks, threads, 0, stream>>>(shape, static_cast<std::uint32_t>(count), beta, c, bias,
                                                                 operands.activation, d);
  else
    scale<T, Scale, std::uint64_t><<<blocks, threads, 0, stream>>>(shape, static_cast<std::uint64_t>(count), beta, c, bias,
                                                                 operands.activation, d);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_scale(DType type, bool wide, const ScaleShape& shape, const ScaleOperands& operands,
                         cudaStream_t stream) noexcept {
  std::int64_t count = 1;
  for (int i = 0; i < shape.dims; ++i) count *= shape.extent[i];
  if (count == 0) return cudaSuccess;
  return dispatch_type(type, [&](auto element) {
    using T = decltype(element);
    return wide ? launch<T, double>(shape, count, operands, stream) : launch<T, float>(shape, count, operands, stream);
  });
}

}  // namespace attune

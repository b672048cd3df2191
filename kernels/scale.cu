#include "kernels/scale.hpp"

#include "kernels/common/element.cuh"

namespace attune {
namespace {

constexpr int threads = 256;

/// 64-bit division costs as much as the rest of the loop together, so the index is as narrow as the tensor allows.
template <typename T, typename Scale, typename Index>
__global__ void __launch_bounds__(threads) scale(ScaleShape shape, Index count, Scale beta, const T* c, T* d) {
  const bool reads = beta != Scale{0};
  const std::int64_t stride = grid_size();
  for (std::int64_t flat = grid_index(); flat < static_cast<std::int64_t>(count); flat += stride) {
    Index rest = static_cast<Index>(flat);
    std::int64_t from = 0, to = 0;
    for (int i = 0; i + 1 < shape.dims; ++i) {
      const Index extent = static_cast<Index>(shape.extent[i]);
      const Index next = rest / extent;
      const std::int64_t at = rest - next * extent;
      from += at * shape.c_step[i];
      to += at * shape.d_step[i];
      rest = next;
    }
    from += static_cast<std::int64_t>(rest) * shape.c_step[shape.dims - 1];
    to += static_cast<std::int64_t>(rest) * shape.d_step[shape.dims - 1];
    if (!reads) {
      d[to] = T(0.0f);
    } else if constexpr (sizeof(Scale) == 8) {
      d[to] = from_double<T>(beta * to_double(c[from]));
    } else {
      d[to] = static_cast<T>(beta * static_cast<Scale>(c[from]));
    }
  }
}

template <typename T, typename Scale>
cudaError_t launch(const ScaleShape& shape, std::int64_t count, Scale beta, const void* c, void* d, cudaStream_t stream) {
  const unsigned blocks = blocks_for(count, threads);
  const T* from = static_cast<const T*>(c);
  T* to = static_cast<T*>(d);
  if (count <= INT32_MAX)
    scale<T, Scale, std::uint32_t><<<blocks, threads, 0, stream>>>(shape, static_cast<std::uint32_t>(count), beta, from, to);
  else
    scale<T, Scale, std::uint64_t><<<blocks, threads, 0, stream>>>(shape, static_cast<std::uint64_t>(count), beta, from, to);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_scale(DType type, bool wide, const ScaleShape& shape, double beta, const void* c, void* d,
                         cudaStream_t stream) noexcept {
  std::int64_t count = 1;
  for (int i = 0; i < shape.dims; ++i) count *= shape.extent[i];
  if (count == 0) return cudaSuccess;
  return dispatch_type(type, [&](auto element) {
    using T = decltype(element);
    return wide ? launch<T, double>(shape, count, beta, c, d, stream)
                : launch<T, float>(shape, count, static_cast<float>(beta), c, d, stream);
  });
}

}  // namespace attune

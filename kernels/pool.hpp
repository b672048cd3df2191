// Pooling on the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/common/pooling.hpp"
#include "kernels/tiles.hpp"

namespace attune {

struct PoolCall {
  const void* x = nullptr;   ///< of the forward pass, and of the gradient of a maximum
  const void* y = nullptr;   ///< of the gradient of a maximum
  const void* dy = nullptr;  ///< of a gradient
  void* out = nullptr;
};

/// `row` is an index into pool_rows, of the view's type, direction and mode. A row of one window and stride has them in both
/// dimensions of a plane; one whose packets are wider than an element finds all addresses and steps aligned to them, and the
/// channels side by side. Every extent and the elements of a row of the output times the channels are below 2^31.
cudaError_t launch_pool(int row, const PoolView& view, const PoolCall& call, cudaStream_t stream) noexcept;

namespace pool {
cudaError_t launch_f16(int row, const PoolView& view, const PoolCall& call, cudaStream_t stream) noexcept;
cudaError_t launch_bf16(int row, const PoolView& view, const PoolCall& call, cudaStream_t stream) noexcept;
cudaError_t launch_f32(int row, const PoolView& view, const PoolCall& call, cudaStream_t stream) noexcept;
cudaError_t launch_f64(int row, const PoolView& view, const PoolCall& call, cudaStream_t stream) noexcept;
}  // namespace pool

}  // namespace attune

// Convolution of any layout and channel counts, its operands gathered element by element: on tensor cores, or with plain fused
// multiplications. What a launch takes; the variants are the rows of conv_gather_rows.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/conv_call.hpp"
#include "kernels/conv_shape.hpp"
#include "kernels/tiles.hpp"

namespace attune {

/// Lets the row's kernel use its shared memory on the current device; before its first launch there.
cudaError_t allow_conv_gather(int row) noexcept;
cudaError_t launch_conv_gather(int row, const ConvShape& shape, const ConvCall& call, cudaStream_t stream) noexcept;

namespace conv_gather {

/// Rows on tensor cores and without, in sources of their own. Without a call they only allow the shared memory.
cudaError_t launch_mma(int row, const ConvShape* shape, const ConvCall* call, cudaStream_t stream) noexcept;
cudaError_t launch_simt(int row, const ConvShape* shape, const ConvCall* call, cudaStream_t stream) noexcept;

}  // namespace conv_gather
}  // namespace attune

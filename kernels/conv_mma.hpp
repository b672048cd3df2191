// Convolution on tensor cores for sm_80 and up, channels last. What a launch takes; the variants are the rows of conv_mma_rows.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/conv_call.hpp"
#include "kernels/conv_shape.hpp"
#include "kernels/tiles.hpp"

namespace attune {

/// The shape has channels next to each other in all three tensors and steps of whole 16 bytes in both inputs, and so many
/// channels in each group of them. Of wgrad, `outer_first`, and taps next to each other in the output. Lets the row's kernel
/// use its shared memory on the current device; before its first launch there.
cudaError_t allow_conv_mma(int row) noexcept;
cudaError_t launch_conv_mma(int row, const ConvShape& shape, const ConvCall& call, cudaStream_t stream) noexcept;

namespace conv_mma {

/// One source for each element type, so that they compile side by side. Without a call they only allow the shared memory.
cudaError_t launch_f16(int row, const ConvShape* shape, const ConvCall* call, cudaStream_t stream) noexcept;
cudaError_t launch_bf16(int row, const ConvShape* shape, const ConvCall* call, cudaStream_t stream) noexcept;
cudaError_t launch_tf32(int row, const ConvShape* shape, const ConvCall* call, cudaStream_t stream) noexcept;

}  // namespace conv_mma
}  // namespace attune

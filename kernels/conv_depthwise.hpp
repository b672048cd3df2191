// Depthwise convolution, one output channel for each input channel, one or two spatial dimensions: bound by memory, so every
// element is meant to be read once. What a launch takes; the variants are the rows of conv_depthwise_rows.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/conv_call.hpp"
#include "kernels/tiles.hpp"

namespace attune {

/// Rows, then columns. All products of steps and extents fit 32 bits.
///
/// fwd, and dgrad of stride 1, whose filter is then turned around: out(p) = sum over r of image(p * stride - pad + r *
/// dilation) * filter(r). dgrad of another stride (`transposed`): out(p) = sum of image((p + pad - r * dilation) / stride) *
/// filter(r), where that is whole. wgrad: filter(r) = sum over p of image(p * stride - pad + r * dilation) * out(p), `out`
/// being the gradient, an input.
struct DepthwiseShape {
  int images = 0, channels = 0;
  int image[2] = {}, out[2] = {}, filter[2] = {};
  int stride[2] = {1, 1}, pad[2] = {}, dilation[2] = {1, 1};
  int image_step[2] = {}, image_n = 0, image_c = 0;
  int out_step[2] = {}, out_n = 0, out_c = 0;
  int filter_step[2] = {}, filter_c = 0;
  bool flipped = false;  ///< the filter is read from its end
  bool transposed = false;
  DType out_type = DType::f32;  ///< of what is written
  int rows_each = 1;    ///< rows of the output that a thread walks down (rows "last"); rows of a block's tile (rows "first")
  int planes_each = 1;  ///< planes of a block (rows "first")
  int splits = 1;       ///< wgrad: parts of the sum, [split][channel][tap] in the workspace
};

/// wgrad writes its parts to `call.partial`, whatever their count. `image` and `other` are those of ConvCall.
cudaError_t launch_conv_depthwise(int row, const DepthwiseShape& shape, const ConvCall& call, cudaStream_t stream) noexcept;

/// Shared memory of a block of a row that stages planes; 0 for the others.
int conv_depthwise_shared(int row, const DepthwiseShape& shape) noexcept;
cudaError_t allow_conv_depthwise(int row, const DepthwiseShape& shape) noexcept;

}  // namespace attune

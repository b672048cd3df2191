// Any convolution: every type, layout, stride and size that a problem can have. Slow, and there for what nothing else serves.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/common/image.hpp"
#include "kernels/conv_call.hpp"
#include "kernels/tiles.hpp"

namespace attune {

/// A block sums `row` x `column` outputs, ConvAnyTile's product, over slices of `depth` terms.
struct ConvAnyShape {
  ImageContraction image;
  ConvAnyTile tile;
  int splits =
      1;  ///< of the terms; more than one: the parts go to `partial`, [split][group][row][column] in the type of the sums
};

/// `wide` sums in double, and takes f64 operands only; else sums are fp32 and operands f16, bf16 and f32 in any mix.
cudaError_t launch_conv_any(bool wide, const ConvAnyShape& shape, const ConvCall& call, cudaStream_t stream) noexcept;

}  // namespace attune

// D = act(beta * C + bias) over strided tensors: what remains of a problem whose alpha is zero or whose sums are empty.
#pragma once

#include <cuda_runtime_api.h>
#include <attune/types.hpp>
#include <cstdint>

#include "kernels/common/activation.hpp"

namespace attune {

/// Up to five dimensions, the fastest varying in memory first; steps count elements.
struct ScaleShape {
  int dims = 0;
  std::int64_t extent[5] = {1, 1, 1, 1, 1};
  std::int64_t c_step[5] = {};
  std::int64_t d_step[5] = {};
  std::int64_t bias_step[5] = {};  ///< 1 along the bias, 0 elsewhere
};

struct ScaleOperands {
  double beta = 0;  ///< 0: C is not read
  const void* c = nullptr;
  const void* bias = nullptr;  ///< null: none
  Activation activation = Activation::none;
  void* d = nullptr;  ///< may be C with equal steps
};

/// Computes in double where `wide`, else in float. All tensors have one type.
cudaError_t launch_scale(DType type, bool wide, const ScaleShape& shape, const ScaleOperands& operands,
                         cudaStream_t stream) noexcept;

}  // namespace attune

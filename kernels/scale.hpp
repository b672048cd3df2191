// D = beta * C over strided tensors: what remains of a problem whose alpha is zero or whose sums are empty.
#pragma once

#include <cuda_runtime_api.h>
#include <attune/types.hpp>
#include <cstdint>

namespace attune {

/// Up to five dimensions, the fastest varying in memory first; steps count elements.
struct ScaleShape {
  int dims = 0;
  std::int64_t extent[5] = {1, 1, 1, 1, 1};
  std::int64_t c_step[5] = {};
  std::int64_t d_step[5] = {};
};

/// Multiplies in double where `wide`, else in float. beta = 0 writes zeros and reads nothing. D may be C with equal steps.
cudaError_t launch_scale(DType type, bool wide, const ScaleShape& shape, double beta, const void* c, void* d,
                         cudaStream_t stream) noexcept;

}  // namespace attune

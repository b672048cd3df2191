// The last step of plans whose sums lie in a workspace: adds up the parts of a split reduction in a fixed order, then scalars, C,
// bias, activation, one rounding.
#pragma once

#include <attune/types.hpp>
#include <cuda_runtime_api.h>
#include <cstdint>

#include "kernels/common/activation.hpp"

namespace attune {

/// Sums lie as [split][matrix][line][place], or, `turned`, [split][matrix][place][line], without gaps; D and C have steps for
/// matrix and line.
struct FinishShape {
  std::int64_t matrices = 1, lines = 0, places = 0;
  int splits = 1;
  std::int64_t d_matrix = 0, d_line = 0, c_matrix = 0, c_line = 0;
  DType type = DType::f32;      ///< of C, bias and D
  DType sum_type = DType::f32;  ///< f64 adds up in double, all others in float
  bool turned = false;
  bool bias_by_line = false;    ///< one bias for each line, else one for each place
};

struct FinishCall {
  const void* sums = nullptr;
  const void* c = nullptr;     ///< null where beta is zero
  const void* bias = nullptr;  ///< null where there is none
  void* d = nullptr;
  double alpha = 1, beta = 0;
  Activation activation = Activation::none;
};

cudaError_t launch_finish(const FinishShape& shape, const FinishCall& call, cudaStream_t stream) noexcept;

}  // namespace attune

// What one call of a convolution kernel brings, whatever the kernel.
#pragma once

#include "kernels/common/activation.hpp"

namespace attune {

struct ConvCall {
  const void* image = nullptr;  ///< x (fwd, wgrad) or dy (dgrad)
  const void* other = nullptr;  ///< w (fwd, dgrad) or dy (wgrad)
  const void* c = nullptr;      ///< null where beta is zero; has the output's strides
  const void* bias = nullptr;   ///< null where there is none
  void* d = nullptr;
  void* partial = nullptr;  ///< sums of a split reduction; null where it is whole
  double alpha = 1, beta = 0;
  Activation activation = Activation::none;
};

}  // namespace attune

// The activations of an epilogue, for every compute type on the CPU and on the GPU.
#pragma once

#include <cmath>

#include "kernels/common/contraction.hpp"

namespace attune {

/// Epilogue's values halved: see Epilogue for the functions.
enum class Activation : unsigned char { none, relu, gelu_erf, gelu_tanh, silu };

/// NaN stays NaN, as in cuBLAS and cuDNN with NaN propagation.
template <class T>
#if defined(__CUDACC__)
__host__ __device__ inline
#else
[[gnu::always_inline]] inline  // compiled with several instruction sets: no copy of one may stand for another
#endif
    T
    activated(Activation activation, T v) {
  using std::erf, std::exp, std::tanh;
  switch (activation) {
    case Activation::none: return v;
    case Activation::relu: return v < T(0) ? T(0) : v;
    case Activation::gelu_erf: return v * T(0.5) * (T(1) + erf(v * T(0.70710678118654752440)));
    case Activation::gelu_tanh: return v * T(0.5) * (T(1) + tanh(T(0.79788456080286535588) * (v + T(0.044715) * v * v * v)));
    case Activation::silu: return v / (T(1) + exp(-v));
  }
  return v;
}

/// The activations' steepest slope: an error before them grows by no more than this.
inline constexpr double activation_slope = 1.13;

}  // namespace attune

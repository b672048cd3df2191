// What a forward convolution's graph does behind the convolution: scalars, residual, bias and activation, as pointwise
// operations.
#pragma once

#include <attune/conv.hpp>
#include <vector>

#include "providers/cudnn_descriptor.hpp"

namespace attune::cudnn {

/// Where there is none, the graph is the convolution alone, which adds to its output where beta is one.
constexpr bool has_tail(const ConvProblem& p) noexcept {
  return p.epilogue != Epilogue::none || p.alpha != Scalar::one || p.beta == Scalar::other;
}

/// A convolution's sums on their way to its tail: y's extents in the compute type, nowhere in memory.
Descriptor make_sums(const ConvProblem& problem);

/// y = act(alpha * sums + beta * C + bias), in the order of computation. C is a tensor of its own and may be y.
std::vector<Descriptor> make_tail(const ConvProblem& problem, const Descriptor& sums, const Descriptor& y);

}  // namespace attune::cudnn

// What the families of convolution kernels share.
#pragma once

#include "kernels/conv_call.hpp"
#include "providers/tile_family.hpp"

namespace attune::tile {

/// The output of a convolution: x, w or y.
struct ConvOutput {
  DType type = DType::f32;
  Dims size;
  const std::int64_t* stride = nullptr;
  int align = 16;  ///< of C too
};
inline ConvOutput output_of(const ConvProblem& p) noexcept {
  switch (p.direction) {
    case Direction::fwd: return {p.y_type, p.y(), p.y_stride, p.align_y};
    case Direction::dgrad: return {p.x_type, p.x, p.x_stride, p.align_x};
    default: return {p.w_type, p.w, p.w_stride, p.align_w};
  }
}

/// What of a call does not change from one to the next.
class ConvCalls {
 public:
  explicit ConvCalls(const ConvProblem& p) noexcept
      : compute_(p.compute), epilogue_(p.epilogue), reads_c_(p.beta != Scalar::zero) {}

  ConvCall operator()(const Launch& launch, bool split) const noexcept {
    ConvCall call;
    call.image = launch.a, call.other = launch.b, call.d = launch.d;
    call.c = reads_c_ ? launch.c : nullptr;
    call.bias = has_bias(epilogue_) ? launch.bias : nullptr;
    call.partial = split ? launch.workspace : nullptr;
    call.alpha = scalar_value(launch.alpha, compute_);
    call.beta = reads_c_ ? scalar_value(launch.beta, compute_) : 0;
    call.activation = activation(epilogue_);
    return call;
  }

 private:
  Compute compute_;
  Epilogue epilogue_;
  bool reads_c_;
};

}  // namespace attune::tile

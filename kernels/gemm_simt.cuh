// What the GEMM kernels without tensor cores share.
#pragma once

#include "kernels/common/finish.cuh"
#include "kernels/gemm_simt.hpp"

namespace attune {

/// A packet of 16 bytes, `Count` elements of the sums' type.
template <typename T>
struct alignas(16) Packet {
  static constexpr int count = 16 / static_cast<int>(sizeof(T));
  T value[count];
};

/// The output of matrix z, or the place of this split's partial sums.
template <typename Sum>
__device__ Output<Sum> output_of(const SimtGemmShape& shape, const SimtGemmCall& call, int split, std::int64_t z) {
  Output<Sum> out;
  if (call.partial != nullptr) {
    out.d = static_cast<Sum*>(call.partial) + (split * shape.batch + z) * shape.m * shape.n;
    out.d_line = shape.m;
    out.type = std::is_same_v<Sum, double> ? DType::f64 : DType::f32;
    out.vectors = shape.m % Packet<Sum>::count == 0;
    return out;
  }
  out.d = advanced(call.d, shape.out_type, z * shape.d_batch), out.d_line = shape.d_j;
  out.c = advanced(call.c, shape.out_type, z * shape.c_batch), out.c_line = shape.c_j;
  out.bias = call.bias;
  out.alpha = static_cast<Sum>(call.alpha), out.beta = static_cast<Sum>(call.beta);
  out.type = shape.out_type, out.activation = call.activation, out.vectors = shape.vectors;
  return out;
}

}  // namespace attune

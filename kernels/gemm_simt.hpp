// GEMM without tensor cores: tiled fp32 and fp64, and a slow one for every type that a problem can have.
#pragma once

#include <cuda_runtime_api.h>
#include <cstddef>
#include <cstdint>

#include "kernels/tiles.hpp"
#include "kernels/common/activation.hpp"

namespace attune {

/// D(i, j) = finish(sum over l of A(i, l) * B(l, j)) for each matrix of a batch; i lies along D's columns in memory. Of a_i and a_l,
/// and of b_l and b_j, one is 1.
struct SimtGemmShape {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::int64_t a_i = 0, a_l = 0, a_batch = 0;
  std::int64_t b_l = 0, b_j = 0, b_batch = 0;
  std::int64_t d_j = 0, d_batch = 0, c_j = 0, c_batch = 0;
  DType a_type = DType::f32, b_type = DType::f32, out_type = DType::f32;
  bool a_vectors = false, b_vectors = false;  ///< 16-byte loads: the operand is aligned so, lines and all
  bool vectors = false;                       ///< the same of D and C
  int splits = 1;  ///< of k; more than one: sums go to `partial`, [split][batch][j][i] in the type of the sums
};

struct SimtGemmCall {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  const void* bias = nullptr;
  void* d = nullptr;
  void* partial = nullptr;
  double alpha = 1, beta = 0;
  const float* scale_a = nullptr;
  const float* scale_b = nullptr;
  Activation activation = Activation::none;
};

/// `row` is an index into simt_gemm_rows.
cudaError_t launch_simt_gemm(int row, const SimtGemmShape& shape, const SimtGemmCall& call, cudaStream_t stream) noexcept;
cudaError_t allow_simt_gemm(int row) noexcept;
std::size_t simt_gemm_shared(int row) noexcept;

}  // namespace attune

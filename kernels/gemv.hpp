// A matrix times a few vectors: as fast as the matrix can be read.
#pragma once

#include <cuda_runtime_api.h>
#include <cstdint>

#include "kernels/common/activation.hpp"
#include "kernels/tiles.hpp"

namespace attune {

/// out(r, v) = finish(sum over l of matrix(r, l) * vector_v(l)) for each problem of a batch. The matrix lies along k (row's
/// `k_major`) or along its rows.
struct GemvShape {
  std::int64_t rows = 0, k = 0, batch = 1;
  int vectors = 1;
  std::int64_t ld = 0, matrix_batch = 0;
  std::int64_t vector_l = 1, vector_v = 0, vector_batch = 0;  ///< element steps along k and from vector to vector
  std::int64_t d_r = 1, d_v = 0, d_batch = 0, c_r = 1, c_v = 0, c_batch = 0;
  int bias_r = 0, bias_v = 0;  ///< element steps of the bias
  DType out_type = DType::f32;
  int warps_each = 1;  ///< warps that share a group of rows: 1, 2, 4 or 8
};

struct GemvCall {
  const void* matrix = nullptr;
  const void* vectors = nullptr;
  const void* c = nullptr;
  const void* bias = nullptr;
  void* d = nullptr;
  double alpha = 1, beta = 0;
  Activation activation = Activation::none;
};

/// `row` is an index into gemv_rows.
cudaError_t launch_gemv(int row, const GemvShape& shape, const GemvCall& call, cudaStream_t stream) noexcept;

}  // namespace attune

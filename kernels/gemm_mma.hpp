// Tensor-core GEMM for sm_80 and up. What a launch takes; the variants are the rows of gemm_mma_rows.
#pragma once

#include <cuda_runtime_api.h>
#include <cstdint>

#include "kernels/common/activation.hpp"
#include "kernels/tiles.hpp"

namespace attune {

/// D(x, y) = finish(sum over l of X(x, l) * Y(l, y)) for each matrix of a batch. X is op(A) and Y op(B), or, `swapped`, X is
/// op(B)^T and Y op(A)^T: then the lines of D lie along the tile's rows.
struct MmaGemmShape {
  std::int64_t rows = 0, columns = 0, k = 0, batch = 1;
  std::int64_t x_ld = 0, y_ld = 0;          ///< elements from line to line of the operand in memory
  std::int64_t x_batch = 0, y_batch = 0, c_batch = 0, d_batch = 0;
  std::int64_t x_elements = 0, y_elements = 0;  ///< that the whole operand spans: nothing outside is read
  std::int64_t d_line = 0, c_line = 0;
  bool swapped = false;
  bool vectors = false;  ///< D and C may be accessed 16 bytes at a time
  int splits = 1;        ///< of k; more than one: sums go to `partial`, [split][batch][line][place] in fp32
  int group = 8;         ///< tiles of rows that share a column of tiles in the L2
};

struct MmaGemmCall {
  const void* x = nullptr;
  const void* y = nullptr;
  const void* c = nullptr;
  const void* bias = nullptr;
  void* d = nullptr;
  float* partial = nullptr;
  float alpha = 1, beta = 0;
  DType out_type = DType::f32;
  Activation activation = Activation::none;
};

/// Lets the row's kernel use its shared memory on the current device; before its first launch there. `row` is an index into
/// mma_gemm_rows.
cudaError_t allow_mma_gemm(int row) noexcept;
cudaError_t launch_mma_gemm(int row, const MmaGemmShape& shape, const MmaGemmCall& call, cudaStream_t stream) noexcept;

}  // namespace attune

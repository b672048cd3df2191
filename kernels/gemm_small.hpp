// Batches of small matrices: the rows of simt_gemm_rows whose blocks take several whole problems.
#pragma once

#include "kernels/gemm_simt.hpp"

namespace attune {

/// `row` is an index into simt_gemm_rows.
cudaError_t launch_small_gemm(int row, const SimtGemmShape& shape, const SimtGemmCall& call, cudaStream_t stream) noexcept;
std::size_t small_gemm_shared(int row) noexcept;

}  // namespace attune

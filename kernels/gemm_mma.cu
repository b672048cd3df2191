// The launch table of the tensor-core GEMM; gemm_mma_*.cu hold the kernels.
#include "kernels/gemm_mma.hpp"

#include "kernels/gemm_mma_types.hpp"

namespace attune {

cudaError_t launch_mma_gemm(int row, const MmaGemmShape& shape, const MmaGemmCall& call, cudaStream_t stream) noexcept {
  switch (mma_gemm_rows[static_cast<std::size_t>(row)].type) {
    case DType::f16: return mma::launch_f16(row, shape, call, stream);
    case DType::bf16: return mma::launch_bf16(row, shape, call, stream);
    default: return mma::launch_tf32(row, shape, call, stream);
  }
}

cudaError_t allow_mma_gemm(int row) noexcept {
  switch (mma_gemm_rows[static_cast<std::size_t>(row)].type) {
    case DType::f16: return mma::allow_f16(row);
    case DType::bf16: return mma::allow_bf16(row);
    default: return mma::allow_tf32(row);
  }
}

}  // namespace attune

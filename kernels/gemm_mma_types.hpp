// One source for each element type, so that they compile side by side.
#pragma once

#include "kernels/gemm_mma.hpp"

namespace attune::mma {

cudaError_t launch_f16(int row, const MmaGemmShape& shape, const MmaGemmCall& call, cudaStream_t stream) noexcept;
cudaError_t launch_bf16(int row, const MmaGemmShape& shape, const MmaGemmCall& call, cudaStream_t stream) noexcept;
cudaError_t launch_tf32(int row, const MmaGemmShape& shape, const MmaGemmCall& call, cudaStream_t stream) noexcept;
cudaError_t allow_f16(int row) noexcept;
cudaError_t allow_bf16(int row) noexcept;
cudaError_t allow_tf32(int row) noexcept;

}  // namespace attune::mma

// One source for each element type, so that they compile side by side.
#pragma once

#include "kernels/gemm_hopper.hpp"

namespace attune::hopper {

cudaError_t launch_f16(int row, const HopperGemmMaps& maps, const HopperGemmShape& shape, const HopperGemmCall& call, int blocks,
                       cudaStream_t stream) noexcept;
cudaError_t launch_bf16(int row, const HopperGemmMaps& maps, const HopperGemmShape& shape, const HopperGemmCall& call, int blocks,
                        cudaStream_t stream) noexcept;
cudaError_t launch_tf32(int row, const HopperGemmMaps& maps, const HopperGemmShape& shape, const HopperGemmCall& call, int blocks,
                        cudaStream_t stream) noexcept;
cudaError_t allow_f16(int row, int& blocks) noexcept;
cudaError_t allow_bf16(int row, int& blocks) noexcept;
cudaError_t allow_tf32(int row, int& blocks) noexcept;

}  // namespace attune::hopper

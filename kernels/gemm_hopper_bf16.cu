#include "kernels/gemm_hopper.cuh"
#include "kernels/gemm_hopper_types.hpp"

namespace attune::hopper {

cudaError_t launch_bf16(int row, const HopperGemmMaps& maps, const HopperGemmShape& shape, const HopperGemmCall& call, int blocks,
                     cudaStream_t stream) noexcept {
  return launch_hopper_gemm_of<__nv_bfloat16, DType::bf16>(row, maps, shape, call, blocks, stream);
}
cudaError_t allow_bf16(int row, int& blocks) noexcept { return allow_hopper_gemm_of<__nv_bfloat16, DType::bf16>(row, blocks); }

}  // namespace attune::hopper

#include "kernels/gemm_hopper.cuh"
#include "kernels/gemm_hopper_types.hpp"

namespace attune::hopper {

cudaError_t launch_f16(int row, const HopperGemmMaps& maps, const HopperGemmShape& shape, const HopperGemmCall& call, int blocks,
                     cudaStream_t stream) noexcept {
  return launch_hopper_gemm_of<__half, DType::f16>(row, maps, shape, call, blocks, stream);
}
cudaError_t allow_f16(int row, int& blocks) noexcept { return allow_hopper_gemm_of<__half, DType::f16>(row, blocks); }

}  // namespace attune::hopper

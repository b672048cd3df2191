#include "kernels/gemm_hopper.cuh"
#include "kernels/gemm_hopper_types.hpp"

namespace attune::hopper {

cudaError_t launch_tf32(int row, const HopperGemmMaps& maps, const HopperGemmShape& shape, const HopperGemmCall& call, int blocks,
                     cudaStream_t stream) noexcept {
  return launch_hopper_gemm_of<Tf32, DType::f32>(row, maps, shape, call, blocks, stream);
}
cudaError_t allow_tf32(int row, int& blocks) noexcept { return allow_hopper_gemm_of<Tf32, DType::f32>(row, blocks); }

}  // namespace attune::hopper

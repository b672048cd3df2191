#include "kernels/gemm_mma.cuh"
#include "kernels/gemm_mma_types.hpp"

namespace attune::mma {

cudaError_t launch_tf32(int row, const MmaGemmShape& shape, const MmaGemmCall& call, cudaStream_t stream) noexcept {
  return launch_mma_gemm_of<Tf32, DType::f32>(row, shape, call, stream);
}
cudaError_t allow_tf32(int row) noexcept { return allow_mma_gemm_of<Tf32, DType::f32>(row); }

}  // namespace attune::mma

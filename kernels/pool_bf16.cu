#include "kernels/pool.cuh"

namespace attune::pool {

cudaError_t launch_bf16(int row, const PoolView& view, const PoolCall& call, cudaStream_t stream) noexcept {
  return launch_pool_of<__nv_bfloat16, DType::bf16>(row, view, call, stream);
}

}  // namespace attune::pool

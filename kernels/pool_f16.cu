#include "kernels/pool.cuh"

namespace attune::pool {

cudaError_t launch_f16(int row, const PoolView& view, const PoolCall& call, cudaStream_t stream) noexcept {
  return launch_pool_of<__half, DType::f16>(row, view, call, stream);
}

}  // namespace attune::pool

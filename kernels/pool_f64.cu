#include "kernels/pool.cuh"

namespace attune::pool {

cudaError_t launch_f64(int row, const PoolView& view, const PoolCall& call, cudaStream_t stream) noexcept {
  return launch_pool_of<double, DType::f64>(row, view, call, stream);
}

}  // namespace attune::pool

// The launch table of pooling; pool_*.cu hold the kernels.
#include "kernels/pool.hpp"

namespace attune {

cudaError_t launch_pool(int row, const PoolView& view, const PoolCall& call, cudaStream_t stream) noexcept {
  switch (pool_rows[static_cast<std::size_t>(row)].type) {
    case DType::f16: return pool::launch_f16(row, view, call, stream);
    case DType::bf16: return pool::launch_bf16(row, view, call, stream);
    case DType::f64: return pool::launch_f64(row, view, call, stream);
    default: return pool::launch_f32(row, view, call, stream);
  }
}

}  // namespace attune

// The launch table of Hopper's GEMM; gemm_hopper_*.cu hold the kernels, where the build has code for sm_90a.
#include "kernels/gemm_hopper.hpp"

#include "kernels/gemm_hopper_types.hpp"

namespace attune {

#if ATTUNE_HAS_SM_90A

bool has_hopper_gemm() noexcept { return true; }

cudaError_t launch_hopper_gemm(int row, const HopperGemmMaps& maps, const HopperGemmShape& shape, const HopperGemmCall& call,
                               int blocks, cudaStream_t stream) noexcept {
  switch (hopper_gemm_rows[static_cast<std::size_t>(row)].type) {
    case DType::f16: return hopper::launch_f16(row, maps, shape, call, blocks, stream);
    case DType::bf16: return hopper::launch_bf16(row, maps, shape, call, blocks, stream);
    default: return hopper::launch_tf32(row, maps, shape, call, blocks, stream);
  }
}

cudaError_t allow_hopper_gemm(int row, int& blocks) noexcept {
  switch (hopper_gemm_rows[static_cast<std::size_t>(row)].type) {
    case DType::f16: return hopper::allow_f16(row, blocks);
    case DType::bf16: return hopper::allow_bf16(row, blocks);
    default: return hopper::allow_tf32(row, blocks);
  }
}

#else

bool has_hopper_gemm() noexcept { return false; }
cudaError_t launch_hopper_gemm(int, const HopperGemmMaps&, const HopperGemmShape&, const HopperGemmCall&, int, cudaStream_t) noexcept {
  return cudaErrorNotSupported;
}
cudaError_t allow_hopper_gemm(int, int&) noexcept { return cudaErrorNotSupported; }

#endif

}  // namespace attune

#include "kernels/conv_mma.cuh"

namespace attune::conv_mma {

cudaError_t launch_bf16(int row, const ConvShape* shape, const ConvCall* call, cudaStream_t stream) noexcept {
  return launch_conv_mma_of<__nv_bfloat16, DType::bf16>(row, shape, call, stream);
}

}  // namespace attune::conv_mma

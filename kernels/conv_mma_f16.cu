#include "kernels/conv_mma.cuh"

namespace attune::conv_mma {

cudaError_t launch_f16(int row, const ConvShape* shape, const ConvCall* call, cudaStream_t stream) noexcept {
  return launch_conv_mma_of<__half, DType::f16>(row, shape, call, stream);
}

}  // namespace attune::conv_mma

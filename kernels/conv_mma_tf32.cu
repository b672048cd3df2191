#include "kernels/conv_mma.cuh"

namespace attune::conv_mma {

cudaError_t launch_tf32(int row, const ConvShape* shape, const ConvCall* call, cudaStream_t stream) noexcept {
  return launch_conv_mma_of<Tf32, DType::f32>(row, shape, call, stream);
}

}  // namespace attune::conv_mma

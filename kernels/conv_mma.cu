// The launch table of the tensor-core convolution; conv_mma_*.cu hold the kernels.
#include "kernels/conv_mma.hpp"

namespace attune {
namespace {

cudaError_t launch(int row, const ConvShape* shape, const ConvCall* call, cudaStream_t stream) {
  switch (conv_mma_rows[static_cast<std::size_t>(row)].type) {
    case DType::f16: return conv_mma::launch_f16(row, shape, call, stream);
    case DType::bf16: return conv_mma::launch_bf16(row, shape, call, stream);
    default: return conv_mma::launch_tf32(row, shape, call, stream);
  }
}

}  // namespace

cudaError_t allow_conv_mma(int row) noexcept { return launch(row, nullptr, nullptr, nullptr); }
cudaError_t launch_conv_mma(int row, const ConvShape& shape, const ConvCall& call, cudaStream_t stream) noexcept {
  return launch(row, &shape, &call, stream);
}

}  // namespace attune

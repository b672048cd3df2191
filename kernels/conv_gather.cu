// The launch table of the gathered convolution; conv_gather_*.cu hold the kernels.
#include "kernels/conv_gather.hpp"

namespace attune {
namespace {

cudaError_t launch(int row, const ConvShape* shape, const ConvCall* call, cudaStream_t stream) {
  return conv_gather_rows[row].tensor_cores ? conv_gather::launch_mma(row, shape, call, stream)
                                            : conv_gather::launch_simt(row, shape, call, stream);
}

}  // namespace

cudaError_t allow_conv_gather(int row) noexcept { return launch(row, nullptr, nullptr, nullptr); }
cudaError_t launch_conv_gather(int row, const ConvShape& shape, const ConvCall& call, cudaStream_t stream) noexcept {
  return launch(row, &shape, &call, stream);
}

}  // namespace attune

#include "kernels/conv_gather.cuh"

namespace attune::conv_gather {
namespace {

template <int Index = 0>
cudaError_t launch(int row, const ConvShape* shape, const ConvCall* call, cudaStream_t stream) {
  if constexpr (Index < static_cast<int>(std::size(conv_gather_rows))) {
    constexpr ConvGatherRow r = conv_gather_rows[Index];
    if constexpr (r.tensor_cores) {
      using T =
          std::conditional_t<r.type == DType::f16, __half, std::conditional_t<r.type == DType::bf16, __nv_bfloat16, Tf32>>;
      if (row == Index) return launch_conv_gather_as<GatherMma<T, Index>>(shape, call, stream);
    }
    return launch<Index + 1>(row, shape, call, stream);
  } else {
    return cudaErrorNotSupported;
  }
}

}  // namespace

cudaError_t launch_mma(int row, const ConvShape* shape, const ConvCall* call, cudaStream_t stream) noexcept {
  return launch(row, shape, call, stream);
}

}  // namespace attune::conv_gather

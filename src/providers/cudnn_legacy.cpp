#include "providers/cudnn_legacy.hpp"

#include <limits>

namespace attune::cudnn {

LegacyTensor legacy_tensor(const Dims& dims, const std::int64_t* stride, DType type) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  int size[5], step[5], rank = 0;
  std::int64_t elements = 1;
  for (int i = 0; i < dims.count; ++i) {
    elements += (dims.size[i] - 1) * stride[i];
    if (dims.size[i] > most || stride[i] > most || elements > most) return nullptr;
    if (i == 2 && dims.count == 3) {
      if (dims.size[2] * stride[2] > most) return nullptr;
      size[rank] = 1;
      step[rank++] = static_cast<int>(dims.size[2] * stride[2]);
    }
    size[rank] = static_cast<int>(dims.size[i]);
    step[rank++] = static_cast<int>(stride[i]);
  }
  cudnnDataType_t data{};
  cudnnTensorDescriptor_t made = nullptr;
  if (!data_type(type, data) || cudnnCreateTensorDescriptor(&made) != CUDNN_STATUS_SUCCESS) return nullptr;
  LegacyTensor tensor(made);
  if (cudnnSetTensorNdDescriptor(made, data, rank, size, step) != CUDNN_STATUS_SUCCESS) return nullptr;
  return tensor;
}

}  // namespace attune::cudnn

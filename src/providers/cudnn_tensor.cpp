#include "providers/cudnn_tensor.hpp"

#include <array>
#include <span>

namespace attune::cudnn {
namespace {

constexpr int max_rank = 5;

/// cuDNN knows no one-dimensional convolution: a spatial dimension of extent 1 is put before the only one.
struct Lifted {
  std::array<std::int64_t, max_rank> size{}, step{};
  std::size_t rank = 0;
};

Lifted lift(const Dims& dims, const std::int64_t* stride) noexcept {
  Lifted out;
  for (int i = 0; i < dims.count; ++i) {
    if (i == 2 && dims.count == 3) {
      out.size[out.rank] = 1;
      out.step[out.rank++] = dims.size[2] * stride[2];
    }
    out.size[out.rank] = dims.size[i];
    out.step[out.rank++] = stride[i];
  }
  return out;
}

}  // namespace

bool data_type(DType type, cudnnDataType_t& out) noexcept {
  switch (type) {
    case DType::f16: out = CUDNN_DATA_HALF; return true;
    case DType::bf16: out = CUDNN_DATA_BFLOAT16; return true;
    case DType::f32: out = CUDNN_DATA_FLOAT; return true;
    case DType::f64: out = CUDNN_DATA_DOUBLE; return true;
    default: return false;
  }
}

Descriptor make_tensor(const Tensor& t) {
  const Lifted lifted = lift(t.dims, t.stride);
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, t.uid);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, t.type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span(lifted.size.data(), lifted.rank));
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, std::span(lifted.step.data(), lifted.rank));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, static_cast<std::int64_t>(t.alignment));
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, t.storage == Storage::nowhere);
  if (t.storage == Storage::by_value) tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  tensor.finalize();
  return tensor;
}

Descriptor make_tensor(Uid uid, const Dims& dims, const std::int64_t* stride, DType type, int alignment) {
  Tensor tensor{uid, dims, stride, CUDNN_DATA_FLOAT, alignment, Storage::memory};
  data_type(type, tensor.type);
  return make_tensor(tensor);
}

}  // namespace attune::cudnn

// The tensors of cuDNN's operation graphs.
#pragma once

#include <cudnn.h>

#include <attune/conv.hpp>
#include <cstdint>

#include "providers/cudnn_descriptor.hpp"

namespace attune::cudnn {

/// How a variant pack names the tensors of every graph. The scalars are given by value, as floats.
enum Uid : std::int64_t { uid_x = 1, uid_w, uid_y, uid_bias, uid_c, uid_alpha, uid_beta, uid_first_virtual = 100 };

/// False where no tensor of this type is served.
bool data_type(DType type, cudnnDataType_t& out) noexcept;

enum class Storage : std::uint8_t { memory, by_value, nowhere };  ///< nowhere: between two operations

struct Tensor {
  std::int64_t uid = 0;
  Dims dims;
  const std::int64_t* stride = nullptr;  ///< one for each dimension
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int alignment = 16;
  Storage storage = Storage::memory;
};

Descriptor make_tensor(const Tensor& tensor);
Descriptor make_tensor(Uid uid, const Dims& dims, const std::int64_t* stride, DType type, int alignment);

}  // namespace attune::cudnn

// What the ops share that go through cuDNN's functions instead of its graphs.
#pragma once

#include <cudnn.h>

#include <memory>
#include <optional>
#include <type_traits>

#include <attune/conv.hpp>

#include "providers/cudnn_tensor.hpp"

namespace attune::cudnn {

struct DestroyTensor {
  void operator()(cudnnTensorDescriptor_t tensor) const noexcept { cudnnDestroyTensorDescriptor(tensor); }
};
using LegacyTensor = std::unique_ptr<std::remove_pointer_t<cudnnTensorDescriptor_t>, DestroyTensor>;

/// A tensor of 4 or 5 extents: a spatial one of 1 is put before an only one. Null where cuDNN takes no such tensor.
LegacyTensor legacy_tensor(const Dims& dims, const std::int64_t* stride, DType type);

/// Zero and one in the type in which cuDNN reads its scalars for tensors of a type.
struct LegacyScalars {
  explicit LegacyScalars(DType type) noexcept : wide_(type == DType::f64) {}
  const void* one() const noexcept { return wide_ ? static_cast<const void*>(&ones_) : &one_; }
  const void* zero() const noexcept { return wide_ ? static_cast<const void*>(&zeros_) : &zero_; }

 private:
  static constexpr float one_ = 1, zero_ = 0;
  static constexpr double ones_ = 1, zeros_ = 0;
  bool wide_;
};

}  // namespace attune::cudnn

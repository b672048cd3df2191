#include "providers/cudnn_tail.hpp"

#include <array>
#include <optional>
#include <utility>

#include "core/problem.hpp"
#include "providers/cudnn_tensor.hpp"

namespace attune::cudnn {
namespace {

cudnnDataType_t compute_type(const ConvProblem& p) noexcept {
  return p.compute == Compute::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

std::optional<cudnnPointwiseMode_t> mode_of(Activation activation) noexcept {
  switch (activation) {
    case Activation::none: return std::nullopt;
    case Activation::relu: return CUDNN_POINTWISE_RELU_FWD;
    case Activation::gelu_erf: return CUDNN_POINTWISE_GELU_FWD;
    case Activation::gelu_tanh: return CUDNN_POINTWISE_GELU_APPROX_TANH_FWD;
    case Activation::silu: return CUDNN_POINTWISE_SWISH_FWD;
  }
  return std::nullopt;
}

/// One element for each channel of y, or one in all. cuDNN takes the layout from strides even where extents are 1.
Descriptor make_broadcast(const ConvProblem& p, std::int64_t uid, std::int64_t channels, Tensor tensor) {
  const bool channels_last = p.y_stride[1] == 1;
  std::array<std::int64_t, 5> stride{};
  tensor.uid = uid;
  tensor.dims.count = p.x.count;
  for (int i = 0; i < p.x.count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    tensor.dims.size[i] = i == 1 ? channels : 1;
    stride[at] = i == 0 || (channels_last && i > 1) ? channels : 1;
  }
  tensor.stride = stride.data();
  return make_tensor(tensor);
}

/// Chains pointwise operations.
class Tail {
 public:
  Tail(const ConvProblem& problem, std::vector<Descriptor>& operations) : p_(problem), operations_(operations) {}

  Descriptor virtual_tensor() {
    return make_tensor({next_uid_++, p_.y(), p_.y_stride, compute_type(p_), 16, Storage::nowhere});
  }

  void apply(cudnnPointwiseMode_t mode, const Descriptor& in, const Descriptor* other, const Descriptor& out) {
    Descriptor pointwise(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    pointwise.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    pointwise.set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute_type(p_));
    constexpr double silu_is_swish_of = 1;
    if (mode == CUDNN_POINTWISE_SWISH_FWD)
      pointwise.set(CUDNN_ATTR_POINTWISE_SWISH_BETA, CUDNN_TYPE_DOUBLE, 1, &silu_is_swish_of);
    pointwise.finalize();
    Descriptor& operation = operations_.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, in);
    if (other != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *other);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out);
    operation.finalize();
  }

 private:
  const ConvProblem& p_;
  std::vector<Descriptor>& operations_;
  std::int64_t next_uid_ = uid_first_virtual + 1;  // the first is the convolution's
};

/// An operation that is still to be chained: the last of all writes y.
struct Step {
  cudnnPointwiseMode_t mode;
  std::optional<Descriptor> other;
};

}  // namespace

Descriptor make_sums(const ConvProblem& p) {
  return make_tensor({uid_first_virtual, p.y(), p.y_stride, compute_type(p), 16, Storage::nowhere});
}

std::vector<Descriptor> make_tail(const ConvProblem& p, const Descriptor& sums, const Descriptor& y) {
  std::vector<Descriptor> operations;
  Tail tail(p, operations);
  const auto scalar = [&](Uid uid) {
    return make_broadcast(p, uid, 1, {0, {}, nullptr, compute_type(p), sizeof(float), Storage::by_value});
  };
  std::vector<Step> steps;
  if (p.alpha == Scalar::other) steps.push_back({CUDNN_POINTWISE_MUL, scalar(uid_alpha)});
  if (p.beta != Scalar::zero) {
    Descriptor c = make_tensor(uid_c, p.y(), p.y_stride, p.y_type, p.align_y);
    if (p.beta == Scalar::other) {
      const Descriptor beta = scalar(uid_beta);
      Descriptor scaled = tail.virtual_tensor();
      tail.apply(CUDNN_POINTWISE_MUL, c, &beta, scaled);
      c = std::move(scaled);
    }
    steps.push_back({CUDNN_POINTWISE_ADD, std::move(c)});
  }
  if (has_bias(p.epilogue)) {
    Tensor bias;
    data_type(p.y_type, bias.type);
    bias.alignment = p.align_bias;
    steps.push_back({CUDNN_POINTWISE_ADD, make_broadcast(p, uid_bias, p.w.size[0], bias)});
  }
  if (const auto mode = mode_of(activation(p.epilogue))) steps.push_back({*mode, std::nullopt});

  const Descriptor* in = &sums;
  std::vector<Descriptor> between;
  between.reserve(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool last = i + 1 == steps.size();
    if (!last) between.push_back(tail.virtual_tensor());
    const Descriptor& out = last ? y : between.back();
    tail.apply(steps[i].mode, *in, steps[i].other ? &*steps[i].other : nullptr, out);
    in = &out;
  }
  return operations;
}

}  // namespace attune::cudnn

#include "providers/cudnn_pool.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/problem.hpp"
#include "providers/cudnn_legacy.hpp"

namespace attune::cudnn {
namespace {

constexpr std::string_view plain = "pooling", deterministic = "pooling_deterministic";

struct DestroyPooling {
  void operator()(cudnnPoolingDescriptor_t pooling) const noexcept { cudnnDestroyPoolingDescriptor(pooling); }
};
using PoolingDescriptor = std::unique_ptr<std::remove_pointer_t<cudnnPoolingDescriptor_t>, DestroyPooling>;

cudnnPoolingMode_t mode_of(PoolMode mode, bool same_bits) noexcept {
  switch (mode) {
    case PoolMode::max: return same_bits ? CUDNN_POOLING_MAX_DETERMINISTIC : CUDNN_POOLING_MAX;
    case PoolMode::average: return CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
    case PoolMode::average_padded: return CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
  }
  return CUDNN_POOLING_MAX;
}

/// Null where cuDNN takes no such window.
PoolingDescriptor make_pooling(const PoolProblem& p, bool same_bits) {
  int window[3], pad[3], stride[3], rank = 0;
  const auto add = [&](std::int64_t w, std::int64_t before, std::int64_t s) {
    window[rank] = static_cast<int>(w), pad[rank] = static_cast<int>(before), stride[rank++] = static_cast<int>(s);
  };
  if (p.spatial() == 1) add(1, 0, 1);
  for (int i = 0; i < p.spatial(); ++i) add(p.window[i], p.pad.before[i], p.stride[i]);
  cudnnPoolingDescriptor_t made = nullptr;
  if (cudnnCreatePoolingDescriptor(&made) != CUDNN_STATUS_SUCCESS) return nullptr;
  PoolingDescriptor pooling(made);
  const cudnnStatus_t status =
      cudnnSetPoolingNdDescriptor(made, mode_of(p.mode, same_bits), CUDNN_PROPAGATE_NAN, rank, window, pad, stride);
  return status == CUDNN_STATUS_SUCCESS ? std::move(pooling) : nullptr;
}

/// cuDNN pads both sides alike; where the output has the same size nonetheless, it has the same windows.
bool same_windows(const PoolProblem& p) noexcept {
  for (int i = 0; i < p.spatial(); ++i)
    if ((p.x.size[i + 2] + 2 * p.pad.before[i] - p.window[i]) / p.stride[i] + 1 != p.y().size[i + 2]) return false;
  return true;
}

class CudnnPoolPlan final : public Plan {
 public:
  CudnnPoolPlan(std::string_view variant, PlanTraits traits, const PoolProblem& p, std::shared_ptr<Library> library,
                PoolingDescriptor pooling, LegacyTensor x, LegacyTensor y)
      : Plan(fmt::format("cudnn:{}", variant), traits),
        forward_(p.direction == PoolDirection::fwd),
        max_(p.mode == PoolMode::max),
        scalars_(p.type),
        library_(std::move(library)),
        pooling_(std::move(pooling)),
        x_(std::move(x)),
        y_(std::move(y)) {}

  Status run(const Launch& launch) const noexcept override {
    const DeviceScope scope(library_->ordinal());
    const HandlePool::Lease handle = library_->handles().borrow();
    if (!handle.get()) return failed("cudnnCreate", handle.status());
    if (const cudnnStatus_t status = cudnnSetStream(handle.get(), static_cast<cudaStream_t>(launch.stream));
        status != CUDNN_STATUS_SUCCESS)
      return failed("cudnnSetStream", status);
    if (forward_) {
      const cudnnStatus_t status = cudnnPoolingForward(handle.get(), pooling_.get(), scalars_.one(), x_.get(), launch.a,
                                                       scalars_.zero(), y_.get(), launch.d);
      return status == CUDNN_STATUS_SUCCESS ? Status::ok : failed("cudnnPoolingForward", status);
    }
    // The gradient of an average looks at neither x nor y, but cuDNN wants addresses of their size.
    const void* const x = max_ ? launch.b : launch.d;
    const void* const y = max_ ? launch.more[0] : launch.a;
    const cudnnStatus_t status = cudnnPoolingBackward(handle.get(), pooling_.get(), scalars_.one(), y_.get(), y, y_.get(),
                                                      launch.a, x_.get(), x, scalars_.zero(), x_.get(), launch.d);
    return status == CUDNN_STATUS_SUCCESS ? Status::ok : failed("cudnnPoolingBackward", status);
  }

 private:
  bool forward_, max_;
  LegacyScalars scalars_;
  std::shared_ptr<Library> library_;
  PoolingDescriptor pooling_;
  LegacyTensor x_, y_;
};

}  // namespace

std::vector<std::string> pool_variants(const PoolProblem& problem, const Constraints& constraints) {
  if (constraints.sm_count != 0 || !same_windows(problem)) return {};
  if (problem.mode != PoolMode::max || problem.direction == PoolDirection::fwd) return {std::string(plain)};
  if (constraints.deterministic) return {std::string(deterministic)};
  return {std::string(plain), std::string(deterministic)};
}

Prepared prepare_pool(const std::shared_ptr<Library>& library, std::string_view variant, const PoolProblem& problem,
                      const Constraints& constraints) {
  const std::vector<std::string> served = pool_variants(problem, constraints);
  if (std::find(served.begin(), served.end(), variant) == served.end())
    return declined("not the name of a pooling of cuDNN's that serves the problem");
  const DeviceScope scope(library->ordinal());
  const RelaxedCapture relaxed;
  LegacyTensor x = legacy_tensor(problem.x, problem.x_stride, problem.type);
  LegacyTensor y = legacy_tensor(problem.y(), problem.y_stride, problem.type);
  PoolingDescriptor pooling = make_pooling(problem, variant == deterministic);
  if (!x || !y || !pooling) return declined("cuDNN takes no such tensors or window");
  // So that the first call finds a handle and makes none while its stream is being captured.
  (void)library->handles().borrow();
  PlanTraits traits;
  traits.deterministic = problem.mode != PoolMode::max || problem.direction == PoolDirection::fwd || variant == deterministic;
  return {std::make_unique<CudnnPoolPlan>(variant, traits, problem, library, std::move(pooling), std::move(x), std::move(y)),
          Outcome::ok,
          {}};
}

Prepared prepare_default_pool(const std::shared_ptr<Library>& library, const PoolProblem& problem,
                              const Constraints& constraints) {
  const std::vector<std::string> served = pool_variants(problem, constraints);
  return served.empty() ? declined("windows or a limit that cuDNN does not know")
                        : prepare_pool(library, served.front(), problem, constraints);
}

}  // namespace attune::cudnn

// A plan: a prepared, launchable configuration of one provider for one problem.
#pragma once

#include <attune/error.hpp>
#include <attune/types.hpp>
#include <cstddef>
#include <string>
#include <utility>

namespace attune {

/// What one call brings. GEMM: a, b, c, d. Convolution: a and b are the two inputs in the order of ConvArgs, d the output, and
/// c the tensor that beta multiplies, with the strides of d. Pooling: a is x, or dy of a gradient, whose b is x where it is
/// asked for; d the output. `more` are the further operands of an op that has more, in the order of operands(problem), inputs
/// and outputs. alpha and beta are never null for GEMM and convolution and have the problem's compute type; c is not read when
/// the problem's beta case is zero, bias only where its epilogue has one, the scales (null: 1) only with fp8 operands.
/// workspace holds traits().workspace bytes, aligned to 256.
struct Launch {
  static constexpr int most_more = 8;

  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  const void* alpha = nullptr;
  const void* beta = nullptr;
  const void* bias = nullptr;
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;
  void* const* more = nullptr;
  void* workspace = nullptr;
  Stream stream = nullptr;
};

/// Of a scalar that a call brings.
inline double scalar_value(const void* value, Compute compute) noexcept {
  switch (compute) {
    case Compute::f64: return *static_cast<const double*>(value);
    case Compute::i32: return *static_cast<const std::int32_t*>(value);
    default: return *static_cast<const float*>(value);
  }
}

/// A scalar's value, and the same in the type in which a call gives it.
struct GivenScalar {
  double value = 0;
  Compute compute = Compute::f32;
  float narrow = 0;
  std::int32_t whole = 0;

  void set(Compute as, double to) noexcept {
    compute = as;
    narrow = static_cast<float>(to), whole = static_cast<std::int32_t>(to);
    value = as == Compute::f64 ? to : as == Compute::i32 ? whole : narrow;
  }
  const void* as_given() const noexcept {
    if (compute == Compute::f64) return &value;
    if (compute == Compute::i32) return &whole;
    return &narrow;
  }
};

/// How sums are formed; decides the error that a check grants.
enum class Accumulation : std::uint8_t { plain, tensor_core, fp8, fp8_fast, transform };

struct PlanTraits {
  std::size_t workspace = 0;    ///< bytes
  bool deterministic = true;    ///< the same bits every time
  bool capturable = true;       ///< may run on a stream that is being captured
  bool retain_in_graph = false;  ///< a graph that captured it needs the plan alive (it owns loaded code or device memory)
  Accumulation accumulation = Accumulation::plain;
  bool restartable = true;  ///< false: a run that failed may have put a part of its result where C still was
};

/// Immutable and thread-safe; holds no operand pointer.
class Plan {
 public:
  virtual ~Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// "provider:variant", readable, sufficient to prepare the plan again.
  const std::string& id() const noexcept { return id_; }
  const PlanTraits& traits() const noexcept { return traits_; }

  /// Enqueues the work; waits for nothing and allocates nothing of ours. An error leaves no pending CUDA error behind.
  virtual Status run(const Launch& launch) const noexcept = 0;

 protected:
  Plan(std::string id, PlanTraits traits) : id_(std::move(id)), traits_(traits) {}

 private:
  std::string id_;
  PlanTraits traits_;
};

}  // namespace attune

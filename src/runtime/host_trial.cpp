// Trials on the CPU: generated operands, checked and timed runs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include "kernels/common/number.hpp"
#include "kernels/common/pooling.hpp"
#include "runtime/host_audit.hpp"
#include "runtime/host_runtime.hpp"

namespace attune {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Freer {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, Freer>;

constexpr std::size_t memory_alignment = 256;
std::size_t aligned(std::size_t bytes) { return (bytes + memory_alignment - 1) / memory_alignment * memory_alignment; }
Memory allocate(std::size_t bytes) {
  Memory memory(static_cast<std::byte*>(std::aligned_alloc(memory_alignment, aligned(std::max<std::size_t>(bytes, 1)))));
  if (!memory) throw std::bad_alloc();
  return memory;
}

/// Uniform in [-1, 1), every bit of the mantissa in use; integers in [-128, 128].
void fill(void* memory, const Span& span, std::uint64_t seed) {
  const double scale = span.type == DType::i8 || span.type == DType::i32 ? 0x1p-56 : 0x1p-63;
  with_type(span.type, [&](auto tag) {
    auto* values = static_cast<decltype(tag)*>(memory);
    std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
    for (std::int64_t i = 0; i < span.elements; ++i) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      values[i] = narrow<decltype(tag)>(static_cast<double>(static_cast<std::int64_t>(state)) * scale);
    }
  });
}

/// A value of each case; any other than one and zero serves for `other`.
double value_of(Scalar scalar, double other) { return scalar == Scalar::zero ? 0 : scalar == Scalar::one ? 1 : other; }

/// Bytes behind an address of full alignment at which the alignment is just the given one.
std::size_t shift(int align) { return align < 16 ? static_cast<std::size_t>(align) : 0; }

/// The operands of one launch, one behind the other.
struct Slots {
  std::size_t a, b, c, d, bias, more[Launch::most_more] = {}, bytes;
  explicit Slots(const Operands& o) {
    std::size_t end = 0;
    const auto place = [&](const Operand& operand) {
      const std::size_t from = end + shift(operand.align);
      end = aligned(from + operand.span.bytes());
      return from;
    };
    a = place(o.a), b = place(o.b), c = place(o.c), d = place(o.d), bias = place(o.bias);
    for (int i = 0; i < o.more_count; ++i) more[i] = place(o.more[i]);
    bytes = end;
  }
};

/// Inputs that must agree with others.
void make_consistent(const Problem& problem, std::byte* base, const Slots& slots) {
  const auto* pool = std::get_if<PoolProblem>(&problem);
  if (pool == nullptr || pool->direction == PoolDirection::fwd || pool->mode != PoolMode::max) return;
  PoolView v = view(*pool);  // y is what the forward pass made of x
  v.direction = PoolDirection::fwd;
  const auto x = [&](std::int64_t at) { return load_number(base + slots.b, pool->type, at); };
  for (std::int64_t j = 0; j < v.cols(); ++j)
    for (std::int64_t i = 0; i < v.rows(); ++i)
      store_number(base + slots.more[0], pool->type, v.d_offset(i, j, 0), v.pooled(x, i, j).value);
}

class HostTrial;

class HostTimer final : public Timer {
 public:
  HostTimer(const HostTrial& trial, const Plan& plan, double expected_us) : trial_(trial), plan_(plan) {
    constexpr double sample_us = 200, most = 2000;
    const double launches = std::ceil(sample_us / std::max(expected_us, sample_us / most));
    launches_ = std::isfinite(launches) ? static_cast<int>(std::clamp(launches, 1.0, most)) : 1;
  }
  double sample() override;

 private:
  const HostTrial& trial_;
  const Plan& plan_;
  int launches_ = 1;
  std::size_t next_ = 0;  ///< the operand set of the next launch
};

class HostTrial final : public Trial {
 public:
  HostTrial(const DeviceInfo& info, const Problem& problem, const Constraints& constraints, std::size_t workspace,
            std::uint64_t seed)
      : operands_(operands(problem)), slots_(operands_), in_place_(std::holds_alternative<ConvProblem>(problem)) {
    visit_contraction(problem, [&](const auto& p) {
      const bool whole = p.compute == Compute::i32;
      alpha_.set(p.compute, value_of(p.alpha, whole ? 3 : 1.25)), beta_.set(p.compute, value_of(p.beta, whole ? -2 : -0.75));
      adds_ = p.beta != Scalar::zero, biased_ = has_bias(p.epilogue);
    });
    // Enough to pass through the last-level cache, but no more than can be filled in little time.
    constexpr std::size_t most_sets = 4096, most_bytes = 64 * mebibyte;
    const std::size_t cold = std::min(static_cast<std::size_t>(info.l2_bytes) * 5 / 4, most_bytes);
    sets_ = std::clamp<std::size_t>(cold / slots_.bytes + 1, 2, most_sets);
    const std::size_t room = static_cast<std::size_t>(info.memory_bytes) / 4;
    const std::size_t rest = workspace + 3 * HostAudit::red_zone + operands_.d.span.bytes();
    if (rest > room || slots_.bytes > room - rest) throw std::bad_alloc();
    sets_ = std::clamp<std::size_t>((room - rest) / slots_.bytes, 1, sets_);

    memory_ = allocate(sets_ * slots_.bytes);
    workspace_ = allocate(workspace);
    std::memset(memory_.get(), 0, slots_.bytes);
    fill(memory_.get() + slots_.a, operands_.a.span, 4 * seed);
    fill(memory_.get() + slots_.b, operands_.b.span, 4 * seed + 1);
    fill(memory_.get() + slots_.c, operands_.c.span, 4 * seed + 2);
    fill(memory_.get() + slots_.bias, operands_.bias.span, 4 * seed + 3);
    make_consistent(problem, memory_.get(), slots_);
    for (std::size_t i = 1; i < sets_; ++i) std::memcpy(memory_.get() + i * slots_.bytes, memory_.get(), slots_.bytes);
    const HostOperands given{memory_.get() + slots_.a,
                             memory_.get() + slots_.b,
                             adds_ ? memory_.get() + slots_.c : nullptr,
                             alpha_.value,
                             beta_.value,
                             biased_ ? memory_.get() + slots_.bias : nullptr};
    audit_ = std::make_unique<HostAudit>(problem, constraints, given, info.processors, seed);
    d_shift_ = slots_.d % memory_alignment;
    output_ = allocate(d_shift_ + audit_->bytes());
    more_.resize(sets_ * Launch::most_more);
    for (std::size_t set = 0; set < sets_; ++set)
      for (int i = 0; i < operands_.more_count; ++i)
        more_[set * Launch::most_more + static_cast<std::size_t>(i)] = memory_.get() + set * slots_.bytes + slots_.more[i];
  }

  Check check(const Plan& plan) override {
    Check result;
    Launch launch = launch_of(0);
    std::byte* buffer = output_.get() + d_shift_;
    launch.d = buffer + HostAudit::red_zone;
    if (in_place_) launch.c = launch.d;
    audit_->poison(buffer, in_place_ && adds_ ? memory_.get() + slots_.c : nullptr);
    const auto start = Clock::now();
    const Status status = plan.run(launch);
    result.us = microseconds_since(start);
    if (status != Status::ok) {
      result.why = fmt::format("run returned {}", static_cast<int>(status));
      return result;
    }
    audit_->inspect(buffer, plan.traits().accumulation, result);
    return result;
  }

  std::unique_ptr<Timer> timer(const Plan& plan, TimingMethod, double expected_us) override {
    return std::make_unique<HostTimer>(*this, plan, expected_us);
  }

  std::size_t sets() const noexcept { return sets_; }
  Launch launch_of(std::size_t set) const noexcept {
    std::byte* base = memory_.get() + set * slots_.bytes;
    Launch launch;
    launch.a = base + slots_.a, launch.b = base + slots_.b, launch.d = base + slots_.d;
    launch.c = in_place_ ? launch.d : base + slots_.c;
    launch.alpha = alpha_.as_given(), launch.beta = beta_.as_given();
    launch.bias = biased_ ? base + slots_.bias : nullptr;
    launch.more = more_.data() + set * Launch::most_more;
    launch.workspace = workspace_.get();
    return launch;
  }

 private:
  Operands operands_;
  Slots slots_;
  bool in_place_;  ///< C is D
  bool adds_ = false, biased_ = false;
  GivenScalar alpha_, beta_;
  std::size_t sets_ = 1, d_shift_ = 0;
  Memory memory_, workspace_, output_;
  std::vector<void*> more_;  ///< of each set, Launch::most_more places
  std::unique_ptr<HostAudit> audit_;
};

double HostTimer::sample() {
  const auto start = Clock::now();
  for (int i = 0; i < launches_; ++i) {
    if (plan_.run(trial_.launch_of(next_)) != Status::ok) return std::numeric_limits<double>::quiet_NaN();
    next_ = (next_ + 1) % trial_.sets();
  }
  return microseconds_since(start) / launches_;
}

}  // namespace

std::unique_ptr<Trial> make_host_trial(const DeviceInfo& info, const Problem& problem, const Constraints& constraints,
                                       std::size_t workspace, std::uint64_t seed) {
  if (!spans_fit(problem, info.memory_bytes)) return nullptr;
  try {
    return std::make_unique<HostTrial>(info, problem, constraints, workspace, seed);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace attune

// What the conformance tests of the cuDNN provider share: convolutions on the GPU, and running all that is listed for one.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "providers/cudnn.hpp"
#include "runtime/cuda_support.hpp"
#include "support/gpu.hpp"
#include "support/reference.hpp"

namespace attune {

using Bytes = std::vector<std::byte>;

inline constexpr int untouched = 0xFF;

struct TypeSet {
  DType type;
  MathMode math;
};
inline constexpr TypeSet type_sets[] = {{DType::f16, MathMode::transforms},
                                        {DType::bf16, MathMode::transforms},
                                        {DType::f32, MathMode::transforms},
                                        {DType::f32, MathMode::transforms | MathMode::tf32},
                                        {DType::f64, MathMode::transforms}};
inline constexpr Direction directions[] = {Direction::fwd, Direction::dgrad, Direction::wgrad};
inline constexpr Layout layouts[] = {Layout::nchw, Layout::nhwc};

/// Under `Constraints` with room enough that no engine is declined for its workspace.
inline Constraints with(MathMode math) {
  Constraints constraints;
  constraints.math = math;
  constraints.workspace_limit = 256 * mebibyte;
  return constraints;
}

inline ConvProblem conv(Direction direction, Dims x, Dims w, DType type, Layout layout) {
  ConvProblem p(direction, x, w);
  p.set_dtype(type);
  p.layout = layout;
  p.align_x = p.align_w = p.align_y = 16;
  return p;
}

/// One problem with operands on the GPU; the output lies between red zones and is checked with its gaps. C is the output, or
/// with `c_apart` lies elsewhere.
class ConvCase {
 public:
  explicit ConvCase(const ConvProblem& p, bool c_apart = false)
      : host_(p, p.alpha == Scalar::one ? 1 : 1.25,
              p.beta == Scalar::zero  ? 0
              : p.beta == Scalar::one ? 1
                                      : -0.75,
              7),
        launch_(host_.launch(0)),
        spans_(spans(host_.problem())),
        a_(bytes_of(spans_.a) + 16),
        b_(bytes_of(spans_.b) + 16),
        d_(around()),
        bias_(bytes_of(spans_.bias) + 16),
        c_apart_(c_apart) {
    const bool fwd = p.direction == Direction::fwd, dgrad = p.direction == Direction::dgrad;
    shift_a_ = shift(dgrad ? p.align_y : p.align_x), shift_b_ = shift(p.direction == Direction::wgrad ? p.align_y : p.align_w);
    shift_d_ = shift(fwd ? p.align_y : dgrad ? p.align_x : p.align_w);
    write_device(at(a_, shift_a_), launch_.a, bytes_of(spans_.a));
    write_device(at(b_, shift_b_), launch_.b, bytes_of(spans_.b));
    shift_bias_ = shift(p.align_bias);
    if (launch_.bias != nullptr) write_device(at(bias_, shift_bias_), launch_.bias, bytes_of(spans_.bias));
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~ConvCase() { cudaStreamDestroy(stream_); }
  ConvCase(const ConvCase&) = delete;
  ConvCase& operator=(const ConvCase&) = delete;

  const Problem& problem() const { return host_.problem(); }
  cudaStream_t stream() const { return stream_; }

  /// The output made ready; then the plan's launch with a workspace of exactly its size before a red zone.
  Launch prepare(const Plan& plan) {
    launch_ = host_.launch(0);
    Bytes content(around(), std::byte{untouched});
    std::memcpy(content.data() + shift_d_, static_cast<std::byte*>(launch_.d) - zone, content.size() - 16);
    if (c_apart_) {
      c_ = std::make_unique<DeviceBuffer>(content);
      std::fill(content.begin(), content.end(), std::byte{untouched});
    }
    write_device(d_.get(), content.data(), content.size());
    workspace_ = std::make_unique<DeviceBuffer>(plan.traits().workspace + zone, untouched);
    Launch launch = launch_;
    launch.a = at(a_, shift_a_), launch.b = at(b_, shift_b_), launch.d = at(d_, zone + shift_d_);
    launch.c = c_apart_ ? at(*c_, zone + shift_d_) : launch.d;
    if (launch.bias != nullptr) launch.bias = at(bias_, shift_bias_);
    launch.workspace = workspace_->get();
    launch.stream = stream_;
    return launch;
  }

  /// Waits for what was launched; the output as it is then, brought to the host for check().
  Bytes finish(const Plan& plan) {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess) << plan.id();
    Bytes content = d_.read();
    std::memcpy(static_cast<std::byte*>(launch_.d) - zone, content.data() + shift_d_, content.size() - 16);
    const Bytes workspace = workspace_->read();
    EXPECT_TRUE(std::all_of(workspace.end() - zone, workspace.end(), [](std::byte b) { return b == std::byte{untouched}; }))
        << plan.id() << " wrote behind its workspace";
    return content;
  }

  Bytes run(const Plan& plan) {
    const Launch launch = prepare(plan);
    EXPECT_EQ(plan.run(launch), Status::ok) << plan.id() << ": " << noted_failure();
    return finish(plan);
  }

  /// The output that run() or finish() brought.
  void check(const Plan& plan, const Constraints& constraints) const {
    const test::Comparison found = host_.verify(constraints, plan.traits().accumulation);
    EXPECT_TRUE(found.ok) << plan.id() << ": " << found.message;
  }

 private:
  static constexpr std::size_t zone = 4096;
  static std::size_t bytes_of(const Span& span) { return span.bytes(); }
  static std::size_t shift(int alignment) { return static_cast<std::size_t>(alignment % 16); }
  static void* at(const DeviceBuffer& buffer, std::size_t offset) { return static_cast<std::byte*>(buffer.get()) + offset; }
  std::size_t around() const { return spans_.d.bytes() + 2 * zone + 16; }

  test::HostCase host_;
  Launch launch_;
  Spans spans_;
  DeviceBuffer a_, b_, d_, bias_;
  std::unique_ptr<DeviceBuffer> workspace_, c_;
  bool c_apart_;
  std::size_t shift_a_ = 0, shift_b_ = 0, shift_d_ = 0, shift_bias_ = 0;
  cudaStream_t stream_ = nullptr;
};

class Cudnn : public testing::Test {
 protected:
  void SetUp() override {
    ATTUNE_SKIP_WITHOUT_GPU();
    provider_ = make_cudnn_provider(0, gpu_runtime().info());
  }

  void TearDown() override {
    for (const std::string& id : rejected_) std::cout << "rejected by the check: " << id << "\n";
  }

  /// As the tuner does it: some of cuDNN's engines sum in fp16, ignore strides or write past the output without a note, and the
  /// check is what keeps them out. What it accepts must be right in every element.
  /// `offered`: by a heuristic, so that it must at least run.
  bool accepted(const Plan& plan, Trial& trial, bool offered = true) {
    const Check check = trial.check(plan);
    if (offered) {
      EXPECT_NE(check.outcome, Outcome::failed) << plan.id() << ": " << check.why;
    }
    if (check.outcome != Outcome::ok) rejected_.insert(plan.id().substr(0, plan.id().find('_')));
    return check.outcome == Outcome::ok;
  }
  std::unique_ptr<Trial> trial_of(const Problem& problem, const Constraints& constraints) {
    return gpu_runtime().trial(problem, constraints, std::size_t{256} << 20, 17);
  }

  /// Whether cuDNN must have a plan for a problem that passes the check.
  enum class Served { always, perhaps };

  /// Runs the default and every variant that passes the check; returns how many did.
  int run_all(const ConvProblem& problem, const Constraints& allowed, Effort effort = Effort::standard,
              Served served = Served::always, bool c_apart = false) {
    SCOPED_TRACE(to_string(Problem(problem)));
    ConvCase conv_case(problem, c_apart);
    const Constraints constraints = applied_to(problem, allowed);
    const std::unique_ptr<Trial> trial = trial_of(conv_case.problem(), constraints);
    const Prepared fallback = provider_->prepare_default(conv_case.problem(), constraints);
    if (served == Served::always) {
      EXPECT_EQ(fallback.outcome, Outcome::ok) << fallback.why;
    }
    if (fallback.plan) {
      EXPECT_LE(fallback.plan->traits().workspace, 32 * mebibyte);
    }
    int ran = 0;
    if (fallback.plan && accepted(*fallback.plan, *trial)) {
      ++ran;
      conv_case.run(*fallback.plan);
      conv_case.check(*fallback.plan, constraints);
    }
    const std::vector<std::string> variants = provider_->variants(conv_case.problem(), constraints, effort);
    EXPECT_EQ(std::set<std::string>(variants.begin(), variants.end()).size(), variants.size()) << "listed twice";
    for (const std::string& variant : variants) {
      const Prepared made = provider_->prepare(variant, conv_case.problem(), constraints);
      if (!made.plan) continue;
      EXPECT_EQ(made.plan->id(), "cudnn:" + variant);
      EXPECT_LE(made.plan->traits().workspace, constraints.workspace_limit);
      EXPECT_TRUE(made.plan->traits().deterministic || !constraints.deterministic);
      if (made.plan->traits().workspace > (std::size_t{256} << 20)) continue;
      if (!accepted(*made.plan, *trial, effort != Effort::exhaustive)) continue;
      conv_case.run(*made.plan);
      conv_case.check(*made.plan, constraints);
      ++ran;
      if (HasFailure()) break;
    }
    if (served == Served::always) {
      EXPECT_FALSE(variants.empty());
      EXPECT_GT(ran, 0);
    }
    return ran;
  }

  /// A 3x3 convolution in every direction, layout and type, changed by `change`.
  template <class Change>
  void run_everywhere(Change&& change) {
    for (const TypeSet& types : type_sets)
      for (Layout layout : layouts)
        for (Direction direction : directions) {
          ConvProblem p = conv(direction, {2, 16, 13, 11}, {24, 16, 3, 3}, types.type, layout);
          p.pad = 1;
          change(p);
          run_all(p, with(types.math));
        }
  }

  std::unique_ptr<Provider> provider_;
  std::set<std::string> rejected_;
};

}  // namespace attune

// A problem with operands on the GPU for calls through the public interface, and the elementwise check of what they give.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <attune/attune.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "context_impl.hpp"
#include "core/problem.hpp"
#include "support/gpu.hpp"
#include "support/reference.hpp"

namespace attune {

using Bytes = std::vector<std::byte>;

/// A context of device 0 with quick effort, whatever the environment says.
Context gpu_context(std::size_t capacity = Context::Impl::default_capacity);

/// Tests of the contract: each must leave the current device and CUDA's pending error as they were.
class GpuContract : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
};

class GpuStream {
 public:
  explicit GpuStream(unsigned flags = cudaStreamNonBlocking);
  ~GpuStream();
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  operator cudaStream_t() const noexcept { return stream_; }
  void wait() const { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

 private:
  cudaStream_t stream_ = nullptr;
};

struct CallOptions {
  double alpha = 1;
  double beta = 0;
  bool c_apart = false;   ///< C is a buffer of its own; else C is D
  std::size_t shift = 0;         ///< bytes by which each address misses an alignment to 256
  std::size_t output_shift = 0;  ///< further bytes for D, where no C is read
  std::uint64_t seed = 1;
};

/// Inputs are random; the output lies between red zones, and both hold 0xff (NaNs) where no C is. Nothing but run() may be
/// called while a stream is being captured.
class GpuCall {
 public:
  explicit GpuCall(const Problem& problem, const CallOptions& options = {});

  /// With the scalar cases and alignments that the calls derive, resolved.
  const Problem& problem() const noexcept { return problem_; }
  /// Calls tuned_gemm or tuned_conv; a refusal fails the test.
  void run(Context& ctx, Stream stream = nullptr);
  Status try_run(Context& ctx, Stream stream = nullptr);
  /// For a plan at hand: the same operands.
  Launch launch(void* workspace) const;

  /// Puts the output back to what it was before the first call.
  void reset();
  /// What the output and its red zones hold before a call where beta is zero: `element` everywhere.
  void fill_output(double element);
  /// NaNs in the place of A and B; the results expected stay those of the numbers.
  void spoil_inputs();
  const Bytes& host_a() const noexcept { return host_a_; }
  const Bytes& host_b() const noexcept { return host_b_; }
  void* d() const { return at(*d_, zone + d_shift()); }
  std::size_t output_bytes() const noexcept { return spans_.d.bytes(); }
  /// Waits for the device.
  Bytes output() const;

  /// Every element within the bound of core/tolerance.hpp for the plan that the context remembers, and no byte written between
  /// or around them.
  void expect_right(Context& ctx);
  void expect_right(const Constraints& constraints, Accumulation accumulation);
  /// Largest error over that bound.
  double error_over_bound(const Constraints& constraints, Accumulation accumulation);
  void expect_inputs_untouched() const;

 private:
  static constexpr std::size_t zone = 4096;
  static void* at(const DeviceBuffer& buffer, std::size_t offset) { return static_cast<std::byte*>(buffer.get()) + offset; }
  std::unique_ptr<DeviceBuffer> upload(const Bytes& bytes) const;
  bool in_place() const { return !options_.c_apart; }
  std::size_t d_shift() const { return shift_ + options_.output_shift; }
  const void* scale(int operand) const { return scales_ ? at(*scales_, static_cast<std::size_t>(operand) * sizeof(float)) : nullptr; }
  const test::Reference& expected();

  Problem problem_;
  CallOptions options_;
  Spans spans_;
  std::size_t shift_;
  GivenScalar alpha_, beta_;
  Bytes host_a_, host_b_, host_c_, host_bias_, initial_;  ///< initial_: the output with its red zones
  std::unique_ptr<DeviceBuffer> a_, b_, c_, d_, bias_, scales_;  ///< scales_: of fp8 operands, null for others
  std::unique_ptr<test::Reference> expected_;
};

/// A plan of the problem with a workspace that gives the same bits every time, one that splits the reduction where there is
/// such; empty, and a failure of the test, when no provider has one.
std::string plan_with_workspace(Context& ctx, const Problem& problem);
/// From now on the context runs the problem with this plan, as one read from a file.
void remember_plan(Context& ctx, const Problem& problem, const std::string& plan, Effort effort = Effort::exhaustive);

/// A small GEMM with a long reduction: plans that split it need a workspace.
inline GemmProblem long_reduction(std::int64_t m = 64, std::int64_t n = 48, std::int64_t k = 4096, DType type = DType::f16) {
  return GemmProblem(Op::T, Op::N, m, n, k, type);
}

inline ConvProblem small_conv(Direction direction, DType type, Layout layout) {
  ConvProblem p(direction, {2, 16, 12, 10}, {24, 16, 3, 3});
  p.set_dtype(type);
  p.layout = layout;
  p.pad = 1;
  return p;
}

}  // namespace attune

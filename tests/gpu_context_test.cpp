// The contract of a call on the GPU, through the public interface: scalars, memory that stays the caller's, refusals.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "kernels/common/number.hpp"
#include "support/gpu_call.hpp"

namespace attune {
namespace {

using GpuContext = GpuContract;

constexpr double infinity = std::numeric_limits<double>::infinity();

GemmProblem with_gaps(DType type) {
  GemmProblem p(Op::N, Op::T, 72, 56, 128, type);
  p.lda = 80, p.ldb = 64, p.ldc = p.ldd = 88, p.batch = 3;
  return p;
}

TEST_F(GpuContext, IsMadeForDeviceZeroAndComputes) {
  Context ctx(Device::cuda(0));
  ctx.set_effort(Effort::quick);
  GpuCall call(with_gaps(DType::f32));
  call.run(ctx);
  call.expect_right(ctx);
}

TEST_F(GpuContext, TrialsDoNotTouchTheOperandsOfAColdGemm) {
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (bool apart : {false, true}) {
      Context ctx = gpu_context();
      ctx.set_deterministic(true);
      ctx.set_budget_ms(5000);
      GpuCall call(with_gaps(type), {.alpha = 1, .beta = 2, .c_apart = apart});
      call.run(ctx);
      const Bytes cold = call.output();
      call.expect_right(ctx);
      call.expect_inputs_untouched();
      EXPECT_EQ(ctx.stats().tuned, 1u);
      EXPECT_GE(ctx.stats().candidates_timed, 2u) << "there was nothing to choose from";
      call.reset();
      call.run(ctx);
      EXPECT_EQ(ctx.stats().hits, 1u);
      EXPECT_TRUE(call.output() == cold) << to_string(call.problem());
      call.expect_inputs_untouched();
    }
}

TEST_F(GpuContext, TrialsDoNotTouchTheGradientThatAColdConvolutionAddsTo) {
  for (auto [type, layout] : {std::pair(DType::f32, Layout::nchw), std::pair(DType::f16, Layout::nhwc)}) {
    Context ctx = gpu_context();
    ctx.set_deterministic(true);
    GpuCall call(small_conv(Direction::wgrad, type, layout), {.beta = 1});
    call.run(ctx);
    const Bytes cold = call.output();
    call.expect_right(ctx);
    call.expect_inputs_untouched();
    EXPECT_EQ(ctx.stats().tuned, 1u);
    call.reset();
    call.run(ctx);
    EXPECT_TRUE(call.output() == cold) << to_string(call.problem());
    call.expect_inputs_untouched();
  }
}

TEST_F(GpuContext, BetaZeroReadsNothingOfTheOutput) {
  Context ctx = gpu_context();
  const Problem problems[] = {with_gaps(DType::f16),
                              with_gaps(DType::f32),
                              with_gaps(DType::f64),
                              small_conv(Direction::fwd, DType::f16, Layout::nhwc),
                              small_conv(Direction::dgrad, DType::f32, Layout::nchw),
                              small_conv(Direction::wgrad, DType::f32, Layout::nchw)};
  for (const Problem& problem : problems) {
    GpuCall call(problem);
    for (double before : {static_cast<double>(NAN), infinity, -infinity}) {
      call.fill_output(before);
      call.run(ctx);
      call.expect_right(ctx);
    }
  }
  EXPECT_EQ(ctx.stats().tuned, std::size(problems));
}

TEST_F(GpuContext, AlphaZeroReadsNeitherInput) {
  Context ctx = gpu_context();
  for (double beta : {0.0, 1.0, -0.5}) {
    for (DType type : {DType::f16, DType::f32, DType::f64})
      for (bool apart : {false, true}) {
        GpuCall gemm(with_gaps(type), {.alpha = 0, .beta = beta, .c_apart = apart});
        gemm.spoil_inputs();
        gemm.run(ctx);
        gemm.expect_right({}, Accumulation::plain);
      }
    for (Direction direction : {Direction::fwd, Direction::dgrad, Direction::wgrad}) {
      GpuCall conv(small_conv(direction, DType::f32, Layout::nhwc), {.alpha = 0, .beta = beta});
      conv.spoil_inputs();
      conv.run(ctx);
      conv.expect_right({}, Accumulation::plain);
    }
  }
  EXPECT_EQ(ctx.stats().tuned, 0u);
}

TEST_F(GpuContext, AnEmptyReductionScalesWithoutInputs) {
  Context ctx = gpu_context();
  std::vector<float> c(40 * 24);
  test::fill(c.data(), DType::f32, static_cast<std::int64_t>(c.size()), 3);
  DeviceBuffer device_c(c.size() * sizeof(float)), d(c.size() * sizeof(float), 0xff);
  write_device(device_c.get(), c.data(), c.size() * sizeof(float));
  const float alpha = 3, beta = -0.5f;
  const GemmProblem problem(Op::N, Op::N, 40, 24, 0, DType::f32);
  const auto expect = [&](float factor) {
    const Bytes bytes = d.read();
    for (std::size_t i = 0; i < c.size(); ++i)
      ASSERT_EQ(static_cast<float>(load_number(bytes.data(), DType::f32, static_cast<std::int64_t>(i))), factor * c[i]) << i;
  };
  tuned_gemm(ctx, problem, {nullptr, nullptr, device_c.get(), d.get(), &alpha, &beta});
  expect(beta);
  tuned_gemm(ctx, problem, {nullptr, nullptr, d.get()});
  expect(0);
  // A gradient over a batch of none is zero.
  ConvProblem conv(Direction::wgrad, {0, 4, 8, 8}, {6, 4, 3, 3});
  const DeviceBuffer dw(6 * 4 * 9 * sizeof(float), 0xff);
  tuned_conv(ctx, conv, ConvArgs::wgrad(nullptr, nullptr, dw.get()));
  EXPECT_TRUE(dw.read() == Bytes(dw.size())) << "the gradient is not zero";
  EXPECT_EQ(ctx.stats().tuned, 0u);
}

TEST_F(GpuContext, AnEmptyOutputSucceedsWithoutOperands) {
  Context ctx = gpu_context();
  GemmProblem batch(Op::N, Op::N, 8, 8, 8, DType::f16);
  batch.batch = 0;
  for (const GemmProblem& p :
       {GemmProblem(Op::N, Op::N, 0, 8, 8, DType::f16), GemmProblem(Op::N, Op::N, 8, 0, 8, DType::f16), batch})
    EXPECT_EQ(tuned_gemm(ctx, p, {nullptr, nullptr, nullptr}, nullptr, std::nothrow), Status::ok) << last_error_message();
  const ConvProblem conv(Direction::fwd, {0, 4, 8, 8}, {6, 4, 3, 3});
  EXPECT_EQ(tuned_conv(ctx, conv, ConvArgs::fwd(nullptr, nullptr, nullptr), nullptr, std::nothrow), Status::ok)
      << last_error_message();
  EXPECT_EQ(ctx.stats().entries, 0u);
}

TEST_F(GpuContext, RefusesBadArgumentsAndLeavesNoErrorBehind) {
  Context ctx = gpu_context();
  const DeviceBuffer a(1 << 16), b(1 << 16), d(1 << 16);
  const GemmProblem good(Op::N, Op::N, 32, 32, 32, DType::f32);
  const auto refused = [&](const GemmProblem& p, const void* pa, void* pd, Status expected) {
    EXPECT_EQ(tuned_gemm(ctx, p, {pa, b.get(), pd}, nullptr, std::nothrow), expected) << last_error_message();
    EXPECT_NE(std::string(last_error_message()), "");
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << last_error_message();
  };
  GemmProblem bad = good;
  refused(good, nullptr, d.get(), Status::invalid_argument);
  refused(good, a.get(), nullptr, Status::invalid_argument);
  refused(good, a.get(), const_cast<void*>(a.get()), Status::invalid_argument);
  refused(good, static_cast<std::byte*>(a.get()) + 2, d.get(), Status::invalid_argument);
  bad.lda = 31;
  refused(bad, a.get(), d.get(), Status::invalid_argument);
  bad = good, bad.m = -1;
  refused(bad, a.get(), d.get(), Status::invalid_argument);
  bad = good, bad.a_type = DType::f8_e4m3;
  refused(bad, a.get(), d.get(), Status::unsupported);
  bad = good, bad.op_a = Op::C;
  refused(bad, a.get(), d.get(), Status::unsupported);
  ConvProblem conv = small_conv(Direction::fwd, DType::f32, Layout::nchw);
  conv.groups = 5;
  EXPECT_EQ(tuned_conv(ctx, conv, ConvArgs::fwd(a.get(), b.get(), d.get()), nullptr, std::nothrow), Status::invalid_argument);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_TRUE(d.read() == Bytes(d.size())) << "a refused call wrote";
  EXPECT_EQ(ctx.stats().entries, 0u);
}

TEST_F(GpuContext, ACallOnAnotherDeviceLeavesTheCurrentOne) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << "needs two GPUs";
  Context ctx = Context::Impl::wrap(
      std::make_unique<Context::Impl>(make_backend(Device::cuda(1)), [](const char*) -> const char* { return nullptr; }));
  ctx.set_effort(Effort::quick);
  const GemmProblem problem = long_reduction();
  {
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    GpuCall gemm(problem);
    GpuCall conv(small_conv(Direction::fwd, DType::f32, Layout::nchw));
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    for (int i = 0; i < 2; ++i) {
      gemm.run(ctx);
      conv.run(ctx);
      int device = -1;
      EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
      EXPECT_EQ(device, 0);
    }
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    gemm.expect_right(ctx);
    conv.expect_right(ctx);
  }
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

}  // namespace
}  // namespace attune

// What the plans that a context chooses on the GPU promise: right for every alignment and size, repeatable, as precise as asked
// for, the same from a plan file and by name.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/gpu_call.hpp"

namespace attune {
namespace {

using GpuResults = GpuContract;

TEST_F(GpuResults, LessAlignedOperandsFollowAnAlignedTuning) {
  Context ctx = gpu_context();
  const std::pair<Problem, std::size_t> cases[] = {{GemmProblem(Op::T, Op::N, 96, 64, 128, DType::f16), 2},
                                                   {GemmProblem(Op::N, Op::N, 96, 64, 128, DType::f32), 4},
                                                   {GemmProblem(Op::N, Op::T, 64, 32, 64, DType::f64), 8},
                                                   {small_conv(Direction::fwd, DType::f16, Layout::nhwc), 2},
                                                   {small_conv(Direction::wgrad, DType::f32, Layout::nchw), 4}};
  for (const auto& [problem, least] : cases) {
    GpuCall aligned(problem);
    aligned.run(ctx);
    aligned.expect_right(ctx);
    for (std::size_t shift = least; shift <= 8; shift *= 2) {
      GpuCall call(problem, {.shift = shift});
      for (int i = 0; i < 2; ++i) {
        call.reset();
        call.run(ctx);
        EXPECT_EQ(cudaGetLastError(), cudaSuccess) << to_string(call.problem());
        call.expect_right(ctx);
      }
    }
  }
}

TEST_F(GpuResults, DeterministicGivesTheSameBitsEveryTime) {
  Context ctx = gpu_context();
  ctx.set_deterministic(true);
  const Problem problems[] = {long_reduction(), small_conv(Direction::wgrad, DType::f16, Layout::nhwc),
                              small_conv(Direction::wgrad, DType::f32, Layout::nchw),
                              small_conv(Direction::dgrad, DType::f32, Layout::nchw)};
  for (const Problem& problem : problems) {
    GpuCall call(problem);
    Bytes first;
    for (int i = 0; i < 20; ++i) {
      call.reset();
      call.run(ctx);
      if (i == 0)
        first = call.output();
      else
        ASSERT_TRUE(call.output() == first) << to_string(call.problem()) << ", call " << i;
    }
    call.expect_right(ctx);
    EXPECT_TRUE(ctx.plan_for(call.problem()).deterministic);
  }
}

TEST_F(GpuResults, Fp32IsStrictUnlessTf32IsAllowed) {
  Context ctx = gpu_context();
  GemmProblem gemm(Op::T, Op::N, 128, 96, 512, DType::f32);
  ConvProblem conv = small_conv(Direction::fwd, DType::f32, Layout::nhwc);
  Constraints loose;
  loose.math = MathMode::tf32 | MathMode::transforms;
  GpuCall strict_gemm(gemm), strict_conv(conv);
  strict_gemm.run(ctx);
  strict_gemm.expect_right({}, Accumulation::plain);
  strict_conv.run(ctx);
  strict_conv.expect_right(ctx);
  EXPECT_LE(strict_conv.error_over_bound({}, Accumulation::transform), 1);

  gemm.compute = conv.compute = Compute::f32_tf32;
  GpuCall loose_gemm(gemm), loose_conv(conv);
  loose_gemm.run(ctx);
  loose_gemm.expect_right(loose, Accumulation::tensor_core);
  loose_conv.run(ctx);
  loose_conv.expect_right(loose, Accumulation::transform);
  EXPECT_EQ(ctx.stats().tuned, 4u) << "what is allowed is part of the key";

  // The same permission given to the context is the same key.
  ctx.set_math_modes(loose.math);
  GpuCall by_mode(GemmProblem(Op::T, Op::N, 128, 96, 512, DType::f32));
  by_mode.run(ctx);
  by_mode.expect_right(loose, Accumulation::tensor_core);
  EXPECT_EQ(ctx.stats().tuned, 4u);
}

TEST_F(GpuResults, ServesSeventyThousandSmallMatrices) {
  Context ctx = gpu_context();
  GemmProblem p(Op::N, Op::T, 5, 4, 6, DType::f32);
  p.batch = 70000;
  GpuCall call(p, {.alpha = 1.5, .beta = -0.25});
  for (int i = 0; i < 2; ++i) {
    call.reset();
    call.run(ctx);
    call.expect_right(ctx);
  }
}

TEST_F(GpuResults, ServesALongThinMatrix) {
  Context ctx = gpu_context();
  for (std::int64_t n : {1, 2}) {
    GpuCall call(GemmProblem(Op::N, Op::N, 3000000, n, 4, DType::f32));
    for (int i = 0; i < 2; ++i) call.run(ctx);
    call.expect_right(ctx);
  }
  GpuCall wide(GemmProblem(Op::T, Op::N, 2, 3000000, 4, DType::f32));
  wide.run(ctx);
  wide.expect_right(ctx);
}

TEST_F(GpuResults, ASecondContextReadsThePlanFileAndTimesNothing) {
  char folder[] = "/tmp/attune_gpu_plans_XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/plans.jsonl";
  const Problem problems[] = {long_reduction(), small_conv(Direction::fwd, DType::f32, Layout::nchw)};
  std::vector<PlanInfo> plans;
  std::vector<Bytes> bits;
  {
    Context ctx = gpu_context();
    ctx.set_deterministic(true);
    ctx.set_plan_file(path);
    for (const Problem& problem : problems) {
      GpuCall call(problem);
      call.run(ctx);
      bits.push_back(call.output());
      plans.push_back(ctx.plan_for(call.problem()));
      EXPECT_EQ(plans.back().source, Source::memory);
    }
  }
  Context ctx = gpu_context();
  ctx.set_deterministic(true);
  ctx.set_plan_file(path);
  EXPECT_EQ(ctx.stats().records, std::size(problems));
  for (std::size_t i = 0; i < std::size(problems); ++i) {
    GpuCall call(problems[i]);
    call.run(ctx);
    const PlanInfo info = ctx.plan_for(call.problem());
    EXPECT_EQ(info.source, Source::file);
    EXPECT_EQ(info.plan, plans[i].plan);
    EXPECT_TRUE(call.output() == bits[i]) << info.plan;
    call.expect_right(ctx);
  }
  EXPECT_EQ(ctx.stats().tuned, 0u);
  EXPECT_EQ(ctx.stats().candidates_timed, 0u);
  std::filesystem::remove_all(folder);
}

TEST_F(GpuResults, ATunedPlanIsThePlanThatItsIdNames) {
  Context ctx = gpu_context();
  ctx.set_deterministic(true);
  for (const Problem& problem : {Problem(long_reduction()), Problem(small_conv(Direction::dgrad, DType::f16, Layout::nhwc))}) {
    GpuCall call(problem);
    call.run(ctx);
    const Bytes tuned = call.output();
    const PlanInfo info = ctx.plan_for(call.problem());
    const Prepared named =
        prepare_plan(ctx.impl().providers(), info.plan, resolve(call.problem()), ctx.impl().constraints_for(call.problem()));
    ASSERT_NE(named.plan, nullptr) << info.plan << ": " << named.why;
    EXPECT_EQ(named.plan->id(), info.plan);
    EXPECT_EQ(named.plan->traits().workspace, info.workspace);
    const DeviceBuffer workspace(named.plan->traits().workspace, 0xff);
    call.reset();
    ASSERT_EQ(named.plan->run(call.launch(workspace.get())), Status::ok) << info.plan;
    EXPECT_TRUE(call.output() == tuned) << info.plan;
  }
}

}  // namespace
}  // namespace attune

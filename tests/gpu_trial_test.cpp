// Trials on the GPU: what a check accepts and catches, what timers say.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "core/tolerance.hpp"
#include "kernels/trial_kernels.hpp"
#include "kernels/trial_sample.hpp"
#include "runtime/cuda_timer.hpp"
#include "runtime/cuda_trial_layout.hpp"
#include "support/gpu.hpp"
#include "support/gpu_plans.hpp"

namespace attune {
namespace {

class GpuTrial : public testing::Test {
 protected:
  void SetUp() override { ATTUNE_SKIP_WITHOUT_GPU(); }

  Check check(const Problem& given, const HonestPlan::Spoil& spoil = {}, std::size_t workspace = 0) {
    const Problem problem = resolve(given);
    const auto trial = gpu_runtime().trial(problem, {}, workspace, 7);
    return trial == nullptr ? Check{} : trial->check(HonestPlan(problem, spoil, workspace));
  }
};

GemmProblem padded_gemm(DType type = DType::f32) {
  GemmProblem p(Op::N, Op::T, 70, 45, 33, type);
  p.batch = 2, p.ldd = 80, p.stride_d = 80 * 45 + 24, p.lda = 75;
  return p;
}

TEST(TrialLayout, KeepsOperandsApartAndAlignedExactly) {
  GemmProblem p = padded_gemm(DType::f16);
  p.beta = Scalar::one, p.align_a = 2, p.align_d = 8;
  const Problem problem = resolve(p);
  const Spans s = spans(problem);
  const TrialLayout layout = trial_layout(problem, 50 << 20, 1000, 4096, 64);
  EXPECT_EQ(layout.sets, 64);
  EXPECT_EQ(layout.a % 4, 2u);
  EXPECT_EQ(layout.b % 256, 0u);
  EXPECT_EQ(layout.d % 16, 8u);
  EXPECT_GE(layout.b, layout.a + s.a.bytes());
  EXPECT_GE(layout.c, layout.b + s.b.bytes());
  EXPECT_GE(layout.d, layout.c + s.c.bytes() + red_zone_bytes);
  EXPECT_GE(layout.set_bytes, layout.d + s.d.bytes() + red_zone_bytes);
  EXPECT_GE(layout.workspace, 64 * layout.set_bytes + red_zone_bytes);
  EXPECT_GE(layout.references, layout.workspace + 1000 + red_zone_bytes);
  EXPECT_GE(layout.total, layout.references + 4096);
  EXPECT_EQ(trial_layout(problem, 50 << 20, 0, 0, 5).sets, 5);
  const Problem large = resolve(GemmProblem(Op::N, Op::N, 8192, 8192, 8192, DType::f32));
  EXPECT_EQ(trial_layout(large, 50 << 20, 0, 0, 64).sets, 1);
  ConvProblem conv(Direction::fwd, {1, 8, 9, 9}, {8, 8, 3, 3});
  conv.beta = Scalar::one;
  const TrialLayout in_place = trial_layout(resolve(conv), 50 << 20, 0, 0, 64);
  EXPECT_EQ(in_place.c, in_place.d);
}

TEST(TrialSamples, HitEachBlockOnceAndStayInside) {
  for (const auto& [rows, cols, edge] : {std::tuple(37, 70, 1), std::tuple(1000, 1003, 8), std::tuple(3001, 4001, 16)}) {
    const SampleGrid grid = sample_grid(rows, cols, 3, 100, 5);
    EXPECT_EQ(grid.edge, edge) << "dense where that is cheap";
    const std::int64_t down = (rows + edge - 1) / edge, across = (cols + edge - 1) / edge;
    ASSERT_EQ(grid.samples, down * across * 3);
    std::vector<int> hits(static_cast<std::size_t>(grid.samples));
    for (std::int64_t s = 0; s < grid.samples; ++s) {
      const Element e = sampled_element(grid, s);
      ASSERT_TRUE(e.row >= 0 && e.row < rows && e.col >= 0 && e.col < cols && e.batch >= 0 && e.batch < 3);
      ++hits[static_cast<std::size_t>(e.batch * down * across + e.col / edge * down + e.row / edge)];
    }
    for (int h : hits) ASSERT_EQ(h, 1);
  }
  const SampleGrid capped = sample_grid(1 << 16, 1 << 16, 1, 1 << 16, 5);
  EXPECT_EQ(capped.samples, std::int64_t{1} << 20);
  EXPECT_EQ(capped.step, 16);
}

TEST(TrialTimer, SizesSamplesByTheExpectedTime) {
  EXPECT_EQ(launches_per_sample(2), 64);
  EXPECT_EQ(launches_per_sample(25), 10);
  EXPECT_EQ(launches_per_sample(1e6), 1);
  EXPECT_GE(launches_per_sample(0), 20);
  EXPECT_GE(launches_per_sample(NAN), 20);
}

TEST_F(GpuTrial, FillsWithUniformNumbersOfFullMantissas) {
  constexpr std::int64_t count = 1 << 18;
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const DeviceBuffer buffer(static_cast<std::size_t>(count) * size_of(type));
    ASSERT_EQ(launch_fill(buffer.get(), type, count, 3, nullptr), cudaSuccess);
    const auto content = buffer.read();
    double sum = 0, squares = 0, neighbours = 0, last = 0, odd = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double x = load_number(content.data(), type, i);
      ASSERT_LE(std::abs(x), 1);
      sum += x, squares += x * x, neighbours += x * last;
      last = x;
      odd += std::to_integer<int>(content[static_cast<std::size_t>(i) * size_of(type)]) & 1;
    }
    EXPECT_NEAR(sum / count, 0, 5e-3);
    EXPECT_NEAR(squares / count, 1.0 / 3, 5e-3);
    EXPECT_NEAR(neighbours / count, 0, 5e-3);
    EXPECT_NEAR(odd / count, 0.5, 1e-2) << "the last bit of the mantissa";
  }
}

TEST_F(GpuTrial, AcceptsWhatIsRight) {
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (Scalar beta : {Scalar::zero, Scalar::one, Scalar::other}) {
      GemmProblem p = padded_gemm(type);
      p.alpha = beta, p.beta = beta;
      if (beta == Scalar::zero) p.alpha = Scalar::one;
      const Check gemm = check(p, {}, 4096);
      EXPECT_EQ(gemm.outcome, Outcome::ok) << gemm.why;
      EXPECT_LE(gemm.error, 1);
      EXPECT_GT(gemm.us, 0);
      for (Direction direction : {Direction::fwd, Direction::dgrad, Direction::wgrad}) {
        ConvProblem c(direction, {2, 6, 9, 8}, {8, 3, 3, 2});
        c.set_dtype(type), c.groups = 2, c.pad = Padding({1, 0}, {0, 2}), c.stride = Spatial(2, 1), c.beta = beta;
        c.layout = type == DType::f16 ? Layout::nhwc : Layout::nchw;
        if (direction == Direction::fwd) c.dilation = 2;
        const Check conv = check(c);
        EXPECT_EQ(conv.outcome, Outcome::ok) << conv.why;
        EXPECT_LE(conv.error, 1);
      }
    }
}

TEST_F(GpuTrial, AcceptsGappedOutputsOfConvolutionsThatAccumulate) {
  ConvProblem c(Direction::fwd, {2, 4, 6, 6}, {4, 4, 3, 3});
  c.set_dtype(DType::f32), c.pad = 1, c.beta = Scalar::other;
  c.y_stride[0] = 400, c.y_stride[1] = 90, c.y_stride[2] = 10, c.y_stride[3] = 1;
  const Check right = check(c);
  EXPECT_EQ(right.outcome, Outcome::ok) << right.why;
  const Check wrong = check(c, [](HonestPlan::Output& d) { store_number(d.body(), d.type, 7, 1.0); });
  EXPECT_EQ(wrong.outcome, Outcome::red_zone) << wrong.why;
}

TEST_F(GpuTrial, AgreesWithTheHostOnLongSums) {
  ConvProblem c(Direction::wgrad, {16, 2, 40, 40}, {3, 2, 3, 3});  // 25,600 terms: a block for each sample
  c.set_dtype(DType::f32), c.pad = 1;
  const Check conv = check(c);
  EXPECT_EQ(conv.outcome, Outcome::ok) << conv.why;
  EXPECT_LT(conv.error, 0.6) << "only the rounding of the output";
  const Check gemm = check(GemmProblem(Op::T, Op::N, 17, 33, 9000, DType::f64));
  EXPECT_EQ(gemm.outcome, Outcome::ok) << gemm.why;
}

TEST_F(GpuTrial, CatchesWritesOutside) {
  const Problem problem = resolve(padded_gemm());
  const auto span = static_cast<std::size_t>(spans(problem).d.bytes());
  const auto spoil_at = [&](std::size_t offset) {
    return check(problem, [offset](HonestPlan::Output& d) { d.bytes[d.margin + offset] = std::byte{1}; }).outcome;
  };
  EXPECT_EQ(spoil_at(static_cast<std::size_t>(-1)), Outcome::red_zone);
  EXPECT_EQ(spoil_at(static_cast<std::size_t>(-4000)), Outcome::red_zone);
  EXPECT_EQ(spoil_at(span), Outcome::red_zone);
  EXPECT_EQ(spoil_at(span + 4000), Outcome::red_zone);
  EXPECT_EQ(spoil_at(4 * 70), Outcome::red_zone) << "between two columns";
  EXPECT_EQ(spoil_at(4 * (80 * 45 + 10)), Outcome::red_zone) << "between two matrices";
  const auto trial = gpu_runtime().trial(problem, {}, 1 << 16, 7);
  EXPECT_EQ(trial->check(FillingPlan(1 << 15, 1)).outcome, Outcome::red_zone) << "beyond the workspace";
}

TEST_F(GpuTrial, CatchesWrongResults) {
  GemmProblem p(Op::N, Op::N, 64, 48, 32, DType::f32);
  const Problem problem = resolve(p);
  const SampleGrid grid = sample_grid(64, 48, 1, 32, 7);
  const Element sampled = sampled_element(grid, 5);
  const auto one = check(p, [&](HonestPlan::Output& d) { d.add(sampled.row + 64 * sampled.col, 1e-3); });
  EXPECT_EQ(one.outcome, Outcome::wrong) << one.why;
  EXPECT_GT(one.error, 1);
  const auto tile = check(p, [](HonestPlan::Output& d) {
    for (int j = 16; j < 32; ++j)
      for (int i = 32; i < 48; ++i) d.add(i + 64 * j, 0.01);
  });
  EXPECT_EQ(tile.outcome, Outcome::wrong) << tile.why;
  const auto nan = check(p, [](HonestPlan::Output& d) { store_number(d.body(), d.type, 100, NAN); });
  EXPECT_EQ(nan.outcome, Outcome::wrong) << nan.why;
  EXPECT_TRUE(std::isinf(nan.error));
  const auto missing = check(p, [](HonestPlan::Output& d) { std::memset(d.body() + 4 * 77, 0xff, 4); });
  EXPECT_EQ(missing.outcome, Outcome::wrong) << "one element was not written: " << missing.why;
}

TEST_F(GpuTrial, ReportsFailuresAndGoesOn) {
  const Problem problem = resolve(GemmProblem(Op::N, Op::N, 64, 64, 64, DType::f32));
  const auto trial = gpu_runtime().trial(problem, {}, 1024, 7);
  const Check refused = trial->check(RefusingPlan());
  EXPECT_EQ(refused.outcome, Outcome::failed);
  EXPECT_NE(refused.why.find("as written"), std::string::npos) << refused.why;
  EXPECT_EQ(trial->check(FillingPlan(2048)).outcome, Outcome::failed) << "the trial has less workspace";
  EXPECT_EQ(trial->timer(RefusingPlan(), TimingMethod::graph, 10), nullptr);
  EXPECT_EQ(trial->timer(RefusingPlan(), TimingMethod::launches, 10), nullptr);
  EXPECT_EQ(trial->check(HonestPlan(problem)).outcome, Outcome::ok);
}

TEST_F(GpuTrial, IsDeniedWhenOperandsDoNotFit) {
  const Problem problem = resolve(GemmProblem(Op::N, Op::N, 1 << 20, 1 << 20, 1 << 20, DType::f64));
  EXPECT_EQ(gpu_runtime().trial(problem, {}, 0, 7), nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(GpuTrial, TimesByBothMethods) {
  const Problem problem = resolve(GemmProblem(Op::N, Op::N, 2048, 2048, 64, DType::f32));
  const auto trial = gpu_runtime().trial(problem, {}, 32 << 20, 7);
  ASSERT_NE(trial, nullptr);
  const FillingPlan small(1 << 10), large(32 << 20);
  for (TimingMethod method : {TimingMethod::graph, TimingMethod::launches}) {
    const auto quick = trial->timer(small, method, 2), slow = trial->timer(large, method, 10);
    ASSERT_NE(quick, nullptr);
    ASSERT_NE(slow, nullptr);
    for (int i = 0; i < 5; ++i) {
      const double quick_us = quick->sample(), slow_us = slow->sample();
      EXPECT_GT(quick_us, 0);
      EXPECT_LT(quick_us, slow_us);
      EXPECT_LT(slow_us, 1000);
    }
  }
  EXPECT_EQ(trial->timer(FillingPlan(16, 0, false), TimingMethod::graph, 10), nullptr) << "cannot be captured";
}

}  // namespace
}  // namespace attune

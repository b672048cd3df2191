// Conformance of every host variant, and the trial's judgement of plans that are wrong.
#include <gtest/gtest.h>

#include <attune/attune.hpp>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>
#include <stdexcept>
#include <thread>

#include "core/problem.hpp"
#include "kernels/common/number.hpp"
#include "kernels/host_packed.hpp"
#include "kernels/host_tiles.hpp"
#include "providers/host.hpp"
#include "runtime/host_runtime.hpp"
#include "support/reference.hpp"

namespace attune {
namespace {

struct Host {
  std::unique_ptr<Runtime> runtime = make_host_runtime();
  std::unique_ptr<Provider> provider = make_host_provider(runtime->info());
};
Host& host() {
  static Host* const made = new Host;
  return *made;
}

Constraints constraints(std::size_t limit = 256 * mebibyte, bool deterministic = false) {
  Constraints c;
  c.workspace_limit = limit;
  c.deterministic = deterministic;
  return c;
}

/// Every variant that the provider lists, checked element by element. Returns how many there were.
std::size_t conform(const Problem& problem, double alpha, double beta, const Constraints& within = constraints()) {
  SCOPED_TRACE(to_string(problem));
  validate(problem);
  test::HostCase c(problem, alpha, beta, 11);
  std::size_t count = 0;
  for (const std::string& variant : host().provider->variants(c.problem(), within, Effort::exhaustive)) {
    Prepared prepared = host().provider->prepare(variant, c.problem(), within);
    EXPECT_EQ(prepared.outcome, Outcome::ok) << variant << ": " << prepared.why;
    if (!prepared.plan) continue;
    EXPECT_EQ(prepared.plan->id(), "host:" + variant);
    EXPECT_LE(prepared.plan->traits().workspace, within.workspace_limit);
    EXPECT_FALSE(host().provider->version(variant).empty());
    EXPECT_EQ(prepared.plan->run(c.launch(prepared.plan->traits().workspace)), Status::ok) << variant;
    const test::Comparison result = c.verify(within, prepared.plan->traits().accumulation);
    EXPECT_TRUE(result.ok) << variant << ": " << result.message;
    ++count;
  }
  EXPECT_GE(count, 2u);
  return count;
}

GemmProblem gemm(std::int64_t m, std::int64_t n, std::int64_t k, DType type = DType::f32, Op a = Op::N, Op b = Op::N) {
  return GemmProblem(a, b, m, n, k, type);
}

class HostRows : public testing::TestWithParam<std::size_t> {};

TEST_P(HostRows, TakesShapesAroundItsTile) {
  const HostRow& row = host_rows[GetParam()];
  if (!host_supports(row.isa)) GTEST_SKIP() << "the CPU lacks the instruction set";
  for (DType type : {DType::f32, DType::f64, DType::bf16}) {
    const std::int64_t mr = row.vectors * vector_bytes(row.isa) / (type == DType::f64 ? 8 : 4), nr = row.columns;
    const std::int64_t sizes[][3] = {{mr, nr, 16},        {mr + 1, nr + 1, 1},
                                     {mr - 1, nr - 1, 7}, {2 * mr + 3, 3 * nr - 1, row.kc + 1},
                                     {row.mc + 1, nr, 3}, {mr, row.nc + 1, 2}};
    for (const auto& size : sizes) {
      if (size[0] < 1 || size[1] < 1) continue;
      GemmProblem p = gemm(size[0], size[1], size[2], type, Op::T);
      p.alpha = p.beta = Scalar::other;
      p.ldd = p.m + 5;
      SCOPED_TRACE(to_string(Problem(p)));
      test::HostCase c(p, 0.7, -1.3, 3);
      Prepared prepared = host().provider->prepare(row.name, c.problem(), constraints());
      ASSERT_TRUE(prepared.plan) << prepared.why;
      ASSERT_EQ(prepared.plan->run(c.launch(prepared.plan->traits().workspace)), Status::ok);
      const test::Comparison result = c.verify(constraints(), Accumulation::plain);
      EXPECT_TRUE(result.ok) << result.message;
    }
  }
}

std::vector<std::size_t> packed_gemm_rows() {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < host_row_count; ++i)
    if (host_rows[i].family == HostFamily::packed) rows.push_back(i);
  return rows;
}
INSTANTIATE_TEST_SUITE_P(Packed, HostRows, testing::ValuesIn(packed_gemm_rows()),
                         [](const auto& info) { return std::string(host_rows[info.param].name); });

TEST(HostGemm, TypesAndTransposes) {
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (Op a : {Op::N, Op::T})
      for (Op b : {Op::N, Op::T})
        for (const auto& size : {std::array{33, 29, 40}, std::array{1, 50, 65}, std::array{70, 1, 19}})
          conform(gemm(size[0], size[1], size[2], type, a, b), 1, 0);
}

TEST(HostGemm, MixedTypes) {
  GemmProblem p = gemm(45, 37, 50, DType::bf16);
  p.c_type = DType::f32;
  conform(p, 1, 0);
  p.b_type = DType::f16;
  p.c_type = DType::f16;
  conform(p, 1, 0);
}

TEST(HostGemm, ScalarsAndStrides) {
  for (DType type : {DType::f16, DType::f32, DType::f64})
    for (Scalar beta : {Scalar::zero, Scalar::one, Scalar::other})
      for (Scalar alpha : {Scalar::one, Scalar::other}) {
        GemmProblem p = gemm(35, 18, 27, type, Op::N, Op::T);
        p.alpha = alpha, p.beta = beta;
        p.lda = 41, p.ldb = 30, p.ldc = 37, p.ldd = 39;
        p.batch = 3;
        p.stride_b = 0;
        p.stride_d = 39 * 18 + 50;
        const double scale = alpha == Scalar::one ? 1 : -0.6, add = beta == Scalar::zero ? 0 : beta == Scalar::one ? 1 : 2.25;
        conform(p, scale, add);
        p.ldc = p.ldd;
        p.stride_c = p.stride_d;
        conform(p, scale, add);
      }
}

TEST(HostGemm, LongSums) { conform(gemm(20, 17, 3000), 1, 0); }

TEST(HostGemm, NoWorkspaceAndDeterministic) {
  for (std::size_t limit : {std::size_t{0}, mebibyte}) conform(gemm(130, 131, 70), 1, 0, constraints(limit));
  const Constraints strict = constraints(32 * mebibyte, true);
  const Problem p = resolve(gemm(200, 150, 300));
  for (const std::string& variant : host().provider->variants(p, strict, Effort::standard)) {
    test::HostCase c(p, 1, 0, 5);
    Prepared prepared = host().provider->prepare(variant, p, strict);
    ASSERT_TRUE(prepared.plan && prepared.plan->traits().deterministic) << variant;
    const std::size_t workspace = prepared.plan->traits().workspace;
    ASSERT_EQ(prepared.plan->run(c.launch(workspace)), Status::ok);
    const std::vector<std::byte> first(c.output(), c.output() + c.output_bytes());
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(prepared.plan->run(c.launch(workspace)), Status::ok);
      EXPECT_EQ(std::memcmp(first.data(), c.output(), first.size()), 0) << variant;
    }
  }
}

ConvProblem conv(Direction direction, Dims x, Dims w, Layout layout = Layout::nchw, DType type = DType::f32) {
  ConvProblem p(direction, x, w);
  p.layout = layout;
  p.set_dtype(type);
  return p;
}

class HostConv : public testing::TestWithParam<std::tuple<Direction, Layout>> {
 protected:
  ConvProblem make(Dims x, Dims w, DType type = DType::f32) const {
    return conv(std::get<0>(GetParam()), x, w, std::get<1>(GetParam()), type);
  }
};

TEST_P(HostConv, Types) {
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    ConvProblem p = make({2, 5, 9, 17}, {7, 5, 3, 3}, type);
    p.pad = 1;
    conform(p, 1, 0);
  }
}

TEST_P(HostConv, MixedTypes) {
  ConvProblem p = make({2, 5, 7, 8}, {6, 5, 3, 3}, DType::bf16);
  (p.direction == Direction::fwd ? p.y_type : p.direction == Direction::dgrad ? p.x_type : p.w_type) = DType::f32;
  conform(p, 1, 0);
}

TEST_P(HostConv, GeometriesOfTwoDimensions) {
  ConvProblem strided = make({2, 6, 11, 14}, {8, 6, 3, 2});
  strided.stride = {2, 3};
  strided.pad = Padding({1, 0}, {2, 1});
  conform(strided, 1, 0);
  ConvProblem dilated = make({1, 4, 13, 12}, {5, 4, 3, 3});
  dilated.dilation = {2, 3};
  dilated.stride = {3, 2};
  dilated.pad = Padding({4, 3}, {0, 5});
  conform(dilated, 1, 0);
  ConvProblem grouped = make({2, 12, 8, 9}, {18, 4, 3, 3});
  grouped.groups = 3;
  grouped.pad = 1;
  conform(grouped, 1, 0);
  ConvProblem depthwise = make({2, 20, 7, 9}, {20, 1, 3, 3});
  depthwise.groups = 20;
  depthwise.pad = 1;
  depthwise.stride = 2;
  conform(depthwise, 1, 0);
  depthwise.w = {40, 1, 3, 3};
  conform(depthwise, 1, 0);
  ConvProblem wide = make({1, 3, 4, 300}, {2, 3, 1, 5});
  wide.pad = Spatial(0, 2);
  conform(wide, 1, 0);
  ConvProblem deep = make({1, 70, 5, 5}, {35, 70, 3, 3});
  deep.pad = 1;
  conform(deep, 1, 0);
}

TEST_P(HostConv, OneTap) {
  conform(make({2, 30, 7, 6}, {25, 30, 1, 1}), 1, 0);
  ConvProblem grouped = make({3, 16, 5, 5}, {8, 8, 1, 1});
  grouped.groups = 2;
  conform(grouped, 1, 0);
  ConvProblem strided = make({2, 9, 7, 6}, {10, 9, 1, 1});
  strided.stride = 2;
  conform(strided, 1, 0);
  conform(make({4, 9, 1, 1}, {10, 9, 1, 1}), 1, 0);
}

TEST_P(HostConv, OtherDimensions) {
  ConvProblem line = make({3, 6, 40}, {9, 6, 5});
  line.stride = 2;
  line.pad = 2;
  conform(line, 1, 0);
  ConvProblem volume = make({2, 4, 5, 6, 7}, {6, 4, 2, 3, 3});
  volume.stride = {2, 1, 2};
  volume.pad = Padding({1, 0, 1}, {0, 1, 2});
  conform(volume, 1, 0);
}

TEST_P(HostConv, ScalarsAndGaps) {
  for (Scalar beta : {Scalar::zero, Scalar::one, Scalar::other})
    for (DType type : {DType::f32, DType::f64}) {
      ConvProblem p = make({2, 5, 6, 7}, {8, 5, 3, 3}, type);
      p.alpha = Scalar::other, p.beta = beta;
      const double add = beta == Scalar::zero ? 0 : beta == Scalar::one ? 1 : -0.4;
      conform(p, 1.5, add);
      p.alpha = Scalar::one;
      conform(p, 1, add);
      const std::int64_t x[] = {700, 120, 18, 2}, w[] = {100, 19, 6, 2}, y[] = {900, 70, 12, 2};
      std::copy(x, x + 4, p.x_stride), std::copy(w, w + 4, p.w_stride), std::copy(y, y + 4, p.y_stride);
      conform(p, 1, add);
    }
}

TEST_P(HostConv, NoWorkspace) {
  ConvProblem p = make({2, 5, 9, 17}, {7, 5, 3, 3});
  conform(p, 1, 0, constraints(0));
}

INSTANTIATE_TEST_SUITE_P(All, HostConv,
                         testing::Combine(testing::Values(Direction::fwd, Direction::dgrad, Direction::wgrad),
                                          testing::Values(Layout::nchw, Layout::nhwc)));

TEST(HostProvider, DefaultsAndRefusals) {
  const Provider& provider = *host().provider;
  for (bool deterministic : {false, true})
    for (std::size_t limit : {std::size_t{0}, 32 * mebibyte}) {
      const Constraints c = constraints(limit, deterministic);
      EXPECT_TRUE(provider.prepare_default(resolve(gemm(64, 64, 64)), c).plan);
      EXPECT_TRUE(provider.prepare_default(resolve(gemm(64, 64, 64, DType::f16)), c).plan);
      const Problem image = resolve(conv(Direction::dgrad, {2, 5, 9, 17}, {7, 5, 3, 3}));
      Prepared prepared = provider.prepare_default(image, c);
      ASSERT_TRUE(prepared.plan);
      EXPECT_TRUE(prepared.plan->traits().deterministic || !deterministic);
    }
  EXPECT_EQ(provider.prepare("no_such_row", resolve(gemm(8, 8, 8)), constraints()).outcome, Outcome::declined);
  EXPECT_EQ(provider.prepare("", resolve(gemm(8, 8, 8)), constraints()).outcome, Outcome::declined);
  EXPECT_EQ(provider.prepare("direct", resolve(gemm(8, 8, 8)), constraints()).outcome, Outcome::declined);
  const auto quick = provider.variants(resolve(gemm(64, 64, 64)), constraints(), Effort::quick);
  const auto all = provider.variants(resolve(gemm(64, 64, 64)), constraints(), Effort::exhaustive);
  EXPECT_LT(quick.size(), all.size());
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
}

TEST(HostProvider, OnePlanOnManyThreads) {
  GemmProblem p = gemm(150, 170, 90);
  const Problem problem = resolve(p);
  const std::shared_ptr<const Plan> plan = host().provider->prepare_default(problem, constraints(32 * mebibyte, true)).plan;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      test::HostCase c(problem, 1, 0, static_cast<std::uint64_t>(t));
      for (int i = 0; i < 10; ++i) {
        Launch launch = c.launch(0);
        launch.workspace = nullptr;
        EXPECT_EQ(host().runtime->run(plan, launch), Status::ok);
        const test::Comparison result = c.verify(constraints(), Accumulation::plain);
        EXPECT_TRUE(result.ok) << result.message;
      }
    });
}

TEST(HostRuntime, TakesWorkspacesFromTheAllocator) {
  struct Counts {
    int taken = 0, given = 0;
  } counts;
  {
    auto runtime = make_host_runtime();
    Allocator hooks;
    hooks.allocate = [](std::size_t bytes, Stream, void* user) {
      ++static_cast<Counts*>(user)->taken;
      return std::malloc(bytes);
    };
    hooks.deallocate = [](void* memory, std::size_t, Stream, void* user) noexcept {
      ++static_cast<Counts*>(user)->given;
      std::free(memory);
    };
    hooks.user = &counts;
    ASSERT_TRUE(runtime->set_allocator(hooks));
    test::HostCase c(gemm(64, 64, 64), 1, 0, 1);
    const std::shared_ptr<const Plan> plan = host().provider->prepare_default(c.problem(), constraints(no_limit, true)).plan;
    ASSERT_GT(plan->traits().workspace, 0u);
    for (int i = 0; i < 3; ++i) {
      Launch launch = c.launch(0);
      launch.workspace = nullptr;
      EXPECT_EQ(runtime->run(plan, launch), Status::ok);
    }
    EXPECT_EQ(counts.taken, 1);
    EXPECT_FALSE(runtime->set_allocator({}));
  }
  EXPECT_EQ(counts.given, 1);
}

TEST(HostRuntime, AnAllocatorThatThrowsHasDenied) {
  auto runtime = make_host_runtime();
  Allocator hooks;
  hooks.allocate = [](std::size_t, Stream, void*) -> void* { throw std::runtime_error("no"); };
  hooks.deallocate = [](void*, std::size_t, Stream, void*) noexcept {};
  ASSERT_TRUE(runtime->set_allocator(hooks));
  test::HostCase c(gemm(64, 64, 64), 1, 0, 1);
  const std::shared_ptr<const Plan> plan = host().provider->prepare_default(c.problem(), constraints(no_limit, true)).plan;
  Launch launch = c.launch(0);
  launch.workspace = nullptr;
  EXPECT_EQ(runtime->run(plan, launch), Status::no_memory);
}

TEST(HostRuntime, OneMeasurementAtATimeForAllContexts) {
  EXPECT_EQ(&make_host_runtime()->measuring(), &make_host_runtime()->measuring());
}

TEST(HostGemm, IntegersWrapAroundExactly) {
  constexpr std::int64_t m = 33, n = 19, k = 70;
  const std::int32_t alpha = 2'000'000'011, beta = (1 << 30) + 1, zero = 0;
  std::vector<std::int8_t> a(m * k), b(k * n);
  std::vector<std::int32_t> c(m * n), d(m * n);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::int8_t>(i * 37 % 256 - 128);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::int8_t>(i * 59 % 256 - 128);
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = (1 << 30) + static_cast<std::int32_t>(i * 7919);
  GemmProblem p(Op::N, Op::N, m, n, k, DType::i8);
  p.alpha = p.beta = Scalar::other;
  const Problem problem = resolve(p);
  const auto check = [&](const Plan& plan, const std::int32_t& by) {
    std::vector<std::byte> workspace(plan.traits().workspace + 256);
    Launch launch{a.data(), b.data(), c.data(), d.data(), &by, &beta};
    launch.workspace = workspace.data() + (256 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 256);
    std::fill(d.begin(), d.end(), -1);
    ASSERT_EQ(plan.run(launch), Status::ok) << plan.id();
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t i = 0; i < m; ++i) {
        std::uint32_t sum = 0;
        for (std::int64_t l = 0; l < k; ++l) sum += static_cast<std::uint32_t>(a[i + l * m] * b[l + j * k]);
        const std::uint32_t want =
            static_cast<std::uint32_t>(by) * sum + static_cast<std::uint32_t>(beta) * static_cast<std::uint32_t>(c[i + j * m]);
        ASSERT_EQ(d[i + j * m], static_cast<std::int32_t>(want)) << plan.id() << " " << i << " " << j;
      }
  };
  int plans = 0;
  for (const std::string& variant : host().provider->variants(problem, constraints(), Effort::exhaustive)) {
    const Prepared made = host().provider->prepare(variant, problem, constraints());
    if (!made.plan) continue;
    check(*made.plan, alpha);
    ++plans;
  }
  EXPECT_GE(plans, 2);
  p.alpha = Scalar::zero;
  check(*host().runtime->scale_plan(resolve(p)), zero);
}

TEST(HostRuntime, Scales) {
  GemmProblem p = gemm(9, 7, 4);
  p.alpha = Scalar::zero, p.beta = Scalar::other, p.ldd = 12, p.ldc = 10, p.batch = 2;
  ConvProblem q = conv(Direction::fwd, {2, 3, 5, 5}, {4, 3, 3, 3});
  q.alpha = Scalar::zero;
  for (Scalar beta : {Scalar::zero, Scalar::other}) {
    p.beta = q.beta = beta;
    for (const Problem& problem : {Problem(p), Problem(q)}) {
      test::HostCase c(problem, 0, beta == Scalar::zero ? 0 : 2.5, 1);
      EXPECT_EQ(host().runtime->scale_plan(c.problem())->run(c.launch(0)), Status::ok);
      const test::Comparison result = c.verify(constraints(), Accumulation::plain);
      EXPECT_TRUE(result.ok) << result.message;
    }
  }
}

/// A plan that does right and then something to the output.
class Spoiled final : public Plan {
 public:
  using Spoil = void (*)(float* d);
  Spoiled(std::shared_ptr<const Plan> plan, Spoil spoil)
      : Plan("host:spoiled", plan->traits()), plan_(std::move(plan)), spoil_(spoil) {}
  Status run(const Launch& launch) const noexcept override {
    if (spoil_ == nullptr) return Status::device_error;
    const Status status = plan_->run(launch);
    spoil_(static_cast<float*>(launch.d));
    return status;
  }

 private:
  std::shared_ptr<const Plan> plan_;
  Spoil spoil_;
};

TEST(HostTrial, JudgesPlans) {
  constexpr int m = 70, n = 50, ld = 75;
  GemmProblem p = gemm(m, n, 40);
  p.ldd = ld, p.beta = Scalar::other, p.alpha = Scalar::other;
  const Problem problem = resolve(p);
  auto trial = host().runtime->trial(problem, constraints(), mebibyte, 3);
  ASSERT_TRUE(trial);
  const std::shared_ptr<const Plan> right = host().provider->prepare_default(problem, constraints(mebibyte, true)).plan;
  const auto outcome = [&](Spoiled::Spoil spoil) { return trial->check(Spoiled(right, spoil)).outcome; };
  EXPECT_EQ(outcome([](float*) {}), Outcome::ok);
  EXPECT_EQ(outcome(nullptr), Outcome::failed);
  EXPECT_EQ(outcome([](float* d) { d[-1] = 0; }), Outcome::red_zone);
  EXPECT_EQ(outcome([](float* d) { d[-1000] = 0; }), Outcome::red_zone);
  EXPECT_EQ(outcome([](float* d) { d[ld * (n - 1) + m] = 0; }), Outcome::red_zone);
  EXPECT_EQ(outcome([](float* d) { d[2 * ld + m + 1] = 0; }), Outcome::red_zone);
  EXPECT_EQ(outcome([](float* d) { std::memset(d + ld * 30, 0xff, 20 * ld * 4); }), Outcome::wrong);
  EXPECT_EQ(outcome([](float* d) { std::memset(d + ld * 30 + 3, 0xff, 4); }), Outcome::wrong);
  EXPECT_EQ(outcome([](float* d) {
              for (int j = 16; j < 32; ++j)
                for (int i = 32; i < 48; ++i) d[j * ld + i] *= 1.001f;
            }),
            Outcome::wrong);
  EXPECT_EQ(outcome([](float* d) {
              for (int i = 0; i < 16; ++i) d[48 * ld + 64 + i % 6] = d[49 * ld + 64 + i % 6] = 0;
            }),
            Outcome::wrong);
  const Check check = trial->check(*right);
  EXPECT_EQ(check.outcome, Outcome::ok) << check.why;
  EXPECT_LE(check.error, 1);
  EXPECT_GT(check.us, 0);
  EXPECT_GT(trial->timer(*right, TimingMethod::launches, check.us)->sample(), 0);
  EXPECT_TRUE(std::isnan(trial->timer(Spoiled(right, nullptr), TimingMethod::graph, 1)->sample()));
}

TEST(HostTrial, AcceptsEveryVariantOfConvolutions) {
  for (Direction direction : {Direction::fwd, Direction::dgrad, Direction::wgrad})
    for (Scalar beta : {Scalar::zero, Scalar::other}) {
      ConvProblem p = conv(direction, {2, 8, 12, 12}, {16, 8, 3, 3}, Layout::nhwc, DType::bf16);
      p.beta = beta, p.pad = 1, p.align_x = 2, p.align_y = 4;
      const Problem problem = resolve(p);
      auto trial = host().runtime->trial(problem, constraints(), 32 * mebibyte, 3);
      for (const std::string& variant : host().provider->variants(problem, constraints(32 * mebibyte), Effort::exhaustive)) {
        const Check check = trial->check(*host().provider->prepare(variant, problem, constraints(32 * mebibyte)).plan);
        EXPECT_EQ(check.outcome, Outcome::ok) << variant << ": " << check.why;
      }
    }
}

TEST(HostNumber, RoundsSixteenBitTypesToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const F16 h{static_cast<std::uint16_t>(bits)};
    const BF16 b{static_cast<std::uint16_t>(bits)};
    if ((bits & 0x7c00) != 0x7c00 || (bits & 0x3ff) == 0)
      EXPECT_EQ(narrow<F16>(widen(h)).bits, bits);
    else
      EXPECT_TRUE(std::isnan(widen(h)) && std::isnan(widen(narrow<F16>(widen(h)))));
    if ((bits & 0x7f80) != 0x7f80 || (bits & 0x7f) == 0)
      EXPECT_EQ(narrow<BF16>(widen(b)).bits, bits);
    else
      EXPECT_TRUE(std::isnan(widen(narrow<BF16>(widen(b)))));
  }
  EXPECT_EQ(widen(F16{1}), 0x1p-24f);
  EXPECT_EQ(narrow<F16>(0x1p-25).bits, 0);
  EXPECT_EQ(narrow<F16>(0x1.8p-25).bits, 1);
  EXPECT_EQ(narrow<F16>(65519.0).bits, 0x7bff);
  EXPECT_EQ(narrow<F16>(65520.0).bits, 0x7c00);
  EXPECT_EQ(narrow<F16>(1 + 0x1p-11).bits, 0x3c00);
  EXPECT_EQ(narrow<F16>(1 + 0x3p-11).bits, 0x3c02);
  EXPECT_EQ(narrow<BF16>(1 + 0x1p-8).bits, 0x3f80);
  EXPECT_EQ(narrow<BF16>(1 + 0x3p-8).bits, 0x3f82);
}

TEST(HostTrial, OperandsPastTheMemoryAreNotTried) {
  Context ctx(Device::host());
  GemmProblem p(Op::N, Op::N, 1, 1, 2, DType::f32);
  p.lda = p.ldb = std::int64_t{1} << 60;
  const PlanInfo info = ctx.tune(p);
  EXPECT_EQ(info.timed, 0);
  ConvProblem c = std::get<ConvProblem>(parse_problem("conv x=1,1,9 w=1,1,3 dilation=9223372036854775807"));
  EXPECT_THROW(validate(c), Error);
}

}  // namespace
}  // namespace attune

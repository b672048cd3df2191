// A call that hits the plan cache allocates nothing of ours.
#include <gtest/gtest.h>

#include <attune/attune.hpp>
#include <atomic>
#include <cstdlib>
#include <new>

#include "context_impl.hpp"
#include "support/scripted.hpp"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const auto a = static_cast<std::size_t>(alignment);
  if (void* p = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace attune {
namespace {

class QuietPlan final : public Plan {
 public:
  explicit QuietPlan(PlanTraits traits) : Plan("quiet:0", traits) {}
  Status run(const Launch&) const noexcept override { return Status::ok; }
};

class QuietProvider final : public Provider {
 public:
  explicit QuietProvider(PlanTraits traits) : traits_(traits) {}
  std::string_view name() const noexcept override { return "quiet"; }
  std::string version(std::string_view) const override { return "1"; }
  std::vector<std::string> variants(const Problem&, const Constraints&, Effort) const override { return {}; }
  Prepared prepare(std::string_view, const Problem&, const Constraints&) const override { return declined("default only"); }
  Prepared prepare_default(const Problem&, const Constraints&) const override {
    return {std::make_unique<QuietPlan>(traits_), Outcome::ok, ""};
  }

 private:
  PlanTraits traits_;
};

class Hit : public testing::TestWithParam<std::size_t> {
 protected:
  Hit() : ctx_(make(GetParam())) { ctx_.set_benchmark(false); }

  static Context make(std::size_t workspace) {
    PlanTraits traits;
    traits.workspace = workspace;
    Backend backend;
    backend.runtime = std::make_unique<test::ScriptedRuntime>(std::make_shared<test::Journal>());
    backend.providers.push_back(std::make_unique<QuietProvider>(traits));
    return Context::Impl::wrap(std::make_unique<Context::Impl>(std::move(backend), [](const char*) -> const char* { return nullptr; }));
  }

  template <class Call>
  void expect_none(Call&& call) {
    call();
    EXPECT_GT(allocations, 0) << "the counter counts";
    const long before = allocations;
    for (int i = 0; i < 100; ++i) call();
    EXPECT_EQ(allocations, before);
  }

  Context ctx_;
  float a_[64] = {}, b_[64] = {}, d_[64] = {};
  float alpha_ = 1, beta_ = 2;
};

TEST_P(Hit, OfEveryEntryPointAllocatesNothing) {
  expect_none([&] { tuned_gemm(ctx_, GemmProblem(Op::N, Op::N, 4, 4, 4, DType::f32), {a_, b_, d_}); });
  expect_none([&] {
    tuned_gemm(ctx_, Op::N, Op::T, 4, 4, 4, &alpha_, a_, DType::f32, 4, b_, DType::f32, 4, &beta_, d_, DType::f32, 4, Compute::f32);
  });
  expect_none([&] {
    tuned_gemm_strided_batched(ctx_, Op::N, Op::N, 2, 2, 2, &alpha_, a_, DType::f32, 2, 4, b_, DType::f32, 2, 0, &beta_, d_, DType::f32, 2, 4,
                               3, Compute::f32);
  });
  expect_none([&] {
    tuned_gemm_row_major(ctx_, Op::T, Op::N, 4, 4, 4, &alpha_, a_, DType::f32, 4, b_, DType::f32, 4, &beta_, d_, DType::f32, 4,
                         Compute::f32_tf32);
  });
  const ConvProblem conv(Direction::fwd, {1, 1, 4, 4}, {1, 1, 3, 3});
  expect_none([&] { tuned_conv(ctx_, conv, ConvArgs::fwd(a_, b_, d_)); });
  expect_none([&] { EXPECT_EQ(tuned_conv(ctx_, conv, ConvArgs::fwd(a_, b_, d_), nullptr, std::nothrow), Status::ok); });
}

INSTANTIATE_TEST_SUITE_P(WithoutAndWithWorkspace, Hit, testing::Values(0, 4096));

}  // namespace
}  // namespace attune

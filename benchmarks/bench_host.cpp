// Host time of a call that hits the plan cache, with a plan that does nothing: what Attune adds to a launch.
//   bench_host --benchmark_filter=hit/ --benchmark_repetitions=5
#include <attune/attune.hpp>
#include <benchmark/benchmark.h>

#include "context_impl.hpp"
#include "support/scripted.hpp"

namespace {

using namespace attune;

class EmptyPlan final : public Plan {
 public:
  EmptyPlan() : Plan("empty:0", {}) {}
  Status run(const Launch& launch) const noexcept override {
    benchmark::DoNotOptimize(launch.d);
    return Status::ok;
  }
};

class EmptyProvider final : public Provider {
 public:
  std::string_view name() const noexcept override { return "empty"; }
  std::string version(std::string_view) const override { return "1"; }
  std::vector<std::string> variants(const Problem&, const Constraints&, Effort) const override { return {}; }
  Prepared prepare(std::string_view, const Problem&, const Constraints&) const override { return declined("default only"); }
  Prepared prepare_default(const Problem&, const Constraints&) const override {
    return {std::make_unique<EmptyPlan>(), Outcome::ok, ""};
  }
};

Context& context() {
  static Context ctx = [] {
    Backend backend;
    backend.runtime = std::make_unique<test::ScriptedRuntime>(std::make_shared<test::Journal>());
    backend.providers.push_back(std::make_unique<EmptyProvider>());
    Context made = Context::Impl::wrap(std::make_unique<Context::Impl>(std::move(backend), [](const char*) -> const char* { return nullptr; }));
    made.set_benchmark(false);
    return made;
  }();
  return ctx;
}

alignas(64) char a[64], b[1 << 20], d[64];

/// `keys` problems in the cache, asked for one after another.
void hit_gemm(benchmark::State& state) {
  Context& ctx = context();
  const float alpha = 1, beta = 0;
  const auto call = [&](std::int64_t k) {
    tuned_gemm(ctx, Op::N, Op::N, 4, 4, k, &alpha, a, DType::f32, 4, b, DType::f32, k, &beta, d, DType::f32, 4, Compute::f32);
  };
  const std::int64_t keys = state.range(0);
  for (std::int64_t k = 1; k <= keys; ++k) call(k % 4 + 1);
  std::int64_t next = 0;
  for (auto _ : state) call(++next % keys % 4 + 1);
}

void hit_gemm_problem(benchmark::State& state) {
  Context& ctx = context();
  const GemmProblem problem(Op::N, Op::N, 4, 4, 4, DType::f32);
  const GemmArgs args(a, b, d);
  tuned_gemm(ctx, problem, args);
  for (auto _ : state) tuned_gemm(ctx, problem, args);
}

void hit_batched(benchmark::State& state) {
  Context& ctx = context();
  const float alpha = 1, beta = 0;
  const auto call = [&] {
    tuned_gemm_strided_batched(ctx, Op::T, Op::N, 2, 2, 4, &alpha, a, DType::f32, 4, 0, b, DType::f32, 4, 8, &beta, d, DType::f32, 2, 4, 4,
                               Compute::f32);
  };
  call();
  for (auto _ : state) call();
}

void hit_conv(benchmark::State& state) {
  Context& ctx = context();
  ConvProblem problem(Direction::fwd, {1, 1, 4, 4}, {1, 1, 3, 3});
  problem.layout = Layout::nhwc;
  const ConvArgs args = ConvArgs::fwd(a, b, d);
  tuned_conv(ctx, problem, args);
  for (auto _ : state) tuned_conv(ctx, problem, args);
}

BENCHMARK(hit_gemm)->Name("hit/gemm")->Arg(1)->Threads(1)->Threads(16);
BENCHMARK(hit_gemm)->Name("hit/gemm_rotating")->Arg(4);
BENCHMARK(hit_gemm_problem)->Name("hit/gemm_problem")->Threads(1)->Threads(16);
BENCHMARK(hit_batched)->Name("hit/batched");
BENCHMARK(hit_conv)->Name("hit/conv")->Threads(1)->Threads(16);

}  // namespace

BENCHMARK_MAIN();

// Random problems through the public interface on the host device, every element checked; random text into the parsers. The seed
// is printed; ATTUNE_FUZZ_SEED repeats a run.
#include <gtest/gtest.h>

#include <attune/attune.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "core/problem.hpp"
#include "support/reference.hpp"
#include "tune/record.hpp"

namespace attune {
namespace {

std::uint32_t seed() {
  static const std::uint32_t value = [] {
    const char* given = std::getenv("ATTUNE_FUZZ_SEED");
    const auto now = static_cast<std::uint32_t>(std::chrono::system_clock::now().time_since_epoch().count());
    const std::uint32_t chosen = given != nullptr ? static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10)) : now;
    std::printf("ATTUNE_FUZZ_SEED=%u\n", chosen);
    return chosen;
  }();
  return value;
}

class Random {
 public:
  explicit Random(std::uint32_t stream) : engine_(seed() + stream) {}
  std::int64_t in(std::int64_t least, std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(least, most)(engine_); }
  bool chance(int percent) { return in(1, 100) <= percent; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[in(0, static_cast<std::int64_t>(values.size()) - 1)];
  }

 private:
  std::mt19937 engine_;
};

std::int64_t size(Random& r) { return r.chance(10) ? 1 : r.chance(5) ? 0 : r.in(2, 70); }

GemmProblem random_gemm(Random& r) {
  GemmProblem p(r.one_of({Op::N, Op::T}), r.one_of({Op::N, Op::T}), size(r), size(r), size(r),
                r.one_of({DType::f16, DType::bf16, DType::f32, DType::f64}));
  if (p.c_type != DType::f64 && p.c_type != DType::f32 && r.chance(30)) p.c_type = DType::f32;
  p.batch = r.chance(30) ? r.in(2, 5) : 1;
  const std::int64_t rows_a = p.op_a == Op::N ? p.m : p.k, rows_b = p.op_b == Op::N ? p.k : p.n;
  if (r.chance(30)) p.lda = std::max<std::int64_t>(rows_a, 1) + r.in(0, 9);
  if (r.chance(30)) p.ldb = std::max<std::int64_t>(rows_b, 1) + r.in(0, 9);
  if (r.chance(30)) p.ldc = p.ldd = std::max<std::int64_t>(p.m, 1) + r.in(0, 9);
  if (r.chance(10)) p.stride_a = 0;
  if (r.chance(10)) p.stride_b = 0;
  return p;
}

ConvProblem random_conv(Random& r) {
  const std::int64_t groups = r.chance(30) ? r.in(2, 6) : 1, c = groups * r.in(1, 9), k = groups * r.in(1, 9);
  const int rank = static_cast<int>(r.one_of({1, 2, 2, 2, 3}));
  Dims x{r.chance(5) ? 0 : r.in(1, 3), c}, w{k, c / groups};
  ConvProblem p(r.one_of({Direction::fwd, Direction::dgrad, Direction::wgrad}), x, w);
  p.groups = groups;
  p.x.count = p.w.count = rank + 2;
  for (int i = 0; i < rank; ++i) {
    p.w.size[i + 2] = r.in(1, 4);
    p.dilation[i] = r.in(1, 2);
    p.stride[i] = r.in(1, 3);
    p.pad.before[i] = r.in(0, 2);
    p.pad.after[i] = r.in(0, 2);
    p.x.size[i + 2] = p.dilation[i] * (p.w.size[i + 2] - 1) + 1 + r.in(0, 9);
  }
  p.set_dtype(r.one_of({DType::f16, DType::bf16, DType::f32, DType::f64}));
  p.layout = r.one_of({Layout::nchw, Layout::nhwc});
  return p;
}

void set_scalars(Random& r, Scalar& alpha, Scalar& beta) {
  alpha = r.one_of({Scalar::one, Scalar::one, Scalar::other, Scalar::zero});
  beta = r.one_of({Scalar::zero, Scalar::zero, Scalar::one, Scalar::other});
}

class HostFuzz : public testing::Test {
 protected:
  HostFuzz() : ctx_(Device::host()) {
    ctx_.set_effort(Effort::quick);
    ctx_.set_budget_ms(20);
  }

  void run(const Problem& problem) {
    SCOPED_TRACE(to_string(problem));
    const auto value = [](Scalar scalar, double other) { return scalar == Scalar::zero ? 0.0 : scalar == Scalar::one ? 1.0 : other; };
    Scalar alpha = Scalar::one, beta = Scalar::zero;
    visit_contraction(problem, [&](const auto& p) { alpha = p.alpha, beta = p.beta; });
    test::HostCase host(problem, value(alpha, 1.25), value(beta, -0.75), seed());
    const Launch l = host.launch(0);
    if (const auto* g = std::get_if<GemmProblem>(&problem))
      tuned_gemm(ctx_, *g, {l.a, l.b, l.c, l.d, l.alpha, l.beta});
    else
      tuned_conv(ctx_, std::get<ConvProblem>(problem), {l.a, l.b, l.d, l.alpha, l.beta});
    const test::Comparison found = host.verify(Constraints{}, Accumulation::plain);
    ASSERT_TRUE(found.ok) << found.message;
  }

  Context ctx_;
};

TEST_F(HostFuzz, GemmIsRightInEveryElement) {
  Random r(1);
  for (int i = 0; i < 150 && !HasFailure(); ++i) {
    GemmProblem p = random_gemm(r);
    set_scalars(r, p.alpha, p.beta);
    run(p);
  }
}

TEST_F(HostFuzz, ConvolutionIsRightInEveryElement) {
  Random r(2);
  for (int i = 0; i < 150 && !HasFailure(); ++i) {
    ConvProblem p = random_conv(r);
    set_scalars(r, p.alpha, p.beta);
    run(p);
  }
}

TEST(ParserFuzz, TextIsReadOrRefused) {
  Random r(3);
  const std::string whole = to_string(Problem(random_gemm(r))) + " " + to_string(Problem(random_conv(r)));
  for (int i = 0; i < 20000; ++i) {
    std::string text = i % 2 == 0 ? to_string(Problem(random_gemm(r))) : to_string(Problem(random_conv(r)));
    for (std::int64_t edits = r.in(1, 3); edits > 0; --edits)
      text[static_cast<std::size_t>(r.in(0, static_cast<std::int64_t>(text.size()) - 1))] = static_cast<char>(r.in(0, 255));
    try {
      validate(parse_problem(text));
    } catch (const Error&) {
    }
  }
}

TEST(ParserFuzz, PlanFileLinesAreReadOrRefused) {
  Random r(4);
  Record record;
  record.key = {"Fictional GPU|9.0|4|0|0", "gemm m=1 n=1 k=1", "math=strict workspace=32MiB"};
  record.plan = record.default_plan = "fake:a";
  record.version = record.default_version = "1";
  record.us = record.default_us = 5;
  const std::string good = to_line(record);
  std::string why;
  ASSERT_TRUE(parse_line(good, why)) << why;
  for (int i = 0; i < 20000; ++i) {
    std::string line = good;
    for (std::int64_t edits = r.in(1, 4); edits > 0; --edits)
      line[static_cast<std::size_t>(r.in(0, static_cast<std::int64_t>(line.size()) - 1))] = static_cast<char>(r.in(0, 255));
    (void)parse_line(line, why);
  }
}

}  // namespace
}  // namespace attune

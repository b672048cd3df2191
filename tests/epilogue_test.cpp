// Epilogues, fp8 and integers on the host engine: every variant against the double-precision reference.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <attune/attune.hpp>

#include "core/names.hpp"
#include "core/problem.hpp"
#include "kernels/common/number.hpp"
#include "providers/host.hpp"
#include "runtime/host_runtime.hpp"
#include "support/reference.hpp"

namespace attune {
namespace {

/// Runs every variant that the host provider lists; returns how many.
std::size_t conform(const Problem& problem, double alpha, double beta) {
  SCOPED_TRACE(to_string(problem));
  validate(problem);
  static const auto runtime = make_host_runtime();
  static const auto provider = make_host_provider(runtime->info());
  Constraints within;
  within.workspace_limit = 256 * mebibyte;
  test::HostCase c(problem, alpha, beta, 5);
  std::size_t count = 0;
  for (const std::string& variant : provider->variants(c.problem(), within, Effort::exhaustive)) {
    const Prepared prepared = provider->prepare(variant, c.problem(), within);
    if (!prepared.plan) continue;
    EXPECT_EQ(prepared.plan->run(c.launch(prepared.plan->traits().workspace)), Status::ok) << variant;
    const test::Comparison result = c.verify(within, prepared.plan->traits().accumulation);
    EXPECT_TRUE(result.ok) << variant << ": " << result.message;
    ++count;
  }
  return count;
}

class EveryEpilogue : public testing::TestWithParam<Epilogue> {};

TEST_P(EveryEpilogue, OfGemm) {
  for (DType type : {DType::f32, DType::bf16, DType::f64}) {
    GemmProblem p(Op::T, Op::N, 37, 21, 45, type);
    p.batch = 2;
    p.epilogue = GetParam();
    EXPECT_GE(conform(p, 1, 0), 2u);
    p.alpha = p.beta = Scalar::other;
    p.ldd = 41, p.ldc = 50;
    EXPECT_GE(conform(p, 0.7, -1.25), 2u);
  }
}

TEST_P(EveryEpilogue, OfConvolution) {
  for (Layout layout : {Layout::nchw, Layout::nhwc}) {
    ConvProblem p(Direction::fwd, {2, 6, 9, 8}, {8, 3, 3, 3});
    p.groups = 2, p.pad = 1, p.layout = layout, p.epilogue = GetParam();
    EXPECT_GE(conform(p, 1, 0), 2u);
    p.alpha = p.beta = Scalar::other;
    EXPECT_GE(conform(p, 0.7, -1.25), 2u);
    ConvProblem one(Direction::fwd, {2, 8, 5, 5}, {16, 8, 1, 1});
    one.layout = layout, one.epilogue = GetParam(), one.beta = Scalar::one;
    EXPECT_GE(conform(one, 1, 1), 2u);
    ConvProblem depthwise(Direction::fwd, {1, 16, 7, 7}, {16, 1, 3, 3});
    depthwise.groups = 16, depthwise.layout = layout, depthwise.epilogue = GetParam();
    EXPECT_GE(conform(depthwise, 1, 0), 2u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryEpilogue,
                         testing::Values(Epilogue::none, Epilogue::bias, Epilogue::relu, Epilogue::bias_relu, Epilogue::gelu_erf,
                                         Epilogue::bias_gelu_erf, Epilogue::gelu_tanh, Epilogue::bias_gelu_tanh, Epilogue::silu,
                                         Epilogue::bias_silu),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Activations, AreThoseOfTheirDefinitions) {
  EXPECT_EQ(activated(Activation::relu, -2.0), 0);
  EXPECT_EQ(activated(Activation::relu, 2.0), 2);
  EXPECT_TRUE(std::isnan(activated(Activation::relu, std::numeric_limits<double>::quiet_NaN())));
  EXPECT_NEAR(activated(Activation::gelu_erf, 1.0), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(activated(Activation::gelu_tanh, 1.0), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(activated(Activation::silu, 1.0), 0.7310585786300049, 1e-15);
  EXPECT_EQ(activated(Activation::silu, -1e4), 0);
  // No activation is steeper than the bound that the check grants.
  for (Activation a : {Activation::relu, Activation::gelu_erf, Activation::gelu_tanh, Activation::silu})
    for (double x = -8; x < 8; x += 1e-3)
      EXPECT_LE(std::abs(activated(a, x + 1e-6) - activated(a, x)), 1.0001 * activation_slope * 1e-6);
}

TEST(HostIntegers, AreExactAndWrapAround) {
  for (Op op : {Op::N, Op::T}) {
    GemmProblem p(op, Op::N, 33, 18, 100, DType::i8);
    EXPECT_GE(conform(p, 1, 0), 2u);
    p.alpha = p.beta = Scalar::other;
    EXPECT_GE(conform(p, 3, -2), 2u);
  }
  Context ctx(Device::host());
  const std::int8_t a = 127, b = 127;
  std::int32_t d = 5;
  const std::int32_t alpha = 1 << 20, beta = 1;
  GemmProblem p(Op::N, Op::N, 1, 1, 1, DType::i8);
  tuned_gemm(ctx, p, GemmArgs(&a, &b, &d, &d, &alpha, &beta));
  EXPECT_EQ(d, static_cast<std::int32_t>(static_cast<std::uint32_t>((std::int64_t{127} * 127 << 20) + 5)));
}

TEST(HostFp8, MultipliesByItsScales) {
  for (DType a : {DType::f8_e4m3, DType::f8_e5m2})
    for (DType out : {DType::f16, DType::bf16, DType::f32}) {
      GemmProblem p(Op::T, Op::N, 19, 22, 48, a);
      p.c_type = out;
      EXPECT_GE(conform(p, 1, 0), 2u);
    }
  Context ctx(Device::host());
  const F8E4M3 a = narrow<F8E4M3>(3), b = narrow<F8E4M3>(-5);
  const float scale_a = 0.5f, scale_b = 8;
  float d = 0, bias = 100;
  GemmProblem p(Op::N, Op::N, 1, 1, 1, DType::f8_e4m3);
  p.c_type = DType::f32, p.epilogue = Epilogue::bias;
  GemmArgs args(&a, &b, &d);
  args.scale_a = &scale_a, args.scale_b = &scale_b, args.bias = &bias;
  tuned_gemm(ctx, p, args);
  EXPECT_EQ(d, 40);
  args.bias = nullptr;
  EXPECT_EQ(tuned_gemm(ctx, p, args, nullptr, std::nothrow), Status::invalid_argument);
  EXPECT_NE(std::string(last_error_message()).find("bias"), std::string::npos);
}

TEST(Fp8Numbers, RoundTripAndSaturate) {
  for (int bits = 0; bits < 256; ++bits) {
    const F8E4M3 e4{static_cast<std::uint8_t>(bits)};
    const F8E5M2 e5{static_cast<std::uint8_t>(bits)};
    if ((bits & 0x7f) != 0x7f && bits != 0x80) {
      EXPECT_EQ(narrow<F8E4M3>(static_cast<double>(widen(e4))).bits, bits);
    }
    if ((bits & 0x7f) < 0x7c && bits != 0x80) {
      EXPECT_EQ(narrow<F8E5M2>(static_cast<double>(widen(e5))).bits, bits);
    }
  }
  EXPECT_TRUE(std::isnan(widen(F8E4M3{0x7f})));
  EXPECT_EQ(widen(narrow<F8E4M3>(1e9)), 448);
  EXPECT_EQ(widen(narrow<F8E4M3>(-449)), -448);
  EXPECT_EQ(widen(narrow<F8E5M2>(1e9)), 57344);
  EXPECT_EQ(widen(narrow<F8E4M3>(1.0625)), 1);    // a tie goes to the even neighbour
  EXPECT_EQ(widen(narrow<F8E4M3>(1.1875)), 1.25);
  EXPECT_EQ(widen(narrow<F8E4M3>(0x1p-9)), 0x1p-9f);
}

TEST(HostScaling, TakesTheEpilogueToo) {
  Context ctx(Device::host());
  const float c[6] = {1, -2, 3, -4, 5, -6}, bias[2] = {0.5f, 1.5f};
  float d[6] = {};
  GemmProblem p(Op::N, Op::N, 2, 3, 0, DType::f32);
  p.epilogue = Epilogue::bias_relu;
  const float one = 1, two = 2;
  GemmArgs args(nullptr, nullptr, c, d, &one, &two);
  args.bias = bias;
  tuned_gemm(ctx, p, args);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(d[i], std::max(0.0f, 2 * c[i] + bias[i % 2]));
}

}  // namespace
}  // namespace attune

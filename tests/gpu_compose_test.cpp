// Composed plans: every one that can be made of a problem, around every provider.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "core/names.hpp"
#include "providers/builtin.hpp"
#include "support/gpu_conform.hpp"

namespace attune {
namespace {

class Compose : public GpuConformance {
 protected:
  void SetUp() override {
    GpuConformance::SetUp();
    if (!missing_gpu().empty()) return;
    backend_ = make_backend(Device::cuda(0));
    test(std::move(backend_.providers.back()));
    ASSERT_EQ(provider_->name(), "compose");
    only_ = "+tile:";  // some of the vendors' kernels are wrong, which tuning finds out
  }
  void TearDown() override {
    provider_.reset();
    GpuConformance::TearDown();
  }
  std::size_t count_of(const std::string& kind) const {
    std::size_t count = 0;
    for (const std::string& variant : seen_) count += variant.starts_with(kind + "+");
    return count;
  }

  Backend backend_;
};

TEST_F(Compose, MisalignedGemmIsCopied) {
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (Op a : {Op::N, Op::T})
      for (Op b : {Op::N, Op::T}) {
        GemmProblem p(a, b, 67, 45, 131, type);
        if (type == DType::f32) p.compute = Compute::f32_tf32;
        conform(p);
        p.batch = 3;
        conform(p, {.alpha = 0.5, .beta = -2, .c_apart = true, .shift = size_of(type)});
        p.stride_a = 0;
        conform(p);
        if (HasFailure()) return;
      }
  EXPECT_GT(count_of("copy"), 0u);
  EXPECT_GT(count_of("copy_sums"), 0u);
  EXPECT_GT(count_of("sums"), 0u);
}

TEST_F(Compose, TakesVendorKernels) {
  only_ = "+cublaslt:";
  may_decline_ = true;
  GemmProblem p(Op::T, Op::N, 67, 45, 131, DType::f16);
  conform(p);
  conform(p, {.alpha = 0.5, .beta = -2, .c_apart = true});
}

TEST_F(Compose, OneMisalignedOperandIsEnough) {
  GemmProblem a(Op::T, Op::N, 64, 64, 64, DType::f16);
  a.lda = 67;
  conform(a);
  GemmProblem b(Op::N, Op::T, 64, 64, 64, DType::f16);
  b.ldb = 65;
  conform(b);
  GemmProblem d(Op::N, Op::N, 64, 64, 64, DType::f16);
  d.ldd = d.ldc = 65;
  conform(d, {.beta = 1});
}

TEST_F(Compose, EpiloguesBehindAnyKernel) {
  for (std::size_t e = 1; e < std::size(Names<Epilogue>::list); ++e) {
    GemmProblem p(Op::T, Op::N, 96, 40, 128, DType::bf16);
    p.epilogue = static_cast<Epilogue>(e);
    conform(p);
    conform(p, {.alpha = 0.5, .beta = 2, .c_apart = true, .shift = 2});
    if (HasFailure()) return;
  }
}

TEST_F(Compose, BytesAreTurnedAlongK) {
  for (DType type : {DType::f8_e4m3, DType::i8})
    for (Op a : {Op::N, Op::T})
      for (Op b : {Op::N, Op::T})
        for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{64, 48, 64}, {67, 45, 131}}) {
          GemmProblem p(a, b, m, n, k, type);
          const bool as_it_is = a == Op::T && b == Op::N && k % 16 == 0;
          only_ = "+tile:", may_decline_ = false;
          conform(p, {}, as_it_is ? 0 : 1);
          p.batch = 2;
          conform(p, {.alpha = 2, .beta = -3, .c_apart = true}, as_it_is ? 0 : 1);
          only_ = "+cublaslt:", may_decline_ = true;
          conform(p, {}, 0);
          if (HasFailure()) return;
        }
  EXPECT_GT(count_of("turn"), 0u);
}

TEST_F(Compose, OneTapIsAGemm) {
  for (DType type : {DType::f16, DType::f32})
    for (Direction direction : {Direction::fwd, Direction::dgrad, Direction::wgrad})
      for (Layout layout : {Layout::nchw, Layout::nhwc}) {
        ConvProblem p(direction, {3, 24, 7, 6}, {40, 24, 1, 1});
        p.set_dtype(type).layout = layout;
        conform(p, {}, 0);
        conform(p, {.alpha = 0.5, .beta = -2, .c_apart = true}, 0);
        p.x.size[0] = 1;
        conform(p);
        if (direction == Direction::fwd) {
          p.epilogue = Epilogue::bias_gelu_erf;
          conform(p, {.shift = size_of(type)}, 0);
        }
        if (HasFailure()) return;
      }
  EXPECT_GT(count_of("gemm"), 0u);
}

TEST_F(Compose, ChannelsFirstGoThroughChannelsLast) {
  for (DType type : {DType::f16, DType::bf16, DType::f32})
    for (Direction direction : {Direction::fwd, Direction::dgrad, Direction::wgrad}) {
      ConvProblem p(direction, {2, 16, 9, 11}, {24, 16, 3, 3});
      p.set_dtype(type).pad = 1;
      conform(p);
      conform(p, {.alpha = 0.5, .beta = -2, .c_apart = true, .shift = size_of(type)}, 0);
      p.groups = 2, p.w.size[1] = 8, p.stride = 2;
      conform(p, {}, 0);
      if (direction == Direction::fwd)
        for (Epilogue e : {Epilogue::bias, Epilogue::bias_silu, Epilogue::gelu_tanh}) {
          p.epilogue = e;
          conform(p, {.beta = 1}, 0);
        }
      if (HasFailure()) return;
    }
  EXPECT_GT(count_of("nhwc"), 0u);
}

TEST_F(Compose, EpiloguesBehindAnyConvolution) {
  for (Layout layout : {Layout::nchw, Layout::nhwc})
    for (Epilogue e : {Epilogue::bias_relu, Epilogue::bias_gelu_erf, Epilogue::silu}) {
      ConvProblem p(Direction::fwd, {2, 8, 10, 9}, {16, 8, 3, 3});
      p.layout = layout, p.pad = 1, p.epilogue = e;
      conform(p);
      conform(p, {.alpha = 2, .beta = 0.5, .c_apart = true});
      if (HasFailure()) return;
    }
  EXPECT_GT(count_of("conv_sums"), 0u);
}

TEST_F(Compose, RefiningNamesNeighboursInsideTheSameComposition) {
  GemmProblem p(Op::T, Op::N, 257, 129, 131, DType::bf16);
  const Problem problem = resolve(p);
  std::vector<std::string> best;
  for (const std::string& variant : provider_->variants(problem, constraints_, Effort::standard))
    if (variant.starts_with("copy+cublaslt:")) best.push_back(variant);
  ASSERT_FALSE(best.empty());
  best.resize(1);
  const std::vector<std::string> around = provider_->refine(problem, constraints_, best);
  ASSERT_FALSE(around.empty());
  std::size_t made = 0;
  for (const std::string& variant : around) {
    EXPECT_TRUE(variant.starts_with("copy+cublaslt:")) << variant;
    made += provider_->prepare(variant, problem, constraints_).plan != nullptr;
  }
  EXPECT_GT(made, 0u);
}

TEST_F(Compose, NamesThatAreNoPlansAreDeclined) {
  const Problem odd = resolve(GemmProblem(Op::T, Op::N, 67, 45, 131, DType::f16));
  for (const char* text : {"", "+", "copy", "copy+", "copy+tile", "copy+tile:", "copy+nobody:x", "bend+tile:simt_any_f32", ":+"}) {
    EXPECT_EQ(provider_->prepare(text, odd, constraints_).outcome, Outcome::declined) << text;
    EXPECT_EQ(provider_->version(text), "") << text;
  }
  EXPECT_EQ(provider_->prepare("copy+tile:simt_any_f32", odd, constraints_).outcome, Outcome::ok);
  const Problem even = resolve(GemmProblem(Op::T, Op::N, 64, 64, 64, DType::f16));
  EXPECT_EQ(provider_->prepare("copy+tile:simt_any_f32", even, constraints_).outcome, Outcome::declined);
  Constraints tight = constraints_;
  tight.workspace_limit = 0;
  EXPECT_TRUE(provider_->variants(odd, tight, Effort::exhaustive).empty());
}

}  // namespace
}  // namespace attune

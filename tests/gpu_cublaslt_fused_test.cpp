// Conformance of the cublasLt provider with epilogues, fp8 operands and integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "providers/cublaslt_matmul.hpp"
#include "support/cublaslt_fixture.hpp"

namespace attune {
namespace {

struct TypeSet {
  DType in, out;
  MathMode math;
};
constexpr TypeSet type_sets[] = {{DType::f16, DType::f16, MathMode::strict},
                                 {DType::bf16, DType::bf16, MathMode::strict},
                                 {DType::bf16, DType::bf16, MathMode::reduced_reduction},
                                 {DType::f16, DType::f32, MathMode::strict},
                                 {DType::bf16, DType::f32, MathMode::strict},
                                 {DType::f32, DType::f32, MathMode::strict},
                                 {DType::f32, DType::f32, MathMode::tf32}};
constexpr Epilogue exact[] = {Epilogue::bias, Epilogue::relu, Epilogue::bias_relu};
constexpr Epilogue gelus[] = {Epilogue::gelu_tanh, Epilogue::bias_gelu_tanh};

GemmProblem gemm(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, const TypeSet& types, Epilogue epilogue) {
  GemmProblem p(op_a, op_b, m, n, k, types.in);
  p.c_type = types.out;
  p.epilogue = epilogue;
  return p;
}

GemmProblem fp8(std::int64_t m, std::int64_t n, std::int64_t k, DType a = DType::f8_e4m3, DType b = DType::f8_e4m3,
                DType out = DType::bf16) {
  GemmProblem p(Op::T, Op::N, m, n, k, a);
  p.b_type = b, p.c_type = out;
  return p;
}

/// Of a problem's variants, where they were all run on another one.
constexpr std::size_t most = 40;

constexpr std::pair<DType, DType> fp8_pairs[] = {
    {DType::f8_e4m3, DType::f8_e4m3}, {DType::f8_e4m3, DType::f8_e5m2}, {DType::f8_e5m2, DType::f8_e4m3}};
constexpr DType fp8_outputs[] = {DType::bf16, DType::f16, DType::f32};
constexpr MathMode fp8_modes[] = {MathMode::strict, MathMode::fp8_fast};

template <class T>
T attribute(const cublasLtMatmulDescOpaque_t& desc, cublasLtMatmulDescAttributes_t name) {
  T value{};
  std::size_t written = 0;
  EXPECT_EQ(
      cublasLtMatmulDescGetAttribute(const_cast<cublasLtMatmulDescOpaque_t*>(&desc), name, &value, sizeof value, &written),
      CUBLAS_STATUS_SUCCESS);
  return value;
}

class CublasLtEpilogue : public CublasLt {};
class CublasLtFp8 : public CublasLt {};
class CublasLtInt8 : public CublasLt {};

TEST(CublasLtDescriptor, ACallBindsItsBiasToACopy) {
  GemmProblem p = gemm(Op::T, Op::N, 64, 64, 64, type_sets[0], Epilogue::bias_relu);
  p.align_bias = 2;
  LtMatmul matmul;
  ASSERT_EQ(make_matmul(std::get<GemmProblem>(resolve(p)), CUBLAS_COMPUTE_32F, {}, matmul), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(attribute<std::uint32_t>(matmul.desc, CUBLASLT_MATMUL_DESC_EPILOGUE), CUBLASLT_EPILOGUE_RELU_BIAS);
  EXPECT_EQ(attribute<std::int32_t>(matmul.desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE), CUDA_R_16F);
  const auto* stands_for_it = attribute<const void*>(matmul.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  EXPECT_EQ(alignment_of(stands_for_it), 2);
  const float bias = 0;
  Launch launch;
  launch.bias = &bias;
  cublasLtMatmulDescOpaque_t desc = matmul.desc;
  ASSERT_EQ(bind_operands(matmul, launch, desc), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(attribute<const void*>(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER), &bias);
  EXPECT_EQ(attribute<const void*>(matmul.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER), stands_for_it);
}

TEST(CublasLtDescriptor, ACallBindsItsScalesToACopy) {
  for (MathMode math : fp8_modes) {
    LtMatmul matmul;
    const auto p = std::get<GemmProblem>(resolve(fp8(64, 64, 64)));
    ASSERT_EQ(make_matmul(p, lt_compute(p, with(math)), with(math), matmul), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(attribute<std::int8_t>(matmul.desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM), math == MathMode::fp8_fast);
    const float scales[2] = {2, 3};
    Launch launch;
    launch.scale_a = &scales[0], launch.scale_b = &scales[1];
    cublasLtMatmulDescOpaque_t desc = matmul.desc;
    ASSERT_EQ(bind_operands(matmul, launch, desc), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(attribute<const void*>(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER), &scales[0]);
    EXPECT_EQ(attribute<const void*>(desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER), &scales[1]);
    EXPECT_NE(attribute<const void*>(matmul.desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER), &scales[0]);
  }
}

TEST(CublasLtDescriptor, IntegersHaveIntegerScalars) {
  LtMatmul matmul;
  const auto p = std::get<GemmProblem>(resolve(GemmProblem(Op::T, Op::N, 64, 64, 64, DType::i8)));
  ASSERT_EQ(make_matmul(p, lt_compute(p, {}), {}, matmul), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(matmul.types.compute, CUBLAS_COMPUTE_32I);
  EXPECT_EQ(attribute<std::int32_t>(matmul.desc, CUBLASLT_MATMUL_DESC_SCALE_TYPE), CUDA_R_32I);
  EXPECT_EQ(accumulation(matmul), Accumulation::plain);
}

TEST_F(CublasLtEpilogue, EveryVariantIsRight) {
  for (const TypeSet& types : type_sets)
    for (Epilogue epilogue : exact)
      for (const auto& [op_a, op_b] : {std::pair(Op::T, Op::N), std::pair(Op::N, Op::T)}) {
        run_all(gemm(op_a, op_b, 256, 64, 128, types, epilogue), with(types.math));
        run_all(gemm(op_a, op_b, 136, 72, 500, types, epilogue), with(types.math), Effort::standard, most);
        run_all(gemm(op_a, op_b, 129, 63, 65, types, epilogue), with(types.math), Effort::standard, most);
      }
}

TEST_F(CublasLtEpilogue, GeluIsTheOneWithTanh) {
  int ran = 0;
  for (const TypeSet& types : type_sets)
    for (Epilogue epilogue : gelus)
      for (Op op_a : {Op::T, Op::N}) {
        const GemmProblem p = gemm(op_a, Op::N, 256, 136, 64, types, epilogue);
        const int right = run_all(p, with(types.math), Effort::standard, most, Expect::right_if_accepted);
        if (types.out != DType::f32) ran += right;
      }
  EXPECT_GT(ran, 0);
}

TEST_F(CublasLtEpilogue, ThinShapes) {
  const std::int64_t shapes[][3] = {{1, 1, 1}, {1, 300, 257}, {300, 1, 257}, {64, 16, 4096}, {513, 3, 31}};
  for (const TypeSet& types : type_sets)
    for (const auto& [m, n, k] : shapes)
      run_all(gemm(Op::T, Op::N, m, n, k, types, Epilogue::bias_relu), with(types.math), Effort::standard, most,
              Expect::right_if_accepted);
}

TEST_F(CublasLtEpilogue, DeclinesABiasThatItWouldMisread) {
  for (const TypeSet& types : type_sets)
    for (int align : {2, 4, 8}) {
      GemmProblem p = gemm(Op::T, Op::N, 128, 64, 96, types, Epilogue::bias_relu);
      p.align_bias = std::max(align, static_cast<int>(size_of(types.out)));
      EXPECT_TRUE(provider_->variants(resolve(p), with(types.math), Effort::exhaustive).empty());
      EXPECT_EQ(provider_->prepare_default(resolve(p), with(types.math)).outcome, Outcome::declined);
    }
}

TEST_F(CublasLtEpilogue, ScalarsAndCApartFromD) {
  for (const TypeSet& types : type_sets)
    for (Epilogue epilogue : exact)
      for (Scalar beta : {Scalar::one, Scalar::other}) {
        GemmProblem p = gemm(Op::N, Op::T, 136, 64, 72, types, epilogue);
        p.alpha = Scalar::other, p.beta = beta;
        p.ldc = 144;
        run_all(p, with(types.math), Effort::standard, most);
      }
}

TEST_F(CublasLtEpilogue, BatchesShareTheBias) {
  for (const TypeSet& types : type_sets)
    for (Epilogue epilogue : exact) {
      GemmProblem p = gemm(Op::T, Op::N, 96, 80, 64, types, epilogue);
      p.batch = 5, p.stride_b = 0;
      run_all(p, with(types.math), Effort::standard, most);
    }
  GemmProblem longest = gemm(Op::N, Op::N, 8, 4, 8, type_sets[0], Epilogue::bias);
  longest.batch = 70001;
  run_all(longest, {}, Effort::standard, 4);
}

TEST_F(CublasLtEpilogue, CapturedPlansReplay) {
  for (const TypeSet& types : type_sets) {
    GemmCase gemm_case(gemm(Op::T, Op::N, 64, 32, 8192, types, Epilogue::bias_relu), with(types.math));
    const Prepared made = provider_->prepare_default(gemm_case.problem(), with(types.math));
    ASSERT_TRUE(made.plan) << made.why;
    gemm_case.expect_right_when_replayed(*made.plan);
  }
}

TEST_F(CublasLtEpilogue, DeclinesWhatTheLibraryLacks) {
  for (Epilogue epilogue : {Epilogue::gelu_erf, Epilogue::bias_gelu_erf, Epilogue::silu, Epilogue::bias_silu})
    expect_declined(gemm(Op::T, Op::N, 64, 64, 64, type_sets[0], epilogue));
}

TEST_F(CublasLtFp8, EveryVariantIsRight) {
  for (const auto& [a, b] : fp8_pairs)
    for (DType out : fp8_outputs)
      for (MathMode math : fp8_modes) {
        run_all(fp8(64, 32, 128, a, b, out), with(math));
        run_all(fp8(256, 64, 1024, a, b, out), with(math));
        run_all(fp8(272, 40, 208, a, b, out), with(math));
        run_all(fp8(128, 1, 256, a, b, out), with(math));
      }
}

TEST_F(CublasLtFp8, FastSumsOnlyWhereAllowed) {
  for (MathMode math : fp8_modes) {
    const Prepared made = provider_->prepare_default(resolve(fp8(256, 256, 512)), with(math));
    ASSERT_TRUE(made.plan) << made.why;
    EXPECT_EQ(made.plan->traits().accumulation,
              math == MathMode::fp8_fast ? Accumulation::fp8_fast : Accumulation::fp8);
  }
}

TEST_F(CublasLtFp8, ScalesMayBeMissing) {
  for (DType out : fp8_outputs) {
    GemmCase gemm_case(fp8(128, 64, 256, DType::f8_e4m3, DType::f8_e5m2, out), {}, /*null_scales=*/true);
    const Prepared made = provider_->prepare_default(gemm_case.problem(), {});
    ASSERT_TRUE(made.plan) << made.why;
    gemm_case.expect_right(*made.plan);
    gemm_case.expect_right_when_replayed(*made.plan);
  }
}

TEST_F(CublasLtFp8, ScalarsBatchesAndPaddedLeadingDimensions) {
  for (DType out : fp8_outputs)
    for (Scalar beta : {Scalar::zero, Scalar::one, Scalar::other}) {
      GemmProblem p = fp8(128, 48, 256, DType::f8_e4m3, DType::f8_e4m3, out);
      p.alpha = Scalar::other, p.beta = beta;
      run_all(p, {}, Effort::standard, most);
      p.lda = 272, p.ldb = 288, p.ldc = 144, p.ldd = 160, p.batch = 3;
      run_all(p, {}, Effort::standard, most);
    }
}

TEST_F(CublasLtFp8, Epilogues) {
  for (DType out : {DType::bf16, DType::f16}) {
    for (Epilogue epilogue : exact) {
      GemmProblem p = fp8(128, 64, 256, DType::f8_e4m3, DType::f8_e4m3, out);
      p.epilogue = epilogue;
      run_all(p, {}, Effort::standard, most);
    }
    for (Epilogue epilogue : gelus) {
      GemmProblem p = fp8(128, 64, 256, DType::f8_e4m3, DType::f8_e4m3, out);
      p.epilogue = epilogue;
      run_all(p, {}, Effort::standard, most, Expect::right_if_accepted);
    }
  }
}

TEST_F(CublasLtFp8, ManyCandidatesForLargeProblems) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{4096, 64, 7168}, {7168, 8192, 16384}})
    for (MathMode math : fp8_modes)
      EXPECT_GE(provider_->variants(resolve(fp8(m, n, k)), with(math), Effort::standard).size(), 8u) << m;
}

TEST_F(CublasLtFp8, DeclinesWhatTheLibraryLacks) {
  expect_declined(fp8(64, 64, 64, DType::f8_e5m2, DType::f8_e5m2));
  expect_declined(fp8(64, 64, 72));
  GemmProblem p = fp8(64, 64, 64);
  p.align_b = 8;
  expect_declined(p);
  p = fp8(64, 64, 64);
  p.ldd = 68;
  expect_declined(p);
  p = fp8(64, 64, 64, DType::f8_e4m3, DType::f8_e4m3, DType::f32);
  p.epilogue = Epilogue::bias;
  expect_declined(p);
  if (gpu_runtime().info().cc_major >= 10) return;
  for (const auto& [op_a, op_b] : {std::pair(Op::N, Op::N), std::pair(Op::N, Op::T), std::pair(Op::T, Op::T)}) {
    p = fp8(64, 64, 64);
    p.op_a = op_a, p.op_b = op_b;
    expect_declined(p);
  }
}

// The bound of integers is zero.
TEST_F(CublasLtInt8, EveryVariantIsExact) {
  const std::int64_t shapes[][3] = {{64, 32, 64}, {256, 128, 4096}, {132, 60, 204}, {1024, 4, 512}};
  for (const auto& [m, n, k] : shapes) run_all(GemmProblem(Op::T, Op::N, m, n, k, DType::i8), {});
}

TEST_F(CublasLtInt8, ScalarsBatchesAndPaddedLeadingDimensions) {
  for (Scalar alpha : {Scalar::one, Scalar::other})
    for (Scalar beta : {Scalar::zero, Scalar::one, Scalar::other}) {
      GemmProblem p(Op::T, Op::N, 128, 48, 256, DType::i8);
      p.alpha = alpha, p.beta = beta;
      run_all(p, {}, Effort::standard, most, Expect::right_if_accepted);
      p.lda = 272, p.ldb = 288, p.ldc = 144, p.ldd = 160, p.batch = 3;
      run_all(p, {}, Effort::standard, most, Expect::right_if_accepted);
    }
}

TEST_F(CublasLtInt8, DeterministicPlansRepeatTheirBits) {
  Constraints constraints;
  constraints.deterministic = true;
  run_all(GemmProblem(Op::T, Op::N, 64, 32, 8192, DType::i8), constraints);
}

TEST_F(CublasLtInt8, DeclinesWhatTheLibraryLacks) {
  GemmProblem p(Op::T, Op::N, 64, 64, 66, DType::i8);
  expect_declined(p);
  p = GemmProblem(Op::T, Op::N, 64, 64, 64, DType::i8);
  p.align_a = 2;
  expect_declined(p);
}

}  // namespace
}  // namespace attune

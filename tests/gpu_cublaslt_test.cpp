// Conformance of the cublasLt provider: every variant that it lists, elementwise, on shapes around its tiles.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "cli/gemm_baseline.hpp"
#include "core/problem.hpp"
#include "providers/cublaslt_config.hpp"
#include "providers/cublaslt_heuristic.hpp"
#include "providers/cublaslt_matmul.hpp"
#include "runtime/cuda_support.hpp"
#include "support/cublaslt_fixture.hpp"

namespace attune {
namespace {

struct TypeSet {
  DType in, out;
  MathMode math;
};
constexpr TypeSet type_sets[] = {{DType::f16, DType::f16, MathMode::strict},
                                 {DType::bf16, DType::bf16, MathMode::strict},
                                 {DType::f16, DType::f16, MathMode::reduced_reduction},
                                 {DType::bf16, DType::f32, MathMode::strict},
                                 {DType::f16, DType::f32, MathMode::strict},
                                 {DType::f32, DType::f32, MathMode::strict},
                                 {DType::f32, DType::f32, MathMode::tf32},
                                 {DType::f64, DType::f64, MathMode::strict}};

GemmProblem gemm(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, const TypeSet& types) {
  GemmProblem p(op_a, op_b, m, n, k, types.in);
  p.c_type = types.out;
  return p;
}

TEST(CublasLtText, NamesEveryAttribute) {
  LtConfig config;
  config.id = 66, config.tile = CUBLASLT_MATMUL_TILE_128x256, config.stages = CUBLASLT_MATMUL_STAGES_64xAUTO;
  config.cluster = CUBLASLT_CLUSTER_SHAPE_2x1x1;
  EXPECT_EQ(to_text(CUBLAS_COMPUTE_32F, config), "f32_a66_t128x256_s64xauto_k1_rnone_w0_c0_i0_g2x1x1");
}

TEST(CublasLtText, ReadsWhatItWrites) {
  for (std::uint32_t number = 0; number < CUBLASLT_MATMUL_TILE_END + 5; ++number) {
    LtConfig config;
    config.id = static_cast<std::int32_t>(number), config.tile = number, config.stages = number % 45;
    config.cluster = static_cast<std::uint16_t>(number % 60), config.split_k = static_cast<std::int32_t>(number) - 1;
    config.reduction = number % 6, config.swizzle = number % 3, config.custom = number, config.inner = number % 5;
    const std::string text = to_text(CUBLAS_COMPUTE_32F_FAST_TF32, config);
    const std::optional<LtVariant> read = parse_variant(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(read->config, config) << text;
    EXPECT_EQ(read->compute, CUBLAS_COMPUTE_32F_FAST_TF32);
    EXPECT_EQ(parse_variant(to_text(CUBLAS_COMPUTE_32I, config))->compute, CUBLAS_COMPUTE_32I);
  }
}

TEST(CublasLtText, RefusesWhatItDoesNotWrite) {
  const std::string good = "f32_a66_t128x256_s64xauto_k1_rnone_w0_c0_i0_g2x1x1";
  ASSERT_TRUE(parse_variant(good));
  for (std::size_t length = 0; length < good.size(); ++length) EXPECT_FALSE(parse_variant(good.substr(0, length))) << length;
  for (const char* text :
       {"f32_a66_t128x256_s64xauto_k1_rnone_w0_c0_i0_g2x1x1_", "f32_a66_t128x257_s64x4_k1_rnone_w0_c0_i0_gauto",
        "f32_a66_t0x0_s64x4_k1_rnone_w0_c0_i0_gauto", "f16_a66_t64x64_s64x4_k1_rnone_w0_c0_i0_gauto",
        "f32_a66_t64x64_s64x4_k1_rnone_w0_c0_i70000_gauto", "f32_a66_s64x4_t64x64_k1_rnone_w0_c0_i0_gauto",
        "f32_a99999999999_t64x64_s64x4_k1_rnone_w0_c0_i0_gauto"})
    EXPECT_FALSE(parse_variant(text)) << text;
}

TEST(CublasLtText, LongBatchesAreCut) {
  for (std::int64_t batch :
       {std::int64_t{1}, std::int64_t{65535}, std::int64_t{65536}, std::int64_t{200001}, std::int64_t{1} << 33}) {
    GemmProblem p(Op::N, Op::N, 4, 4, 4, DType::f32);
    p.batch = batch;
    const auto resolved = std::get<GemmProblem>(resolve(p));
    LtMatmul matmul;
    ASSERT_EQ(make_matmul(resolved, CUBLAS_COMPUTE_32F, {}, matmul), CUBLAS_STATUS_SUCCESS);
    EXPECT_LE(matmul.body.batch, 65535);
    EXPECT_LE(matmul.tail.batch, matmul.body.batch);
    EXPECT_EQ(matmul.launches * matmul.body.batch + matmul.tail.batch, batch);
    EXPECT_EQ(matmul.step_a, std::int64_t{matmul.body.batch} * 16 * 4);
  }
}

TEST_F(CublasLt, EveryVariantIsRight) {
  int ran = 0;
  for (const TypeSet& types : type_sets)
    for (Op op_a : {Op::N, Op::T})
      for (Op op_b : {Op::N, Op::T}) {
        ran += run_all(gemm(op_a, op_b, 256, 128, 128, types), with(types.math));
        ran += run_all(gemm(op_a, op_b, 136, 72, 200, types), with(types.math));
        ran += run_all(gemm(op_a, op_b, 129, 127, 65, types), with(types.math));
      }
  RecordProperty("variants", ran);
}

TEST_F(CublasLt, ThinAndDeepShapes) {
  const std::int64_t shapes[][3] = {{1, 1, 1},      {1, 300, 257}, {300, 1, 257}, {64, 48, 1},
                                    {64, 16, 4096}, {8, 8, 10000}, {513, 3, 31}};
  for (const TypeSet& types : type_sets)
    for (const auto& [m, n, k] : shapes) run_all(gemm(Op::T, Op::N, m, n, k, types), with(types.math));
}

TEST_F(CublasLt, BatchesAndPaddedLeadingDimensions) {
  for (const TypeSet& types : type_sets)
    for (Op op_a : {Op::N, Op::T}) {
      GemmProblem p = gemm(op_a, Op::N, 96, 80, 64, types);
      p.lda = 104, p.ldb = 72, p.ldc = 112, p.ldd = 120;
      run_all(p, with(types.math));
      p.batch = 5;
      p.stride_a = p.lda * 104 + 8, p.stride_b = p.ldb * 80 + 16, p.stride_d = p.ldd * 80 + 24;
      run_all(p, with(types.math));
      p.stride_b = 0;
      run_all(p, with(types.math));
      p.lda = 101, p.ldb = 67, p.ldd = 99, p.stride_a = p.lda * 101 + 1, p.stride_b = p.ldb * 80 + 3,
      p.stride_d = p.ldd * 80 + 5;
      run_all(p, with(types.math));
    }
}

TEST_F(CublasLt, LongBatch) {
  GemmProblem p = gemm(Op::N, Op::N, 4, 4, 4, type_sets[0]);
  p.batch = 150001;
  run_all(p, {}, Effort::standard, 4);
}

TEST_F(CublasLt, MisalignedOperands) {
  for (const TypeSet& types : type_sets)
    for (int align : {2, 4, 8}) {
      const auto least = [align](DType type) { return std::max(align, static_cast<int>(size_of(type))); };
      GemmProblem p = gemm(Op::T, Op::N, 128, 64, 96, types);
      p.align_a = least(types.in), p.align_b = least(types.in), p.align_c = p.align_d = least(types.out);
      run_all(p, with(types.math));
      p.align_a = 16, p.align_c = p.align_d = 16;
      run_all(p, with(types.math));
    }
}

TEST_F(CublasLt, ScalarsAndCApartFromD) {
  for (const TypeSet& types : type_sets)
    for (Scalar alpha : {Scalar::one, Scalar::other})
      for (Scalar beta : {Scalar::zero, Scalar::one, Scalar::other}) {
        GemmProblem p = gemm(Op::N, Op::T, 136, 64, 72, types);
        p.alpha = alpha, p.beta = beta;
        run_all(p, with(types.math));
        if (beta == Scalar::zero) continue;
        p.ldc = 144, p.batch = 3;
        run_all(p, with(types.math));
        p.stride_c = 0;
        run_all(p, with(types.math));
      }
}

TEST_F(CublasLt, InPlace) {
  for (const TypeSet& types : type_sets) {
    GemmProblem p = gemm(Op::N, Op::N, 128, 64, 512, types);
    p.beta = Scalar::other;
    GemmCase gemm_case(p, with(types.math));
    gemm_case.in_place();
    for (const std::string& variant : provider_->variants(gemm_case.problem(), with(types.math), Effort::standard)) {
      const Prepared made = provider_->prepare(variant, gemm_case.problem(), with(types.math));
      if (made.plan) gemm_case.expect_right(*made.plan);
    }
  }
}

TEST_F(CublasLt, ExhaustiveListsMoreAndAllIsRight) {
  for (const TypeSet& types : type_sets)
    run_all(gemm(Op::T, Op::N, 128, 64, 1024, types), with(types.math), Effort::exhaustive, 300);
}

TEST_F(CublasLt, RefiningNamesNeighboursAndAllAreRight) {
  for (const TypeSet& types : type_sets)
    for (bool deterministic : {false, true}) {
      Constraints constraints = with(types.math);
      constraints.deterministic = deterministic;
      GemmCase gemm_case(gemm(Op::T, Op::N, 136, 64, 1024, types), constraints);
      SCOPED_TRACE(to_string(gemm_case.problem()));
      std::vector<std::string> best = provider_->variants(gemm_case.problem(), constraints, Effort::standard);
      if (best.size() > 3) best.resize(3);
      const std::vector<std::string> named = provider_->refine(gemm_case.problem(), constraints, best);
      EXPECT_GT(named.size(), best.size());
      std::set<std::string> once(named.begin(), named.end());
      EXPECT_EQ(once.size(), named.size()) << "named twice";
      for (const std::string& variant : best) EXPECT_EQ(once.count(variant), 0u) << variant;
      for (const std::string& variant : named) {
        const Prepared made = provider_->prepare(variant, gemm_case.problem(), constraints);
        ASSERT_TRUE(made.plan) << variant << ": " << made.why;
        EXPECT_EQ(made.plan->id(), "cublaslt:" + variant);
        EXPECT_LE(made.plan->traits().workspace, constraints.workspace_limit);
        EXPECT_TRUE(made.plan->traits().deterministic || !deterministic);
        gemm_case.expect_right(*made.plan);
        if (HasFailure()) return;
      }
    }
}

TEST_F(CublasLt, ConstraintsHold) {
  for (const TypeSet& types : type_sets) {
    Constraints constraints = with(types.math);
    constraints.deterministic = true;
    run_all(gemm(Op::T, Op::N, 64, 32, 8192, types), constraints);
    for (std::size_t limit : {std::size_t{0}, mebibyte}) {
      constraints.workspace_limit = limit;
      run_all(gemm(Op::T, Op::N, 64, 32, 8192, types), constraints);
    }
  }
  const Problem p = resolve(gemm(Op::T, Op::N, 256, 256, 256, type_sets[6]));
  for (const std::string& variant : provider_->variants(p, with(MathMode::tf32), Effort::standard)) {
    const bool rounds = variant.starts_with("tf32");
    EXPECT_EQ(provider_->prepare(variant, p, with(MathMode::strict)).outcome == Outcome::declined, rounds) << variant;
  }
}

TEST_F(CublasLt, DeterministicPlansRepeatTheirBits) {
  Constraints constraints = with(MathMode::reduced_reduction);
  constraints.deterministic = true;
  const GemmProblem p = gemm(Op::T, Op::N, 64, 64, 16384, type_sets[0]);
  GemmCase gemm_case(p, constraints);
  for (const std::string& variant : provider_->variants(gemm_case.problem(), constraints, Effort::standard)) {
    const Prepared made = provider_->prepare(variant, gemm_case.problem(), constraints);
    if (!made.plan) continue;
    const std::vector<std::byte> first = gemm_case.run(*made.plan);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(gemm_case.run(*made.plan), first) << variant;
  }
}

// What the text names is all there is: the algorithm made from it is the heuristic's own, byte for byte.
TEST_F(CublasLt, TextMakesTheSameAlgorithm) {
  cublasLtHandle_t handle = nullptr;
  ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  int seen = 0;
  for (const TypeSet& types : type_sets)
    for (std::int64_t size : {48, 136, 512, 2048})
      for (Op op_a : {Op::N, Op::T}) {
        const auto p = std::get<GemmProblem>(resolve(gemm(op_a, Op::N, size, size / 2, 4 * size, types)));
        const Constraints constraints = with(types.math);
        LtMatmul matmul;
        ASSERT_EQ(make_matmul(p, lt_compute(p, constraints), constraints, matmul), CUBLAS_STATUS_SUCCESS);
        for (const cublasLtMatmulAlgo_t& algo :
             ask_heuristic(handle, matmul, lt_alignment(p), {32 * mebibyte, lt_reductions(p, constraints), 100})) {
          const std::optional<LtConfig> config = read_config(algo);
          ASSERT_TRUE(config);
          const std::string text = to_text(matmul.types.compute, *config);
          const std::optional<LtVariant> read = parse_variant(text);
          ASSERT_TRUE(read) << text;
          EXPECT_TRUE(keeps_precision(matmul, algo)) << text;
          cublasLtMatmulAlgo_t made;
          ASSERT_EQ(make_algo(handle, matmul.types, read->config, made), CUBLAS_STATUS_SUCCESS) << text;
          for (int word = 0; word < 8; ++word) EXPECT_EQ(made.data[word], algo.data[word]) << text << " word " << word;
          ++seen;
        }
      }
  EXPECT_GT(seen, 0);
  cublasLtDestroy(handle);
}

TEST_F(CublasLt, CapturedPlansReplay) {
  for (const TypeSet& types : type_sets) {
    GemmCase gemm_case(gemm(Op::T, Op::N, 64, 32, 8192, types), with(types.math));
    const Prepared made = provider_->prepare_default(gemm_case.problem(), with(types.math));
    ASSERT_TRUE(made.plan) << made.why;
    ASSERT_TRUE(made.plan->traits().capturable);
    gemm_case.expect_right(*made.plan);
    gemm_case.expect_right_when_replayed(*made.plan);
  }
}

TEST_F(CublasLt, DeclinesWhatIsNotItsOwn) {
  const Problem good = resolve(gemm(Op::N, Op::N, 64, 64, 64, type_sets[0]));
  EXPECT_EQ(provider_->prepare("nonsense", good, {}).outcome, Outcome::declined);
  EXPECT_EQ(provider_->prepare("f32_a9999_t64x64_s64x4_k1_rnone_w0_c0_i0_gauto", good, {}).outcome, Outcome::declined);
  EXPECT_EQ(provider_->prepare("f64_a66_t64x64_s64x4_k1_rnone_w0_c0_i0_gauto", good, {}).outcome, Outcome::declined);
  GemmProblem mixed = gemm(Op::N, Op::N, 64, 64, 64, type_sets[0]);
  mixed.b_type = DType::bf16;
  EXPECT_TRUE(provider_->variants(resolve(mixed), {}, Effort::standard).empty());
  EXPECT_EQ(provider_->prepare_default(resolve(mixed), {}).outcome, Outcome::declined);
  ConvProblem conv(Direction::fwd, {1, 8, 8, 8}, {8, 8, 3, 3});
  EXPECT_TRUE(provider_->variants(resolve(conv), {}, Effort::standard).empty());
  EXPECT_EQ(provider_->prepare_default(resolve(conv), {}).outcome, Outcome::declined);
}

TEST_F(CublasLt, BaselinesAreRight) {
  for (const TypeSet& types : type_sets)
    for (std::int64_t batch : {1, 3}) {
      GemmProblem p = gemm(Op::T, Op::N, 256, 96, 512, types);
      p.batch = batch;
      GemmCase gemm_case(p, with(types.math));
      for (bool autotune : {false, true}) {
        const auto resolved = std::get<GemmProblem>(gemm_case.problem());
        const std::unique_ptr<Plan> plan = make_gemm_ex_plan(resolved, with(types.math), 0, autotune);
        if (!plan && autotune && CUBLAS_VERSION < 130000) continue;
        ASSERT_TRUE(plan) << noted_failure();
        gemm_case.expect_right(*plan);
        gemm_case.expect_right_when_replayed(*plan);
      }
    }
}

}  // namespace
}  // namespace attune

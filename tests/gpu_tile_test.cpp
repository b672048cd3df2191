// Conformance of Attune's own kernels: every variant that the `tile` provider can name, over shapes around its tiles.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/names.hpp"
#include "kernels/tiles.hpp"
#include "providers/tile.hpp"
#include "support/gpu_conform.hpp"

namespace attune {
namespace {

class Tile : public GpuConformance {
 protected:
  void SetUp() override {
    GpuConformance::SetUp();
    if (missing_gpu().empty()) test(make_tile_provider(0, gpu_runtime().info()));
  }
};

constexpr std::int64_t gemm_sizes[][3] = {{1, 1, 1},     {1, 70, 300},   {70, 1, 300},   {15, 17, 9},    {64, 64, 64},
                                          {65, 63, 33},  {127, 129, 65}, {128, 128, 128}, {129, 127, 31}, {257, 130, 100}};
constexpr Op ops[] = {Op::N, Op::T};

class TileGemm : public Tile, public testing::WithParamInterface<DType> {
 protected:
  GemmProblem problem(Op a, Op b, std::int64_t m, std::int64_t n, std::int64_t k) {
    GemmProblem p(a, b, m, n, k, GetParam());
    if (GetParam() == DType::f32) p.compute = Compute::f32_tf32;
    return p;
  }
  std::size_t least() const { return size_of(GetParam()); }
};

TEST_P(TileGemm, EverySizeLayoutAndAlignment) {
  for (Op a : ops)
    for (Op b : ops)
      for (const auto& [m, n, k] : gemm_sizes)
        for (std::size_t shift : {std::size_t{0}, least(), std::size_t{8}}) {
          conform(problem(a, b, m, n, k), {.shift = shift});
          if (HasFailure()) return;
        }
}

TEST_P(TileGemm, LeadingDimensionsApart) {
  for (Op a : ops)
    for (Op b : ops)
      for (std::int64_t pad : {1, 3, 8}) {
        GemmProblem p = problem(a, b, 72, 88, 40);
        p.lda = (a == Op::N ? p.m : p.k) + pad, p.ldb = (b == Op::N ? p.k : p.n) + pad;
        p.ldc = p.m + 2 * pad, p.ldd = p.m + pad;
        conform(p, {.alpha = 0.75, .beta = -1.5, .c_apart = true});
        conform(p, {.c_apart = true});  // C holds NaNs
        if (HasFailure()) return;
      }
}

/// Results that no tensor copy can store, though operands are aligned: lines of odd length, and odd addresses.
TEST_P(TileGemm, OutputsOfAnyAlignment) {
  for (Op a : ops)
    for (Op b : ops)
      for (std::int64_t pad : {0, 1, 2, 4, 5})
        for (std::size_t shift : {std::size_t{0}, least()}) {
          GemmProblem p = problem(a, b, 264, 296, 72);
          p.lda = 264, p.ldb = 296, p.ldd = p.ldc = 264 + pad, p.batch = 2;
          conform(p, {.output_shift = shift});
          p.m = 203, p.n = 131;
          conform(p, {.output_shift = shift});
          if (HasFailure()) return;
        }
}

TEST_P(TileGemm, ScalarsAndBatches) {
  const double scalars[][2] = {{1, 0}, {1, 1}, {-2.5, 0}, {0.5, 1.25}};
  for (const auto& [alpha, beta] : scalars)
    for (bool apart : {false, true}) {
      GemmProblem p = problem(Op::T, Op::N, 66, 50, 130);
      p.batch = 3;
      conform(p, {.alpha = alpha, .beta = beta, .c_apart = apart});
      p.stride_b = 0;
      conform(p, {.alpha = alpha, .beta = beta, .c_apart = apart, .shift = least()});
      if (HasFailure()) return;
    }
}

TEST_P(TileGemm, EveryEpilogue) {
  for (std::size_t e = 0; e < std::size(Names<Epilogue>::list); ++e)
    for (std::size_t shift : {std::size_t{0}, least()}) {
      GemmProblem p = problem(Op::N, Op::T, 72, 40, 300);
      p.epilogue = static_cast<Epilogue>(e);
      conform(p, {.shift = shift});
      conform(p, {.alpha = 0.5, .beta = 2, .c_apart = true, .shift = shift});
      if (HasFailure()) return;
    }
}

TEST_P(TileGemm, WiderAndNarrowerOutputs) {
  if (GetParam() == DType::f64) GTEST_SKIP() << "f64 stays among itself";
  for (DType out : {DType::f16, DType::bf16, DType::f32}) {
    GemmProblem p = problem(Op::T, Op::N, 100, 60, 200);
    p.c_type = out;
    conform(p, {.alpha = 0.5, .beta = 2});
    p.m = 101;
    conform(p, {.shift = 4});
  }
}

/// Blocks that take several whole problems: the last of them takes fewer.
TEST_P(TileGemm, BatchesOfSmallMatrices) {
  constexpr std::int64_t sizes[][3] = {{8, 8, 8},    {7, 5, 3},    {16, 16, 16}, {13, 16, 9},
                                       {32, 32, 32}, {31, 20, 17}, {64, 64, 64}, {50, 64, 33}};
  for (Op a : ops)
    for (Op b : ops)
      for (const auto& [m, n, k] : sizes)
        for (std::size_t shift : {std::size_t{0}, least()}) {
          GemmProblem p = problem(a, b, m, n, k);
          p.batch = 37;
          conform(p, {.shift = shift});
          p.epilogue = Epilogue::bias_relu;
          conform(p, {.alpha = 0.5, .beta = 2, .c_apart = true, .shift = shift});
          if (HasFailure()) return;
        }
}

TEST_P(TileGemm, BatchesPastAGridDimension) {
  GemmProblem p = problem(Op::N, Op::N, 2, 2, 3);
  p.batch = 70000;
  conform(p);
}

INSTANTIATE_TEST_SUITE_P(Types, TileGemm, testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_F(Tile, StrictFp32UsesNoTensorCore) {
  const GemmProblem p(Op::T, Op::N, 130, 70, 64, DType::f32);
  for (const std::string& variant : provider_->variants(resolve(p), applied_to(p, constraints_), Effort::exhaustive))
    EXPECT_NE(variant.substr(0, 3), "mma");
  conform(p);
}

bool has_splits(const std::string& name) {
  const std::size_t at = name.rfind("_k");
  return at != std::string::npos && at + 2 < name.size() && name.find_first_not_of("0123456789", at + 2) == std::string::npos;
}

TEST_F(Tile, EveryRowOfTheTablesRuns) {
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (Op a : ops)
      for (Op b : ops)
        for (std::size_t shift : {std::size_t{0}, size_of(type)}) {
          GemmProblem p(a, b, 264, 136, 64, type);
          if (type == DType::f32) p.compute = Compute::f32_tf32;
          conform(p, {.shift = shift});
        }
  std::size_t mma = 0;
  for (const std::string& name : seen_) mma += name.starts_with("mma") && name.find("_swap") == std::string::npos && !has_splits(name);
  EXPECT_EQ(mma, mma_gemm_rows.size());
}

TEST_F(Tile, AnyTypesAreServed) {
  const DType floats[] = {DType::f16, DType::bf16, DType::f32};
  for (DType a : floats)
    for (DType b : floats)
      for (DType out : floats) {
        GemmProblem p(Op::N, Op::T, 37, 41, 50, a);
        p.b_type = b, p.c_type = out;
        conform(p, {.alpha = 1.5, .beta = 0.5});
      }
  for (DType a : {DType::f8_e4m3, DType::f8_e5m2})
    for (DType b : {DType::f8_e4m3, DType::f8_e5m2})
      for (DType out : floats)
        for (Op op : ops) {
          GemmProblem p(op, Op::N, 33, 34, 70, a);
          p.b_type = b, p.c_type = out, p.epilogue = Epilogue::bias_silu;
          conform(p, {.shift = size_of(out)});
        }
  for (Op a : ops)
    for (Op b : ops) {
      conform(GemmProblem(a, b, 45, 35, 131, DType::i8));
      conform(GemmProblem(a, b, 45, 35, 131, DType::i8), {.alpha = 3, .beta = -2});
    }
}

TEST_F(Tile, FewVectors) {
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (Op a : ops)
      for (Op b : ops)
        for (std::int64_t few : {1, 3, 8})
          for (const auto& [many, k] : {std::pair<std::int64_t, std::int64_t>{129, 2056}, {1, 1}, {300, 4099}})
            for (bool rows : {false, true}) {
              GemmProblem p(a, b, rows ? many : few, rows ? few : many, k, type);
              p.epilogue = Epilogue::bias;
              conform(p);
              p.batch = 2;
              conform(p, {.alpha = 0.5, .beta = 2, .c_apart = true, .shift = size_of(type)});
              if (HasFailure()) return;
            }
  std::size_t rows = 0;
  for (const std::string& name : seen_) rows += name.starts_with("gemv") && name.find("_w") == std::string::npos && !name.ends_with("_swap");
  EXPECT_EQ(rows, gemv_rows.size());
}

TEST_F(Tile, NamesThatAreNoRowsAreDeclined) {
  const Problem good = resolve(GemmProblem(Op::T, Op::N, 64, 64, 512, DType::f16));
  for (const char* text : {"", "mma", "mma_", "nonsense", "mma_f16_kk_64x64x64_w32x32_s4_k0", "mma_f16_kk_64x64x64_w32x32_s4_k01",
                           "mma_f16_kk_64x64x64_w32x32_s4_k99", "mma_f16_kk_64x64x64_w32x32_s4x", "mma_f16_mn_64x64x64_w32x32_s4",
                           "mma_bf16_kk_64x64x64_w32x32_s4", "simt_f32_64x64x16_t4x4", "simt_any_f64"})
    EXPECT_EQ(provider_->prepare(text, good, constraints_).outcome, Outcome::declined) << text;
  EXPECT_EQ(provider_->prepare("mma_f16_kk_64x64x64_w32x32_s4_k8", good, constraints_).outcome, Outcome::ok);
  Constraints tight = constraints_;
  tight.workspace_limit = 0;
  EXPECT_EQ(provider_->prepare("mma_f16_kk_64x64x64_w32x32_s4_k8", good, tight).outcome, Outcome::declined);
  EXPECT_EQ(provider_->version("nonsense"), "");
}

}  // namespace
}  // namespace attune

#include "providers/cublaslt_matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/problem.hpp"

namespace attune {
namespace {

// The last dimension of a CUDA grid, in which some algorithms put the batch.
constexpr std::int64_t most_batches = 65535;

bool is_16_bit(DType type) noexcept { return type == DType::f16 || type == DType::bf16; }

cudaDataType_t data_type(DType type) noexcept {
  switch (type) {
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f64: return CUDA_R_64F;
    default: return CUDA_R_32F;
  }
}

cublasOperation_t operation(Op op) noexcept { return op == Op::N ? CUBLAS_OP_N : CUBLAS_OP_T; }

struct Matrix {
  DType type;
  std::int64_t rows, cols, ld, stride;
};

cublasStatus_t init(cublasLtMatrixLayoutOpaque_t& layout, const Matrix& matrix, std::int32_t batch) noexcept {
  cublasStatus_t status = cublasLtMatrixLayoutInit(&layout, data_type(matrix.type), static_cast<std::uint64_t>(matrix.rows),
                                                   static_cast<std::uint64_t>(matrix.cols), matrix.ld);
  if (status != CUBLAS_STATUS_SUCCESS || batch == 1) return status;
  status = cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  return cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.stride,
                                          sizeof matrix.stride);
}

cublasStatus_t init(LtLayouts& layouts, const GemmProblem& p, std::int64_t batch) noexcept {
  const bool a_n = p.op_a == Op::N, b_n = p.op_b == Op::N;
  const Matrix a{p.a_type, a_n ? p.m : p.k, a_n ? p.k : p.m, p.lda, p.stride_a};
  const Matrix b{p.b_type, b_n ? p.k : p.n, b_n ? p.n : p.k, p.ldb, p.stride_b};
  const Matrix d{p.c_type, p.m, p.n, p.ldd, p.stride_d};
  // An unread C is D itself, so that a leading dimension nobody uses keeps no algorithm away.
  const Matrix c = p.beta == Scalar::zero ? d : Matrix{p.c_type, p.m, p.n, p.ldc, p.stride_c};
  layouts.batch = static_cast<std::int32_t>(batch);
  cublasStatus_t status = init(layouts.a, a, layouts.batch);
  if (status == CUBLAS_STATUS_SUCCESS) status = init(layouts.b, b, layouts.batch);
  if (status == CUBLAS_STATUS_SUCCESS) status = init(layouts.c, c, layouts.batch);
  if (status == CUBLAS_STATUS_SUCCESS) status = init(layouts.d, d, layouts.batch);
  return status;
}

template <class T>
cublasStatus_t set(cublasLtMatmulDescOpaque_t& desc, cublasLtMatmulDescAttributes_t attribute, const T& value) noexcept {
  return cublasLtMatmulDescSetAttribute(&desc, attribute, &value, sizeof value);
}

std::int64_t step(std::int64_t batch, std::int64_t stride, DType type) noexcept {
  return batch * stride * static_cast<std::int64_t>(size_of(type));
}

}  // namespace

std::string lt_declines(const GemmProblem& p) {
  const auto plain = [](DType t) { return is_16_bit(t) || t == DType::f32 || t == DType::f64; };
  if (!plain(p.a_type) || !plain(p.b_type) || !plain(p.c_type)) return "a type other than f16, bf16, f32, f64";
  if (p.epilogue != Epilogue::none) return "an epilogue";
  if (p.a_type != p.b_type) return "a and b of different types";
  const bool wide = p.compute == Compute::f64;
  if (wide != (p.a_type == DType::f64) || wide != (p.c_type == DType::f64)) return "f64 goes with f64 alone";
  if (p.c_type != p.a_type && p.c_type != DType::f32) return "an output narrower than, or other than, its inputs";
  if (p.op_a == Op::C || p.op_b == Op::C) return "a conjugate transpose";
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (std::max({p.m, p.n, p.k}) > most) return fmt::format("m, n or k past {}", most);
  const auto aligned = [](int alignment, DType type) { return static_cast<std::size_t>(alignment) >= size_of(type); };
  const bool reads_c = p.beta != Scalar::zero;
  if (!aligned(p.align_a, p.a_type) || !aligned(p.align_b, p.b_type) || !aligned(p.align_d, p.c_type) ||
      (reads_c && !aligned(p.align_c, p.c_type)))
    return "an address that is not aligned to its elements";
  return {};
}

cublasComputeType_t lt_compute(const GemmProblem& p, const Constraints& constraints) noexcept {
  if (p.compute == Compute::f64) return CUBLAS_COMPUTE_64F;
  return lt_allows(CUBLAS_COMPUTE_32F_FAST_TF32, p, constraints) ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

bool lt_allows(cublasComputeType_t compute, const GemmProblem& p, const Constraints& constraints) noexcept {
  switch (compute) {
    case CUBLAS_COMPUTE_32F: return p.compute != Compute::f64;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return p.compute != Compute::f64 && p.a_type == DType::f32 &&
             (p.compute == Compute::f32_tf32 || allows(constraints, MathMode::tf32));
    case CUBLAS_COMPUTE_64F: return p.compute == Compute::f64;
    default: return false;
  }
}

std::uint32_t lt_reductions(const GemmProblem& p, const Constraints& constraints) noexcept {
  std::uint32_t mask = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  // Partial sums kept in the output's type lose what the compute type promised, unless the two are the same.
  if (is_16_bit(p.c_type) && !allows(constraints, MathMode::reduced_reduction)) return mask;
  mask |= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  // Added into the output in place: counters keep the additions apart, but nothing documents their order.
  if (!constraints.deterministic) mask |= CUBLASLT_REDUCTION_SCHEME_INPLACE;
  return mask;
}

cublasStatus_t make_matmul(const GemmProblem& p, cublasComputeType_t compute, const Constraints& constraints,
                           LtMatmul& matmul) noexcept {
  matmul = {};
  matmul.types = {compute, compute == CUBLAS_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F, data_type(p.a_type), data_type(p.b_type),
                  data_type(p.c_type)};
  cublasStatus_t status = cublasLtMatmulDescInit(&matmul.desc, compute, matmul.types.scale);
  if (status == CUBLAS_STATUS_SUCCESS) status = set(matmul.desc, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.op_a));
  if (status == CUBLAS_STATUS_SUCCESS) status = set(matmul.desc, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.op_b));
  if (status == CUBLAS_STATUS_SUCCESS && constraints.sm_count > 0)
    status = set(matmul.desc, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, constraints.sm_count);

  // Launches of nearly equal length: a last one of a few matrices would run at a poor rate.
  const std::int64_t parts = (p.batch + most_batches - 1) / most_batches;
  const std::int64_t length = (p.batch + parts - 1) / parts;
  matmul.launches = p.batch / length;
  const std::int64_t rest = p.batch % length;
  if (status == CUBLAS_STATUS_SUCCESS) status = init(matmul.body, p, length);
  if (status == CUBLAS_STATUS_SUCCESS && rest > 0) status = init(matmul.tail, p, rest);
  matmul.step_a = step(length, p.stride_a, p.a_type);
  matmul.step_b = step(length, p.stride_b, p.b_type);
  matmul.step_c = p.beta == Scalar::zero ? 0 : step(length, p.stride_c, p.c_type);
  matmul.step_d = step(length, p.stride_d, p.c_type);
  return status;
}

cublasStatus_t check_algo(cublasLtHandle_t handle, const LtMatmul& matmul, const cublasLtMatmulAlgo_t& algo,
                          std::size_t& workspace) noexcept {
  workspace = 0;
  LtMatmul m = matmul;  // the library takes its descriptors without const
  for (LtLayouts* part : {&m.body, &m.tail}) {
    if (part->batch == 0) continue;
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t status =
        cublasLtMatmulAlgoCheck(handle, &m.desc, &part->a, &part->b, &part->c, &part->d, &algo, &result);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    workspace = std::max(workspace, result.workspaceSize);
  }
  return CUBLAS_STATUS_SUCCESS;
}

bool keeps_precision(const LtMatmul& matmul, const cublasLtMatmulAlgo_t& algo) noexcept {
  std::uint64_t flags = 0;
  std::size_t written = 0;
  if (cublasLtMatmulAlgoCapGetAttribute(&algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &flags, sizeof flags, &written) !=
      CUBLAS_STATUS_SUCCESS)
    return true;
  // An algorithm may report several implementations: it is refused when none of them will do.
  const bool wide = matmul.types.compute == CUBLAS_COMPUTE_64F;
  const bool strict_f32 = matmul.types.compute == CUBLAS_COMPUTE_32F && matmul.types.a == CUDA_R_32F;
  std::uint64_t operations = CUBLASLT_NUMERICAL_IMPL_FLAGS_OP_TYPE_MASK;
  if (wide) operations = CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_DMMA;
  if (strict_f32) operations = CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA;
  const std::uint64_t accumulators =
      wide ? CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_64F : CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F;
  const auto refuses = [flags](std::uint64_t mask, std::uint64_t wanted) {
    return (flags & mask) != 0 && (flags & wanted) == 0;
  };
  return !refuses(CUBLASLT_NUMERICAL_IMPL_FLAGS_OP_TYPE_MASK, operations) &&
         !refuses(CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_TYPE_MASK, accumulators);
}

}  // namespace attune

#include "providers/cublaslt_matmul.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <optional>

#include "core/names.hpp"
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
    case DType::f32: return CUDA_R_32F;
    case DType::f64: return CUDA_R_64F;
    case DType::f8_e4m3: return CUDA_R_8F_E4M3;
    case DType::f8_e5m2: return CUDA_R_8F_E5M2;
    case DType::i8: return CUDA_R_8I;
    case DType::i32: return CUDA_R_32I;
  }
  return CUDA_R_32F;
}

cudaDataType_t scale_type(cublasComputeType_t compute) noexcept {
  switch (compute) {
    case CUBLAS_COMPUTE_64F: return CUDA_R_64F;
    case CUBLAS_COMPUTE_32I: return CUDA_R_32I;
    default: return CUDA_R_32F;
  }
}

/// Only what computes the very function: the library's GELU is the one with tanh, and it knows neither the one with erf nor
/// SiLU.
std::optional<cublasLtEpilogue_t> epilogue_of(Epilogue epilogue) noexcept {
  switch (epilogue) {
    case Epilogue::none: return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::relu: return CUBLASLT_EPILOGUE_RELU;
    case Epilogue::bias_relu: return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::gelu_tanh: return CUBLASLT_EPILOGUE_GELU;
    case Epilogue::bias_gelu_tanh: return CUBLASLT_EPILOGUE_GELU_BIAS;
    default: return std::nullopt;
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

std::uint32_t least_alignment(int address, std::int64_t stride, std::int64_t batch, DType type) noexcept {
  auto alignment = static_cast<std::uint32_t>(address);
  const auto bytes = static_cast<std::uint64_t>(std::abs(stride)) * size_of(type);
  while (batch > 1 && alignment > 1 && bytes % alignment != 0) alignment /= 2;
  return alignment;
}

bool divisible(std::initializer_list<std::int64_t> sizes, std::int64_t by) noexcept {
  return std::all_of(sizes.begin(), sizes.end(), [by](std::int64_t size) { return size % by == 0; });
}

std::string_view declines_floats(const GemmProblem& p) noexcept {
  const auto known = [](DType t) { return is_16_bit(t) || t == DType::f32 || t == DType::f64; };
  if (!known(p.a_type) || !known(p.b_type) || !known(p.c_type)) return "a type that does not go with the others";
  if (p.a_type != p.b_type) return "a and b of different types";
  const bool wide = p.compute == Compute::f64;
  if (wide != (p.a_type == DType::f64) || wide != (p.c_type == DType::f64)) return "f64 goes with f64 alone";
  if (p.c_type != p.a_type && p.c_type != DType::f32) return "an output narrower than, or other than, its inputs";
  return {};
}

/// The documented needs of its fp8 kernels.
std::string_view declines_fp8(const GemmProblem& p, int cc_major) noexcept {
  if (!is_fp8(p.b_type) || (!is_16_bit(p.c_type) && p.c_type != DType::f32)) return "a type that does not go with fp8";
  if (p.a_type == DType::f8_e5m2 && p.b_type == DType::f8_e5m2) return "f8_e5m2 for both a and b";
  if ((p.op_a != Op::T || p.op_b != Op::N) && cc_major < 10) return "fp8 in other orders than a transposed, b not";
  if (p.c_type == DType::f32 && has_bias(p.epilogue)) return "an fp32 bias with fp8 operands";
  const auto bytes = static_cast<std::int64_t>(size_of(p.c_type));
  const LtAlignment alignment = lt_alignment(p);
  if (!divisible({p.k, p.lda, p.ldb, p.ldd * bytes, p.beta == Scalar::zero ? 0 : p.ldc * bytes}, 16) ||
      std::min({alignment.a, alignment.b, alignment.c, alignment.d}) < 16)
    return "fp8 with k, columns or addresses not aligned to 16 bytes";
  return {};
}

std::string_view declines_integers(const GemmProblem& p) noexcept {
  if (p.b_type != DType::i8 || p.c_type != DType::i32) return "a type that does not go with i8";
  const LtAlignment alignment = lt_alignment(p);
  if (!divisible({p.lda, p.ldb, p.ldd, p.beta == Scalar::zero ? 0 : p.ldc}, 4) || std::min(alignment.a, alignment.b) < 4)
    return "i8 with columns or addresses not aligned to 4 elements";
  return {};
}

cublasStatus_t set_epilogue(LtMatmul& matmul, const GemmProblem& p) noexcept {
  matmul.has_bias = has_bias(p.epilogue);
  if (p.epilogue == Epilogue::none) return CUBLAS_STATUS_SUCCESS;
  cublasStatus_t status =
      set(matmul.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p.epilogue).value_or(CUBLASLT_EPILOGUE_DEFAULT));
  if (status != CUBLAS_STATUS_SUCCESS || !matmul.has_bias) return status;
  status = set(matmul.desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(matmul.types.c));
  // Nothing reads this address, but the heuristic takes the bias to be aligned as it is.
  const std::uintptr_t aligned_alike = 4096 + static_cast<std::uintptr_t>(p.align_bias);
  if (status == CUBLAS_STATUS_SUCCESS) status = set(matmul.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned_alike);
  return status;
}

std::int64_t step(std::int64_t batch, std::int64_t stride, DType type) noexcept {
  return batch * stride * static_cast<std::int64_t>(size_of(type));
}

}  // namespace

LtAlignment lt_alignment(const GemmProblem& p) noexcept {
  LtAlignment alignment;
  alignment.a = least_alignment(p.align_a, p.stride_a, p.batch, p.a_type);
  alignment.b = least_alignment(p.align_b, p.stride_b, p.batch, p.b_type);
  alignment.d = least_alignment(p.align_d, p.stride_d, p.batch, p.c_type);
  alignment.c = p.beta == Scalar::zero ? alignment.d : least_alignment(p.align_c, p.stride_c, p.batch, p.c_type);
  return alignment;
}

std::string lt_declines(const GemmProblem& p, int cc_major) {
  const std::string_view types = is_fp8(p.a_type)        ? declines_fp8(p, cc_major)
                                 : p.a_type == DType::i8 ? declines_integers(p)
                                                         : declines_floats(p);
  if (!types.empty()) return std::string(types);
  // Measured with cublasLt 13.1: kernels load the bias 16 bytes at a time whatever its address.
  if (has_bias(p.epilogue) && p.align_bias < 16) return "a bias that is not aligned to 16 bytes";
  if (!epilogue_of(p.epilogue)) return fmt::format("the epilogue {}", name_of(p.epilogue));
  if (p.op_a == Op::C || p.op_b == Op::C) return "a conjugate transpose";
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (std::max({p.m, p.n, p.k}) > most) return fmt::format("m, n or k past {}", most);
  const auto aligned = [](int alignment, DType type) { return static_cast<std::size_t>(alignment) >= size_of(type); };
  const bool reads_c = p.beta != Scalar::zero;
  if (!aligned(p.align_a, p.a_type) || !aligned(p.align_b, p.b_type) || !aligned(p.align_d, p.c_type) ||
      (reads_c && !aligned(p.align_c, p.c_type)) || (has_bias(p.epilogue) && !aligned(p.align_bias, p.c_type)))
    return "an address that is not aligned to its elements";
  return {};
}

cublasComputeType_t lt_compute(const GemmProblem& p, const Constraints& constraints) noexcept {
  if (p.compute == Compute::f64) return CUBLAS_COMPUTE_64F;
  if (p.compute == Compute::i32) return CUBLAS_COMPUTE_32I;
  return lt_allows(CUBLAS_COMPUTE_32F_FAST_TF32, p, constraints) ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

bool lt_allows(cublasComputeType_t compute, const GemmProblem& p, const Constraints& constraints) noexcept {
  const bool in_f32 = p.compute == Compute::f32 || p.compute == Compute::f32_tf32;
  switch (compute) {
    case CUBLAS_COMPUTE_32F: return in_f32;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return in_f32 && p.a_type == DType::f32 && (p.compute == Compute::f32_tf32 || allows(constraints, MathMode::tf32));
    case CUBLAS_COMPUTE_64F: return p.compute == Compute::f64;
    case CUBLAS_COMPUTE_32I: return p.compute == Compute::i32;
    default: return false;
  }
}

std::uint32_t lt_reductions(const GemmProblem& p, const Constraints& constraints) noexcept {
  const bool strict = is_16_bit(p.c_type) && !allows(constraints, MathMode::reduced_reduction);
  // Measured with cublasLt 13.1: sums that were split are rounded to the output's type before the epilogue.
  if (strict && p.epilogue != Epilogue::none) return CUBLASLT_REDUCTION_SCHEME_NONE;
  std::uint32_t mask = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  // Partial sums kept in the output's type lose what the compute type promised, unless the two are the same.
  if (strict) return mask;
  mask |= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  // Added into the output in place: counters keep the additions apart, but nothing documents their order.
  if (!constraints.deterministic) mask |= CUBLASLT_REDUCTION_SCHEME_INPLACE;
  return mask;
}

cublasStatus_t make_matmul(const GemmProblem& p, cublasComputeType_t compute, const Constraints& constraints,
                           LtMatmul& matmul) noexcept {
  matmul = {};
  matmul.types = {compute, scale_type(compute), data_type(p.a_type), data_type(p.b_type), data_type(p.c_type)};
  matmul.scaled = is_fp8(p.a_type);
  matmul.fast_sums = matmul.scaled && allows(constraints, MathMode::fp8_fast);
  cublasStatus_t status = cublasLtMatmulDescInit(&matmul.desc, compute, matmul.types.scale);
  if (status == CUBLAS_STATUS_SUCCESS) status = set(matmul.desc, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.op_a));
  if (status == CUBLAS_STATUS_SUCCESS) status = set(matmul.desc, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.op_b));
  if (status == CUBLAS_STATUS_SUCCESS && constraints.sm_count > 0)
    status = set(matmul.desc, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, constraints.sm_count);
  if (status == CUBLAS_STATUS_SUCCESS && matmul.fast_sums)
    status = set(matmul.desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  if (status == CUBLAS_STATUS_SUCCESS) status = set_epilogue(matmul, p);
  if (status == CUBLAS_STATUS_SUCCESS && matmul.scaled) {
    // Some kernels work with scales only and some only without: the heuristic must see that there will be some.
    const std::uintptr_t somewhere = 4096;
    status = set(matmul.desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, somewhere);
    if (status == CUBLAS_STATUS_SUCCESS) status = set(matmul.desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, somewhere);
  }

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

cublasStatus_t bind_operands(const LtMatmul& matmul, const Launch& launch, cublasLtMatmulDescOpaque_t& desc) noexcept {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  if (matmul.has_bias) status = set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, launch.bias);
  if (!matmul.scaled) return status;
  if (status == CUBLAS_STATUS_SUCCESS) status = set(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, launch.scale_a);
  if (status == CUBLAS_STATUS_SUCCESS) status = set(desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, launch.scale_b);
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

Accumulation accumulation(const LtMatmul& matmul) noexcept {
  if (matmul.fast_sums) return Accumulation::fp8_fast;
  if (matmul.scaled) return Accumulation::fp8;
  const bool plain = matmul.types.compute == CUBLAS_COMPUTE_64F || matmul.types.compute == CUBLAS_COMPUTE_32I ||
                     (matmul.types.compute == CUBLAS_COMPUTE_32F && matmul.types.a == CUDA_R_32F);
  return plain ? Accumulation::plain : Accumulation::tensor_core;
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
  std::uint64_t accumulators = CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F;
  if (wide) accumulators = CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_64F;
  if (matmul.types.compute == CUBLAS_COMPUTE_32I) accumulators = CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32I;
  const auto refuses = [flags](std::uint64_t mask, std::uint64_t wanted) {
    return (flags & mask) != 0 && (flags & wanted) == 0;
  };
  return !refuses(CUBLASLT_NUMERICAL_IMPL_FLAGS_OP_TYPE_MASK, operations) &&
         !refuses(CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_TYPE_MASK, accumulators);
}

}  // namespace attune

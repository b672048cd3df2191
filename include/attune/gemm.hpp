// General matrix multiplication: D = act(alpha * op(A) * op(B) + beta * C + bias), column-major as in cuBLAS.
#pragma once

#include <attune/error.hpp>
#include <attune/types.hpp>
#include <cstddef>
#include <cstdint>
#include <new>

namespace attune {
inline namespace v0 {

class Context;

/// What a GEMM computes; holds no pointers. Sizes and leading dimensions count elements, columns are contiguous.
/// op(A) is m x k, op(B) is k x n, C and D are m x n; `batch` problems lie stride_x elements apart (0: the same matrix for all).
struct GemmProblem {
  Op op_a = Op::N;
  Op op_b = Op::N;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  DType a_type = DType::f32;
  DType b_type = DType::f32;
  DType c_type = DType::f32;  ///< of C and of D
  Compute compute = Compute::f32;
  std::int64_t lda = packed;
  std::int64_t ldb = packed;
  std::int64_t ldc = packed;
  std::int64_t ldd = packed;
  std::int64_t stride_a = packed;
  std::int64_t stride_b = packed;
  std::int64_t stride_c = packed;
  std::int64_t stride_d = packed;
  Scalar alpha = Scalar::one;  ///< calls derive both cases from the values given
  Scalar beta = Scalar::zero;
  int align_a = 16;  ///< alignment of each operand's address in bytes, 1 to 16; calls derive it from the pointers
  int align_b = 16;
  int align_c = 16;
  int align_d = 16;
  Epilogue epilogue = Epilogue::none;  ///< the bias has one element of D's type for each row of D: m of them
  int align_bias = 16;

  GemmProblem() = default;
  /// All operands of one type, packed, accumulated in f32 (f64 for DType::f64). Of i8 inputs the output is i32, of fp8 ones bf16.
  GemmProblem(Op op_a_, Op op_b_, std::int64_t m_, std::int64_t n_, std::int64_t k_, DType type) noexcept
      : op_a(op_a_),
        op_b(op_b_),
        m(m_),
        n(n_),
        k(k_),
        a_type(type),
        b_type(type),
        c_type(type),
        compute(type == DType::f64 ? Compute::f64 : Compute::f32) {
    if (type == DType::i8) c_type = DType::i32, compute = Compute::i32;
    if (type == DType::f8_e4m3 || type == DType::f8_e5m2) c_type = DType::bf16;
  }

  /// The problem of row-major D[m,n] = op(A)[m,k] * op(B)[k,n]: the column-major problem with the roles of A and B, and of m
  /// and n, exchanged. Pass its operands with GemmArgs::row_major. A bias then runs along the n columns of the row-major D, as
  /// in a linear layer.
  static GemmProblem row_major(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, DType type) noexcept {
    return GemmProblem(op_b, op_a, n, m, k, type);
  }
};

/// The operands of one call, device pointers (host pointers on Device::host()). `alpha` and `beta` are host pointers to
/// float, double or std::int32_t as Compute says; null means 1 and 0. C may be D, or lie apart from it; it is not read when beta
/// is 0. `bias` is read where the problem's epilogue has one. The scales belong to fp8 operands: pointers, of the kind of the
/// operands, to one float each that multiplies the matrix; null means 1.
struct GemmArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  const void* alpha = nullptr;
  const void* beta = nullptr;
  const void* bias = nullptr;
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;

  GemmArgs() = default;
  GemmArgs(const void* a_, const void* b_, void* d_) noexcept : a(a_), b(b_), c(d_), d(d_) {}
  GemmArgs(const void* a_, const void* b_, const void* c_, void* d_, const void* alpha_, const void* beta_) noexcept
      : a(a_), b(b_), c(c_), d(d_), alpha(alpha_), beta(beta_) {}

  /// The operands of a GemmProblem::row_major problem, given in the row-major order.
  static GemmArgs row_major(const void* a, const void* b, void* d) noexcept { return GemmArgs(b, a, d); }
};

/// Runs the problem on the stream with the best plan known, tuning it first where the context may. Returns once the work is
/// enqueued. Throws Error: invalid_argument (the message names the argument and its value), unsupported, no_memory, device_error.
ATTUNE_EXPORT void tuned_gemm(Context& ctx, const GemmProblem& problem, const GemmArgs& args, Stream stream = nullptr);
/// The same, returning the code; last_error_message() holds the message.
ATTUNE_EXPORT Status tuned_gemm(Context& ctx, const GemmProblem& problem, const GemmArgs& args, Stream stream,
                                std::nothrow_t) noexcept;

/// In the argument order of cublasGemmEx: C = alpha * op(A) * op(B) + beta * C.
ATTUNE_EXPORT void tuned_gemm(Context& ctx, Op transa, Op transb, std::int64_t m, std::int64_t n, std::int64_t k,
                              const void* alpha, const void* a, DType a_type, std::int64_t lda, const void* b, DType b_type,
                              std::int64_t ldb, const void* beta, void* c, DType c_type, std::int64_t ldc, Compute compute,
                              Stream stream = nullptr);
ATTUNE_EXPORT Status tuned_gemm(Context& ctx, Op transa, Op transb, std::int64_t m, std::int64_t n, std::int64_t k,
                                const void* alpha, const void* a, DType a_type, std::int64_t lda, const void* b, DType b_type,
                                std::int64_t ldb, const void* beta, void* c, DType c_type, std::int64_t ldc, Compute compute,
                                Stream stream, std::nothrow_t) noexcept;

/// In the argument order of cublasGemmStridedBatchedEx; strides count elements.
ATTUNE_EXPORT void tuned_gemm_strided_batched(Context& ctx, Op transa, Op transb, std::int64_t m, std::int64_t n,
                                              std::int64_t k, const void* alpha, const void* a, DType a_type, std::int64_t lda,
                                              std::int64_t stride_a, const void* b, DType b_type, std::int64_t ldb,
                                              std::int64_t stride_b, const void* beta, void* c, DType c_type, std::int64_t ldc,
                                              std::int64_t stride_c, std::int64_t batch, Compute compute,
                                              Stream stream = nullptr);
ATTUNE_EXPORT Status tuned_gemm_strided_batched(Context& ctx, Op transa, Op transb, std::int64_t m, std::int64_t n,
                                                std::int64_t k, const void* alpha, const void* a, DType a_type,
                                                std::int64_t lda, std::int64_t stride_a, const void* b, DType b_type,
                                                std::int64_t ldb, std::int64_t stride_b, const void* beta, void* c, DType c_type,
                                                std::int64_t ldc, std::int64_t stride_c, std::int64_t batch, Compute compute,
                                                Stream stream, std::nothrow_t) noexcept;

/// Row-major C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C: rows are contiguous, leading dimensions are row lengths.
ATTUNE_EXPORT void tuned_gemm_row_major(Context& ctx, Op transa, Op transb, std::int64_t m, std::int64_t n, std::int64_t k,
                                        const void* alpha, const void* a, DType a_type, std::int64_t lda, const void* b,
                                        DType b_type, std::int64_t ldb, const void* beta, void* c, DType c_type,
                                        std::int64_t ldc, Compute compute, Stream stream = nullptr);
ATTUNE_EXPORT Status tuned_gemm_row_major(Context& ctx, Op transa, Op transb, std::int64_t m, std::int64_t n, std::int64_t k,
                                          const void* alpha, const void* a, DType a_type, std::int64_t lda, const void* b,
                                          DType b_type, std::int64_t ldb, const void* beta, void* c, DType c_type,
                                          std::int64_t ldc, Compute compute, Stream stream, std::nothrow_t) noexcept;

}  // namespace v0
}  // namespace attune

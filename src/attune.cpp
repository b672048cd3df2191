// The entry points: from arguments to a problem and a launch. Each is written once, throwing; the others call it.
#include <fmt/format.h>

#include "context_impl.hpp"
#include "core/last_error.hpp"

namespace attune {
namespace {

constexpr float one_f = 1, zero_f = 0;
constexpr double one_d = 1, zero_d = 0;

Scalar scalar_case(const void* value, Compute compute) noexcept {
  const double v = compute == Compute::f64 ? *static_cast<const double*>(value) : *static_cast<const float*>(value);
  return v == 0 ? Scalar::zero : v == 1 ? Scalar::one : Scalar::other;
}

/// Fills in the standard scalars and tells the problem their cases.
template <class P>
void take_scalars(P& problem, const void* alpha, const void* beta, Launch& launch) noexcept {
  const bool f64 = problem.compute == Compute::f64;
  launch.alpha = alpha != nullptr ? alpha : f64 ? static_cast<const void*>(&one_d) : &one_f;
  launch.beta = beta != nullptr ? beta : f64 ? static_cast<const void*>(&zero_d) : &zero_f;
  problem.alpha = scalar_case(launch.alpha, problem.compute);
  problem.beta = scalar_case(launch.beta, problem.compute);
}

void run(Context& ctx, GemmProblem problem, const GemmArgs& args, Stream stream) {
  Launch launch{args.a, args.b, args.c, args.d};
  launch.stream = stream;
  take_scalars(problem, args.alpha, args.beta, launch);
  problem.align_a = alignment_of(args.a);
  problem.align_b = alignment_of(args.b);
  problem.align_d = alignment_of(args.d);
  // C has no part in the key where it is not read.
  if (problem.beta == Scalar::zero) {
    launch.c = nullptr;
    problem.align_c = 16;
  } else {
    problem.align_c = alignment_of(args.c);
  }
  ctx.impl().call(problem, launch);
}

void run(Context& ctx, ConvProblem problem, const ConvArgs& args, Stream stream) {
  Launch launch{args.in0, args.in1, args.out, args.out};
  launch.stream = stream;
  take_scalars(problem, args.alpha, args.beta, launch);
  if (problem.beta == Scalar::zero) launch.c = nullptr;
  const int in0 = alignment_of(args.in0), in1 = alignment_of(args.in1), out = alignment_of(args.out);
  problem.align_x = problem.direction == Direction::dgrad ? out : in0;
  problem.align_w = problem.direction == Direction::wgrad ? out : in1;
  problem.align_y = problem.direction == Direction::fwd ? out : problem.direction == Direction::dgrad ? in0 : in1;
  ctx.impl().call(problem, launch);
}

template <class Call>
Status without_throwing(Call&& call) noexcept {
  try {
    call();
    return Status::ok;
  } catch (const Error& error) {
    set_last_error(error.what());
    return error.status();
  } catch (const std::bad_alloc&) {
    set_last_error("out of host memory");
    return Status::no_memory;
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return Status::internal;
  }
}

/// A leading dimension or stride as an argument: `packed` is a value of the problem form only.
void given(const char* name, std::int64_t value) {
  if (value < 0) throw Error(Status::invalid_argument, fmt::format("{} = {}: must not be negative", name, value));
}

void given(const char* name, const void* pointer) {
  if (pointer == nullptr) throw Error(Status::invalid_argument, fmt::format("{} is null", name));
}

}  // namespace

inline namespace v0 {

void tuned_gemm(Context& ctx, const GemmProblem& problem, const GemmArgs& args, Stream stream) { run(ctx, problem, args, stream); }

Status tuned_gemm(Context& ctx, const GemmProblem& problem, const GemmArgs& args, Stream stream, std::nothrow_t) noexcept {
  return without_throwing([&] { run(ctx, problem, args, stream); });
}

void tuned_gemm_strided_batched(Context& ctx, Op transa, Op transb, std::int64_t m, std::int64_t n, std::int64_t k,
                                const void* alpha, const void* a, DType a_type, std::int64_t lda, std::int64_t stride_a,
                                const void* b, DType b_type, std::int64_t ldb, std::int64_t stride_b, const void* beta, void* c,
                                DType c_type, std::int64_t ldc, std::int64_t stride_c, std::int64_t batch, Compute compute,
                                Stream stream) {
  given("alpha", alpha);
  given("beta", beta);
  given("lda", lda);
  given("ldb", ldb);
  given("ldc", ldc);
  GemmProblem problem;
  problem.op_a = transa, problem.op_b = transb;
  problem.m = m, problem.n = n, problem.k = k, problem.batch = batch;
  problem.a_type = a_type, problem.b_type = b_type, problem.c_type = c_type;
  problem.compute = compute;
  problem.lda = lda, problem.ldb = ldb, problem.ldc = problem.ldd = ldc;
  problem.stride_a = stride_a, problem.stride_b = stride_b, problem.stride_c = problem.stride_d = stride_c;
  run(ctx, problem, {a, b, c, c, alpha, beta}, stream);
}

Status tuned_gemm_strided_batched(Context& ctx, Op transa, Op transb, std::int64_t m, std::int64_t n, std::int64_t k,
                                  const void* alpha, const void* a, DType a_type, std::int64_t lda, std::int64_t stride_a,
                                  const void* b, DType b_type, std::int64_t ldb, std::int64_t stride_b, const void* beta, void* c,
                                  DType c_type, std::int64_t ldc, std::int64_t stride_c, std::int64_t batch, Compute compute,
                                  Stream stream, std::nothrow_t) noexcept {
  return without_throwing([&] {
    tuned_gemm_strided_batched(ctx, transa, transb, m, n, k, alpha, a, a_type, lda, stride_a, b, b_type, ldb, stride_b, beta, c,
                               c_type, ldc, stride_c, batch, compute, stream);
  });
}

void tuned_gemm(Context& ctx, Op transa, Op transb, std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha,
                const void* a, DType a_type, std::int64_t lda, const void* b, DType b_type, std::int64_t ldb, const void* beta,
                void* c, DType c_type, std::int64_t ldc, Compute compute, Stream stream) {
  tuned_gemm_strided_batched(ctx, transa, transb, m, n, k, alpha, a, a_type, lda, packed, b, b_type, ldb, packed, beta, c, c_type,
                             ldc, packed, 1, compute, stream);
}

Status tuned_gemm(Context& ctx, Op transa, Op transb, std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha,
                  const void* a, DType a_type, std::int64_t lda, const void* b, DType b_type, std::int64_t ldb, const void* beta,
                  void* c, DType c_type, std::int64_t ldc, Compute compute, Stream stream, std::nothrow_t) noexcept {
  return without_throwing([&] {
    tuned_gemm(ctx, transa, transb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, stream);
  });
}

// Row-major C = op(A) op(B) is column-major C' = op(B)' op(A)'.
void tuned_gemm_row_major(Context& ctx, Op transa, Op transb, std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha,
                          const void* a, DType a_type, std::int64_t lda, const void* b, DType b_type, std::int64_t ldb,
                          const void* beta, void* c, DType c_type, std::int64_t ldc, Compute compute, Stream stream) {
  tuned_gemm(ctx, transb, transa, n, m, k, alpha, b, b_type, ldb, a, a_type, lda, beta, c, c_type, ldc, compute, stream);
}

Status tuned_gemm_row_major(Context& ctx, Op transa, Op transb, std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha,
                            const void* a, DType a_type, std::int64_t lda, const void* b, DType b_type, std::int64_t ldb,
                            const void* beta, void* c, DType c_type, std::int64_t ldc, Compute compute, Stream stream,
                            std::nothrow_t) noexcept {
  return without_throwing([&] {
    tuned_gemm_row_major(ctx, transa, transb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute,
                         stream);
  });
}

void tuned_conv(Context& ctx, const ConvProblem& problem, const ConvArgs& args, Stream stream) { run(ctx, problem, args, stream); }

Status tuned_conv(Context& ctx, const ConvProblem& problem, const ConvArgs& args, Stream stream, std::nothrow_t) noexcept {
  return without_throwing([&] { run(ctx, problem, args, stream); });
}

}  // namespace v0
}  // namespace attune

// The entry points: from arguments to a problem and a launch. Each is written once, throwing; the others call it.
#include <fmt/format.h>

#include <algorithm>

#include "context_impl.hpp"
#include "core/last_error.hpp"

namespace attune {
namespace {

constexpr float one_f = 1, zero_f = 0;
constexpr double one_d = 1, zero_d = 0;
constexpr std::int32_t one_i = 1, zero_i = 0;

Scalar scalar_case(const void* value, Compute compute) noexcept {
  const double v = scalar_value(value, compute);
  return v == 0 ? Scalar::zero : v == 1 ? Scalar::one : Scalar::other;
}

const void* standard_scalar(Compute compute, bool one) noexcept {
  if (compute == Compute::f64) return one ? &one_d : &zero_d;
  if (compute == Compute::i32) return one ? &one_i : &zero_i;
  return one ? &one_f : &zero_f;
}

/// Fills in the standard scalars and notes their cases.
[[gnu::always_inline]] inline void take_scalars(Compute compute, const void* alpha, const void* beta, Launch& launch,
                                                CallFacts& facts) noexcept {
  launch.alpha = alpha != nullptr ? alpha : standard_scalar(compute, true);
  launch.beta = beta != nullptr ? beta : standard_scalar(compute, false);
  facts.scalar[0] = scalar_case(launch.alpha, compute);
  facts.scalar[1] = scalar_case(launch.beta, compute);
}

void run(Context& ctx, const GemmProblem& problem, const GemmArgs& args, Stream stream) {
  Launch launch{args.a, args.b, args.c, args.d};
  launch.stream = stream;
  CallFacts facts;
  take_scalars(problem.compute, args.alpha, args.beta, launch, facts);
  // C has no part in the key where it is not read.
  const bool reads_c = facts.scalar[1] != Scalar::zero;
  if (!reads_c) launch.c = nullptr;
  facts.align[0] = alignment_of(args.a);
  facts.align[1] = alignment_of(args.b);
  facts.align[2] = reads_c ? alignment_of(args.c) : 16;
  facts.align[3] = alignment_of(args.d);
  if (has_bias(problem.epilogue)) {
    launch.bias = args.bias;
    facts.align[4] = alignment_of(args.bias);
  }
  if (is_fp8(problem.a_type)) launch.scale_a = args.scale_a, launch.scale_b = args.scale_b;
  ctx.impl().call(problem, facts, launch);
}

/// For the entry points that make the problem themselves: it takes the facts of the call at once. Inlined, as what it
/// calls: one call more is a twentieth of a hit.
[[gnu::always_inline]] inline Launch take_operands(GemmProblem& problem, const void* a, const void* b, void* c,
                                                   const void* alpha, const void* beta) noexcept {
  Launch launch{a, b, c, c};
  CallFacts facts;
  take_scalars(problem.compute, alpha, beta, launch, facts);
  problem.alpha = facts.scalar[0];
  problem.beta = facts.scalar[1];
  problem.align_a = alignment_of(a);
  problem.align_b = alignment_of(b);
  problem.align_d = alignment_of(c);
  if (problem.beta == Scalar::zero)
    launch.c = nullptr;
  else
    problem.align_c = problem.align_d;
  return launch;
}

void run(Context& ctx, const ConvProblem& problem, const ConvArgs& args, Stream stream) {
  Launch launch{args.in0, args.in1, args.c != nullptr ? args.c : args.out, args.out};
  launch.stream = stream;
  CallFacts facts;
  take_scalars(problem.compute, args.alpha, args.beta, launch, facts);
  if (facts.scalar[1] == Scalar::zero) launch.c = nullptr;
  const int in0 = alignment_of(args.in0), in1 = alignment_of(args.in1);
  const int out = launch.c == nullptr ? alignment_of(args.out) : std::min(alignment_of(args.out), alignment_of(launch.c));
  facts.align[0] = problem.direction == Direction::dgrad ? out : in0;                                               // x
  facts.align[1] = problem.direction == Direction::wgrad ? out : in1;                                               // w
  facts.align[2] = problem.direction == Direction::fwd ? out : problem.direction == Direction::dgrad ? in0 : in1;  // y
  if (has_bias(problem.epilogue)) {
    launch.bias = args.bias;
    facts.align[3] = alignment_of(args.bias);
  }
  ctx.impl().call(problem, facts, launch);
}

void run(Context& ctx, const PoolProblem& problem, const PoolArgs& args, Stream stream) {
  const bool fwd = problem.direction == PoolDirection::fwd, looks_at_x = problem.mode == PoolMode::max;
  void* const more[] = {const_cast<void*>(args.y)};
  Launch launch;
  launch.d = args.out;
  launch.stream = stream;
  launch.more = more;
  CallFacts facts;
  int& x = facts.align[0];
  int& y = facts.align[1];
  if (fwd) {
    launch.a = args.x;
    x = alignment_of(args.x), y = alignment_of(args.out);
  } else {
    launch.a = args.dy;
    x = alignment_of(args.out), y = alignment_of(args.dy);
    if (looks_at_x) {
      launch.b = args.x;
      x = std::min(x, alignment_of(args.x)), y = std::min(y, alignment_of(args.y));
    }
  }
  ctx.impl().call(problem, facts, launch);
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
  } catch (...) {  // out of a caller's callback
    set_last_error("an exception of an unknown type");
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
  Launch launch = take_operands(problem, a, b, c, alpha, beta);
  launch.stream = stream;
  ctx.impl().call(problem, launch, blas_names);
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
  try {
    tuned_gemm(ctx, transb, transa, n, m, k, alpha, b, b_type, ldb, a, a_type, lda, beta, c, c_type, ldc, compute, stream);
  } catch (const Error& error) {
    // What is refused is refused once more under the caller's own names. The call path has one copy of itself, and no names.
    if (error.status() != Status::invalid_argument && error.status() != Status::unsupported) throw;
    given("lda", lda);
    given("ldb", ldb);
    if (alpha == nullptr || beta == nullptr || ldc < 0) throw;
    GemmProblem problem;
    problem.op_a = transb, problem.op_b = transa;
    problem.m = n, problem.n = m, problem.k = k;
    problem.a_type = b_type, problem.b_type = a_type, problem.c_type = c_type;
    problem.compute = compute;
    problem.lda = ldb, problem.ldb = lda, problem.ldc = problem.ldd = ldc;
    const Launch launch = take_operands(problem, b, a, c, alpha, beta);
    validate(problem, row_major_names);
    Context::Impl::check_operands(resolve(problem), launch, row_major_names);
    throw;
  }
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

void tuned_pool(Context& ctx, const PoolProblem& problem, const PoolArgs& args, Stream stream) {
  run(ctx, problem, args, stream);
}

Status tuned_pool(Context& ctx, const PoolProblem& problem, const PoolArgs& args, Stream stream, std::nothrow_t) noexcept {
  return without_throwing([&] { run(ctx, problem, args, stream); });
}

}  // namespace v0
}  // namespace attune

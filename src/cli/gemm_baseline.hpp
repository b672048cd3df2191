// cuBLAS as programs call it today: what the benchmark compares tuned plans with.
#pragma once

#include <attune/gemm.hpp>

#include <memory>

#include "core/constraints.hpp"
#include "core/plan.hpp"

namespace attune {

/// cublasGemmEx, or cublasGemmStridedBatchedEx for a batch, with CUBLAS_GEMM_DEFAULT or, if `autotune`, CUBLAS_GEMM_AUTOTUNE,
/// in the arithmetic that the constraints allow and with 32 MiB of workspace of its own. For one thread at a time, on one
/// stream at a time. cuBLAS works in place: with beta other than zero a launch needs c == d, else it returns unsupported.
/// An autotuned plan tunes on the operands of its first run, which must not be captured.
/// Null when cuBLAS has no such call or cannot be used; noted_failure() says why. `problem` is resolved.
std::unique_ptr<Plan> make_gemm_ex_plan(const GemmProblem& problem, const Constraints& constraints, int ordinal, bool autotune);

}  // namespace attune

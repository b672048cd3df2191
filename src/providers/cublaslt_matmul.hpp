// The cublasLt descriptors of one GEMM problem: what a plan launches with and what the heuristic is asked about.
#pragma once

#include <cublasLt.h>
#include <attune/gemm.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/constraints.hpp"
#include "providers/cublaslt_config.hpp"

namespace attune {

/// Why cublasLt cannot serve the problem at all; empty when it may.
std::string lt_declines(const GemmProblem& problem);

/// What the problem is computed in: the fastest type that the constraints allow.
cublasComputeType_t lt_compute(const GemmProblem& problem, const Constraints& constraints) noexcept;

/// Whether the constraints allow this compute type for the problem.
bool lt_allows(cublasComputeType_t compute, const GemmProblem& problem, const Constraints& constraints) noexcept;

/// The reduction schemes, as a mask of cublasLtReductionScheme_t, that keep the precision and the determinism asked for.
std::uint32_t lt_reductions(const GemmProblem& problem, const Constraints& constraints) noexcept;

/// Layouts of the operands of one launch.
struct LtLayouts {
  std::int32_t batch = 0;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
};

/// A batch too long for one launch goes out in `launches` launches of `body`, one `step` apart, and one of `tail` if it has
/// any. Plain data: no heap, no pointers, read-only once made.
struct LtMatmul {
  LtTypes types;
  cublasLtMatmulDescOpaque_t desc;
  std::int64_t launches = 0;
  LtLayouts body;
  LtLayouts tail;                                               ///< batch 0: none
  std::int64_t step_a = 0, step_b = 0, step_c = 0, step_d = 0;  ///< bytes
};

/// `problem` is resolved and not declined. The status is that of the first descriptor that could not be made.
cublasStatus_t make_matmul(const GemmProblem& problem, cublasComputeType_t compute, const Constraints& constraints,
                           LtMatmul& matmul) noexcept;

/// Workspace for every launch of the algorithm; the status of the check that failed.
cublasStatus_t check_algo(cublasLtHandle_t handle, const LtMatmul& matmul, const cublasLtMatmulAlgo_t& algo,
                          std::size_t& workspace) noexcept;

/// Whether the algorithm multiplies and adds in the precision of its compute type: no emulation by narrower types.
bool keeps_precision(const LtMatmul& matmul, const cublasLtMatmulAlgo_t& algo) noexcept;

}  // namespace attune

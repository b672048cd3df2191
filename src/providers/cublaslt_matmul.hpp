// The cublasLt descriptors of one GEMM problem: what a plan launches with and what the heuristic is asked about.
#pragma once

#include <cublasLt.h>
#include <attune/gemm.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/constraints.hpp"
#include "core/plan.hpp"
#include "providers/cublaslt_config.hpp"

namespace attune {

/// Addresses' alignment in bytes, as far as a call may rely on it.
struct LtAlignment {
  std::uint32_t a = 16, b = 16, c = 16, d = 16;
};

/// Of every matrix of the batch, every launch included.
LtAlignment lt_alignment(const GemmProblem& problem) noexcept;

/// Why cublasLt cannot serve the problem at all on a GPU of this major compute capability (0: on any);
/// empty when it may.
std::string lt_declines(const GemmProblem& problem, int cc_major = 0);

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
/// any. Plain data: no heap, no operand pointers, read-only once made.
struct LtMatmul {
  LtTypes types;
  cublasLtMatmulDescOpaque_t desc;
  bool has_bias = false;   ///< its address, and the scales', are bound for each call
  bool scaled = false;     ///< fp8 operands
  bool fast_sums = false;  ///< fp8 products added up without fp32 sums between
  std::int64_t launches = 0;
  LtLayouts body;
  LtLayouts tail;                                               ///< batch 0: none
  std::int64_t step_a = 0, step_b = 0, step_c = 0, step_d = 0;  ///< bytes
};

/// `problem` is resolved and not declined. The status is that of the first descriptor that could not be made.
cublasStatus_t make_matmul(const GemmProblem& problem, cublasComputeType_t compute, const Constraints& constraints,
                           LtMatmul& matmul) noexcept;

/// Puts the addresses that a call brings into a copy of the descriptor.
cublasStatus_t bind_operands(const LtMatmul& matmul, const Launch& launch, cublasLtMatmulDescOpaque_t& desc) noexcept;

/// Workspace for every launch of the algorithm; the status of the check that failed.
cublasStatus_t check_algo(cublasLtHandle_t handle, const LtMatmul& matmul, const cublasLtMatmulAlgo_t& algo,
                          std::size_t& workspace) noexcept;

Accumulation accumulation(const LtMatmul& matmul) noexcept;

/// Whether the algorithm multiplies and adds in the precision of its compute type: no emulation by narrower types.
bool keeps_precision(const LtMatmul& matmul, const cublasLtMatmulAlgo_t& algo) noexcept;

}  // namespace attune

// Facts about problems that every layer needs.
#pragma once

#include <attune/problem.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "core/constraints.hpp"
#include "core/operands.hpp"
#include "kernels/common/activation.hpp"

namespace attune {

/// What the arguments of a GEMM are called where its caller gave them, for messages.
struct GemmNames {
  const char *op_a = "op_a", *op_b = "op_b", *m = "m", *n = "n", *a_type = "a_type", *b_type = "b_type";
  const char *lda = "lda", *ldb = "ldb", *ldd = "ldd", *stride_a = "stride_a", *stride_b = "stride_b", *stride_d = "stride_d";
  const char *align_a = "align_a", *align_b = "align_b", *align_d = "align_d", *a = "A", *b = "B", *d = "D";
  const char* lines = "rows";  ///< what a leading dimension must hold
};
inline constexpr GemmNames problem_names;
/// In the argument order of BLAS, where D is C.
inline constexpr GemmNames blas_names = [] {
  GemmNames names;
  names.op_a = "transa", names.op_b = "transb", names.d = "C", names.ldd = "ldc", names.stride_d = "stride_c";
  names.align_d = "align_c";
  return names;
}();
/// Row-major C = op(A) op(B) is run as the column-major C' = op(B)' op(A)'.
inline constexpr GemmNames row_major_names = [] {
  GemmNames names = blas_names;
  names.op_a = "transb", names.op_b = "transa", names.m = "n", names.n = "m", names.a_type = "b_type", names.b_type = "a_type";
  names.lda = "ldb", names.ldb = "lda", names.align_a = "align_b", names.align_b = "align_a", names.a = "B", names.b = "A";
  names.lines = "columns";
  return names;
}();
/// As validate(problem), with these names for the arguments of a GEMM.
void validate(const Problem& problem, const GemmNames& names);

/// The problem with every `packed` replaced by its value and Compute::f32_tf32 by f32; its meaning stays.
Problem resolve(const Problem& problem);

/// The ops whose result is alpha times a sum of products, plus beta times C, behind an epilogue.
template <class P>
inline constexpr bool is_contraction = std::is_same_v<P, GemmProblem> || std::is_same_v<P, ConvProblem>;
inline bool contracts(const Problem& problem) noexcept {
  return std::visit([]<class P>(const P&) { return is_contraction<P>; }, problem);
}
/// f(p) for a GEMM or a convolution; nothing for another op.
template <class F>
void visit_contraction(const Problem& problem, F&& f) {
  std::visit(
      [&]<class P>(const P& p) {
        if constexpr (is_contraction<P>) f(p);
      },
      problem);
}

constexpr bool is_fp8(DType type) noexcept { return type == DType::f8_e4m3 || type == DType::f8_e5m2; }

constexpr bool has_bias(Epilogue e) noexcept { return (static_cast<unsigned>(e) & 1) != 0; }
constexpr Activation activation(Epilogue e) noexcept { return static_cast<Activation>(static_cast<unsigned>(e) / 2); }

/// The modes that can matter for the problem's types (tf32 for fp32 operands, reduced reduction for a 16-bit output, transforms
/// for a convolution); the others are dropped from its constraints, so that they split no keys.
constexpr MathMode relevant_modes(const GemmProblem& p) noexcept {
  MathMode modes = MathMode::strict;
  if (p.a_type == DType::f32 || p.b_type == DType::f32) modes = modes | MathMode::tf32;
  if (p.c_type == DType::f16 || p.c_type == DType::bf16) modes = modes | MathMode::reduced_reduction;
  if (is_fp8(p.a_type)) modes = modes | MathMode::fp8_fast;
  return modes;
}
constexpr MathMode relevant_modes(const ConvProblem& p) noexcept {
  MathMode modes = MathMode::transforms;
  if (p.x_type == DType::f32 || p.w_type == DType::f32 || p.y_type == DType::f32) modes = modes | MathMode::tf32;
  const DType out = p.direction == Direction::fwd ? p.y_type : p.direction == Direction::dgrad ? p.x_type : p.w_type;
  if (out == DType::f16 || out == DType::bf16) modes = modes | MathMode::reduced_reduction;
  return modes;
}
constexpr MathMode relevant_modes(const PoolProblem&) noexcept { return MathMode::strict; }
template <class P>
constexpr MathMode modes_for(const P& p, MathMode allowed) noexcept {
  if constexpr (is_contraction<P>)
    if (p.compute == Compute::f32_tf32) allowed = allowed | MathMode::tf32;
  return allowed & relevant_modes(p);
}

/// The constraints as they hold for this problem: Compute::f32_tf32 adds MathMode::tf32, irrelevant modes are dropped.
Constraints applied_to(const Problem& problem, Constraints constraints) noexcept;

/// No output element exists: the call succeeds and launches nothing.
bool empty_output(const Problem& problem) noexcept;
/// Outputs exist, but alpha is zero or no products do: D = beta * C. Of contractions only.
bool scales_only(const Problem& problem) noexcept;

/// Multiplications and additions, counted as two, or comparisons; for ratios and floors.
double flops(const Problem& problem) noexcept;
/// Least bytes moved: every input once, every output once, C too where beta is not zero.
double least_bytes(const Problem& problem) noexcept;

/// No operand alone spans more than this many bytes. A leading dimension can be such that the sum of two spans overflows: asked before
/// spans are added up.
bool spans_fit(const Problem& problem, std::int64_t bytes) noexcept;

/// The largest power of two, at most 16, that divides the address.
inline int alignment_of(const void* pointer) noexcept {
  const auto bits = reinterpret_cast<std::uintptr_t>(pointer) | 16;
  return static_cast<int>(bits & (~bits + 1));
}

}  // namespace attune

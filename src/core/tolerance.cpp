#include "core/tolerance.hpp"

#include <algorithm>

#include "core/problem.hpp"

namespace attune {
namespace {

double unit_roundoff(DType type) noexcept {
  switch (type) {
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    case DType::f32: return 0x1p-24;
    case DType::f64: return 0x1p-53;
    case DType::f8_e4m3: return 0x1p-4;
    case DType::f8_e5m2: return 0x1p-3;
    case DType::i8:
    case DType::i32: return 0;
  }
  return 0;
}

}  // namespace

Tolerance tolerance(const Problem& problem, const Constraints& constraints, Accumulation accumulation) noexcept {
  const DType out = spans(problem).d.type;
  bool f64 = out == DType::f64, selects = false;
  Activation act = Activation::none;
  visit_contraction(problem, [&](const auto& p) { f64 = p.compute == Compute::f64, act = activation(p.epilogue); });
  if (const auto* pool = std::get_if<PoolProblem>(&problem))
    selects = pool->mode == PoolMode::max && pool->direction == PoolDirection::fwd;
  Tolerance t;
  if (out == DType::i32 || selects) return t;
  if (act != Activation::none) t.slope = activation_slope;
  t.out = unit_roundoff(out);
  t.in = allows(constraints, MathMode::tf32) ? 0x1p-10 : 0;
  t.absolute = out == DType::f16 ? 0x1p-25 : 0;
  switch (accumulation) {
    case Accumulation::plain: t.acc = f64 ? 0x1p-53 : 0x1p-24; break;
    case Accumulation::tensor_core: t.acc = f64 ? 0x1p-53 : 0x1p-22; break;  // adders truncate and align to the largest
    // Hopper's fp8 tensor cores keep 14 bits of a sum. Strictly, sums of 128 products or fewer are added up in fp32: each is off
    // by 2^-13 of its own size, and that does not grow with K.
    case Accumulation::fp8: t.in = 0x1p-13, t.acc = 0x1p-22; break;
    case Accumulation::fp8_fast: t.acc = 0x1p-13; break;
    case Accumulation::transform: t.acc = f64 ? 0x1p-49 : 0x1p-19; break;    // Winograd's and FFT's constants amplify
  }
  // Transforms of 16-bit problems round the transformed inputs to the storage type; so do sums reduced in the output's type.
  const bool narrow = out == DType::f16 || out == DType::bf16;
  if (narrow && (accumulation == Accumulation::transform || allows(constraints, MathMode::reduced_reduction)))
    t.in = std::max(t.in, t.out);
  return t;
}

}  // namespace attune

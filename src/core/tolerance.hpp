// How far a right result may be from the double-precision one.
#pragma once

#include <cmath>
#include <cstdint>

#include <attune/problem.hpp>

#include "core/constraints.hpp"
#include "core/plan.hpp"

namespace attune {

/// |d - ref| <= absolute + out * |ref| + slope * 8 * (in + sqrt(K) * acc) * sqrt(sum of squares of the products), where ref is
/// the finished element, behind its activation, and C and bias count as products. Integers and maxima must be exact.
struct Tolerance {
  double out = 0;       ///< rounding of the output type
  double in = 0;        ///< rounding of the inputs: 2^-10 where tf32 is allowed
  double acc = 0;       ///< rounding of one addition
  double absolute = 0;  ///< half of the output type's smallest step
  double slope = 1;     ///< the activation's steepest

  /// The factor of sqrt(sum of squares).
  double of_sums(std::int64_t terms) const noexcept {
    return slope * 8 * (in + std::sqrt(static_cast<double>(terms > 1 ? terms : 1)) * acc);
  }

  double bound(double ref, double sum_of_squares, std::int64_t terms) const noexcept {
    return absolute + out * std::abs(ref) + of_sums(terms) * std::sqrt(sum_of_squares);
  }
};

Tolerance tolerance(const Problem& problem, const Constraints& constraints, Accumulation accumulation) noexcept;

}  // namespace attune

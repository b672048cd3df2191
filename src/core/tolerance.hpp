// How far a right result may be from the double-precision one.
#pragma once

#include <cmath>
#include <cstdint>

#include <attune/problem.hpp>

#include "core/constraints.hpp"
#include "core/plan.hpp"

namespace attune {

/// |d - ref| <= absolute + out * |ref| + 8 * (in + sqrt(K) * acc) * sqrt(sum of squares of the products).
struct Tolerance {
  double out = 0;       ///< rounding of the output type
  double in = 0;        ///< rounding of the inputs: 2^-10 where tf32 is allowed
  double acc = 0;       ///< rounding of one addition
  double absolute = 0;  ///< half of the output type's smallest step

  double bound(double ref, double sum_of_squares, std::int64_t terms) const noexcept {
    return absolute + out * std::abs(ref) +
           8 * (in + std::sqrt(static_cast<double>(terms > 1 ? terms : 1)) * acc) * std::sqrt(sum_of_squares);
  }
};

Tolerance tolerance(const Problem& problem, const Constraints& constraints, Accumulation accumulation) noexcept;

}  // namespace attune

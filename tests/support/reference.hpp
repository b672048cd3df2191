// The double-precision reference of every problem, elementwise, and the comparison with it.
#pragma once

#include <attune/problem.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/constraints.hpp"
#include "core/plan.hpp"

namespace attune::test {

/// Of a GEMM or a convolution: every output element in the order of view(problem): rows fastest, then columns, then matrices.
struct Reference {
  std::vector<double> value;
  std::vector<double> squares;   ///< sum of squares of what was added up, before the activation
  std::vector<std::int64_t> at;  ///< in elements from the output's address
  std::int64_t terms = 0;
};

/// `problem` is resolved; addresses are the host's. c is not read when the problem's beta case is zero, bias only where the
/// epilogue has one. alpha has the scales of fp8 operands in it.
Reference reference(const Problem& problem, const void* a, const void* b, const void* c, double alpha, double beta,
                    const void* bias = nullptr);

struct Comparison {
  bool ok = true;
  double max_error = 0;  ///< largest |d - reference| over its bound
  std::string message;   ///< the first bad element, with its indices and values
};
Comparison compare(const Problem& problem, const Constraints& constraints, Accumulation accumulation,
                   const Reference& reference, const void* d);

/// Uniform in [-1, 1), full mantissas; integers in [-127, 127].
void fill(void* memory, DType type, std::int64_t elements, std::uint64_t seed);

/// The operands of a problem in host memory: random inputs; the output and its surroundings hold `untouched` bytes, except that
/// a convolution with beta other than zero finds C in it. With beta zero C holds NaNs.
class HostCase {
 public:
  HostCase(const Problem& problem, double alpha, double beta, std::uint64_t seed);

  const Problem& problem() const noexcept { return problem_; }
  /// A plan's launch on this case, output prepared anew. `workspace` is filled with NaN bytes.
  Launch launch(std::size_t workspace);
  /// Everything about the output: elements, gaps, red zones.
  Comparison verify(const Constraints& constraints, Accumulation accumulation) const;
  const std::byte* output() const noexcept { return d_.data() + zone + shift_; }
  std::size_t output_bytes() const noexcept;

 private:
  static constexpr std::size_t zone = 4096;
  Problem problem_;
  GivenScalar alpha_, beta_;
  bool adds_ = false, in_place_ = false;
  std::vector<std::byte> a_, b_, c_, d_, bias_, workspace_;
  std::size_t shift_ = 0;
  Reference reference_;
};

}  // namespace attune::test

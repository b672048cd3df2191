// Whether a plan wrote the right output, all of it, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/constraints.hpp"
#include "core/problem.hpp"
#include "core/runtime.hpp"

namespace attune {

/// A problem's generated operands: addresses and values of the scalars.
struct HostOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  ///< null where beta is zero
  double alpha = 1;
  double beta = 0;
  const void* bias = nullptr;  ///< null where there is none
};

/// Knows one random element of each 16 x 16 block of each output matrix, computed in double precision when it is made.
class HostAudit {
 public:
  HostAudit(const Problem& problem, const Constraints& constraints, const HostOperands& operands, int threads,
            std::uint64_t seed);

  static constexpr std::size_t red_zone = 4096;  ///< bytes before and behind the output
  /// Bytes to allocate for an output with its red zones; the output begins `red_zone` bytes behind the start.
  std::size_t bytes() const noexcept { return 2 * red_zone + span_; }

  /// Fills everything with NaN bytes; the elements with those of `initial`, if there is one.
  void poison(std::byte* buffer, const void* initial) const noexcept;
  /// Fills in what it finds: ok, red_zone or wrong.
  void inspect(const std::byte* buffer, Accumulation accumulation, Check& check) const;

 private:
  struct Sample {
    std::int64_t at;  ///< in elements from the output's start
    double value, squares;
  };
  template <class P>
  void prepare(const P& problem, const HostOperands& operands, int threads, std::uint64_t seed);

  Problem problem_;
  Constraints constraints_;
  DType type_;
  std::size_t element_, span_;
  std::int64_t terms_ = 0;
  std::vector<std::uint8_t> is_element_;  ///< of each place in the span; empty where all are
  std::vector<Sample> samples_;
};

}  // namespace attune

// How a problem becomes another one that some provider is better at, with copies before and after.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.hpp"
#include "kernels/finish.hpp"
#include "kernels/relayout.hpp"

namespace attune::compose {

/// Where an operand of the inner plan comes from.
enum class Operand : std::uint8_t { a, b };

/// A copy of an operand of the call into the workspace, before the inner plan runs.
struct Copy {
  Operand operand = Operand::a;
  Relayout shape;
  std::size_t at = 0;  ///< bytes into the workspace
};

/// A problem in other words.
struct Rewrite {
  Problem inner;
  bool exchanged = false;         ///< the inner problem's A is this problem's b
  std::vector<Copy> copies;       ///< at most one for each operand
  bool through_sums = false;      ///< the inner result goes to the workspace, and home from there by `finish`
  FinishShape finish;
  std::size_t sums_at = 0;
  std::size_t workspace = 0;      ///< bytes before the inner plan's own
};

/// A kind of rewriting; `apply` gives nothing where it does not fit the problem or would change nothing.
struct Kind {
  std::string_view name;
  std::optional<Rewrite> (*apply)(const Problem&);
};

extern const Kind gemm_kinds[];
extern const std::size_t gemm_kind_count;
extern const Kind conv_kinds[];
extern const std::size_t conv_kind_count;

/// All of them, in the order in which they are tried.
const std::vector<Kind>& kinds();

}  // namespace attune::compose

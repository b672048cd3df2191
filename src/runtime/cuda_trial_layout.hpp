// Where everything of a trial lies in its one block of memory. Pure arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/problem.hpp"

namespace attune {

/// Bytes of poison before and behind each output and the workspace.
inline constexpr std::size_t red_zone_bytes = std::size_t{64} << 10;
inline constexpr int most_operand_sets = 64;

/// Offsets in bytes. Operands are aligned exactly as the problem says (16 means 256 or more), so that a plan which assumes more
/// fails here.
struct TrialLayout {
  int sets = 0;
  std::size_t a = 0, b = 0, c = 0, d = 0, bias = 0, scales = 0;  ///< within a set; red zones lie around d
  std::size_t more[Launch::most_more] = {};                      ///< likewise, red zones around those that are written
  std::size_t set_bytes = 0;
  std::size_t workspace = 0, workspace_bytes = 0;  ///< red zones lie around it
  std::size_t references = 0;
  std::size_t total = 0;

  std::size_t in_set(int set, std::size_t operand) const noexcept {
    return static_cast<std::size_t>(set) * set_bytes + operand;
  }
};

/// As many sets as it takes for one round to touch three times the L2, at most `most_sets`.
TrialLayout trial_layout(const Problem& problem, std::int64_t l2_bytes, std::size_t workspace, std::size_t reference_bytes,
                         int most_sets) noexcept;

}  // namespace attune

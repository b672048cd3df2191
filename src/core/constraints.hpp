// What the caller allows; part of the key.
#pragma once

#include <attune/types.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace attune {

inline constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();
inline constexpr std::size_t mebibyte = std::size_t{1} << 20;

struct Constraints {
  bool deterministic = false;
  MathMode math = MathMode::transforms;
  std::size_t workspace_limit = 256 * mebibyte;  ///< one of workspace_limits
  std::int32_t sm_count = 0;                     ///< 0: all

  friend bool operator==(const Constraints&, const Constraints&) = default;
};

inline constexpr std::size_t workspace_limits[] = {0, mebibyte, 4 * mebibyte, 32 * mebibyte, 256 * mebibyte, no_limit};

constexpr std::size_t round_workspace_limit(std::size_t bytes) noexcept {
  std::size_t limit = 0;
  for (std::size_t step : workspace_limits)
    if (bytes >= step) limit = step;
  return limit;
}

/// "tf32,transforms" or "strict".
std::string to_text(MathMode modes);
/// "math=transforms workspace=32MiB deterministic": the constraints' part of a key in a plan file.
std::string to_text(const Constraints& constraints);
/// Reads what to_text writes; what is not named is as in Constraints(). Throws Error(invalid_argument) that names the word.
Constraints parse_constraints(std::string_view text);

constexpr bool allows(const Constraints& c, MathMode mode) noexcept { return any(c.math & mode); }

}  // namespace attune

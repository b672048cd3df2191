// Which measured candidate wins. Pure.
#pragma once

#include <cstddef>
#include <span>

namespace attune {

struct Measured {
  double us = 0;      ///< not a time (zero, negative, NaN): out of the race
  double spread = 0;  ///< relative uncertainty
  std::size_t workspace = 0;
  bool is_default = false;
};

/// Differences below this are never taken for real, however small the spreads: clocks drift by as much within a process.
inline constexpr double noise_floor = 0.01;

/// Whether b's time cannot be told from a's, a being the faster.
bool within_noise(const Measured& a, const Measured& b) noexcept;

/// Of the candidates within the noise of the fastest: the default if it is among them, else the least workspace, then the
/// earliest. Returns measured.size() when no candidate has a time.
std::size_t select(std::span<const Measured> measured) noexcept;

}  // namespace attune

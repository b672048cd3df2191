#include "tune/select.hpp"

#include <algorithm>

#include "tune/measure.hpp"

namespace attune {

bool within_noise(const Measured& a, const Measured& b) noexcept {
  return b.us <= a.us * (1 + std::max(noise_floor, a.spread + b.spread));
}

std::size_t select(std::span<const Measured> measured) noexcept {
  const std::size_t none = measured.size();
  std::size_t fastest = none;
  for (std::size_t i = 0; i < none; ++i)
    if (is_time(measured[i].us) && (fastest == none || measured[i].us < measured[fastest].us)) fastest = i;
  if (fastest == none) return none;

  std::size_t winner = none;
  for (std::size_t i = 0; i < none; ++i) {
    if (!is_time(measured[i].us) || !within_noise(measured[fastest], measured[i])) continue;
    if (measured[i].is_default) return i;
    if (winner == none || measured[i].workspace < measured[winner].workspace) winner = i;
  }
  return winner;
}

}  // namespace attune

// What became of a candidate.
#pragma once

#include <cstdint>

namespace attune {

enum class Outcome : std::uint8_t { ok, declined, no_memory, failed, red_zone, wrong, pruned };

constexpr const char* to_string(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::ok: return "ok";
    case Outcome::declined: return "declined";
    case Outcome::no_memory: return "no_memory";
    case Outcome::failed: return "failed";
    case Outcome::red_zone: return "red_zone";
    case Outcome::wrong: return "wrong";
    case Outcome::pruned: return "pruned";
  }
  return "?";
}

}  // namespace attune

#include "tune/key.hpp"

#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_SCALAR
#include <xxhash.h>

namespace attune {

std::uint64_t pack(const Constraints& c) noexcept {
  std::uint64_t limit = 0;
  while (workspace_limits[limit] != c.workspace_limit) ++limit;
  return static_cast<std::uint64_t>(c.deterministic) | limit << 1 | static_cast<std::uint64_t>(c.sm_count & 0xffff) << 8 |
         static_cast<std::uint64_t>(c.math) << 32;
}

Constraints unpack(std::uint64_t word) noexcept {
  Constraints c;
  c.deterministic = (word & 1) != 0;
  c.workspace_limit = workspace_limits[word >> 1 & 7];
  c.sm_count = static_cast<std::int32_t>(word >> 8 & 0xffff);
  c.math = static_cast<MathMode>(word >> 32);
  return c;
}

std::uint64_t hash_words(const std::uint64_t* words, int count) noexcept {
  return XXH3_64bits(words, sizeof(std::uint64_t) * static_cast<std::size_t>(count));
}

KeyText key_text(const std::string& device, const Problem& problem, const Constraints& constraints) {
  return {device, to_string(resolve(problem)), to_text(constraints)};
}

}  // namespace attune

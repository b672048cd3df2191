// Random numbers and sampled elements: pure functions of a seed and an index, so that every kernel finds the same ones.
#pragma once

#include <cstdint>

#include "kernels/trial_kernels.hpp"

namespace attune {

/// 64 well mixed bits of a counter (the finalizer of SplitMix64).
ATTUNE_HD inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z = seed + (counter + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

struct Element {
  std::int64_t row, col, batch;
};

ATTUNE_HD inline Element sampled_element(const SampleGrid& grid, std::int64_t sample) {
  const std::uint64_t bits = random_bits(grid.seed, static_cast<std::uint64_t>(sample));
  std::int64_t block = sample * grid.step + static_cast<std::int64_t>((bits >> 16) % static_cast<std::uint64_t>(grid.step));
  if (block >= grid.blocks) block = grid.blocks - 1;
  const std::int64_t in_matrix = block % (grid.block_rows * grid.block_cols);
  Element e;
  e.batch = block / (grid.block_rows * grid.block_cols);
  const std::int64_t row = in_matrix % grid.block_rows * grid.edge, col = in_matrix / grid.block_rows * grid.edge;
  const std::int64_t high = grid.rows - row < grid.edge ? grid.rows - row : grid.edge;
  const std::int64_t wide = grid.cols - col < grid.edge ? grid.cols - col : grid.edge;
  e.row = row + static_cast<std::int64_t>(bits & 255) % high;
  e.col = col + static_cast<std::int64_t>((bits >> 8) & 255) % wide;
  return e;
}

}  // namespace attune

// A convolution as the tiled kernels see it: 32-bit steps, one entry for each spatial axis, the phases of a strided dgrad.
//
// In the terms of ImageContraction: rows are (outer, position), terms are (tap, inner), columns are channels of the output.
// wgrad is the same with positions and taps exchanged: its rows are (outer, tap), its terms (position, inner).
#pragma once

#include <attune/types.hpp>
#include <cstdint>

#include "kernels/common/contraction.hpp"

namespace attune {

/// Division by a number known beforehand, of numbers from 0 up to 2^31 - 1.
struct Divider {
  unsigned by = 1, factor = 1, shift = 0;

  Divider() = default;
  explicit Divider(std::int64_t divisor) noexcept : by(static_cast<unsigned>(divisor)) {
    while ((std::uint64_t{1} << shift) < by) ++shift;
    factor = static_cast<unsigned>((((std::uint64_t{1} << shift) - by) << 32) / by + 1);
  }
  ATTUNE_HD int quotient(int n) const {
    const auto high = static_cast<unsigned>(std::uint64_t{static_cast<unsigned>(n)} * factor >> 32);
    return static_cast<int>((high + static_cast<unsigned>(n)) >> shift);
  }
  /// Leaves the quotient in n and returns the remainder.
  ATTUNE_HD int split(int& n) const {
    const int q = quotient(n), rest = n - q * static_cast<int>(by);
    n = q;
    return rest;
  }
};

/// The positions of the output, of one axis, that the same taps reach. All of them but for a dgrad with a stride.
struct ConvPhase {
  int first = 0;                ///< position of the output
  int shift = 0;                ///< coordinate in the image of position 0 and tap 0
  int first_tap = 0;            ///< tap of the filter
  int positions = 1, taps = 1;  ///< either may be 0
  Divider by_positions, by_taps;
};

inline constexpr int most_phases = 4;

struct ConvAxis {
  int extent = 1, image_step = 0;  ///< of the image: coordinates, elements from one to the next
  int position_step = 0;           ///< coordinates from position to position of a phase
  int tap_step = 0;                ///< coordinates from tap to tap of a phase
  int positions_apart = 1;         ///< positions of the output from one to the next of a phase
  int taps_apart = 1;              ///< taps of the filter from one to the next of a phase
  int other_step = 0;  ///< elements of the other operand from tap to tap of the filter (wgrad: from position to position)
  int out_step = 0;    ///< elements of the output from position to position (wgrad: from tap to tap)
  int phases = 1;
  /// Where a tap may fall outside of the image: its bit in the masks of taps that fall inside is 1 << (bit + tap).
  int bit = 0;
  bool bounded = false;
  ConvPhase phase[most_phases];
};

/// In the masks: of every position and tap that exist, and of none.
inline constexpr unsigned present_bit = 1u << 31, absent_bit = 1u << 30;
inline constexpr int most_tap_bits = 30;

struct ConvShape {
  ConvAxis axis[3];
  bool wgrad = false;
  int groups = 1;
  int outer = 0, inner = 0, columns = 0;
  Divider by_outer, by_inner;
  int image_outer = 0, image_inner = 0;
  int other_inner = 0, other_column = 0;
  int out_outer = 0, out_column = 0;
  std::int64_t image_group = 0, other_group = 0, out_group = 0;
  bool inner_first = false;  ///< terms: `inner` runs faster than the taps
  bool outer_first = false;  ///< rows: `outer` runs faster than the taps (wgrad only)
  DType out_type = DType::f32;
  bool vectors = false;   ///< output and C may be accessed 16 bytes at a time along the columns
  int splits = 1;         ///< of the terms; more than one: sums go to `partial`, and the steps of the output are its own
  std::int64_t part = 0;  ///< elements of one split's sums
};

/// How many tiles cover the shape. The phases count as if each had the rows of the first, which no other exceeds.
struct ConvTiles {
  int rows = 0, columns = 0;
  std::int64_t total = 0;  ///< over phases, splits and groups

  ConvTiles(const ConvShape& s, int tile_rows, int tile_columns) noexcept {
    std::int64_t all = s.outer, phases = 1;
    for (const ConvAxis& a : s.axis) all *= s.wgrad ? a.phase[0].taps : a.phase[0].positions, phases *= a.phases;
    rows = static_cast<int>((all + tile_rows - 1) / tile_rows), columns = (s.columns + tile_columns - 1) / tile_columns;
    total = phases * rows * columns * s.splits * s.groups;
  }
};

}  // namespace attune

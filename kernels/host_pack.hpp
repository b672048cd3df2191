// Packing of panels and storing of tiles, compiled once for each instruction set (the tag `Isa` keeps the copies apart).
#pragma once

#include <cstdint>

#include "kernels/common/number.hpp"
#include "kernels/host_packed.hpp"

namespace attune::packing {

struct Range {
  std::int64_t from, count;
};
ATTUNE_INLINE std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

/// Panels of `width` lines, each panel holding term after term; lines past `count` are zero. Line i's term l is at
/// from[i * step_line + offset of l], the offset l * step_term.
template <class Isa, class T, class S>
void pack_strided(const S* from, std::int64_t step_line, std::int64_t step_term, std::int64_t count, std::int64_t terms,
                  int width, T* to) {
  for (std::int64_t line = 0; line < count; line += width, from += width * step_line, to += width * terms) {
    const int lines = static_cast<int>(least(width, count - line));
    if (step_line == 1 && lines == width) {
      for (std::int64_t l = 0; l < terms; ++l)
        for (int i = 0; i < width; ++i) to[l * width + i] = static_cast<T>(widen(from[l * step_term + i]));
      continue;
    }
    // Strips of terms that share cache lines of the source.
    constexpr std::int64_t strip = 16;
    for (std::int64_t l0 = 0; l0 < terms; l0 += strip) {
      const std::int64_t end = least(terms, l0 + strip);
      for (int i = 0; i < lines; ++i)
        for (std::int64_t l = l0; l < end; ++l) to[l * width + i] = static_cast<T>(widen(from[i * step_line + l * step_term]));
      for (std::int64_t l = l0; l < end; ++l)
        for (int i = lines; i < width; ++i) to[l * width + i] = T(0);
    }
  }
}

/// Walks (outer, position) pairs without dividing for each.
struct Walk {
  std::int64_t outer, at[3];
  ATTUNE_INLINE Walk(std::int64_t flat, const std::int64_t* extent) {
    at[2] = flat % extent[2], flat /= extent[2];
    at[1] = flat % extent[1], flat /= extent[1];
    at[0] = flat % extent[0], outer = flat / extent[0];
  }
  ATTUNE_INLINE void next(const std::int64_t* extent) {
    if (++at[2] < extent[2]) return;
    at[2] = 0;
    if (++at[1] < extent[1]) return;
    at[1] = 0;
    if (++at[0] < extent[0]) return;
    at[0] = 0;
    ++outer;
  }
};

/// The image's elements for columns [cols] and terms [terms] as panels of `width` columns.
template <class Isa, class T, class S>
void pack_image(const ImageContraction& p, const S* image, Range cols, Range terms, int width, T* to) {
  std::int64_t base[3][max_tile_rows], linear[max_tile_rows], offset[max_tile_rows];
  const bool divides = p.divisor[0] != 1 || p.divisor[1] != 1 || p.divisor[2] != 1;
  Walk column(cols.from, p.position);
  for (std::int64_t done = 0; done < cols.count; done += width) {
    const int count = static_cast<int>(least(width, cols.count - done));
    for (int j = 0; j < count; ++j, column.next(p.position)) {
      linear[j] = column.outer * p.image_outer;
      for (int d = 0; d < 3; ++d) base[d][j] = column.at[d] * p.position_step[d] + p.shift[d];
    }
    Walk tap(terms.from / p.inner, p.tap);
    std::int64_t inner = terms.from % p.inner;
    for (std::int64_t left = terms.count; left > 0; tap.next(p.tap), inner = 0) {
      const std::int64_t run = least(left, p.inner - inner);
      left -= run;
      bool all = count == width;
      for (int j = 0; j < count; ++j) {
        std::int64_t at = linear[j];
        bool inside = true;
        for (int d = 0; d < 3; ++d) {
          std::int64_t x = base[d][j] + tap.at[d] * p.tap_step[d];
          if (divides) {
            inside &= x >= 0 && x % p.divisor[d] == 0;
            x /= p.divisor[d];
          }
          inside &= static_cast<std::uint64_t>(x) < static_cast<std::uint64_t>(p.image_extent[d]);
          at += x * p.image_step[d];
        }
        offset[j] = inside ? at : -1;
        all &= inside && at == offset[0] + j;
      }
      const S* from = image + inner * p.image_inner;
      for (std::int64_t l = 0; l < run; ++l, from += p.image_inner, to += width) {
        if (all) {
          for (int j = 0; j < width; ++j) to[j] = static_cast<T>(widen(from[offset[0] + j]));
          continue;
        }
        for (int j = 0; j < count; ++j) to[j] = offset[j] < 0 ? T(0) : static_cast<T>(widen(from[offset[j]]));
        for (int j = count; j < width; ++j) to[j] = T(0);
      }
    }
  }
}

/// The other operand's elements for rows [rows] and terms [terms] as panels of `width` rows.
template <class Isa, class T, class S>
void pack_other(const ImageContraction& p, const S* other, Range rows, Range terms, int width, T* to) {
  for (std::int64_t done = 0; done < rows.count; done += width) {
    const int count = static_cast<int>(least(width, rows.count - done));
    Walk tap(terms.from / p.inner, p.tap);
    std::int64_t inner = terms.from % p.inner;
    for (std::int64_t left = terms.count; left > 0; tap.next(p.tap), inner = 0) {
      const std::int64_t run = least(left, p.inner - inner);
      left -= run;
      const S* from = other + (rows.from + done) * p.other_row + inner * p.other_inner + tap.at[0] * p.other_tap[0] +
                      tap.at[1] * p.other_tap[1] + tap.at[2] * p.other_tap[2];
      pack_strided<Isa>(from, p.other_row, p.other_inner, count, run, width, to);
      to += run * width;
    }
  }
}

/// Where the lines of a tile lie in the output.
struct Lines {
  std::int64_t d[max_tile_rows];
  std::int64_t c[max_tile_rows];
  std::int64_t bias[max_tile_rows];  ///< the element's bias is at the sum of its row's and its column's
  int count;
};

template <class Isa, class T>
void store_integers(std::int32_t* d, const std::int32_t* c, const Lines& rows, const Lines& cols, int mr, const T* acc, T alpha, T beta) {
  for (int j = 0; j < cols.count; ++j, acc += mr)
    for (int i = 0; i < rows.count; ++i)
      d[rows.d[i] + cols.d[j]] =
          finished_integer(alpha, acc[i], beta, c != nullptr ? static_cast<double>(c[rows.c[i] + cols.c[j]]) : 0.0);
}

template <class Isa, class T, class S>
void store_tile(S* d, const S* c, const Lines& rows, const Lines& cols, int mr, const T* acc, T alpha, T beta) {
  const bool contiguous = rows.count > 1 && rows.d[rows.count - 1] == rows.d[0] + rows.count - 1 &&
                          rows.d[1] == rows.d[0] + 1 && (c == nullptr || rows.c[rows.count - 1] == rows.c[0] + rows.count - 1);
  for (int j = 0; j < cols.count; ++j, acc += mr) {
    S* to = d + cols.d[j];
    if (c == nullptr) {
      if (contiguous) {
        for (int i = 0; i < rows.count; ++i) to[rows.d[0] + i] = narrow<S>(alpha * acc[i]);
      } else {
        for (int i = 0; i < rows.count; ++i) to[rows.d[i]] = narrow<S>(alpha * acc[i]);
      }
      continue;
    }
    const S* from = c + cols.c[j];
    for (int i = 0; i < rows.count; ++i)
      to[rows.d[i]] = narrow<S>(alpha * acc[i] + beta * static_cast<T>(widen(from[rows.c[i]])));
  }
}

/// The same with an epilogue.
template <class Isa, class T, class S>
void finish_tile(S* d, const S* c, const S* bias, Activation activation, const Lines& rows, const Lines& cols, int mr, const T* acc,
                 T alpha, T beta) {
  for (int j = 0; j < cols.count; ++j, acc += mr)
    for (int i = 0; i < rows.count; ++i) {
      T value = alpha * acc[i];
      if (c != nullptr) value += beta * static_cast<T>(widen(c[rows.c[i] + cols.c[j]]));
      if (bias != nullptr) value += static_cast<T>(widen(bias[rows.bias[i] + cols.bias[j]]));
      d[rows.d[i] + cols.d[j]] = narrow<S>(activated(activation, value));
    }
}

}  // namespace attune::packing

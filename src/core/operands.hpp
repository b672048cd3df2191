// The operands of a launch, one by one: what the checks of a call, the trials and the spans of a problem are made from.
#pragma once

#include <attune/problem.hpp>
#include <cstddef>
#include <cstdint>

#include "core/plan.hpp"

namespace attune {

std::size_t size_of(DType type) noexcept;

/// The memory that one operand spans, in elements from its address: the last element's offset plus one.
struct Span {
  DType type = DType::f32;
  std::int64_t elements = 0;
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(elements) * size_of(type); }
};

struct Operand {
  const char* name = "";  ///< as messages call it
  Span span;              ///< empty where the launch has none
  int align = 16;         ///< of its address, in bytes
  bool written = false;   ///< an output
  bool read = true;       ///< false for what is only written
};

/// In the places that they have in Launch. `more` are as the op lists them.
struct Operands {
  Operand a, b, c, d, bias;
  Operand more[Launch::most_more];
  int more_count = 0;

  void add(const Operand& operand) noexcept { more[more_count++] = operand; }
};

/// Of a valid, resolved problem; c is empty where beta is zero. For a convolution c spans what d spans.
Operands operands(const Problem& problem) noexcept;

/// The spans of the first five. `c` and `bias` are empty where the launch has none.
struct Spans {
  Span a, b, c, d;
  Span bias;
};
Spans spans(const Problem& problem) noexcept;

}  // namespace attune

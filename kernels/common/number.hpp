// The 16-bit element types on the host, and elements of any type as double.
//
// Everything here is forced inline: these functions are compiled with several instruction sets, and no copy of one may be
// linked in the place of another.
#pragma once

#include <attune/types.hpp>
#include <cstdint>
#include <cstring>

#define ATTUNE_INLINE [[gnu::always_inline]] inline

namespace attune {

struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};

ATTUNE_INLINE float float_from_bits(std::uint32_t bits) noexcept {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
ATTUNE_INLINE std::uint32_t bits_of_float(float value) noexcept {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// Exact. The multiplication rescales the exponent and makes subnormals normal; infinities and NaNs are patched behind it.
ATTUNE_INLINE float widen(F16 h) noexcept {
  const std::uint32_t magnitude = (h.bits & 0x7fffu) << 13;
  const float scaled = float_from_bits(magnitude) * 0x1p112f;
  const std::uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  return float_from_bits(bits_of_float(scaled) | special | (h.bits & 0x8000u) << 16);
}
ATTUNE_INLINE float widen(BF16 h) noexcept { return float_from_bits(static_cast<std::uint32_t>(h.bits) << 16); }
ATTUNE_INLINE float widen(float value) noexcept { return value; }
ATTUNE_INLINE double widen(double value) noexcept { return value; }

/// To nearest, ties to even; overflow gives infinity, a NaN stays one.
template <class To>
To narrow(double value) noexcept;
template <>
ATTUNE_INLINE double narrow<double>(double value) noexcept {
  return value;
}
template <>
ATTUNE_INLINE float narrow<float>(double value) noexcept {
  return static_cast<float>(value);
}
template <>
ATTUNE_INLINE F16 narrow<F16>(double value) noexcept {
  const std::uint32_t bits = bits_of_float(static_cast<float>(value));
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t out = 0;
  if (magnitude > 0x7f800000u) {
    out = 0x7e00u;
  } else if (magnitude >= 0x477ff000u) {
    out = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    // Adding 0.5 aligns the subnormal's last bit with the float's last bit, and the hardware rounds.
    out = bits_of_float(float_from_bits(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    out = (magnitude - 0x38000000u + 0x0fffu + (magnitude >> 13 & 1u)) >> 13;
  }
  return {static_cast<std::uint16_t>(out | sign)};
}
template <>
ATTUNE_INLINE BF16 narrow<BF16>(double value) noexcept {
  const std::uint32_t bits = bits_of_float(static_cast<float>(value));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

/// Calls f with a value of the type's storage class; types that the host engine does not compute with count as f32.
template <class F>
ATTUNE_INLINE auto with_type(DType type, F&& f) {
  switch (type) {
    case DType::f16: return f(F16{});
    case DType::bf16: return f(BF16{});
    case DType::f64: return f(double{});
    default: return f(float{});
  }
}

ATTUNE_INLINE double load_number(const void* base, DType type, std::int64_t index) noexcept {
  return with_type(type, [&](auto tag) { return static_cast<double>(widen(static_cast<const decltype(tag)*>(base)[index])); });
}
ATTUNE_INLINE void store_number(void* base, DType type, std::int64_t index, double value) noexcept {
  with_type(type, [&](auto tag) { static_cast<decltype(tag)*>(base)[index] = narrow<decltype(tag)>(value); });
}

}  // namespace attune

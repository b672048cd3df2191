// The 16-bit, fp8 and integer element types on the host, and elements of any type as double.
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
/// e4m3 as in the OCP standard: no infinities, 0x7f and 0xff are NaN, the largest value is 448. e5m2 is a short F16.
struct F8E4M3 {
  std::uint8_t bits;
};
struct F8E5M2 {
  std::uint8_t bits;
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
ATTUNE_INLINE float widen(F8E4M3 h) noexcept {
  const std::uint32_t magnitude = (h.bits & 0x7fu) << 20;
  const float scaled = float_from_bits(magnitude) * 0x1p120f;
  const std::uint32_t special = magnitude == 0x07f00000u ? 0x7fc00000u : 0u;
  return float_from_bits(bits_of_float(scaled) | special | static_cast<std::uint32_t>(h.bits & 0x80u) << 24);
}
ATTUNE_INLINE float widen(F8E5M2 h) noexcept { return widen(F16{static_cast<std::uint16_t>(h.bits << 8)}); }
ATTUNE_INLINE float widen(std::int8_t value) noexcept { return value; }
ATTUNE_INLINE double widen(std::int32_t value) noexcept { return value; }
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

/// fp8 saturates, as conversions for deep learning do.
template <>
ATTUNE_INLINE F8E4M3 narrow<F8E4M3>(double value) noexcept {
  if (value != value) return {0x7f};
  const double magnitude = value < 0 ? -value : value;
  // Steps of 2^-9 below the smallest normal number 2^-6, then 8 for each power of two.
  double step = 0x1p-9, top = 0x1p-5;
  while (magnitude >= top && top < 512) step *= 2, top *= 2;
  const double steps = __builtin_nearbyint((magnitude > 448 ? 448 : magnitude) / step);
  const double rounded = steps * step;
  std::uint8_t bits = 0;
  for (int at = 0x7e; at > 0; --at)
    if (static_cast<double>(widen(F8E4M3{static_cast<std::uint8_t>(at)})) == rounded) bits = static_cast<std::uint8_t>(at), at = 0;
  return {static_cast<std::uint8_t>(bits | (value < 0 ? 0x80 : 0))};
}
template <>
ATTUNE_INLINE F8E5M2 narrow<F8E5M2>(double value) noexcept {
  if (value != value) return {0x7f};
  const double magnitude = value < 0 ? -value : value;
  double step = 0x1p-16, top = 0x1p-13;
  while (magnitude >= top && top < 65536) step *= 2, top *= 2;
  const double rounded = __builtin_nearbyint((magnitude > 57344 ? 57344 : magnitude) / step) * step;
  return {static_cast<std::uint8_t>(narrow<F16>(rounded).bits >> 8 | (value < 0 ? 0x80 : 0))};
}
template <>
ATTUNE_INLINE std::int8_t narrow<std::int8_t>(double value) noexcept {
  return static_cast<std::int8_t>(__builtin_nearbyint(value < -128 ? -128 : value > 127 ? 127 : value));
}
/// Wraps around at 32 bits.
template <>
ATTUNE_INLINE std::int32_t narrow<std::int32_t>(double value) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(value)));
}

/// alpha * sum + beta * c of 32-bit integers, wrapping around; all are whole numbers, and the sum is below 2^53.
ATTUNE_INLINE std::int32_t finished_integer(double alpha, double sum, double beta, double c) noexcept {
  const auto word = [](double v) { return static_cast<std::uint32_t>(static_cast<std::int64_t>(v)); };
  return static_cast<std::int32_t>(word(alpha) * word(sum) + word(beta) * word(c));
}

/// Calls f with a value of the type's storage class.
template <class F>
ATTUNE_INLINE auto with_type(DType type, F&& f) {
  switch (type) {
    case DType::f16: return f(F16{});
    case DType::bf16: return f(BF16{});
    case DType::f64: return f(double{});
    case DType::f8_e4m3: return f(F8E4M3{});
    case DType::f8_e5m2: return f(F8E5M2{});
    case DType::i8: return f(std::int8_t{});
    case DType::i32: return f(std::int32_t{});
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

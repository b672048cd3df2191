// The text of every enumeration that stands in a key, a file or a message.
#pragma once

#include <attune/problem.hpp>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace attune {

template <class E>
struct Names;

template <>
struct Names<DType> {
  static constexpr std::string_view list[] = {"f16", "bf16", "f32", "f64", "f8_e4m3", "f8_e5m2", "i8", "i32"};
};
template <>
struct Names<Op> {
  static constexpr std::string_view list[] = {"N", "T", "C"};
};
template <>
struct Names<Compute> {
  static constexpr std::string_view list[] = {"f32", "f32_tf32", "f64", "i32"};
};
template <>
struct Names<Epilogue> {
  static constexpr std::string_view list[] = {"none",          "bias",      "relu",           "bias_relu", "gelu_erf",
                                              "bias_gelu_erf", "gelu_tanh", "bias_gelu_tanh", "silu",      "bias_silu"};
};
template <>
struct Names<Scalar> {
  static constexpr std::string_view list[] = {"zero", "one", "other"};
};
template <>
struct Names<Direction> {
  static constexpr std::string_view list[] = {"fwd", "dgrad", "wgrad"};
};
template <>
struct Names<PoolMode> {
  static constexpr std::string_view list[] = {"max", "average", "average_padded"};
};
template <>
struct Names<PoolDirection> {
  static constexpr std::string_view list[] = {"fwd", "bwd"};
};
template <>
struct Names<Layout> {
  static constexpr std::string_view list[] = {"nchw", "nhwc"};
};
template <>
struct Names<Effort> {
  static constexpr std::string_view list[] = {"quick", "standard", "exhaustive"};
};
template <>
struct Names<Source> {
  static constexpr std::string_view list[] = {"tuned", "file", "memory", "default", "deferred", "stale"};
};
template <>
struct Names<LogLevel> {
  static constexpr std::string_view list[] = {"off", "warn", "info", "debug"};
};

template <class E>
constexpr bool is_known(E value) noexcept {
  return static_cast<std::size_t>(value) < std::size(Names<E>::list);
}

template <class E>
constexpr std::string_view name_of(E value) noexcept {
  return is_known(value) ? Names<E>::list[static_cast<std::size_t>(value)] : std::string_view("?");
}

template <class E>
constexpr std::optional<E> from_name(std::string_view text) noexcept {
  for (std::size_t i = 0; i < std::size(Names<E>::list); ++i)
    if (Names<E>::list[i] == text) return static_cast<E>(i);
  return std::nullopt;
}

/// "f16, bf16, ..." for messages about what is accepted.
template <class E>
std::string accepted() {
  std::string out;
  for (std::string_view name : Names<E>::list) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

}  // namespace attune

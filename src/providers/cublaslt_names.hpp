// Readable names of cublasLt's numbered tiles, stages and cluster shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace attune {

enum class LtNames : std::uint8_t { tile, stages, cluster };

/// "128x256", "64x4" or "64xauto", "2x1x1"; "#" and the number where the number has no name, as in a later library.
std::string lt_name(LtNames kind, std::uint32_t number);
/// The two numbers of the name; zeros where there is none.
std::pair<std::uint32_t, std::uint32_t> lt_extents(LtNames kind, std::uint32_t number) noexcept;
/// The inverse of lt_name.
std::optional<std::uint32_t> lt_number(LtNames kind, std::string_view name) noexcept;

}  // namespace attune

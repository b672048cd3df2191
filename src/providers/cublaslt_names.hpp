// Readable names of cublasLt's numbered tiles, stages and cluster shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace attune {

enum class LtNames : std::uint8_t { tile, stages, cluster };

/// "128x256", "64x4" or "64xauto", "2x1x1"; "#" and the number where the number has no name, as in a later library.
std::string lt_name(LtNames kind, std::uint32_t number);
/// The inverse of lt_name.
std::optional<std::uint32_t> lt_number(LtNames kind, std::string_view name) noexcept;

}  // namespace attune

// One engine configuration as plain data and as text, and what cuDNN's notes say about its arithmetic.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <attune/conv.hpp>

#include "core/constraints.hpp"
#include "core/plan.hpp"
#include "providers/cudnn_descriptor.hpp"

namespace attune::cudnn {

/// An engine by its global index, and the values of its knobs in the order of their types.
struct EngineConfig {
  std::int64_t engine = 0;
  std::vector<std::pair<std::int32_t, std::int64_t>> knobs;  ///< type, value

  friend bool operator==(const EngineConfig&, const EngineConfig&) = default;
};

/// "eng38_swizzle=1_tile=3"; a knob without a name of its own is "knob45=2".
std::string to_text(const EngineConfig& config);
/// Accepts exactly what to_text writes.
std::optional<EngineConfig> parse_engine(std::string_view text);

/// Reads a configuration that a heuristic returned, and its engine.
std::optional<EngineConfig> read_engine(const Descriptor& engine_config, const Descriptor& engine);

/// The numerical and behaviour notes of an engine.
struct Notes {
  std::uint32_t numerical = 0;  ///< bit by cudnnBackendNumericalNote_t
  std::uint32_t behaviour = 0;  ///< bit by cudnnBackendBehaviorNote_t

  bool has(cudnnBackendNumericalNote_t note) const noexcept { return (numerical >> note & 1u) != 0; }
  bool has(cudnnBackendBehaviorNote_t note) const noexcept { return (behaviour >> note & 1u) != 0; }
  bool transforms() const noexcept;
};
Notes read_notes(const Descriptor& engine);

/// Why the constraints forbid an engine with these notes; null when they do not.
const char* forbidden(const Notes& notes, const ConvProblem& problem, const Constraints& constraints) noexcept;

/// Why an engine is never tried on such a problem, although cuDNN offers it: it was seen to break the process. Null when it was
/// not.
const char* known_fault(std::int64_t engine, const ConvProblem& problem) noexcept;

Accumulation accumulation(const Notes& notes, const ConvProblem& problem) noexcept;

}  // namespace attune::cudnn

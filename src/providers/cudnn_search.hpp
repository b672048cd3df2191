// Configurations of cuDNN's engines beyond those that its heuristics offer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "providers/cudnn_descriptor.hpp"
#include "providers/cudnn_engine.hpp"

namespace attune::cudnn {

/// A knob of an engine and its values: `least`, `least + step`, ... up to `most`.
struct Knob {
  std::int32_t type = 0;
  std::int64_t least = 0, most = 0, step = 1;
};

/// In the order of their types.
std::vector<Knob> read_knobs(const Descriptor& engine);

/// Engines that can be asked for a graph, served or not: their indices are below it.
std::int64_t engine_count(const Descriptor& graph);

/// Configurations that differ from a given one in the value of one knob. Of a knob with many values: those next to the present
/// one, and some from all over its range.
std::vector<EngineConfig> neighbours(const EngineConfig& config, std::span<const Knob> knobs);

}  // namespace attune::cudnn

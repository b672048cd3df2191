#include "providers/cudnn_search.hpp"

#include <algorithm>

namespace attune::cudnn {
namespace {

/// More than an engine has: cuDNN does not say beforehand how many there are.
constexpr std::int64_t most_knobs = 64;

/// A knob with no more values is tried in full.
constexpr std::int64_t few = 12;
constexpr std::int64_t spread_out = 8;
constexpr std::int64_t reach = 2;  ///< steps to either side

std::vector<std::int64_t> values_to_try(const Knob& knob, const std::int64_t* now) {
  std::vector<std::int64_t> values;
  if (knob.step <= 0 || knob.most < knob.least) return values;
  const std::int64_t count = (knob.most - knob.least) / knob.step + 1;
  const auto add = [&](std::int64_t at) {
    if (at < 0 || at >= count) return;
    const std::int64_t value = knob.least + at * knob.step;
    if (now != nullptr && value == *now) return;
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  };
  if (count <= few) {
    for (std::int64_t at = 0; at < count; ++at) add(at);
    return values;
  }
  if (now != nullptr && *now >= knob.least && *now <= knob.most) {
    const std::int64_t here = (*now - knob.least) / knob.step;
    for (std::int64_t far = 1; far <= reach; ++far) add(here + far), add(here - far);
    add(here * 2), add(here / 2);
  }
  for (std::int64_t i = 0; i < spread_out; ++i) add(i * (count - 1) / (spread_out - 1));
  return values;
}

}  // namespace

std::vector<Knob> read_knobs(const Descriptor& engine) {
  std::vector<Knob> knobs;
  for (const Descriptor& info :
       engine.read_descriptors(CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, most_knobs)) {
    Knob knob;
    knob.type = static_cast<std::int32_t>(info.read(CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, -1));
    knob.least = info.read(CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_TYPE_INT64, 0);
    knob.most = info.read(CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, CUDNN_TYPE_INT64, -1);
    knob.step = info.read(CUDNN_ATTR_KNOB_INFO_STRIDE, CUDNN_TYPE_INT64, 1);
    if (knob.type >= 0) knobs.push_back(knob);
  }
  std::sort(knobs.begin(), knobs.end(), [](const Knob& a, const Knob& b) { return a.type < b.type; });
  return knobs;
}

std::int64_t engine_count(const Descriptor& graph) {
  return graph.read(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 0);
}

std::vector<EngineConfig> neighbours(const EngineConfig& config, std::span<const Knob> knobs) {
  std::vector<EngineConfig> found;
  for (const Knob& knob : knobs) {
    const auto at = std::lower_bound(config.knobs.begin(), config.knobs.end(), knob.type,
                                     [](const auto& set, std::int32_t type) { return set.first < type; });
    const bool set = at != config.knobs.end() && at->first == knob.type;
    for (const std::int64_t value : values_to_try(knob, set ? &at->second : nullptr)) {
      EngineConfig& next = found.emplace_back(config);
      const auto there = next.knobs.begin() + (at - config.knobs.begin());
      if (set)
        there->second = value;
      else
        next.knobs.insert(there, {knob.type, value});
    }
  }
  return found;
}

}  // namespace attune::cudnn

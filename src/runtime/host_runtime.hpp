// The CPU as a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/runtime.hpp"

namespace attune {

std::unique_ptr<Runtime> make_host_runtime();

/// As Runtime::trial.
std::unique_ptr<Trial> make_host_trial(const DeviceInfo& info, const Problem& problem, const Constraints& constraints,
                                       std::size_t workspace, std::uint64_t seed);

}  // namespace attune

// cuDNN's engines as candidates for convolutions, through its graph API.
#pragma once

#include <memory>

#include "core/device_info.hpp"
#include "core/provider.hpp"

namespace attune {

/// "cudnn": a variant names an engine and its knobs, as "eng38_swizzle=1_tile=3". Nothing is loaded before the first problem.
std::unique_ptr<Provider> make_cudnn_provider(int ordinal, const DeviceInfo& device);

}  // namespace attune

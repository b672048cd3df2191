// The runtime of a CUDA device.
#pragma once

#include <memory>

#include "core/runtime.hpp"

namespace attune {

/// Throws Error: no_device, driver_too_old, device_error.
std::unique_ptr<Runtime> make_cuda_runtime(int ordinal);

}  // namespace attune

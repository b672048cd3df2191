// Attune's own CUDA kernels as a provider. A family of kernels is one row of the list in tile.cpp.
#pragma once

#include <memory>

#include "core/device_info.hpp"
#include "core/provider.hpp"

namespace attune {

std::unique_ptr<Provider> make_tile_provider(int ordinal, const DeviceInfo& info);

}  // namespace attune

// Plans of several steps: copies into another layout, a plan of another provider, a last step that brings the result home. The id
// joins what was done with "+": "compose:copy_ab+cublaslt:f32_a66_...".
#pragma once

#include <memory>
#include <vector>

#include "core/device_info.hpp"
#include "core/provider.hpp"

namespace attune {

/// `inner` are asked for the middle step; they must outlive the provider.
std::unique_ptr<Provider> make_compose_provider(int ordinal, const DeviceInfo& info, std::vector<const Provider*> inner);

}  // namespace attune

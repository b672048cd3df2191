// The host engine's candidates: the rows of kernels/host_tiles.hpp, and OpenBLAS and oneDNN where they were found.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/device_info.hpp"
#include "core/provider.hpp"

namespace attune {

/// `info.processors` is the number of threads; they start with the first plan that runs on more than one and end with the last
/// plan and the provider.
std::unique_ptr<Provider> make_host_provider(const DeviceInfo& info);

/// The CPU libraries of this build, with their versions at run time.
std::vector<std::pair<std::string, std::string>> host_library_versions();

}  // namespace attune

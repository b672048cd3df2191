// Every provider of this build, in one ordered list.
#pragma once

#include <attune/types.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/provider.hpp"
#include "core/runtime.hpp"

namespace attune {

struct Backend {
  std::unique_ptr<Runtime> runtime;
  std::vector<std::unique_ptr<Provider>> providers;
};

/// Throws Error: no_device, driver_too_old, device_error.
Backend make_backend(Device device);

/// GPUs that can be used; 0 without a CUDA part, a driver or a GPU. `why` says which when it is 0.
int cuda_device_count(std::string& why) noexcept;

/// Libraries of this build with their versions at run time, as ("cublasLt", "13.1.0"); for `attune info`.
std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace attune

// What CUDA there is, for programs that choose a device or report on themselves.
#pragma once

#include <string>

namespace attune {

/// GPUs that can be used; 0, and why, where there is none. Throws nothing and leaves no CUDA error.
int count_cuda_devices(std::string& why) noexcept;

/// "13.0"; the driver's is "none" where there is no driver.
std::string cuda_runtime_version();
std::string cuda_driver_version();

}  // namespace attune

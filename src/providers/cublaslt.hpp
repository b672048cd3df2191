// The provider of everything that cublasLt offers for GEMM; the default of every GEMM on a GPU.
#pragma once

#include <memory>

#include "core/device_info.hpp"
#include "core/provider.hpp"

namespace attune {

/// Never null. Where the library cannot be used on the device, the provider declines everything and says why.
std::unique_ptr<Provider> make_cublaslt_provider(int ordinal, const DeviceInfo& info);

}  // namespace attune

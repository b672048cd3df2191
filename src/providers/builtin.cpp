#include "providers/builtin.hpp"

#include <attune/error.hpp>

#include "providers/host.hpp"
#include "runtime/host_runtime.hpp"

#if ATTUNE_HAS_CUDA
#include "providers/compose.hpp"
#include "providers/cublaslt.hpp"
#include "providers/cudnn.hpp"
#include "providers/tile.hpp"
#include "runtime/cuda_runtime.hpp"
#include "runtime/cuda_versions.hpp"
#endif

namespace attune {

Backend make_backend(Device device) {
  Backend backend;
  if (device.kind == Device::Kind::host) {
    backend.runtime = make_host_runtime();
    backend.providers.push_back(make_host_provider(backend.runtime->info()));
    return backend;
  }
#if ATTUNE_HAS_CUDA
  backend.runtime = make_cuda_runtime(device.ordinal);
  const DeviceInfo& info = backend.runtime->info();
  backend.providers.push_back(make_cublaslt_provider(device.ordinal, info));
  backend.providers.push_back(make_cudnn_provider(device.ordinal, info));
  backend.providers.push_back(make_tile_provider(device.ordinal, info));
  std::vector<const Provider*> simple;
  for (const auto& provider : backend.providers) simple.push_back(provider.get());
  backend.providers.push_back(make_compose_provider(device.ordinal, info, std::move(simple)));
  return backend;
#else
  throw Error(Status::no_device, "CUDA device " + std::to_string(device.ordinal) +
                                     ": this build of Attune has no CUDA part; Device::host() runs on the CPU");
#endif
}

std::vector<std::pair<std::string, std::string>> library_versions() {
  std::vector<std::pair<std::string, std::string>> versions = host_library_versions();
#if ATTUNE_HAS_CUDA
  versions.emplace_back("CUDA runtime", cuda_runtime_version());
  versions.emplace_back("CUDA driver", cuda_driver_version());
  versions.emplace_back("cublasLt", make_cublaslt_provider(0, {})->version({}));
  versions.emplace_back("cuDNN", make_cudnn_provider(0, {})->version({}));
#endif
  return versions;
}

#if ATTUNE_HAS_CUDA
int cuda_device_count(std::string& why) noexcept { return count_cuda_devices(why); }
#else
int cuda_device_count(std::string& why) noexcept {
  why = "this build has no CUDA part";
  return 0;
}
#endif

}  // namespace attune

#include "runtime/cuda_versions.hpp"

#include <cuda_runtime_api.h>

namespace attune {
namespace {

std::string text(int version) {
  return version == 0 ? "none" : std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

int count_cuda_devices(std::string& why) noexcept {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  if (error != cudaSuccess) cudaGetLastError();
  why = error == cudaSuccess || error == cudaErrorNoDevice ? "there is no GPU" : cudaGetErrorString(error);
  return 0;
}

std::string cuda_runtime_version() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return text(version);
}

std::string cuda_driver_version() {
  int version = 0;
  cudaDriverGetVersion(&version);
  return text(version);
}

}  // namespace attune

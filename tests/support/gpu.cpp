#include "support/gpu.hpp"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string_view>

#include "runtime/cuda_runtime.hpp"
#include "runtime/cuda_support.hpp"

namespace attune {

std::string missing_gpu() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return {};
  cudaGetLastError();
  return std::string("needs a GPU: ") + (error == cudaSuccess ? "there is none" : cudaGetErrorString(error));
}

bool gpu_required() {
  const char* value = std::getenv("ATTUNE_REQUIRE_GPU");
  return value != nullptr && std::string_view(value) == "1";
}

Runtime& gpu_runtime() {
  static Runtime* const runtime = make_cuda_runtime(0).release();  // as long as the process: later tests, and the driver's end
  return *runtime;
}

DeviceBuffer::DeviceBuffer(std::size_t bytes, int fill) : bytes_(bytes) {
  cuda_check(cudaMalloc(&pointer_, bytes == 0 ? 1 : bytes), "cudaMalloc");
  cuda_check(cudaMemset(pointer_, fill, bytes), "cudaMemset");
  cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

DeviceBuffer::DeviceBuffer(const std::vector<std::byte>& content) : DeviceBuffer(content.size()) {
  write_device(pointer_, content.data(), content.size());
}

DeviceBuffer::~DeviceBuffer() {
  cudaFree(pointer_);
  cudaGetLastError();
}

std::vector<std::byte> DeviceBuffer::read() const { return read_device(pointer_, bytes_); }

std::vector<std::byte> read_device(const void* from, std::size_t bytes) {
  std::vector<std::byte> content(bytes);
  cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  cuda_check(cudaMemcpy(content.data(), from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return content;
}

void write_device(void* to, const void* from, std::size_t bytes) {
  cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  cuda_check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace attune

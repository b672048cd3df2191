// Tests that need a GPU: skipping without one, and device memory.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/runtime.hpp"

namespace attune {

/// Why there is no GPU to test on; empty when there is one.
std::string missing_gpu();
/// ATTUNE_REQUIRE_GPU=1 in the environment: a test without a GPU fails instead of being skipped.
bool gpu_required();

/// The runtime of device 0, of the whole test program.
Runtime& gpu_runtime();

/// Bytes on device 0; copies wait for the device.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes, int fill = 0);
  explicit DeviceBuffer(const std::vector<std::byte>& content);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void* get() const noexcept { return pointer_; }
  std::size_t size() const noexcept { return bytes_; }
  std::vector<std::byte> read() const;

 private:
  void* pointer_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Anywhere on the device; both wait for it.
std::vector<std::byte> read_device(const void* from, std::size_t bytes);
void write_device(void* to, const void* from, std::size_t bytes);

}  // namespace attune

/// First line of a test, or of SetUp.
#define ATTUNE_SKIP_WITHOUT_GPU()                                     \
  do {                                                                \
    const std::string attune_missing_gpu = ::attune::missing_gpu();   \
    if (attune_missing_gpu.empty()) break;                            \
    if (::attune::gpu_required()) GTEST_FAIL() << attune_missing_gpu; \
    GTEST_SKIP() << attune_missing_gpu;                               \
  } while (false)

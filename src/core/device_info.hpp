// What a plan may depend on about its device; never an identity such as the UUID.
#pragma once

#include <cstdint>
#include <string>

namespace attune {

struct DeviceInfo {
  std::string name;
  int cc_major = 0;  ///< compute capability; 0.0 for the host
  int cc_minor = 0;
  int processors = 0;         ///< SMs, or threads that the host engine uses
  std::int64_t l2_bytes = 0;  ///< last-level cache
  std::int64_t memory_bytes = 0;

  /// "NVIDIA H200|9.0|132|62914560|140GiB": the device's part of a key in a plan file.
  std::string key() const;
};

}  // namespace attune

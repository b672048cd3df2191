#include "core/device_info.hpp"

#include <fmt/format.h>

namespace attune {

std::string DeviceInfo::key() const {
  return fmt::format("{}|{}.{}|{}|{}|{}", name, cc_major, cc_minor, processors, l2_bytes, memory_bytes);
}

}  // namespace attune

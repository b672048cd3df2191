#include "core/device_info.hpp"

#include <fmt/format.h>

namespace attune {

std::string DeviceInfo::key() const {
  // To whole GiB: drivers and settings take a few MiB more or less of the same type's memory.
  const std::int64_t gibibyte = std::int64_t{1} << 30;
  return fmt::format("{}|{}.{}|{}|{}|{}GiB", name, cc_major, cc_minor, processors, l2_bytes, (memory_bytes + gibibyte / 2) / gibibyte);
}

}  // namespace attune

#include <attune/context.hpp>
#include <attune/error.hpp>
#include <attune/version.hpp>

#include "core/last_error.hpp"
#include "core/names.hpp"

#define ATTUNE_TEXT_(x) #x
#define ATTUNE_TEXT(x) ATTUNE_TEXT_(x)

namespace attune {
namespace {
thread_local char last_message[512] = "";
}

void set_last_error(const char* message) noexcept {
  std::size_t i = 0;
  for (; i + 1 < sizeof last_message && message[i] != '\0'; ++i) last_message[i] = message[i];
  last_message[i] = '\0';
}

inline namespace v0 {

Error::Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
Error::~Error() = default;

const char* last_error_message() noexcept { return last_message; }

const char* to_string(Status status) noexcept {
  switch (status) {
    case Status::ok: return "ok";
    case Status::invalid_argument: return "invalid_argument";
    case Status::unsupported: return "unsupported";
    case Status::no_memory: return "no_memory";
    case Status::no_device: return "no_device";
    case Status::driver_too_old: return "driver_too_old";
    case Status::device_error: return "device_error";
    case Status::file_error: return "file_error";
    case Status::internal: return "internal";
  }
  return "?";
}

// The names are literals, so data() ends in a zero.
const char* to_string(Source source) noexcept { return name_of(source).data(); }
const char* to_string(Effort effort) noexcept { return name_of(effort).data(); }
const char* to_string(DType type) noexcept { return name_of(type).data(); }

const char* version() noexcept {
  return ATTUNE_TEXT(ATTUNE_VERSION_MAJOR) "." ATTUNE_TEXT(ATTUNE_VERSION_MINOR) "." ATTUNE_TEXT(ATTUNE_VERSION_PATCH);
}

}  // namespace v0
}  // namespace attune

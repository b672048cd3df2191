// How calls report what went wrong.
#pragma once

#include <attune/export.hpp>
#include <stdexcept>
#include <string>

namespace attune {
inline namespace v0 {

enum class Status : int {
  ok = 0,
  invalid_argument,  ///< an argument is out of its range, or two contradict each other
  unsupported,       ///< reserved for a later version, or no provider offers a plan
  no_memory,         ///< device or host memory could not be had
  no_device,         ///< no such GPU, or this build has no CUDA part
  driver_too_old,    ///< the GPU driver is older than the CUDA runtime needs
  device_error,      ///< CUDA reported a fault; the message holds its text
  file_error,        ///< a plan file that the caller named could not be read or written
  internal,          ///< a broken promise of Attune's own
};

/// A short static name, as "invalid_argument".
ATTUNE_EXPORT const char* to_string(Status status) noexcept;

/// Thrown by every throwing entry point. When it is thrown, nothing was launched, remembered or written.
class ATTUNE_EXPORT Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message);
  ~Error() override;
  Status status() const noexcept { return status_; }

 private:
  Status status_;
};

/// The message of this thread's last call that returned a Status other than ok; empty before the first. At most 511 characters.
ATTUNE_EXPORT const char* last_error_message() noexcept;

}  // namespace v0
}  // namespace attune

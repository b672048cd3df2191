// The message behind last_error_message().
#pragma once

namespace attune {

/// Of this thread; cut at 511 characters.
void set_last_error(const char* message) noexcept;

}  // namespace attune

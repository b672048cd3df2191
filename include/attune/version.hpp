// The version of the headers, and of the library that is linked.
#pragma once

#include <attune/export.hpp>

#define ATTUNE_VERSION_MAJOR 0
#define ATTUNE_VERSION_MINOR 1
#define ATTUNE_VERSION_PATCH 0

namespace attune {
inline namespace v0 {

/// The linked library's version as "major.minor.patch"; a static string.
ATTUNE_EXPORT const char* version() noexcept;

}  // namespace v0
}  // namespace attune

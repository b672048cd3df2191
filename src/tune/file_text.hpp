// Whole files of text that several processes change: read as they are, replaced in one step.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "tune/file_ops.hpp"

namespace attune {

inline constexpr std::size_t max_file_bytes = std::size_t{1} << 30;

/// A path may name a pipe, on which a blocking open would wait for ever.
inline constexpr int open_flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

/// Empty for a regular file of a size that can be read, else what is wrong.
std::string check_regular(const FileOps& ops, int fd, const std::string& path, struct stat& status);

/// Empty on success; `missing` is no error.
std::string read_text(const FileOps& ops, const std::string& path, std::string& text, bool& missing);

/// Puts a new file in the place of the old one, whose permissions stay; its lock is held and its links are resolved. Empty on
/// success, else the old file is as it was.
std::string replace_text(const FileOps& ops, const std::string& path, const std::string& text);

}  // namespace attune

// The exclusive lock around a change of a plan file.
#pragma once

#include <string>

#include "tune/file_ops.hpp"

namespace attune {

inline constexpr int max_lock_wait_ms = 2000;

/// Closes on destruction.
class FileHandle {
 public:
  FileHandle(const FileOps& ops, int fd) noexcept : ops_(&ops), fd_(fd) {}
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  ~FileHandle() { close(); }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int fd() const noexcept { return fd_; }
  /// Whether the file was closed without an error, which on a network file system can be the first word of a failed write.
  bool close() noexcept;

 private:
  const FileOps* ops_;
  int fd_;
};

/// Holds the lock on "PATH.lock", made where it does not exist and never removed (a removed file would leave two processes with
/// locks on different files of one name). Threads of one process exclude each other too.
class FileLock {
 public:
  /// Waits at most max_lock_wait_ms.
  FileLock(const std::string& path, const FileOps& ops);
  bool held() const noexcept { return error_.empty(); }
  /// Why the lock is not held.
  const std::string& error() const noexcept { return error_; }

 private:
  std::string lock_path_;
  FileHandle handle_;
  std::string error_;
};

/// "cannot WHAT PATH: the text of errno value".
std::string file_error(const char* what, const std::string& path, int error);

/// The file that the path names: symbolic links in its last part are followed, a dangling one too.
std::string resolve_links(const std::string& path);

}  // namespace attune

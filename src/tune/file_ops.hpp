// The system calls behind a plan file, so that a test can make each of them fail.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>

namespace attune {

/// Each as its POSIX namesake: -1 and errno on failure.
struct FileOps {
  int (*open)(const char* path, int flags, mode_t mode);
  int (*close)(int fd);
  int (*stat)(int fd, struct stat* status);
  ssize_t (*read_at)(int fd, void* bytes, std::size_t count, off_t offset);
  ssize_t (*write)(int fd, const void* bytes, std::size_t count);
  int (*truncate)(int fd, off_t size);
  int (*sync)(int fd);
  int (*rename)(const char* from, const char* to);
  int (*unlink)(const char* path);
  int (*try_lock)(int fd);  ///< exclusive, on the whole file, held until close; EAGAIN while another holds it
  void (*sleep_ms)(int milliseconds);
};

extern const FileOps system_file_ops;

}  // namespace attune

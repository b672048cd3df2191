#include "tune/file_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>

namespace attune {
namespace {

// A lock of the open file description, not of the process: an fcntl lock of the old kind excludes no thread and is lost when
// any descriptor of the file is closed.
int lock_whole_file(int fd) {
#ifdef F_OFD_SETLK
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  if (::fcntl(fd, F_OFD_SETLK, &range) == 0) return 0;
  if (errno == EACCES) errno = EAGAIN;
  if (errno != EINVAL) return -1;
#endif
  return ::flock(fd, LOCK_EX | LOCK_NB);
}

}  // namespace

constinit const FileOps system_file_ops = {
    .open = [](const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); },
    .close = ::close,
    .stat = ::fstat,
    .read_at = ::pread,
    .write = ::write,
    .truncate = ::ftruncate,
    .sync = ::fsync,
    .rename = std::rename,
    .unlink = ::unlink,
    .try_lock = lock_whole_file,
    .sleep_ms = [](int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); },
};

bool FileHandle::close() noexcept {
  if (fd_ < 0) return true;
  const int fd = fd_;
  fd_ = -1;
  // Linux frees the descriptor even when close is interrupted: a second close could hit another thread's file.
  return ops_->close(fd) == 0 || errno == EINTR;
}

FileLock::FileLock(const std::string& path, const FileOps& ops)
    : lock_path_(path + ".lock"), handle_(ops, ops.open(lock_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666)) {
  if (!handle_) {
    error_ = file_error("open lock file", lock_path_, errno);
    return;
  }
  for (int waited = 0, pause = 1; ops.try_lock(handle_.fd()) != 0;) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      error_ = file_error("lock", lock_path_, errno);
      return;
    }
    if (waited >= max_lock_wait_ms) {
      error_ = fmt::format("cannot lock {}: still held by another process after {} ms", lock_path_, waited);
      return;
    }
    ops.sleep_ms(pause);
    waited += pause;
    pause = std::min(pause + 1, 10);
  }
}

std::string file_error(const char* what, const std::string& path, int error) {
  return fmt::format("cannot {} {}: {}", what, path, std::generic_category().message(error));
}

std::string resolve_links(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int most_links = 40;
  fs::path file(path);
  std::error_code failure;
  for (int links = 0; links < most_links && fs::is_symlink(file, failure); ++links) {
    const fs::path target = fs::read_symlink(file, failure);
    if (failure) break;
    file = file.parent_path() / target;  // an absolute target replaces the folder
  }
  return file.string();
}

}  // namespace attune

#include "tune/file_text.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "tune/file_lock.hpp"

namespace attune {

std::string check_regular(const FileOps& ops, int fd, const std::string& path, struct stat& status) {
  if (ops.stat(fd, &status) != 0) return file_error("read", path, errno);
  if (!S_ISREG(status.st_mode)) return fmt::format("cannot use {}: not a regular file", path);
  if (static_cast<std::size_t>(status.st_size) > max_file_bytes)
    return fmt::format("cannot use {}: {} bytes, at most {} are read", path, status.st_size, max_file_bytes);
  return {};
}

std::string read_text(const FileOps& ops, const std::string& path, std::string& text, bool& missing) {
  FileHandle file(ops, ops.open(path.c_str(), O_RDONLY | open_flags, 0));
  if (!file) {
    missing = errno == ENOENT;
    return missing ? std::string() : file_error("read", path, errno);
  }
  struct stat status {};
  if (std::string error = check_regular(ops, file.fd(), path, status); !error.empty()) return error;
  // Appends may go on meanwhile: what the file held when its size was asked is read.
  text.resize(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ops.read_at(file.fd(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", path, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return {};
}

namespace {

std::string write_all(const FileOps& ops, int fd, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ops.write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return file_error("write", path, written < 0 ? errno : ENOSPC);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

/// The permissions of the file that is to be replaced; refuses one that may not be written, though its folder may.
std::string permissions_of(const FileOps& ops, const std::string& path, bool& exists, struct stat& status) {
  FileHandle old(ops, ops.open(path.c_str(), O_WRONLY | open_flags, 0));
  exists = static_cast<bool>(old);
  if (!exists) return errno == ENOENT ? std::string() : file_error("write", path, errno);
  return check_regular(ops, old.fd(), path, status);
}

std::string write_new(const FileOps& ops, const std::string& temporary, const std::string& text, bool exists,
                      const struct stat& status) {
  FileHandle file(ops, ops.open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) return file_error("make", temporary, errno);
  if (exists) {
    if (::fchown(file.fd(), status.st_uid, status.st_gid) != 0) errno = 0;  // only the owner's superior may; the mode matters
    if (::fchmod(file.fd(), status.st_mode & 07777) != 0) return file_error("set the permissions of", temporary, errno);
  }
  if (std::string error = write_all(ops, file.fd(), temporary, text); !error.empty()) return error;
  if (ops.sync(file.fd()) != 0) return file_error("write", temporary, errno);
  if (!file.close()) return file_error("write", temporary, errno);
  return {};
}

}  // namespace

std::string replace_text(const FileOps& ops, const std::string& path, const std::string& text) {
  if (text.size() > max_file_bytes)
    return fmt::format("cannot write {}: {} bytes, at most {} are read", path, text.size(), max_file_bytes);
  bool exists = false;
  struct stat status {};
  if (std::string error = permissions_of(ops, path, exists, status); !error.empty()) return error;
  const std::string temporary = path + ".tmp";  // one name is enough under the lock, and a killed writer leaves only one file
  ops.unlink(temporary.c_str());
  std::string error = write_new(ops, temporary, text, exists, status);
  if (error.empty() && ops.rename(temporary.c_str(), path.c_str()) != 0) error = file_error("replace", path, errno);
  if (!error.empty()) {
    ops.unlink(temporary.c_str());
    return error;
  }
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  FileHandle directory(ops, ops.open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  if (directory) ops.sync(directory.fd());  // the file is whole with and without it; some file systems refuse it
  return {};
}

}  // namespace attune

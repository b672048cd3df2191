#include "tune/plan_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "tune/file_lock.hpp"

namespace attune {
namespace {

constexpr std::size_t max_notes = 16;
// A path may name a pipe, on which a blocking open would wait for ever.
constexpr int common_flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

/// Empty for a regular file of a size that can be read, else what is wrong.
std::string check_status(const FileOps& ops, int fd, const std::string& path, struct stat& status) {
  if (ops.stat(fd, &status) != 0) return file_error("read", path, errno);
  if (!S_ISREG(status.st_mode)) return fmt::format("cannot use {}: not a regular file", path);
  if (static_cast<std::size_t>(status.st_size) > max_file_bytes)
    return fmt::format("cannot use {}: {} bytes, at most {} are read", path, status.st_size, max_file_bytes);
  return {};
}

std::string read_whole(const FileOps& ops, const std::string& path, std::string& text, bool& missing) {
  FileHandle file(ops, ops.open(path.c_str(), O_RDONLY | common_flags, 0));
  if (!file) {
    missing = errno == ENOENT;
    return missing ? std::string() : file_error("read", path, errno);
  }
  struct stat status {};
  if (std::string error = check_status(ops, file.fd(), path, status); !error.empty()) return error;
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

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }

PlanFile parse_text(const std::string& path, std::string_view text) {
  PlanFile file;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (is_blank(line)) continue;
    std::string why;
    std::optional<Record> record;
    if (file.records.size() < max_records)
      record = parse_line(line, why);
    else
      why = fmt::format("at most {} records are read", max_records);
    if (record) {
      file.records.push_back(std::move(*record));
      continue;
    }
    file.kept.emplace_back(line);
    if (file.notes.size() < max_notes) file.notes.push_back(fmt::format("{}:{}: {}", path, number, why));
  }
  return file;
}

/// One call of write, so that a line of a killed writer is whole or the last of the file. Empty on success.
std::string write_once(const FileOps& ops, int fd, const std::string& path, std::string_view bytes, off_t old_size) {
  ssize_t written = 0;
  do written = ops.write(fd, bytes.data(), bytes.size());
  while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(bytes.size())) return {};
  const int error = written < 0 ? errno : ENOSPC;
  // Where this fails too, the torn line stays and costs only itself.
  if (written > 0 && ops.truncate(fd, old_size) != 0) return file_error("take back a torn line of", path, errno);
  return file_error("write", path, error);
}

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
  FileHandle old(ops, ops.open(path.c_str(), O_WRONLY | common_flags, 0));
  exists = static_cast<bool>(old);
  if (!exists) return errno == ENOENT ? std::string() : file_error("write", path, errno);
  return check_status(ops, old.fd(), path, status);
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

/// Replaces the file; its lock is held and its links are resolved.
std::string replace(const FileOps& ops, const std::string& path, const std::string& text) {
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

void add_to(std::string& text, std::string_view line) {
  text += line;
  text += '\n';
}

/// The file's text: a function of the set of records and the set of kept lines only.
std::string text_of(const RecordStore& store, std::vector<std::string> kept, std::string& error) {
  std::string text;
  store.for_each([&](const Record& record) {
    if (const std::string why = fault(record); !why.empty()) error = why;
    add_to(text, to_line(record));
  });
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  for (const std::string& line : kept) add_to(text, line);
  return text;
}

}  // namespace

PlanFile read_plan_file(const std::string& path, const FileOps& ops) {
  std::string text;
  bool missing = false;
  std::string error = read_whole(ops, path, text, missing);
  PlanFile file = error.empty() ? parse_text(path, text) : PlanFile{};
  file.error = std::move(error);
  file.missing = missing;
  return file;
}

std::string append_record(const std::string& path, const Record& record, const FileOps& ops) {
  std::string line = to_line(record) + "\n";
  std::string why = fault(record);
  if (why.empty() && line.size() > max_line_bytes) why = fmt::format("a line of {} bytes", line.size());
  if (!why.empty()) return fmt::format("cannot write {}: {}", path, why);

  const std::string target = resolve_links(path);
  FileLock lock(target, ops);
  if (!lock.held()) return lock.error();
  FileHandle file(ops, ops.open(target.c_str(), O_RDWR | O_CREAT | O_APPEND | common_flags, 0666));
  if (!file) return file_error("write", target, errno);
  struct stat status {};
  if (std::string error = check_status(ops, file.fd(), target, status); !error.empty()) return error;
  if (static_cast<std::size_t>(status.st_size) + line.size() + 1 > max_file_bytes)
    return fmt::format("cannot write {}: it would pass {} bytes", target, max_file_bytes);
  if (status.st_size > 0) {
    char last = '\n';
    ssize_t got = 0;
    do got = ops.read_at(file.fd(), &last, 1, status.st_size - 1);
    while (got < 0 && errno == EINTR);
    if (got < 0) return file_error("read", target, errno);
    if (last != '\n') line.insert(line.begin(), '\n');  // a killed writer's torn line ends here
  }
  if (std::string error = write_once(ops, file.fd(), target, line, status.st_size); !error.empty()) return error;
  return file.close() ? std::string() : file_error("write", target, errno);
}

std::string write_plan_file(const std::string& path, const std::vector<Record>& records, const std::vector<std::string>& kept,
                            const FileOps& ops) {
  RecordStore store;
  for (const Record& record : records) store.add(record);
  std::string error;
  const std::string text = text_of(store, kept, error);
  if (!error.empty()) return fmt::format("cannot write {}: {}", path, error);
  const std::string target = resolve_links(path);
  FileLock lock(target, ops);
  return lock.held() ? replace(ops, target, text) : lock.error();
}

std::string merge_plan_files(const std::string& into, const std::string& from, const FileOps& ops) {
  const PlanFile source = read_plan_file(from, ops);
  if (source.missing) return file_error("read", from, ENOENT);
  if (!source.error.empty()) return source.error;
  const std::string target = resolve_links(into);
  FileLock lock(target, ops);
  if (!lock.held()) return lock.error();
  PlanFile merged = read_plan_file(target, ops);
  if (!merged.error.empty()) return merged.error;
  RecordStore store;
  for (const PlanFile* file : {&source, static_cast<const PlanFile*>(&merged)})
    for (const Record& record : file->records) store.add(record);
  merged.kept.insert(merged.kept.end(), source.kept.begin(), source.kept.end());
  std::string error;
  const std::string text = text_of(store, std::move(merged.kept), error);
  if (!error.empty()) return fmt::format("cannot write {}: {}", target, error);
  return replace(ops, target, text);
}

}  // namespace attune

#include "tune/plan_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "tune/file_lock.hpp"
#include "tune/file_text.hpp"

namespace attune {
namespace {

constexpr std::size_t max_notes = 16;
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
  std::string error = read_text(ops, path, text, missing);
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
  FileHandle file(ops, ops.open(target.c_str(), O_RDWR | O_CREAT | O_APPEND | open_flags, 0666));
  if (!file) return file_error("write", target, errno);
  struct stat status {};
  if (std::string error = check_regular(ops, file.fd(), target, status); !error.empty()) return error;
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
  return lock.held() ? replace_text(ops, target, text) : lock.error();
}

std::string edit_plan_file(const std::string& path, const std::function<std::string(PlanFile&)>& edit, const FileOps& ops) {
  const std::string target = resolve_links(path);
  FileLock lock(target, ops);
  if (!lock.held()) return lock.error();
  PlanFile file = read_plan_file(target, ops);
  if (!file.error.empty()) return file.error;
  if (std::string refused = edit(file); !refused.empty()) return refused;
  RecordStore store;
  for (const Record& record : file.records) store.add(record);
  std::string error;
  const std::string text = text_of(store, std::move(file.kept), error);
  if (!error.empty()) return fmt::format("cannot write {}: {}", target, error);
  return replace_text(ops, target, text);
}

std::string merge_plan_files(const std::string& into, const std::string& from, const FileOps& ops) {
  const PlanFile source = read_plan_file(from, ops);
  if (source.missing) return file_error("read", from, ENOENT);
  if (!source.error.empty()) return source.error;
  return edit_plan_file(
      into,
      [&](PlanFile& merged) {
        merged.records.insert(merged.records.begin(), source.records.begin(), source.records.end());
        merged.kept.insert(merged.kept.end(), source.kept.begin(), source.kept.end());
        return std::string();
      },
      ops);
}

}  // namespace attune

// The plan file: one JSON object a line, appended under a lock; input from outside, bounded in every length.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tune/file_ops.hpp"
#include "tune/file_text.hpp"
#include "tune/record.hpp"

namespace attune {

inline constexpr std::size_t max_records = 1'000'000;

struct PlanFile {
  std::vector<Record> records;     ///< every readable line in the file's order, foreign devices included
  std::vector<std::string> kept;   ///< lines that cannot be used: damaged, of a newer version; kept when the file is rewritten
  std::vector<std::string> notes;  ///< one for each kept line: "FILE:LINE: why", at most 16
  std::string error;               ///< not empty when the file could not be read at all
  bool missing = false;            ///< no such file: not an error for a file that will be written
};

/// Needs no lock: a line that is being written is at worst a damaged one. A symbolic link stands for the file that it names.
PlanFile read_plan_file(const std::string& path, const FileOps& ops = system_file_ops);

/// Appends one whole line under the sidecar lock "PATH.lock". Empty on success, else what went wrong; never throws but
/// bad_alloc.
std::string append_record(const std::string& path, const Record& record, const FileOps& ops = system_file_ops);

/// Writes records (sorted by key, the better first, one for each key, plan and version), then the kept lines, once each, to a
/// new file and renames it over `path`, under the same lock; the file's permissions stay. Empty on success.
std::string write_plan_file(const std::string& path, const std::vector<Record>& records, const std::vector<std::string>& kept,
                            const FileOps& ops = system_file_ops);

/// Changes the file in one step under its lock. Empty on success, or what `edit` returns when it is not empty: then the file stays.
std::string edit_plan_file(const std::string& path, const std::function<std::string(PlanFile&)>& edit,
                           const FileOps& ops = system_file_ops);

/// Merges `from`, which must exist, into `into`, reading and writing `into` under its lock. Empty on success. The text that
/// results does not depend on which of the two is which.
std::string merge_plan_files(const std::string& into, const std::string& from, const FileOps& ops = system_file_ops);

}  // namespace attune

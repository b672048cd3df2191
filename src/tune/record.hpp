// A remembered result, as it stands in one line of a plan file; and the store of those in memory.
#pragma once

#include <attune/types.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace attune {

/// The whole key as text: device (DeviceInfo::key()), problem (to_string) and constraints (to_text).
struct KeyText {
  std::string device;
  std::string problem;
  std::string constraints;
  friend auto operator<=>(const KeyText&, const KeyText&) = default;
};

struct RunnerUp {
  std::string plan;
  double us = 0;
  friend bool operator==(const RunnerUp&, const RunnerUp&) = default;
};

struct Record {
  KeyText key;
  std::string plan;     ///< the winner
  std::string version;  ///< of the winner's provider, for this variant
  double us = 0;
  std::string default_plan;
  std::string default_version;
  double default_us = 0;
  std::size_t workspace = 0;  ///< bytes
  Effort effort = Effort::standard;
  int timed = 0;
  int rejected = 0;
  double max_error = 0;
  /// `file`: read from one; `memory`: tuned by this process. Not part of the line.
  Source origin = Source::file;
  std::vector<RunnerUp> runners_up;  ///< at most max_runners_up, fastest first
  std::string extra;  ///< fields of the line that this version does not know, as a JSON object; written back as they were
  friend bool operator==(const Record&, const Record&) = default;
};

inline constexpr std::size_t max_line_bytes = 64 * 1024;
inline constexpr std::size_t max_device_bytes = 256;
inline constexpr std::size_t max_problem_bytes = 2048;
inline constexpr std::size_t max_constraints_bytes = 256;
inline constexpr std::size_t max_plan_bytes = 512;
inline constexpr std::size_t max_version_bytes = 128;
inline constexpr std::size_t max_runners_up = 4;
inline constexpr std::size_t max_depth = 8;  ///< of nested values in a line
inline constexpr double min_time_us = 1e-3;  ///< a shorter or longer time is no measurement
inline constexpr double max_time_us = 1e12;
inline constexpr int max_count = 1'000'000'000;  ///< of candidates

/// Empty when a file may hold the record: every text and number within the bounds above. Else what is wrong.
std::string fault(const Record& record);

/// One line of JSON without the newline, "v":1 first; numbers independent of the locale.
std::string to_line(const Record& record);
/// nullopt, and why, for a line that is damaged, of a newer version, or beyond the bounds above.
std::optional<Record> parse_line(std::string_view line, std::string& why);

/// Which of two records of one key is used: the higher effort, then the lower time, then the lesser text. False for equal ones.
bool better(const Record& a, const Record& b);

/// Records by key. Not thread-safe.
class RecordStore {
 public:
  using Valid = std::function<bool(const Record&)>;

  /// Keeps one record for each (key, plan, version): the better. Returns whether the store changed.
  bool add(Record record);
  /// The best valid record; if none is valid, the best of all with `is_valid` false; null if there is none. Holds until the
  /// next add of its key.
  const Record* best(const KeyText& key, const Valid& valid, bool& is_valid) const;
  std::size_t size() const noexcept { return size_; }
  /// Sorted by key, the better first within a key.
  void for_each(const std::function<void(const Record&)>& visit) const;

 private:
  struct ByPlan {
    bool operator()(const Record& a, const Record& b) const {
      return std::tie(a.plan, a.version) < std::tie(b.plan, b.version);
    }
  };

  std::map<KeyText, std::set<Record, ByPlan>> records_;
  std::size_t size_ = 0;
};

}  // namespace attune

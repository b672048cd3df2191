// Which problems calls bring, and how often: counted in memory, added up in a file that several processes share.
#pragma once

#include <atomic>
#include <attune/problem.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/constraints.hpp"
#include "tune/file_ops.hpp"

namespace attune {

struct ProblemCount {
  std::string problem;  ///< as called_text writes it
  std::uint64_t calls = 0;
};

/// A problem as it was called: its text form, and " | " with the constraints where they are not what a context begins with.
std::string called_text(const Problem& problem, const Constraints& constraints);

struct Called {
  Problem problem;
  std::optional<Constraints> constraints;  ///< none where the text names none
};
/// Throws Error(invalid_argument) that names the word that is wrong.
Called parse_called(std::string_view text);

/// Thread-safe.
class ProblemCounts {
 public:
  using Counter = std::atomic<std::uint64_t>;
  static constexpr std::size_t most = 65536;  ///< problems; all further ones share one counter that is not written

  /// The problem's counter, which stays where it is as long as this lives.
  Counter& of(std::string_view problem);
  /// What was counted since the last time, without the problems that did not come.
  std::vector<ProblemCount> take();

 private:
  std::mutex mutex_;  ///< guards the map, not the counters
  std::map<std::string, Counter, std::less<>> counters_;
  Counter others_{0};
};

/// "12 gemm m=64 ...": a line of a file of problems, as `attune tune` reads it.
std::string to_line(const ProblemCount& count);
/// False for every other line.
bool parse_count(std::string_view line, ProblemCount& count);

/// Adds to the counts of the file, under its lock; the most frequent problems come first. Other lines stay, in front. Empty on
/// success, else what went wrong.
std::string add_problem_counts(const std::string& path, const std::vector<ProblemCount>& counts,
                               const FileOps& ops = system_file_ops);
/// The counts that a file holds, most frequent first. Empty on success.
std::string read_problem_counts(const std::string& path, std::vector<ProblemCount>& counts,
                                const FileOps& ops = system_file_ops);

}  // namespace attune

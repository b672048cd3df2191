#include "tune/problem_counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "core/problem.hpp"
#include "tune/file_lock.hpp"
#include "tune/file_text.hpp"

namespace attune {
namespace {

struct CountFile {
  std::map<std::string, std::uint64_t, std::less<>> counts;
  std::vector<std::string> others;  ///< lines that hold no count
};

CountFile parse(std::string_view text) {
  CountFile file;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ProblemCount count;
    if (parse_count(line, count))
      file.counts[count.problem] += count.calls;
    else
      file.others.emplace_back(line);
  }
  return file;
}

std::vector<ProblemCount> sorted(const CountFile& file) {
  std::vector<ProblemCount> all;
  for (const auto& [problem, calls] : file.counts) all.push_back({problem, calls});
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.calls > b.calls; });
  return all;
}

}  // namespace

std::string called_text(const Problem& problem, const Constraints& constraints) {
  // Only the modes that matter to the problem are compared.
  const Constraints standard = applied_to(problem, Constraints());
  const std::string text = to_string(problem);
  return applied_to(problem, constraints) == standard ? text : text + " | " + to_text(constraints);
}

Called parse_called(std::string_view text) {
  const std::size_t bar = text.find('|');
  Called called{parse_problem(text.substr(0, bar)), std::nullopt};
  if (bar != std::string_view::npos) called.constraints = parse_constraints(text.substr(bar + 1));
  return called;
}

ProblemCounts::Counter& ProblemCounts::of(std::string_view problem) {
  const std::lock_guard lock(mutex_);
  if (const auto found = counters_.find(problem); found != counters_.end()) return found->second;
  if (counters_.size() >= most) return others_;
  return counters_.try_emplace(std::string(problem), 0).first->second;
}

std::vector<ProblemCount> ProblemCounts::take() {
  std::vector<ProblemCount> counts;
  const std::lock_guard lock(mutex_);
  for (auto& [problem, counter] : counters_)
    if (const std::uint64_t calls = counter.exchange(0); calls > 0) counts.push_back({problem, calls});
  return counts;
}

std::string to_line(const ProblemCount& count) { return fmt::format("{} {}", count.calls, count.problem); }

bool parse_count(std::string_view line, ProblemCount& count) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  const char* const end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data(), end, count.calls);
  if (error != std::errc() || stop == end || *stop != ' ' || stop + 1 == end) return false;
  count.problem.assign(stop + 1, end);
  return true;
}

std::string add_problem_counts(const std::string& path, const std::vector<ProblemCount>& counts, const FileOps& ops) {
  const std::string target = resolve_links(path);
  FileLock lock(target, ops);
  if (!lock.held()) return lock.error();
  std::string text;
  bool missing = false;
  if (std::string error = read_text(ops, target, text, missing); !error.empty()) return error;
  CountFile file = parse(text);
  if (missing)
    file.others.push_back("# Problems that calls brought, each behind the number of its calls. `attune tune` reads this file.");
  for (const ProblemCount& count : counts) file.counts[count.problem] += count.calls;
  std::string out;
  for (const std::string& line : file.others) out += line + "\n";
  for (const ProblemCount& count : sorted(file)) out += to_line(count) + "\n";
  return replace_text(ops, target, out);
}

std::string read_problem_counts(const std::string& path, std::vector<ProblemCount>& counts, const FileOps& ops) {
  std::string text;
  bool missing = false;
  if (std::string error = read_text(ops, path, text, missing); !error.empty()) return error;
  if (missing) return file_error("read", path, ENOENT);
  counts = sorted(parse(text));
  return {};
}

}  // namespace attune

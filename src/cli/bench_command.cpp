// attune bench: winners against defaults and every vendor candidate, in turn in one run.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <attune/version.hpp>

#include <ctime>

#include "cli/bench_report.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"

namespace attune::cli {
namespace {

std::vector<std::string> head_lines(const Options& options, Session& session, const Ceilings& ceilings) {
  const DeviceInfo& device = session.impl().runtime().info();
  std::string versions = fmt::format("attune {}", version());
  for (const auto& [name, of] : library_versions()) versions += fmt::format(", {} {}", name, of);
  return {
      "command: " + options.command_line,
      fmt::format("date: {:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr))),
      "device: " + device.key(),
      "versions: " + versions,
      "ceilings: " + to_text(ceilings),
      fmt::format("effort: {}", to_string(session.impl().settings().effort.get())),
      fmt::format(
          "a row whose winner is more than 2 percent and 0.1 us slower than the default is timed again, up to {} times in all, "
          "and shows the last",
          slower_repeats),
  };
}

}  // namespace

int run_bench(const Options& options) {
  const Workload workload = read_workload(options.file, options.filter);
  Session session(options, true);
  Progress progress(static_cast<int>(workload.rows.size()));
  if (!session.fallback().empty()) progress.note(fmt::format("{}: using the host engine", session.fallback()));
  const Ceilings ceilings = measure_ceilings(session, workload);
  const std::vector<std::string> head = head_lines(options, session, ceilings);
  for (const std::string& line : head) fmt::print("# {}\n", line);
  BenchCsv csv(options.csv, head);
  const BenchTable table;
  table.header();

  std::vector<BenchResult> results;
  bool all_good = true;
  for (const Row& row : workload.rows) {
    progress.next(row.name);
    results.push_back(bench_row(session, ceilings, row));
    const BenchResult& result = results.back();
    progress.clear();
    if (!result.wrong.empty()) {
      progress.note(complaint(workload, row, result.wrong));
      all_good = false;
    }
    table.row(result);
    csv.row(result);
  }
  progress.clear();
  print_summary(results);
  csv.close();
  return all_good ? exit_ok : exit_bad_rows;
}

}  // namespace attune::cli

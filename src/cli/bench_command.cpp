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

std::vector<std::string> head_lines(const Options& options, DeviceContext& device_context, const Ceilings& ceilings) {
  const DeviceInfo& device = device_context.impl().runtime().info();
  std::string versions = fmt::format("attune {}", version());
  for (const auto& [name, of] : library_versions()) versions += fmt::format(", {} {}", name, of);
  return {
      "command: " + options.command_line,
      fmt::format("date: {:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr))),
      "device: " + device.key(),
      "versions: " + versions,
      "ceilings: " + to_text(ceilings),
      fmt::format("effort: {}", to_string(device_context.impl().settings().effort.get())),
      fmt::format(
          "a row whose winner is more than 2 percent and 0.1 us slower than the default is timed again, up to {} times in all, "
          "and shows the last",
          slower_repeats),
  };
}

}  // namespace

int run_bench(const Options& options) {
  const Workload workload = read_workload(options.file, options.filter);
  DeviceContext device_context(options, true);
  Progress progress(static_cast<int>(workload.rows.size()));
  if (!device_context.fallback().empty()) progress.note(fmt::format("{}: using the host engine", device_context.fallback()));
  const Ceilings ceilings = measure_ceilings(device_context, workload);
  const std::vector<std::string> head = head_lines(options, device_context, ceilings);
  std::FILE* const aside = options.json ? stderr : stdout;
  for (const std::string& line : head) fmt::print(aside, "# {}\n", line);
  BenchCsv csv(options.csv, head);
  const BenchTable table;
  if (!options.json) table.header();

  std::vector<BenchResult> results;
  bool all_good = true;
  for (const Row& row : workload.rows) {
    progress.next(row.name);
    results.push_back(bench_row(device_context, ceilings, row));
    const BenchResult& result = results.back();
    progress.clear();
    if (!result.wrong.empty()) {
      progress.note(complaint(workload, row, result.wrong));
      all_good = false;
    }
    if (options.json)
      print_json(result);
    else
      table.row(result);
    csv.row(result);
  }
  progress.clear();
  print_summary(results, aside);
  csv.close();
  return all_good ? exit_ok : exit_bad_rows;
}

}  // namespace attune::cli

// attune plans: what a plan file holds.
#include <fmt/format.h>
#include <attune/context.hpp>
#include <attune/error.hpp>

#include <algorithm>
#include <regex>

#include "cli/options.hpp"
#include "cli/table.hpp"
#include "tune/plan_file.hpp"

namespace attune::cli {
namespace {

PlanFile read(const Options& options) {
  PlanFile file = read_plan_file(options.file);
  if (file.missing) throw Error(Status::file_error, options.file + ": no such file");
  if (!file.error.empty()) throw Error(Status::file_error, file.error);
  if (!options.filter.empty()) {
    const std::regex wanted(options.filter);
    std::erase_if(file.records, [&](const Record& record) {
      return !std::regex_search(record.key.problem, wanted) && !std::regex_search(record.plan, wanted);
    });
  }
  return file;
}

/// The device's name without the numbers that follow it in a key.
std::string device_name(const Record& record) { return record.key.device.substr(0, record.key.device.find('|')); }

void print_end(const PlanFile& file) {
  fmt::print("{} records, {} lines kept and not used\n", file.records.size(), file.kept.size());
  for (const std::string& note : file.notes) fmt::print("  {}\n", note);
  if (file.kept.size() > file.notes.size()) fmt::print("  and {} more\n", file.kept.size() - file.notes.size());
}

}  // namespace

int run_plans_list(const Options& options) {
  const PlanFile file = read(options);
  int width = 7;
  for (const Record& record : file.records)
    width = std::max(width, static_cast<int>(std::min<std::size_t>(record.key.problem.size(), 96)));
  const Table table({{"problem", width, true},
                     {"us", 9},
                     {"default us", 10},
                     {"speed-up", 8},
                     {"effort", 10, true},
                     {"device", 24, true},
                     {"plan", 0, true}});
  table.header();
  for (const Record& record : file.records)
    table.row({record.key.problem, format_us(record.us), format_us(record.default_us),
               format_ratio(record.default_us, record.us), to_string(record.effort), device_name(record), record.plan});
  print_end(file);
  return exit_ok;
}

int run_plans_show(const Options& options) {
  const PlanFile file = read(options);
  for (const Record& record : file.records) {
    fmt::print("{}\n", record.key.problem);
    fmt::print("  constraints   {}\n  device        {}\n", record.key.constraints, record.key.device);
    fmt::print("  plan          {}  {} us, workspace {}, version {}\n", record.plan, format_us(record.us),
               format_bytes(static_cast<double>(record.workspace)), record.version);
    fmt::print("  default       {}  {} us, version {}\n", record.default_plan, format_us(record.default_us),
               record.default_version);
    fmt::print("  search        {} effort, {} timed, {} rejected, largest error {} of its bound\n", to_string(record.effort),
               record.timed, record.rejected, format_error(record.max_error));
    for (const RunnerUp& runner_up : record.runners_up)
      fmt::print("  runner-up     {}  {} us\n", runner_up.plan, format_us(runner_up.us));
    fmt::print("\n");
  }
  print_end(file);
  return exit_ok;
}

}  // namespace attune::cli

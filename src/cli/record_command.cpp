// attune record: which problems an Attune program meets, and how often.
#include <fmt/format.h>
#include <attune/error.hpp>

#include <cstdlib>
#include <filesystem>

#include "cli/child.hpp"
#include "cli/options.hpp"
#include "cli/table.hpp"
#include "tune/problem_counts.hpp"

namespace attune::cli {

int run_record(const Options& options) {
  // The command may change its folder.
  const std::string path = std::filesystem::absolute(options.out).string();
  setenv("ATTUNE_RECORD", path.c_str(), 1);
  const int status = run_command(options.command);

  std::vector<ProblemCount> counts;
  if (const std::string error = read_problem_counts(path, counts); !error.empty()) {
    fmt::print(stderr, "attune: nothing was recorded: {}\n", error);
    return status;
  }
  const Table table({{"calls", 12}, {"problem", 0, true}});
  table.header();
  for (const ProblemCount& count : counts) table.row({std::to_string(count.calls), count.problem});
  fmt::print("{} problems in {}; tune them with: attune tune {}\n", counts.size(), options.out, options.out);
  return status;
}

}  // namespace attune::cli

// attune record: which problems an Attune program meets, and how often.
#include <fmt/format.h>
#include <attune/error.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "cli/child.hpp"
#include "cli/options.hpp"
#include "cli/table.hpp"
#include "tune/problem_counts.hpp"

namespace attune::cli {

int run_record(const Options& options) {
  // The command may change its folder.
  const std::string path = std::filesystem::absolute(options.out).string();
  setenv("ATTUNE_RECORD", path.c_str(), 1);
  std::vector<ProblemCount> before, counts;
  if (std::filesystem::exists(path))
    if (const std::string error = read_problem_counts(path, before); !error.empty()) throw Error(Status::file_error, error);
  const int status = run_command(options.command);
  if (const std::string error = read_problem_counts(path, counts); !error.empty()) {
    fmt::print(stderr, "attune: nothing was recorded: {}\n", error);
    return status;
  }
  std::map<std::string, std::uint64_t> earlier;
  for (const ProblemCount& count : before) earlier[count.problem] = count.calls;
  for (ProblemCount& count : counts) count.calls -= std::min(count.calls, earlier[count.problem]);
  std::erase_if(counts, [](const ProblemCount& count) { return count.calls == 0; });
  if (counts.empty()) fmt::print(stderr, "attune: the command brought no calls\n");
  const Table table({{"calls", 12}, {"problem", 0, true}});
  table.header();
  for (const ProblemCount& count : counts) table.row({std::to_string(count.calls), count.problem});
  fmt::print("{} problems, added to {}; tune them with: attune tune {}\n", counts.size(), options.out, options.out);
  return status;
}

}  // namespace attune::cli

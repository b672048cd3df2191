// What the command line says, and the commands that act on it.
#pragma once

#include <attune/types.hpp>
#include <optional>
#include <string>
#include <vector>

namespace attune::cli {

struct Options {
  std::optional<Device> device;  ///< none: a GPU if one is visible, else the host
  std::optional<std::string> plans;
  std::optional<Effort> effort;
  std::optional<double> budget_ms;
  std::string filter;  ///< regular expression on names; empty: everything
  std::string file;
  std::string csv;
  std::string out = "problems.txt";   ///< where `record` writes
  std::vector<std::string> command;   ///< that `record` runs
  std::vector<std::string> more_files;  ///< that `plans merge` reads
  bool all_devices = false;           ///< every GPU that is visible
  bool json = false;
  std::string command_line;  ///< as it was typed, for the head of results
};

enum Exit : int { exit_ok = 0, exit_bad_rows = 1, exit_usage = 2 };

/// Each returns an exit status; throws Error for what stops the whole command.
int run_demo(const Options& options);
int run_tune(const Options& options);
int run_bench(const Options& options);
int run_plans_list(const Options& options);
int run_plans_show(const Options& options);
int run_plans_merge(const Options& options);
int run_plans_check(const Options& options);
int run_plans_prune(const Options& options);
int run_record(const Options& options);
int run_info(const Options& options);

/// "host", "cuda" or "cuda:N".
std::optional<Device> parse_device(const std::string& text);
std::string to_text(Device device);

}  // namespace attune::cli

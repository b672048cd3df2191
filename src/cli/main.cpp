// The `attune` program: reads the command line and calls one command.
#include <fmt/format.h>
#include <attune/error.hpp>
#include <attune/version.hpp>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <regex>

#include "cli/options.hpp"
#include "core/names.hpp"

namespace attune::cli {
namespace {

void add_device(CLI::App& command, Options& options) {
  command
      .add_option_function<std::string>(
          "--device",
          [&options](const std::string& text) {
            options.device = parse_device(text);
            if (!options.device) throw CLI::ValidationError("--device", "'" + text + "': accepted are host, cuda, cuda:N");
          },
          "host, cuda or cuda:N; without it the first GPU if one is visible, else the host engine")
      ->type_name("DEVICE");
}

void add_all_devices(CLI::App& command, Options& options) {
  command
      .add_option_function<std::string>(
          "--device",
          [&options](const std::string& text) {
            options.all_devices = text == "all";
            if (!options.all_devices) options.device = parse_device(text);
            if (!options.all_devices && !options.device)
              throw CLI::ValidationError("--device", "'" + text + "': accepted are host, cuda, cuda:N, all");
          },
          "host, cuda, cuda:N, or all: every visible GPU at once, each problem once for each kind of GPU; without it the first GPU if "
          "one is visible, else the host engine")
      ->type_name("DEVICE");
}

void add_plans(CLI::App& command, Options& options) {
  command.add_option("--plans", options.plans, "Plan file to read and to add to; in the place of ATTUNE_CACHE_FILE")
      ->type_name("FILE");
}

void add_tuning(CLI::App& command, Options& options) {
  command
      .add_option_function<std::string>(
          "--effort",
          [&options](const std::string& text) {
            options.effort = from_name<Effort>(text);
            if (!options.effort) throw CLI::ValidationError("--effort", "'" + text + "': accepted are " + accepted<Effort>());
          },
          "quick, standard or exhaustive; beats ATTUNE_EFFORT")
      ->type_name("EFFORT");
  command.add_option("--budget-ms", options.budget_ms, "Milliseconds that tuning one problem may take; 0: as the effort says")
      ->check(CLI::NonNegativeNumber)
      ->type_name("MS");
}

void add_filter(CLI::App& command, Options& options, const char* what) {
  command
      .add_option_function<std::string>(
          "--filter",
          [&options](const std::string& text) {
            try {
              std::regex check(text);
            } catch (const std::regex_error& e) {
              throw CLI::ValidationError("--filter", "'" + text + "': not a regular expression");
            }
            options.filter = text;
          },
          what)
      ->type_name("REGEX");
}

void add_file(CLI::App& command, Options& options, const char* what) {
  command.add_option("FILE", options.file, what)->required()->check(CLI::ExistingFile);
}

constexpr const char* workload_help =
    "Problems, one a line: gemm,NAME,... conv,NAME,... conv3d,NAME,... as in benchmarks/workloads.csv, or Attune's own text "
    "form";

using Command = int (*)(const Options&);

int parse_and_run(int argc, char** argv) {
  Options options;
  for (int i = 0; i < argc; ++i) options.command_line += (i == 0 ? std::string("attune") : " " + std::string(argv[i]));

  CLI::App app("Attune: tunes GEMM and convolution, remembers the fastest plan of each problem");
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  app.footer("Exit status: 0 done, 1 some rows could not be done, 2 bad usage. Settings: see `attune info`.");

  CLI::App* demo = app.add_subcommand("demo", "Tune about eight real problems and show what is remembered");
  add_device(*demo, options), add_plans(*demo, options), add_tuning(*demo, options);
  add_filter(*demo, options, "Only problems whose name matches");

  CLI::App* tune = app.add_subcommand("tune", "Tune every problem of a file");
  add_file(*tune, options, workload_help);
  tune->add_flag("--json", options.json, "JSON Lines on stdout: one object a good row, and nothing else");
  add_all_devices(*tune, options), add_plans(*tune, options), add_tuning(*tune, options);
  add_filter(*tune, options, "Only rows whose name matches");

  CLI::App* bench = app.add_subcommand("bench", "Tune a file, then time winners, defaults and vendor candidates in turn");
  add_file(*bench, options, workload_help);
  bench->add_option("--csv", options.csv, "Write the results there as well")->type_name("OUT");
  bench->add_flag("--json", options.json, "JSON Lines on stdout: one object a row, and nothing else");
  add_device(*bench, options), add_plans(*bench, options), add_tuning(*bench, options);
  add_filter(*bench, options, "Only rows whose name matches");

  CLI::App* record = app.add_subcommand("record", "Run a command and list the problems that it meets, with the number of calls");
  record->add_option("--out", options.out, "File that the counts are added to")->capture_default_str()->type_name("FILE");
  record->add_option("COMMAND", options.command, "The command and its arguments, behind --")->required();

  CLI::App* plans = app.add_subcommand("plans", "Look into a plan file, and keep it in order");
  plans->require_subcommand(1);
  CLI::App* list = plans->add_subcommand("list", "One line a record");
  CLI::App* show = plans->add_subcommand("show", "Everything that the records hold");
  for (CLI::App* command : {list, show}) {
    add_file(*command, options, "A plan file");
    add_filter(*command, options, "Only records whose problem or plan matches");
  }

  CLI::App* merge = plans->add_subcommand("merge", "Add the records of other plan files; the better one of each key is used");
  merge->add_option("INTO", options.file, "The plan file that grows; made where there is none")->required();
  merge->add_option("FROM", options.more_files, "Plan files")->required()->check(CLI::ExistingFile);
  CLI::App* check = plans->add_subcommand("check", "Say what can be used here; exit status 1 where lines are damaged");
  add_file(*check, options, "A plan file");
  CLI::App* prune = plans->add_subcommand("prune", "Drop what can never be used again: damaged lines, and of this machine's devices "
                                                   "stale records and all but the best of a key");
  add_file(*prune, options, "A plan file");

  CLI::App* info = app.add_subcommand("info", "Version, devices, libraries, and every setting with its source");
  add_device(*info, options), add_plans(*info, options), add_tuning(*info, options);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? exit_ok : exit_usage;
  }

  const std::pair<CLI::App*, Command> commands[] = {{demo, run_demo},       {tune, run_tune},       {bench, run_bench},
                                                    {list, run_plans_list}, {show, run_plans_show}, {merge, run_plans_merge},
                                                    {check, run_plans_check}, {prune, run_plans_prune}, {record, run_record},
                                                    {info, run_info}};
  for (const auto& [app_of, run] : commands)
    if (app_of->parsed()) return run(options);
  return exit_usage;
}

}  // namespace
}  // namespace attune::cli

int main(int argc, char** argv) {
  try {
    return attune::cli::parse_and_run(argc, argv);
  } catch (const attune::Error& e) {
    fmt::print(stderr, "attune: {}: {}\n", to_string(e.status()), e.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "attune: out of memory\n");
  } catch (const std::exception& e) {
    fmt::print(stderr, "attune: {}\n", e.what());
  }
  return attune::cli::exit_bad_rows;
}

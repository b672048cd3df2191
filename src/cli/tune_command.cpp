// attune tune: every problem of a file, one result a row.
#include <fmt/format.h>
#include <attune/error.hpp>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"
#include "cli/workload.hpp"

namespace attune::cli {
namespace {

void print_json(const Row& row, const PlanInfo& info) {
  nlohmann::ordered_json line;
  line["name"] = row.name;
  line["plan"] = info.plan;
  line["source"] = to_string(info.source);
  line["timed"] = info.timed;
  line["us"] = info.time_us;
  line["default_us"] = info.default_us;
  line["max_error"] = info.max_error;
  fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  std::fflush(stdout);
}

/// The plan of one row; throws Error when there is none that is right.
PlanInfo tune_row(Session& session, const Row& row) {
  if (!row.wrong.empty()) throw Error(Status::invalid_argument, row.wrong);
  PlanInfo info = session.context().tune(*row.problem);
  if (info.max_error > 1)
    throw Error(Status::internal, fmt::format("{}: its error is {} times the bound", info.plan, info.max_error));
  return info;
}

}  // namespace

int run_tune(const Options& options) {
  const Workload workload = read_workload(options.file, options.filter);
  Session session(options);
  Progress progress(static_cast<int>(workload.rows.size()));
  if (!session.fallback().empty()) progress.note(fmt::format("{}: using the host engine", session.fallback()));

  const Table table({{"name", 36, true},
                     {"source", 8, true},
                     {"timed", 5},
                     {"rejected", 8},
                     {"us", 9},
                     {"default us", 10},
                     {"speed-up", 8},
                     {"error", 6},
                     {"plan", 0, true}});
  if (!options.json) table.header();
  int bad = 0;
  for (const Row& row : workload.rows) {
    progress.next(row.name);
    try {
      const PlanInfo info = tune_row(session, row);
      progress.clear();
      if (options.json)
        print_json(row, info);
      else
        table.row({row.name, to_string(info.source), std::to_string(info.timed), std::to_string(info.rejected),
                   format_us(info.time_us), format_us(info.default_us), format_ratio(info.default_us, info.time_us),
                   format_error(info.max_error), info.plan});
    } catch (const Error& e) {
      progress.note(complaint(workload, row, e.what()));
      ++bad;
    }
  }
  progress.clear();
  if (!options.json) fmt::print("{} rows done, {} not\n", workload.rows.size() - static_cast<std::size_t>(bad), bad);
  return bad == 0 ? exit_ok : exit_bad_rows;
}

}  // namespace attune::cli

// attune tune: every problem of a file, one result a row.
#include <fmt/format.h>
#include <attune/error.hpp>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/device_context.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "cli/table.hpp"
#include "cli/workers.hpp"

namespace attune::cli {
namespace {

void print_json(const WorkerResult& result) {
  nlohmann::ordered_json line;
  line["name"] = result.row->name;
  line["device"] = result.worker;
  line["plan"] = result.info.plan;
  line["source"] = to_string(result.info.source);
  line["timed"] = result.info.timed;
  line["us"] = result.info.time_us;
  line["default_us"] = result.info.default_us;
  line["max_error"] = result.info.max_error;
  fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  std::fflush(stdout);
}

/// The context of each device that was asked for. One that cannot be used is noted, and the others do its rows.
std::vector<std::unique_ptr<DeviceContext>> open_devices(const Options& options, Progress& progress, bool& all_good) {
  std::vector<std::unique_ptr<DeviceContext>> contexts;
  if (!options.all_devices) {
    contexts.push_back(std::make_unique<DeviceContext>(options));
    return contexts;
  }
  std::string why;
  const int count = cuda_device_count(why);
  for (int i = 0; i < count; ++i) {
    Options of_device = options;
    of_device.device = Device::cuda(i);
    try {
      contexts.push_back(std::make_unique<DeviceContext>(of_device));
    } catch (const Error& e) {
      progress.note(fmt::format("{}: cannot be used: {}", to_text(Device::cuda(i)), e.what()));
      all_good = false;
    }
  }
  if (contexts.empty())
    throw Error(Status::no_device, fmt::format("--device all: {}", count == 0 && !why.empty() ? why : "no GPU can be used"));
  return contexts;
}

/// The plan of one row; throws Error when there is none that is right.
PlanInfo tune_right(DeviceContext& context, const Row& row) {
  context.constrain(row.constraints);
  PlanInfo info = context.context().tune(*row.problem);
  if (info.max_error > 1)
    throw Error(Status::internal, fmt::format("{}: its error is {} times the bound", info.plan, info.max_error));
  return info;
}

}  // namespace

int run_tune(const Options& options) {
  const Workload workload = read_workload(options.file, options.filter);
  bool all_good = true;
  std::vector<Worker> workers;
  std::set<std::string> keys;
  // Opened before the progress line, whose length depends on them.
  Progress opening(0);
  const auto contexts = open_devices(options, opening, all_good);
  for (const auto& context : contexts) {
    const std::string key = context->impl().runtime().info().key();
    keys.insert(key);
    workers.push_back({to_text(context->device()), key, [of = context.get()](const Row& row) { return tune_right(*of, row); }});
  }
  Progress progress(static_cast<int>(workload.rows.size() * keys.size()));
  if (!contexts[0]->fallback().empty()) progress.note(fmt::format("{}: using the host engine", contexts[0]->fallback()));

  const Table table({{"name", 36, true},
                     {"device", 8, true},
                     {"source", 8, true},
                     {"timed", 5},
                     {"rejected", 8},
                     {"us", 9},
                     {"default us", 10},
                     {"speed-up", 8},
                     {"error", 6},
                     {"plan", 0, true}});
  if (!options.json) table.header();
  int good = 0, bad = 0;
  const auto report = [&](const WorkerResult& result) {
    progress.clear();
    const PlanInfo& info = result.info;
    if (!result.wrong.empty()) {
      progress.note(complaint(workload, *result.row, result.wrong));
      ++bad;
      return;
    }
    ++good;
    if (options.json)
      print_json(result);
    else
      table.row({result.row->name, result.worker, to_string(info.source), std::to_string(info.timed),
                 std::to_string(info.rejected), format_us(info.time_us), format_us(info.default_us),
                 format_ratio(info.default_us, info.time_us), format_error(info.max_error), info.plan});
  };
  const auto lost = [&](const Worker& worker, const std::string& why) {
    progress.note(fmt::format("{}: lost, and not used any more: {}", worker.name, why));
    all_good = false;
  };
  tune_with(workers, workload.rows, {[&](const Row& row) { progress.next(row.name); }, report, lost});
  progress.clear();
  if (!options.json) fmt::print("{} rows done, {} not\n", good, bad);
  return bad == 0 && all_good ? exit_ok : exit_bad_rows;
}

}  // namespace attune::cli

// attune plans merge, check and prune: what becomes of plan files over time.
#include <fmt/format.h>
#include <attune/context.hpp>
#include <attune/error.hpp>

#include <map>
#include <memory>

#include "cli/options.hpp"
#include "providers/builtin.hpp"
#include "tune/plan_file.hpp"
#include "tune/tuner.hpp"

namespace attune::cli {
namespace {

/// The devices of this machine by the keys that records bear.
class Devices {
 public:
  Devices() {
    std::string why;
    const int count = cuda_device_count(why);
    for (int i = 0; i < count; ++i) add(Device::cuda(i));
    add(Device::host());
  }
  /// Stale: its provider has another version by now. Absent: this program or this machine lacks the provider or the variant at
  /// present, and may have it again.
  enum class Standing { usable, stale, absent, foreign };
  Standing standing(const Record& record) const {
    const auto found = backends_.find(record.key.device);
    if (found == backends_.end()) return Standing::foreign;
    const auto [known, fresh] = versions_.try_emplace(record.key.device + " " + record.plan);
    if (fresh) known->second = plan_version(found->second.providers, record.plan);
    const std::string& version = known->second;
    if (version.empty()) return Standing::absent;
    return version == record.version ? Standing::usable : Standing::stale;
  }

 private:
  void add(Device device) {
    try {
      Backend backend = make_backend(device);
      backends_.emplace(backend.runtime->info().key(), std::move(backend));
    } catch (const Error& e) {
      fmt::print(stderr, "attune: {} cannot be used: its records count as another machine's: {}\n", to_text(device), e.what());
    }
  }
  std::map<std::string, Backend> backends_;
  mutable std::map<std::string, std::string> versions_;  ///< asked once: others wait for the file meanwhile
};

bool of_newer_version(const std::string& line) {
  std::string why;
  return !parse_line(line, why) && why.find(" is newer than ") != std::string::npos;
}

void require(const std::string& error) {
  if (!error.empty()) throw Error(Status::file_error, error);
}

}  // namespace

int run_plans_merge(const Options& options) {
  for (const std::string& from : options.more_files) Context::merge(options.file, from);
  const PlanFile merged = read_plan_file(options.file);
  require(merged.error);
  fmt::print("{}: {} records, {} lines kept and not used\n", options.file, merged.records.size(), merged.kept.size());
  return exit_ok;
}

int run_plans_check(const Options& options) {
  const PlanFile file = read_plan_file(options.file);
  require(file.error);
  const Devices devices;
  std::size_t usable = 0, stale = 0, absent = 0, foreign = 0, newer = 0;
  for (const Record& record : file.records) switch (devices.standing(record)) {
      case Devices::Standing::usable: ++usable; break;
      case Devices::Standing::stale: ++stale; break;
      case Devices::Standing::absent: ++absent; break;
      case Devices::Standing::foreign: ++foreign; break;
    }
  for (const std::string& line : file.kept) newer += of_newer_version(line);
  const std::size_t damaged = file.kept.size() - newer;
  fmt::print("{}\n", options.file);
  fmt::print("  {:>7} usable on a device of this machine\n", usable);
  fmt::print("  {:>7} of a provider that has changed since: tuned again when they are met\n", stale);
  fmt::print("  {:>7} of a provider that is not here\n", absent);
  fmt::print("  {:>7} of other devices\n", foreign);
  fmt::print("  {:>7} of a newer version of Attune\n", newer);
  fmt::print("  {:>7} damaged\n", damaged);
  for (const std::string& note : file.notes) fmt::print("{}\n", note);
  if (file.kept.size() > file.notes.size()) fmt::print("and {} more\n", file.kept.size() - file.notes.size());
  return damaged == 0 ? exit_ok : exit_bad_rows;
}

int run_plans_prune(const Options& options) {
  const Devices devices;
  std::size_t stale = 0, beaten = 0, damaged = 0, left = 0;
  require(edit_plan_file(options.file, [&](PlanFile& file) {
    if (file.missing) return options.file + ": no such file";
    if (file.records.size() >= max_records)
      return fmt::format("{}: at most {} records are read, and what is behind them would be lost", options.file, max_records);
    std::map<KeyText, const Record*> best;
    for (const Record& record : file.records) {
      if (devices.standing(record) != Devices::Standing::usable) continue;
      const Record*& standing = best[record.key];
      if (standing == nullptr || better(record, *standing)) standing = &record;
    }
    std::vector<Record> records;
    for (const Record& record : file.records) {
      const Devices::Standing standing = devices.standing(record);
      const bool loses = standing == Devices::Standing::usable && best.at(record.key) != &record;
      stale += standing == Devices::Standing::stale;
      beaten += loses;
      if (standing != Devices::Standing::stale && !loses) records.push_back(record);
    }
    file.records = std::move(records);
    damaged = std::erase_if(file.kept, [](const std::string& line) { return !of_newer_version(line); });
    left = file.records.size() + file.kept.size();
    return std::string();
  }));
  fmt::print("{}: dropped {} of a provider that has changed, {} beaten by another of the same key, {} damaged; {} left\n",
             options.file, stale, beaten, damaged, left);
  return exit_ok;
}

}  // namespace attune::cli

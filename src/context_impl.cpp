// Settings, records and the entry for each request; context_miss.cpp holds what happens on a miss.
#include "context_impl.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/names.hpp"
#include "tune/plan_file.hpp"

namespace attune {
inline namespace v0 {

Context::Impl::Impl(Backend backend, const GetEnv& get_env, std::size_t cache_capacity)
    : backend_(std::move(backend)), device_key_(backend_.runtime->info().key()), cache_(cache_capacity) {
  std::vector<std::string> warnings;
  apply_environment(settings_, get_env, warnings);
  publish();
  log_.set(settings_.log.get(), nullptr, nullptr);
  for (const std::string& warning : warnings) warn(warning);
  if (log_.enabled(LogLevel::info))
    for (const auto& [name, value] : describe(settings_)) log_.write(LogLevel::info, fmt::format("{} = {}", name, value));
  if (!settings_.cache_read.get().empty()) read_file(settings_.cache_read.get(), false);
}

Context::Impl::~Impl() {
  // Plans may free device memory or loaded code: with the device current, and before its runtime goes.
  const auto guard = backend_.runtime->guard();
  cache_.clear();
  write_counts(settings_.record.get());
}

Settings Context::Impl::settings() const {
  const std::lock_guard lock(settings_mutex_);
  return settings_;
}

void Context::Impl::change(const std::function<void(Settings&)>& edit, const std::string& named) {
  std::string read, recorded;
  bool other_record = false;
  {
    const std::lock_guard lock(settings_mutex_);
    const std::string before = settings_.cache_read.get();
    recorded = settings_.record.get();
    edit(settings_);
    publish();
    log_.set(settings_.log.get(), log_callback_, log_user_);
    if (settings_.cache_read.get() != before || settings_.cache_read.get() == named) read = settings_.cache_read.get();
    other_record = settings_.record.get() != recorded;
  }
  if (other_record) {
    write_counts(recorded);
    // Entries count or do not as they were made.
    const auto guard = backend_.runtime->guard();
    cache_.clear();
  }
  if (!read.empty()) read_file(read, false);
}

void Context::Impl::set_workspace(void* pointer, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % 256 != 0)
    throw Error(Status::invalid_argument, fmt::format("workspace = {}: must be aligned to 256 bytes", pointer));
  const std::lock_guard lock(settings_mutex_);
  caller_workspace_bytes_ = pointer == nullptr ? no_limit : bytes;
  const CallerWorkspace* given = nullptr;
  if (pointer != nullptr) {
    for (const auto& known : caller_workspaces_)
      if (known->pointer == pointer && known->bytes == bytes) given = known.get();
    if (given == nullptr) given = caller_workspaces_.emplace_back(new CallerWorkspace{pointer, bytes}).get();
  }
  caller_workspace_.store(given, std::memory_order_release);
  publish();
}

void Context::Impl::set_log(LogLevel level, LogCallback callback, void* user) {
  const std::lock_guard lock(settings_mutex_);
  settings_.log.set(level, Origin::api, "api");
  log_callback_ = callback;
  log_user_ = user;
  log_.set(settings_.log.get(), callback, user);
}

// Called with settings_mutex_ held, or before anyone else can call.
void Context::Impl::publish() {
  Constraints c;
  c.deterministic = settings_.deterministic.get();
  c.math = settings_.math.get();
  c.workspace_limit = round_workspace_limit(std::min(settings_.workspace_limit.get(), caller_workspace_bytes_));
  recording_.store(!settings_.record.get().empty());
  const bool benchmark = settings_.benchmark.get();
  if (!benchmark_.exchange(benchmark) && benchmark) epoch_.fetch_add(1);
  constraints_word_.store(pack(c), std::memory_order_relaxed);
}

Constraints Context::Impl::constraints_for(const Problem& problem) const {
  return applied_to(problem, unpack(constraints_word_.load(std::memory_order_relaxed)));
}

Key Context::Impl::key_of(const Problem& problem, std::uint64_t word) noexcept {
  Key key;
  std::visit([&](const auto& p) { make_key(p, word, key); }, problem);
  return key;
}

PlanInfo Context::Impl::tune(const Problem& problem, std::vector<CandidateResult>* report) {
  validate(problem);
  const std::uint64_t word = constraints_word_.load(std::memory_order_relaxed);
  return obtain(problem, key_of(problem, word), word, Request::tune, false, report).info;
}

PlanInfo Context::Impl::prepare(const Problem& problem) {
  PlanInfo info;
  prepare(problem, info);
  return info;
}

std::shared_ptr<const Plan> Context::Impl::prepare(const Problem& problem, PlanInfo& info) {
  validate(problem);
  const std::uint64_t word = constraints_word_.load(std::memory_order_relaxed);
  Obtained obtained = obtain(problem, key_of(problem, word), word, Request::prepare, false, nullptr);
  info = std::move(obtained.info);
  return std::move(obtained.plan);
}

PlanInfo Context::Impl::plan_for(const Problem& problem) {
  validate(problem);
  const std::uint64_t word = constraints_word_.load(std::memory_order_relaxed);
  // As prepare, but like a capturing call it waits for nobody: a log callback may ask about what is being tuned.
  return obtain(problem, key_of(problem, word), word, Request::prepare, true, nullptr).info;
}

Stats Context::Impl::stats() const {
  Stats s;
  s.misses = misses_.load();
  s.tuned = tuned_.load();
  s.candidates_timed = timed_.load();
  s.candidates_rejected = rejected_.load();
  s.deferred = deferred_.load();
  s.replaced = replaced_.load();
  s.evicted = cache_.evicted();
  s.entries = cache_.size();
  const std::uint64_t others = s.misses + other_lookups_.load();
  const std::uint64_t lookups = cache_.lookups();
  s.hits = lookups > others ? lookups - others : 0;
  const std::lock_guard lock(records_mutex_);
  s.records = records_.size();
  s.records_skipped = kept_lines_.size() + foreign_records_;
  return s;
}

std::size_t Context::Impl::read_file(const std::string& path, bool must_exist) {
  PlanFile file = read_plan_file(path);
  const std::string problem = !file.error.empty() ? file.error : file.missing && must_exist ? path + ": no such file" : "";
  if (!problem.empty()) {
    if (must_exist) throw Error(Status::file_error, problem);
    warn(problem);
    return 0;
  }
  for (const std::string& note : file.notes) warn(note);
  std::size_t added = 0;
  {
    const std::lock_guard lock(records_mutex_);
    for (const Record& record : file.records) {
      const std::size_t before = records_.size();
      added += records_.add(record);
      if (record.key.device != device_key_) foreign_records_ += records_.size() - before;
    }
    kept_lines_.insert(file.kept.begin(), file.kept.end());
  }
  epoch_.fetch_add(1);
  // A callback may ask this context: no lock is held while it runs.
  log_.write(LogLevel::info, fmt::format("{}: {} records, {} lines kept and not used", path, file.records.size(), file.kept.size()));
  return added;
}

std::size_t Context::Impl::load(const std::string& path) { return read_file(path, true); }

void Context::Impl::save(const std::string& path) const {
  std::vector<Record> records;
  std::vector<std::string> kept;
  {
    const std::lock_guard lock(records_mutex_);
    records_.for_each([&](const Record& record) { records.push_back(record); });
    kept.assign(kept_lines_.begin(), kept_lines_.end());
  }
  const std::string error = write_plan_file(path, records, kept);
  if (!error.empty()) throw Error(Status::file_error, error);
}

void Context::Impl::keep_record(Record record) {
  const std::string path = settings().cache_write.get();
  const std::string error = path.empty() ? std::string() : append_record(path, record);
  bool first_error = false;
  {
    const std::lock_guard lock(records_mutex_);
    records_.add(std::move(record));
    first_error = !error.empty() && !write_warned_;
    write_warned_ = write_warned_ || first_error;
  }
  if (first_error) warn(error + "; plans stay in memory");
}

ProblemCounts::Counter* Context::Impl::counter_of(const Problem& problem, const Constraints& constraints) {
  if (!recording_.load(std::memory_order_relaxed)) return nullptr;
  // Resolved, a problem leaves it to the constraints whether tf32 is allowed: in a file it must say so itself.
  Problem written = problem;
  const bool tf32 = spans(problem).a.type == DType::f32 && allows(constraints, MathMode::tf32);
  std::visit(
      [&]<class P>(P& p) {
        if constexpr (is_contraction<P>)
          if (tf32 && p.compute == Compute::f32) p.compute = Compute::f32_tf32;
      },
      written);
  return &counts_.of(called_text(written, constraints));
}

void Context::Impl::write_counts(const std::string& path) noexcept {
  try {
    const std::vector<ProblemCount> counts = counts_.take();
    if (path.empty() || counts.empty()) return;
    if (const std::string error = add_problem_counts(path, counts); !error.empty()) warn(error + "; the calls counted so far are lost");
  } catch (const std::exception& e) {
    warn(path + ": " + e.what() + "; the calls counted so far are lost");
  }
}

bool Context::Impl::best_record(const Problem& problem, const Constraints& constraints, Record& record, bool& valid) const {
  const KeyText key = key_text(device_key_, problem, constraints);
  const auto has_version = [&](const Record& r) {
    if (failed_plans_.contains(r.plan + " of " + key.problem)) return false;
    const std::string now = plan_version(backend_.providers, r.plan);
    return !now.empty() && now == r.version;
  };
  const std::lock_guard lock(records_mutex_);
  const Record* best = records_.best(key, has_version, valid);
  if (best == nullptr) return false;
  record = *best;
  return true;
}

}  // namespace v0
}  // namespace attune

// The state behind attune::Context, and what the `attune` program needs of it beyond the public interface.
#pragma once

#include <attune/context.hpp>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/log.hpp"
#include "core/problem.hpp"
#include "providers/builtin.hpp"
#include "tune/key.hpp"
#include "tune/plan_cache.hpp"
#include "tune/policy.hpp"
#include "tune/problem_counts.hpp"
#include "tune/record.hpp"
#include "tune/settings.hpp"
#include "tune/tuner.hpp"

namespace attune {
inline namespace v0 {

class Context::Impl {
 public:
  static constexpr std::size_t default_capacity = 4096;

  /// `get_env` is read once, here.
  Impl(Backend backend, const GetEnv& get_env, std::size_t cache_capacity = default_capacity);
  ~Impl();
  static Context wrap(std::unique_ptr<Impl> impl) noexcept { return Context(std::move(impl)); }

  Runtime& runtime() noexcept { return *backend_.runtime; }
  const Providers& providers() const noexcept { return backend_.providers; }
  Log& log() noexcept { return log_; }

  /// The call path: runs the remembered plan, or goes the long way. `launch.c` may be null where beta is zero. The first form
  /// takes a problem that holds the facts of the call, the second adds them without copying the problem.
  template <class P>
  void call(const P& problem, const Launch& launch, const GemmNames& names = problem_names) {
    Key key;
    const std::uint64_t word = constraints_word_.load(std::memory_order_relaxed);
    pack_key(problem, word, KeyPacker(key));
    Failure failed;
    if (!hit(key, launch, failed)) [[unlikely]]
      call_slowly(problem, key, word, launch, failed, names);
  }
  template <class P>
  void call(const P& problem, const CallFacts& facts, const Launch& launch) {
    Key key;
    const std::uint64_t word = constraints_word_.load(std::memory_order_relaxed);
    pack_key(problem, word, CallPacker(key, facts));
    Failure failed;
    if (hit(key, launch, failed)) [[likely]]
      return;
    P whole = problem;
    visit_fields(whole, FactsWriter(facts));
    call_slowly(whole, key, word, launch, failed, problem_names);
  }

  /// Names what the call path refuses: an operand that is null or overlaps the output. `problem` is valid and resolved.
  static void check_operands(const Problem& problem, const Launch& launch, const GemmNames& names);

  /// As Context::tune; `report` (may be null) receives every candidate when something was timed.
  PlanInfo tune(const Problem& problem, std::vector<CandidateResult>* report);
  PlanInfo prepare(const Problem& problem);
  /// The same, with the plan itself: as the next call would run it.
  std::shared_ptr<const Plan> prepare(const Problem& problem, PlanInfo& info);
  PlanInfo plan_for(const Problem& problem);
  /// The constraints of a problem under the present settings.
  Constraints constraints_for(const Problem& problem) const;

  /// A copy of the settings.
  Settings settings() const;
  /// Changes settings and publishes what the call path reads. Reads the plan file if it is another one than before, or the one
  /// `named`.
  void change(const std::function<void(Settings&)>& edit, const std::string& named = {});
  void set_workspace(void* pointer, std::size_t bytes);
  void set_log(LogLevel level, LogCallback callback, void* user);

  Stats stats() const;
  std::size_t load(const std::string& path);
  void save(const std::string& path) const;

 private:
  /// A plan with what is known of it.
  struct Obtained {
    std::shared_ptr<const Plan> plan;
    PlanInfo info;
    bool deferred = false;
    bool untuned = false;
  };
  /// A plan that was run for this call and failed; no plan where none was.
  struct Failure {
    Status status = Status::ok;
    std::shared_ptr<const Plan> plan;
  };

  /// True when a plan was there and has run.
  bool hit(const Key& key, const Launch& launch, Failure& failed) noexcept {
    const PlanCache::Found found = cache_.find(key);
    return found && run_found(*found.get(), launch, failed);
  }
  bool run_found(const CacheEntry& entry, const Launch& launch, Failure& failed) noexcept {
    if (!operands_fit(entry, launch)) return false;
    if (entry.attended && attend(entry, launch.stream)) [[unlikely]]
      return false;
    const Status status = entry.direct ? entry.plan->run(launch) : run_plan(entry.plan, launch);
    if (status == Status::ok) [[likely]]
      return true;
    failed = {status, entry.plan};
    return false;
  }
  /// Whether a call goes the long way although an untuned plan is there: it may tune now, no call has settled for the plan, or
  /// the context has learnt something since one did.
  bool reconsider(const CacheEntry& entry, Stream stream) const noexcept {
    if (!entry.ran.load(std::memory_order_relaxed) ||
        entry.epoch.load(std::memory_order_relaxed) != epoch_.load(std::memory_order_relaxed))
      return true;
    return entry.deferred && benchmark_.load(std::memory_order_relaxed) && !backend_.runtime->capturing(stream);
  }
  /// What a hit does besides running the plan; true where the call goes the long way.
  bool attend(const CacheEntry& entry, Stream stream) const noexcept {
    if (entry.untuned && reconsider(entry, stream)) return true;
    if (entry.calls != nullptr) entry.calls->fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  static bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) noexcept {
    const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
    return x < y + b_bytes && y < x + a_bytes;
  }
  /// No operand is null or overlaps the output; check_operands says which does.
  static bool operands_fit(const CacheEntry& e, const Launch& l) noexcept {
    if (l.d == nullptr || (e.a_bytes != 0 && l.a == nullptr) || (e.b_bytes != 0 && l.b == nullptr)) return false;
    if (overlap(l.a, e.a_bytes, l.d, e.d_bytes) || overlap(l.b, e.b_bytes, l.d, e.d_bytes)) return false;
    if (e.bias_bytes != 0 && (l.bias == nullptr || overlap(l.bias, e.bias_bytes, l.d, e.d_bytes))) return false;
    if (e.more_count != 0 && !more_fit(e, l)) return false;
    if (e.c_bytes == 0) return true;
    if (l.c == l.d) return e.in_place;
    return l.c != nullptr && !overlap(l.c, e.c_bytes, l.d, e.d_bytes);
  }
  /// The same of the further operands, some of which may be outputs too.
  static bool more_fit(const CacheEntry& e, const Launch& l) noexcept;
  static Key key_of(const Problem& problem, std::uint64_t word) noexcept;
  static Constraints constraints_of(const Problem& problem, std::uint64_t word) noexcept {
    return applied_to(problem, unpack(word));
  }
  Status run_plan(const std::shared_ptr<const Plan>& plan, const Launch& launch) noexcept;
  /// `word` is what the key was packed with, `failed` the remembered plan, if it was run.
  void call_slowly(const Problem& problem, const Key& key, std::uint64_t word, const Launch& launch, const Failure& failed,
                   const GemmNames& names);
  /// `problem` is resolved, `constraints` are those of the problem as it was given. No plan is run twice for one call.
  void run_or_replace(const Problem& problem, const Constraints& constraints, const Key& key, const Obtained& obtained,
                      const Launch& launch, const Failure& failed);
  /// Throws where what `plan` was to add to may hold a part of its result already: adding once more would be silently wrong.
  void refuse_if_spoilt(const Plan& plan, const Launch& launch, Status status) const;
  /// `failed`: the ids of the plans that were run for this call.
  Obtained fallback(const Problem& problem, const Constraints& constraints, const Launch& launch,
                    std::unordered_set<std::string> failed);

  /// `word`: the constraints, as the key was packed with them.
  Obtained obtain(const Problem& problem, const Key& key, std::uint64_t word, Request request, bool capturing,
                  std::vector<CandidateResult>* report);
  Obtained resolve_miss(const Problem& problem, const Constraints& constraints, Situation situation,
                        std::vector<CandidateResult>* report);
  Obtained from_record(const Problem& problem, const Constraints& constraints, const Record& record);
  Obtained from_default(const Problem& problem, const Constraints& constraints, const Decision& decision);
  Obtained from_tuning(const Problem& problem, const Constraints& constraints, Effort effort, std::vector<CandidateResult>* report);
  Obtained from_scaling(const Problem& problem);
  /// `epoch`: when what the plan was chosen by was looked at. `ran`: a call runs it.
  void remember(const Problem& problem, const Constraints& constraints, const Key& key, const Obtained& obtained, std::uint64_t epoch,
                bool ran);
  /// Of a resolved problem; null where calls are not recorded.
  ProblemCounts::Counter* counter_of(const Problem& problem, const Constraints& constraints);
  /// Adds what was counted to `path`; a failure is one warning.
  void write_counts(const std::string& path) noexcept;
  void keep_record(Record record);
  bool best_record(const Problem& problem, const Constraints& constraints, Record& record, bool& valid) const;
  /// Returns how many records it added or bettered.
  std::size_t read_file(const std::string& path, bool must_exist);
  void publish();
  void warn(const std::string& message) const { log_.write(LogLevel::warn, message); }

  Backend backend_;
  const std::string device_key_;
  Log log_;

  mutable std::mutex settings_mutex_;  ///< guards what follows
  Settings settings_;
  std::size_t caller_workspace_bytes_ = no_limit;
  LogCallback log_callback_ = nullptr;
  void* log_user_ = nullptr;

  std::atomic<std::uint64_t> constraints_word_{0};
  std::atomic<bool> benchmark_{true};    ///< as in settings_, for the call path
  std::atomic<bool> recording_{false};   ///< whether there is a record file
  std::atomic<std::uint64_t> epoch_{1};  ///< counts what may change the plan of an untuned key: benchmark on, records read
  /// What set_workspace was given: immutable, and kept until the context goes, since a call may be about to use it.
  struct CallerWorkspace {
    void* pointer;
    std::size_t bytes;
  };
  std::vector<std::unique_ptr<const CallerWorkspace>> caller_workspaces_;  ///< guarded by settings_mutex_
  std::atomic<const CallerWorkspace*> caller_workspace_{nullptr};
  ProblemCounts counts_;  ///< before the cache, whose entries count in it
  PlanCache cache_;

  mutable std::mutex records_mutex_;  ///< guards what follows
  RecordStore records_;
  std::set<std::string> kept_lines_;
  std::uint64_t foreign_records_ = 0;
  std::unordered_set<std::string> failed_plans_;  ///< "plan of problem": they failed when they ran, and are not remembered again
  bool write_warned_ = false;

  std::mutex flight_mutex_;  ///< guards in_flight_
  std::condition_variable flight_ended_;
  std::unordered_set<Key, KeyHash> in_flight_;
  std::unordered_set<Key, KeyHash> bound_;  ///< deterministic keys that returned results of their default plan

  std::atomic<std::uint64_t> misses_{0}, other_lookups_{0}, tuned_{0}, timed_{0}, rejected_{0}, deferred_{0}, replaced_{0};
};

}  // namespace v0
}  // namespace attune

// The context: a device, its settings, its plan cache and plan file.
#pragma once

#include <attune/error.hpp>
#include <attune/problem.hpp>
#include <attune/types.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace attune {
inline namespace v0 {

/// Which plan a problem runs with, where it came from and why.
struct PlanInfo {
  std::string plan;  ///< "provider:variant", or "provider:variant+..." for a plan of several steps
  Source source = Source::default_plan;
  std::string reason;  ///< one sentence
  std::string default_plan;
  double time_us = 0;     ///< of one launch when it was tuned, microseconds; 0: never timed
  double default_us = 0;  ///< of the default plan, likewise
  std::size_t workspace = 0;  ///< bytes
  bool deterministic = false;
  Effort effort = Effort::standard;
  int timed = 0;          ///< candidates timed by the request that returned this; 0 when nothing was timed
  int rejected = 0;       ///< candidates that failed, were wrong or did not fit, by the same request
  double max_error = 0;   ///< largest |d - reference| over its bound among the checked elements; at most 1 when right
};

/// Counts since the context was made.
struct Stats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t tuned = 0;              ///< problems tuned
  std::uint64_t candidates_timed = 0;
  std::uint64_t candidates_rejected = 0;
  std::uint64_t deferred = 0;           ///< problems given the default plan, still to be tuned
  std::uint64_t replaced = 0;           ///< plans that failed after tuning and were replaced by the default
  std::uint64_t evicted = 0;
  std::uint64_t entries = 0;            ///< plans in the cache now
  std::uint64_t records = 0;            ///< records of plan files in memory now
  std::uint64_t records_skipped = 0;    ///< lines of plan files kept and not used: damaged, foreign, newer
};

/// Device memory for workspaces and trials in place of the context's own pool; host memory for workspaces on Device::host().
/// `allocate` returns null when there is none, on a GPU else memory aligned to 256 bytes. Both are called from any thread. The
/// stream is where the memory is used next, or was last used, with two exceptions: a block for a captured call is taken with a
/// stream of the context's own, since a captured one can order nothing, and kept until its graph is gone; such blocks, and
/// those that a context still has when it goes, are given back with a null stream once the device is done with them.
struct Allocator {
  void* (*allocate)(std::size_t bytes, Stream stream, void* user) = nullptr;
  void (*deallocate)(void* pointer, std::size_t bytes, Stream stream, void* user) noexcept = nullptr;
  void* user = nullptr;
};

/// Called from any thread, several at once. It may ask its context (stats, plan_for, save), but neither call nor tune: it can
/// run in the midst of a tuning that such a call would wait for. After set_log a thread may still be in the callback that was
/// replaced, or about to enter it: `user` must outlive every call through the context that began before, and the context itself.
using LogCallback = void (*)(LogLevel level, const char* message, void* user);

/// One device with its plans. Thread-safe: any number of threads may call through one context; settings may change meanwhile
/// and hold for the calls that begin after them. Every setting is overridden by its environment variable, if that is set.
class ATTUNE_EXPORT Context {
 public:
  /// Throws Error: no_device, driver_too_old, device_error.
  explicit Context(Device device = Device::cuda(0));
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  /// Off: default plans and remembered ones only, nothing is timed. On at first. ATTUNE_BENCHMARK.
  void set_benchmark(bool on);
  /// On: only plans that give the same bits every time. ATTUNE_DETERMINISTIC.
  void set_deterministic(bool on);
  /// ATTUNE_EFFORT.
  void set_effort(Effort effort);
  /// Time that tuning one problem may take, milliseconds; 0: as the effort says. ATTUNE_BUDGET_MS.
  void set_budget_ms(double milliseconds);
  /// Bytes of workspace that a plan may use, rounded down to 0, 1, 4, 32 or 256 MiB, or no limit (SIZE_MAX); 256 MiB at
  /// first, of which default plans use at most 32. ATTUNE_WORKSPACE_MB.
  void set_workspace_limit(std::size_t bytes);
  /// What is allowed beyond strict arithmetic; MathMode::transforms at first.
  void set_math_modes(MathMode modes);
  /// Reads the file now, if it exists, and adds each problem tuned from now on to it. Empty: no file. A file that cannot be read
  /// or written is one warning. ATTUNE_CACHE_FILE, or ATTUNE_CACHE_READ and ATTUNE_CACHE_WRITE for two different ones.
  void set_plan_file(const std::string& path);
  /// From now on counts the calls of each problem, and adds the counts to the file when the context goes or the file changes:
  /// a file of problems that `attune tune` reads. Empty: nothing is counted. A failure is one warning. Plans that are cached are looked
  /// up again: set it before the first call. ATTUNE_RECORD.
  void set_record_file(const std::string& path);
  /// Workspace of the caller's in place of the pool: no plan uses more, and calls on different streams must not overlap.
  /// Null gives the pool back. Throws Error(invalid_argument) unless aligned to 256 bytes.
  void set_workspace(void* pointer, std::size_t bytes);
  /// Throws Error(invalid_argument) when one function is given without the other, or after the first workspace was taken.
  void set_allocator(const Allocator& allocator);
  /// Messages up to `level` go to the callback; null: to stderr. Silent at first. ATTUNE_LOG.
  void set_log(LogLevel level, LogCallback callback = nullptr, void* user = nullptr);

  /// Makes the plan ready without timing anything: the remembered one, or else the default.
  PlanInfo prepare(const Problem& problem);
  /// Tunes the problem on operands of its own, ahead of any data; 16-byte alignment unless the problem says less.
  PlanInfo tune(const Problem& problem);
  /// Bytes of workspace of the plan that plan_for names. A call that tunes first may choose one that needs more, up to the
  /// limit.
  std::size_t workspace_size(const Problem& problem);
  /// Which plan the next call runs without tuning, and why; made ready and kept, as by prepare. Launches nothing.
  PlanInfo plan_for(const Problem& problem);

  Stats stats() const;
  /// Adds the records of a plan file to those in memory. Returns how many were new or better; throws Error(file_error).
  std::size_t load(const std::string& path);
  /// Writes every record in memory to a new file in the place of `path`. Throws Error(file_error).
  void save(const std::string& path) const;
  /// Merges the plan files `from` and `into` into `into`: the better record of each key stays. Throws Error(file_error).
  static void merge(const std::string& into, const std::string& from);

  class Impl;  ///< not part of the interface
  Impl& impl() noexcept { return *impl_; }

 private:
  explicit Context(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

/// Short static names: "tuned", "file", "memory", "default", "deferred", "stale"; "quick", "standard", "exhaustive"; "f16", ...
ATTUNE_EXPORT const char* to_string(Source source) noexcept;
ATTUNE_EXPORT const char* to_string(Effort effort) noexcept;
ATTUNE_EXPORT const char* to_string(DType type) noexcept;

}  // namespace v0
}  // namespace attune

// What the tuner and the call path need from a device: trials, clocks, workspaces, capture state.
#pragma once

#include <attune/context.hpp>
#include <attune/problem.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "core/constraints.hpp"
#include "core/device_info.hpp"
#include "core/outcome.hpp"
#include "core/plan.hpp"

namespace attune {

/// The result of one checked run of a candidate.
struct Check {
  Outcome outcome = Outcome::failed;  ///< ok, failed, red_zone or wrong
  std::string why;
  double error = 0;  ///< largest |d - reference| over its bound
  double us = 0;     ///< of this first run, cold; an upper guess of the candidate's time
};

/// `graph`: replays of a captured graph between events. `launches`: plain launches between events.
enum class TimingMethod : std::uint8_t { graph, launches };

/// Times one candidate again and again.
class Timer {
 public:
  virtual ~Timer() = default;
  /// Runs the candidate at least once over rotated operands. Microseconds of one launch; NaN when it failed.
  virtual double sample() = 0;
};

/// Operands of one problem, generated; outputs with red zones; a workspace; a stream of its own. Used by one thread. The
/// caller's memory has no part in it.
class Trial {
 public:
  virtual ~Trial() = default;
  /// Poisons the output, runs the plan once, looks at red zones and gaps, compares samples with a double-precision reference.
  virtual Check check(const Plan& plan) = 0;
  /// `expected_us` (from Check) sizes a sample. Null when the plan cannot be timed by this method.
  virtual std::unique_ptr<Timer> timer(const Plan& plan, TimingMethod method, double expected_us) = 0;
};

/// Held while preparing, tuning or freeing: makes the device current and this thread's stream captures relaxed, and undoes both.
class Guard {
 public:
  virtual ~Guard() = default;
};

/// One device. Thread-safe, except that one trial exists at a time.
class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual const DeviceInfo& info() const noexcept = 0;
  virtual bool capturing(Stream stream) const noexcept = 0;
  virtual std::unique_ptr<Guard> guard() = 0;
  /// Monotonic seconds: the clock of budgets.
  virtual double now() const noexcept = 0;
  /// Held while measuring: one measurement at a time on a device, whatever the number of contexts.
  virtual std::mutex& measuring() noexcept = 0;
  /// Generates the operands of a valid, resolved problem; the workspace holds `workspace` bytes. Null when they do not fit in memory.
  virtual std::unique_ptr<Trial> trial(const Problem& problem, const Constraints& constraints, std::size_t workspace,
                                       std::uint64_t seed) = 0;
  /// D = beta * C for problems with alpha = 0 or an empty reduction. Never null for a valid, resolved contraction.
  virtual std::unique_ptr<Plan> scale_plan(const Problem& problem) = 0;
  /// Runs a plan that needs a workspace or must live as long as a graph: takes the workspace from the pool (unless
  /// launch.workspace is set), a block of its own where the stream is being captured, and ties block and plan to the graph.
  virtual Status run(const std::shared_ptr<const Plan>& plan, const Launch& launch) noexcept = 0;
  /// The text of the last failure on this thread, for messages; empty when there is none.
  virtual std::string last_failure() const = 0;
  /// Takes effect for blocks allocated from now on. False when blocks were already taken.
  virtual bool set_allocator(const Allocator& allocator) = 0;
};

}  // namespace attune

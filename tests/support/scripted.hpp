// A provider, a runtime and a clock whose answers the test writes down, for exact expectations without any hardware.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/provider.hpp"
#include "core/runtime.hpp"
#include "providers/builtin.hpp"

namespace attune::test {

/// How one candidate behaves.
struct Script {
  std::string variant;
  std::vector<double> us = {10};  ///< samples, in turn, repeated; NaN and the like are passed on
  Outcome check = Outcome::ok;
  Outcome prepare = Outcome::ok;
  double first_us = 0;  ///< of the checked run; 0: us[0]
  PlanTraits traits = {};
  bool fails_to_run = false;
  bool graph = true;  ///< can be timed by graph replay
  bool listed = true;  ///< false: only refine() names it
  std::vector<std::string> next = {};  ///< what refine() names around it
  double prepare_seconds = 0;
};

/// What happened, counted.
struct Journal {
  std::mutex mutex;
  std::map<std::string, int> checks, samples, runs, prepares;
  std::vector<std::string> sample_order;
  int trials = 0;
  int refinements = 0;
  int scale_runs = 0;
  double clock = 0;  ///< seconds
  bool capturing = false;
  bool deny_trial = false;
  bool deny_workspace = false;
  TimingMethod method = TimingMethod::graph;
  double timer_seconds = 0;  ///< that making a timer takes
  int timers = 0;
  std::function<void()> on_check;  ///< called during each check, without the mutex
};

class ScriptedPlan final : public Plan {
 public:
  ScriptedPlan(std::string id, const Script& script, std::shared_ptr<Journal> journal)
      : Plan(std::move(id), script.traits), script(script), journal_(std::move(journal)) {}
  Status run(const Launch&) const noexcept override {
    const std::lock_guard lock(journal_->mutex);
    ++journal_->runs[id()];
    return script.fails_to_run ? Status::device_error : Status::ok;
  }
  const Script script;

 private:
  std::shared_ptr<Journal> journal_;
};

class ScriptedProvider final : public Provider {
 public:
  ScriptedProvider(std::vector<Script> scripts, std::shared_ptr<Journal> journal, std::string version = "1", std::string name = "fake")
      : scripts_(std::move(scripts)), journal_(std::move(journal)), version_(std::move(version)), name_(std::move(name)) {}
  std::string_view name() const noexcept override { return name_; }
  std::string version(std::string_view) const override { return version_; }
  std::vector<std::string> variants(const Problem&, const Constraints&, Effort) const override {
    std::vector<std::string> list;
    for (const Script& s : scripts_)
      if (s.listed) list.push_back(s.variant);
    return list;
  }
  std::vector<std::string> refine(const Problem&, const Constraints&, std::span<const std::string> best) const override {
    const std::lock_guard lock(journal_->mutex);
    ++journal_->refinements;
    std::vector<std::string> list;
    for (const std::string& variant : best)
      for (const Script& s : scripts_)
        if (s.variant == variant) list.insert(list.end(), s.next.begin(), s.next.end());
    return list;
  }
  Prepared prepare(std::string_view variant, const Problem&, const Constraints& constraints) const override {
    const std::lock_guard lock(journal_->mutex);
    for (const Script& s : scripts_) {
      if (s.variant != variant) continue;
      ++journal_->prepares[s.variant];
      journal_->clock += s.prepare_seconds;
      if (s.prepare != Outcome::ok) return {nullptr, s.prepare, "as written"};
      if (s.traits.workspace > constraints.workspace_limit) return declined("workspace");
      return {std::make_unique<ScriptedPlan>(name_ + ":" + s.variant, s, journal_), Outcome::ok, ""};
    }
    return declined("unknown variant");
  }
  /// The first script is the default; without workspace, the first that needs none.
  Prepared prepare_default(const Problem& p, const Constraints& c) const override {
    for (const Script& s : scripts_)
      if (s.traits.workspace <= c.workspace_limit && (!c.deterministic || s.traits.deterministic)) return prepare(s.variant, p, c);
    return declined("none");
  }

 private:
  std::vector<Script> scripts_;
  std::shared_ptr<Journal> journal_;
  std::string version_;
  std::string name_;
};

class ScriptedTrial final : public Trial {
 public:
  explicit ScriptedTrial(std::shared_ptr<Journal> journal) : journal_(std::move(journal)) {}
  Check check(const Plan& plan) override {
    if (journal_->on_check) journal_->on_check();
    const std::lock_guard lock(journal_->mutex);
    const Script& s = static_cast<const ScriptedPlan&>(plan).script;
    ++journal_->checks[s.variant];
    Check c;
    c.outcome = s.check;
    c.us = s.first_us > 0 ? s.first_us : s.us[0];
    c.error = s.check == Outcome::ok ? 0.5 : 7;
    journal_->clock += c.us * 1e-6;
    return c;
  }
  std::unique_ptr<Timer> timer(const Plan& plan, TimingMethod method, double) override {
    const Script& s = static_cast<const ScriptedPlan&>(plan).script;
    if (method == TimingMethod::graph && !s.graph) return nullptr;
    journal_->method = method;
    ++journal_->timers;
    journal_->clock += journal_->timer_seconds;
    return std::make_unique<ScriptedTimer>(s, journal_);
  }

 private:
  class ScriptedTimer final : public Timer {
   public:
    ScriptedTimer(Script script, std::shared_ptr<Journal> journal) : script_(std::move(script)), journal_(std::move(journal)) {}
    double sample() override {
      const std::lock_guard lock(journal_->mutex);
      ++journal_->samples[script_.variant];
      journal_->sample_order.push_back(script_.variant);
      const double us = script_.us[next_++ % script_.us.size()];
      if (us > 0) journal_->clock += us * 1e-6;
      return us;
    }

   private:
    Script script_;
    std::shared_ptr<Journal> journal_;
    std::size_t next_ = 0;
  };
  std::shared_ptr<Journal> journal_;
};

class ScriptedRuntime final : public Runtime {
 public:
  explicit ScriptedRuntime(std::shared_ptr<Journal> journal, std::string device = "Fictional GPU") : journal_(std::move(journal)) {
    info_.name = std::move(device);
    info_.cc_major = 9;
    info_.processors = 4;
  }
  const DeviceInfo& info() const noexcept override { return info_; }
  bool capturing(Stream) const noexcept override { return journal_->capturing; }
  std::unique_ptr<Guard> guard() override { return std::make_unique<Guard>(); }
  double now() const noexcept override {
    const std::lock_guard lock(journal_->mutex);
    return journal_->clock;
  }
  std::mutex& measuring() noexcept override { return measuring_; }
  std::unique_ptr<Trial> trial(const Problem&, const Constraints&, std::size_t, std::uint64_t) override {
    const std::lock_guard lock(journal_->mutex);
    ++journal_->trials;
    if (journal_->deny_trial) return nullptr;
    return std::make_unique<ScriptedTrial>(journal_);
  }
  std::unique_ptr<Plan> scale_plan(const Problem&) override { return std::make_unique<ScalePlan>(journal_); }
  Status run(const std::shared_ptr<const Plan>& plan, const Launch& launch) noexcept override {
    if (plan->traits().workspace > 0 && launch.workspace == nullptr && journal_->deny_workspace) return Status::no_memory;
    return plan->run(launch);
  }
  std::string last_failure() const override { return "as written"; }
  bool set_allocator(const Allocator&) override { return true; }

 private:
  std::mutex measuring_;
  class ScalePlan final : public Plan {
   public:
    explicit ScalePlan(std::shared_ptr<Journal> journal) : Plan("scale", {}), journal_(std::move(journal)) {}
    Status run(const Launch&) const noexcept override {
      const std::lock_guard lock(journal_->mutex);
      ++journal_->scale_runs;
      return Status::ok;
    }
    std::shared_ptr<Journal> journal_;
  };
  std::shared_ptr<Journal> journal_;
  DeviceInfo info_;
};

inline Backend scripted_backend(std::vector<Script> scripts, const std::shared_ptr<Journal>& journal, std::string version = "1") {
  Backend backend;
  backend.runtime = std::make_unique<ScriptedRuntime>(journal);
  backend.providers.push_back(std::make_unique<ScriptedProvider>(std::move(scripts), journal, std::move(version)));
  return backend;
}

}  // namespace attune::test

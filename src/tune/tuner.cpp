#include "tune/tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "tune/select.hpp"

namespace attune {
namespace {

/// After its first run, a candidate this many times slower than the fastest first run is not timed at all.
constexpr double hopeless = 4;
/// Share of the budget that enumerating and preparing may take.
constexpr double prepare_share = 0.6;
/// A winner must also beat the default when both have kept the chip busy for a while: large kernels are limited by power, and
/// which of two is faster can change as the chip warms up.
constexpr double confirm_seconds = 0.3;
constexpr int confirm_rounds = 40;

RoundRule rounds_for(Effort effort) noexcept {
  RoundRule rule;
  if (effort == Effort::quick) rule.max_rounds = 3;
  if (effort == Effort::exhaustive) rule.max_rounds = 21;
  return rule;
}

std::pair<std::string_view, std::string_view> split(std::string_view plan_id) noexcept {
  const std::size_t colon = plan_id.find(':');
  if (colon == std::string_view::npos) return {plan_id, {}};
  return {plan_id.substr(0, colon), plan_id.substr(colon + 1)};
}

const Provider* provider_of(const Providers& providers, std::string_view plan_id) noexcept {
  for (const auto& provider : providers)
    if (provider->name() == split(plan_id).first) return provider.get();
  return nullptr;
}

/// One problem's tuning, step by step.
class Tuning {
 public:
  Tuning(const TuneRequest& request, const Providers& providers, Runtime& runtime, const Log& log)
      : request_(request), providers_(providers), runtime_(runtime), log_(log), begin_(runtime.now()) {
    budget_ = request.budget_seconds > 0 ? request.budget_seconds : default_budget_seconds(request.effort);
  }

  TuneResult run() {
    enumerate();
    const std::size_t usable = static_cast<std::size_t>(std::count_if(plans_.begin(), plans_.end(), [](auto& p) { return p != nullptr; }));
    if (usable == 0) {
      result_.why = fmt::format("no provider offers a plan: {}", refusals());
      return finish();
    }
    std::size_t workspace = 0;
    for (const auto& plan : plans_)
      if (plan) workspace = std::max(workspace, plan->traits().workspace);
    trial_ = runtime_.trial(request_.problem, request_.constraints, workspace, 0x9e3779b97f4a7c15u);
    if (trial_ == nullptr) {
      take_first("the operands of a trial do not fit in memory; the default runs unmeasured");
      return finish();
    }
    check_all();
    settle_default();
    time_all();
    choose();
    confirm();
    return finish();
  }

 private:
  double elapsed() const { return runtime_.now() - begin_; }

  void add(std::string id, Prepared prepared, bool is_default) {
    CandidateResult c;
    c.plan = std::move(id);
    c.is_default = is_default;
    c.outcome = prepared.outcome;
    c.why = std::move(prepared.why);
    if (prepared.plan && prepared.plan->traits().workspace > request_.constraints.workspace_limit) {
      c.outcome = Outcome::declined;
      c.why = fmt::format("needs {} bytes of workspace", prepared.plan->traits().workspace);
      prepared.plan = nullptr;
    }
    if (prepared.plan && request_.constraints.deterministic && !prepared.plan->traits().deterministic) {
      c.outcome = Outcome::declined;
      c.why = "not deterministic";
      prepared.plan = nullptr;
    }
    if (prepared.plan) c.workspace = prepared.plan->traits().workspace;
    result_.candidates.push_back(std::move(c));
    plans_.push_back(std::move(prepared.plan));
  }

  void enumerate() {
    std::unordered_set<std::string> seen;
    Prepared standard = prepare_default(providers_, request_.problem, request_.constraints);
    if (standard.plan) {
      std::string id = standard.plan->id();
      seen.insert(id);
      add(std::move(id), std::move(standard), true);
    }
    std::size_t others = 0;
    for (const auto& provider : providers_) {
      for (const std::string& variant : provider->variants(request_.problem, request_.constraints, request_.effort)) {
        std::string id = fmt::format("{}:{}", provider->name(), variant);
        if (!seen.insert(id).second) continue;
        if (others > 0 && elapsed() > budget_ * prepare_share) {
          add(std::move(id), {nullptr, Outcome::pruned, "time budget"}, false);
          continue;
        }
        Prepared prepared = provider->prepare(variant, request_.problem, request_.constraints);
        if (prepared.plan) ++others;
        add(std::move(id), std::move(prepared), false);
      }
    }
  }

  void check_all() {
    double fastest = 0;
    std::size_t tried = 0;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      CandidateResult& c = result_.candidates[i];
      if (!plans_[i]) continue;
      if (tried >= 2 && elapsed() > budget_) {
        c.outcome = Outcome::pruned;
        c.why = "time budget";
        continue;
      }
      ++tried;
      const Check check = trial_->check(*plans_[i]);
      c.outcome = check.outcome;
      c.why = check.why;
      c.error = check.error;
      first_us_.resize(plans_.size());
      first_us_[i] = check.us;
      if (c.outcome != Outcome::ok) continue;
      if (fastest == 0 || check.us < fastest) fastest = check.us;
      if (!c.is_default && check.us > fastest * hopeless) {
        c.outcome = Outcome::pruned;
        c.why = fmt::format("first run took {:.1f} us", check.us);
      }
    }
  }

  /// The default is the vendor's first answer that satisfies the constraints. What sums in a narrower type than they allow is not
  /// told by every library beforehand; where the check shows it, the next right answer takes the place.
  void settle_default() {
    const auto standard = std::find_if(result_.candidates.begin(), result_.candidates.end(), [](auto& c) { return c.is_default; });
    if (standard == result_.candidates.end() || standard->outcome == Outcome::ok) return;
    const auto next = std::find_if(standard, result_.candidates.end(), [](auto& c) { return c.outcome == Outcome::ok; });
    if (next == result_.candidates.end()) return;
    log_.write(LogLevel::info, fmt::format("the default {} is {}: {}; its place is taken by {}", standard->plan,
                                           to_string(standard->outcome), standard->why, next->plan));
    standard->is_default = false;
    next->is_default = true;
  }

  void time_all() {
    TimingMethod method = TimingMethod::graph;
    timers_.resize(plans_.size());
    std::vector<Timer*> timers;
    std::vector<std::size_t> index;
    std::size_t default_index = static_cast<std::size_t>(-1);
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      CandidateResult& c = result_.candidates[i];
      if (!plans_[i] || c.outcome != Outcome::ok) continue;
      std::unique_ptr<Timer> timer = trial_->timer(*plans_[i], method, first_us_[i]);
      if (!timer && timers.empty() && method == TimingMethod::graph) {
        method = TimingMethod::launches;  // the default comes first: what it cannot do, nobody does
        timer = trial_->timer(*plans_[i], method, first_us_[i]);
      }
      if (!timer) {
        c.outcome = Outcome::failed;
        c.why = "could not be timed";
        continue;
      }
      if (c.is_default) default_index = timers.size();
      timers.push_back(timer.get());
      timers_[i] = std::move(timer);
      index.push_back(i);
    }
    std::vector<std::vector<double>> samples;
    time_in_turn(timers, default_index, rounds_for(request_.effort), [&] { return elapsed() > budget_; }, samples);
    for (std::size_t t = 0; t < timers.size(); ++t) {
      CandidateResult& c = result_.candidates[index[t]];
      c.us = median(samples[t]);
      c.spread = spread(samples[t]);
      c.samples = static_cast<int>(samples[t].size());
      if (!is_time(c.us)) {
        c.outcome = Outcome::failed;
        c.why = "gave no time";
      }
    }
  }

  void choose() {
    std::vector<Measured> measured;
    for (const CandidateResult& c : result_.candidates)
      measured.push_back({c.outcome == Outcome::ok ? c.us : 0, c.spread, c.workspace, c.is_default});
    const std::size_t winner = select(measured);
    if (winner == measured.size()) {
      result_.why = fmt::format("no candidate is right: {}", refusals());
      return;
    }
    result_.winner = winner;
    result_.plan = plans_[winner];
    result_.measured = true;
    describe_win();
  }

  void confirm() {
    const auto& all = result_.candidates;
    const auto found = std::find_if(all.begin(), all.end(), [](auto& c) { return c.is_default; });
    const auto standard = static_cast<std::size_t>(found - all.begin());
    if (!result_.measured || found == all.end() || standard == result_.winner || !is_time(found->us)) return;
    const std::size_t pair[2] = {standard, result_.winner};
    std::vector<double> samples[2];
    const double end = runtime_.now() + confirm_seconds;
    for (int round = 0; round < confirm_rounds && (round < 4 || runtime_.now() < end); ++round)
      for (const int turn : {round % 2, 1 - round % 2}) samples[turn].push_back(timers_[pair[turn]]->sample());
    std::vector<Measured> measured;
    for (int i : {0, 1}) {
      std::vector<double>& s = samples[i];
      s.erase(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(s.size() / 2));
      CandidateResult& c = result_.candidates[pair[i]];
      c.us = median(s);
      c.spread = spread(s);
      measured.push_back({c.us, c.spread, c.workspace, c.is_default});
    }
    const std::size_t better = select(measured);
    if (better == measured.size()) return;
    result_.winner = pair[better];
    result_.plan = plans_[result_.winner];
    describe_win();
  }

  void describe_win() {
    const CandidateResult& w = result_.candidates[result_.winner];
    const auto standard = std::find_if(result_.candidates.begin(), result_.candidates.end(), [](auto& c) { return c.is_default; });
    if (w.is_default)
      result_.why = "no candidate is faster than the default by more than the noise";
    else if (standard != result_.candidates.end() && is_time(standard->us))
      result_.why = fmt::format("{:.2f} us against {:.2f} us of the default {}", w.us, standard->us, standard->plan);
    else
      result_.why = "the fastest; no provider has a default";
  }

  void take_first(std::string why) {
    for (std::size_t i = 0; i < plans_.size(); ++i)
      if (plans_[i]) {
        result_.winner = i;
        result_.plan = std::move(plans_[i]);
        break;
      }
    result_.why = std::move(why);
  }

  std::string refusals() const {
    std::string text;
    int shown = 0;
    for (const CandidateResult& c : result_.candidates)
      if (c.outcome != Outcome::ok && shown++ < 3)
        text += fmt::format("{}{} {} ({})", text.empty() ? "" : "; ", c.plan, to_string(c.outcome), c.why);
    return text.empty() ? "none knows the problem" : text;
  }

  TuneResult finish() {
    for (const CandidateResult& c : result_.candidates) {
      if (c.samples > 0) ++result_.timed;
      const Outcome o = c.outcome;
      if (o == Outcome::failed || o == Outcome::wrong || o == Outcome::red_zone || o == Outcome::no_memory) ++result_.rejected;
      if (log_.enabled(LogLevel::debug))
        log_.write(LogLevel::debug, fmt::format("  {} {} {:.2f} us, error {:.3g}, workspace {}{}{}", c.plan, to_string(o), c.us, c.error,
                                                c.workspace, c.why.empty() ? "" : ": ", c.why));
    }
    result_.seconds = elapsed();
    return std::move(result_);
  }

  const TuneRequest& request_;
  const Providers& providers_;
  Runtime& runtime_;
  const Log& log_;
  const double begin_;
  double budget_ = 0;
  std::vector<std::shared_ptr<const Plan>> plans_;  ///< one for each candidate; null where there is none
  std::unique_ptr<Trial> trial_;                    ///< after plans_: goes first, its timers' graphs may need them
  std::vector<std::unique_ptr<Timer>> timers_;      ///< likewise
  std::vector<double> first_us_;
  TuneResult result_;
};

}  // namespace

double default_budget_seconds(Effort effort) noexcept {
  switch (effort) {
    case Effort::quick: return 0.25;
    case Effort::standard: return 2;
    case Effort::exhaustive: return 30;
  }
  return 2;
}

Prepared prepare_default(const Providers& providers, const Problem& problem, const Constraints& constraints) {
  std::string why;
  for (const auto& provider : providers) {
    Prepared prepared = provider->prepare_default(problem, constraints);
    if (prepared.plan) return prepared;
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", provider->name(), prepared.why);
  }
  return declined(why.empty() ? "there is no provider" : why);
}

Prepared prepare_plan(const Providers& providers, std::string_view plan_id, const Problem& problem, const Constraints& constraints) {
  const Provider* provider = provider_of(providers, plan_id);
  if (provider == nullptr) return declined(fmt::format("this build has no provider '{}'", split(plan_id).first));
  Prepared prepared = provider->prepare(split(plan_id).second, problem, constraints);
  if (prepared.plan && prepared.plan->traits().workspace > constraints.workspace_limit) return declined("needs too much workspace");
  return prepared;
}

std::string plan_version(const Providers& providers, std::string_view plan_id) {
  const Provider* provider = provider_of(providers, plan_id);
  return provider == nullptr ? std::string() : provider->version(split(plan_id).second);
}

TuneResult tune(const TuneRequest& request, const Providers& providers, Runtime& runtime, const Log& log) {
  return Tuning(request, providers, runtime, log).run();
}

}  // namespace attune

#include "tune/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "tune/select.hpp"

namespace attune {
namespace {

/// After its first run, a candidate this many times slower than the fastest first run is not timed at all.
constexpr double hopeless = 4;
/// Share of the time for what the providers list that enumerating and preparing may take.
constexpr double prepare_share = 0.6;
/// The same for those who had less than their part of it: what is left is for checking and timing.
constexpr double prepare_most = 0.75;
/// Share of an exhaustive search's budget for what the providers list; the rest is for what lies around the fastest.
constexpr double listed_share = 0.6;
/// At least that much of what the constraints allow has an exhaustive search's trial: variants found later may need more than
/// those listed.
constexpr std::size_t refined_workspace = 64 * mebibyte;
/// A winner must beat the default when both have kept the chip busy for a while: large kernels are limited by power, and
/// which of two is faster can change as the chip warms up.
constexpr double confirm_seconds = 0.3;
constexpr std::size_t most_listed = 1'000'000;  ///< variants of a provider, for ranks
constexpr int confirm_rounds = 40;

RoundRule rounds_for(Effort effort) noexcept {
  RoundRule rule;
  if (effort == Effort::quick) rule.max_rounds = 3;
  if (effort == Effort::exhaustive) rule.max_rounds = 21;
  return rule;
}

}  // namespace

Tuning::Tuning(const TuneRequest& request, const Providers& providers, Runtime& runtime, const Log& log)
    : request_(request), providers_(providers), runtime_(runtime), log_(log), begin_(runtime.now()) {
  budget_ = request.budget_seconds > 0 ? request.budget_seconds : default_budget_seconds(request.effort);
  listed_deadline_ = request.effort == Effort::exhaustive ? budget_ * listed_share : budget_;
}

TuneResult Tuning::run() {
  enumerate();
  if (std::all_of(plans_.begin(), plans_.end(), [](auto& p) { return p == nullptr; })) {
    result_.why = fmt::format("no provider offers a plan: {}", refusals());
    return finish();
  }
  if (!open_trial()) {
    take_first("the operands of a trial do not fit in memory; the default runs unmeasured");
    return finish();
  }
  check_from(0);
  settle_default();
  time_listed();
  refine();
  choose();
  confirm();
  return finish();
}

void Tuning::enumerate() {
  Prepared standard = prepare_default(providers_, request_.problem, request_.constraints);
  if (standard.plan) {
    std::string id = standard.plan->id();
    seen_.insert(id);
    add(std::move(id), std::move(standard), true);
  }
  struct Listed {
    std::vector<std::string> variants;  ///< the best first
    std::size_t next = 0;
    double seconds = 0;  ///< that preparing took so far
  };
  std::vector<Listed> listed;
  for (const auto& provider : providers_)
    listed.push_back({provider->variants(request_.problem, request_.constraints, request_.effort), 0, 0});
  // Whoever has taken the least time is next: where a library compiles its plans, others' are ready long before.
  std::size_t others = 0;
  for (;;) {
    std::size_t from = none;
    for (std::size_t i = 0; i < listed.size(); ++i) {
      if (listed[i].next == listed[i].variants.size()) continue;
      if (from == none || std::tie(listed[i].seconds, listed[i].next) < std::tie(listed[from].seconds, listed[from].next)) from = i;
    }
    if (from == none) return;
    const std::string& variant = listed[from].variants[listed[from].next++];
    std::string id = fmt::format("{}:{}", providers_[from]->name(), variant);
    if (!seen_.insert(id).second) continue;
    const double begin = elapsed();
    // The share is used up by those who took more than their part of it.
    const double share = listed_deadline_ * prepare_share;
    const bool late = begin > listed_deadline_ * prepare_most ||
                      (begin > share && listed[from].seconds > share / static_cast<double>(listed.size()));
    const std::size_t rank = (from + 1) * most_listed + listed[from].next;
    if (others > 0 && late) {
      add(std::move(id), {nullptr, Outcome::pruned, "time budget"}, false);
      rank_.back() = rank;
      continue;
    }
    Prepared prepared = providers_[from]->prepare(variant, request_.problem, request_.constraints);
    listed[from].seconds += elapsed() - begin;
    if (prepared.plan) ++others;
    add(std::move(id), std::move(prepared), false);
    rank_.back() = rank;
  }
}

void Tuning::add(std::string id, Prepared prepared, bool is_default) {
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
  if (prepared.plan && trial_ != nullptr && prepared.plan->traits().workspace > workspace_) {
    c.outcome = Outcome::pruned;
    c.why = fmt::format("needs {} bytes of workspace, more than the trial has", prepared.plan->traits().workspace);
    prepared.plan = nullptr;
  }
  if (prepared.plan) c.workspace = prepared.plan->traits().workspace;
  result_.candidates.push_back(std::move(c));
  plans_.push_back(std::move(prepared.plan));
  timers_.emplace_back();
  first_us_.push_back(0);
  rank_.push_back(is_default ? 0 : most_listed * most_listed + rank_.size());
}

bool Tuning::open_trial() {
  for (const auto& plan : plans_)
    if (plan) workspace_ = std::max(workspace_, plan->traits().workspace);
  if (request_.effort == Effort::exhaustive)
    workspace_ = std::max(workspace_, std::min(request_.constraints.workspace_limit, refined_workspace));
  trial_ = runtime_.trial(request_.problem, request_.constraints, workspace_, 0x9e3779b97f4a7c15u);
  return trial_ != nullptr;
}

void Tuning::check_from(std::size_t begin) {
  std::size_t tried = 0;
  for (std::size_t i = begin; i < plans_.size(); ++i) {
    CandidateResult& c = result_.candidates[i];
    if (!plans_[i]) continue;
    if ((begin > 0 || tried >= 2) && elapsed() > budget_) {
      c.outcome = Outcome::pruned;
      c.why = "time budget";
      continue;
    }
    ++tried;
    const Check check = trial_->check(*plans_[i]);
    c.outcome = check.outcome;
    c.why = check.why;
    c.error = check.error;
    first_us_[i] = check.us;
    if (c.outcome != Outcome::ok) continue;
    if (fastest_first_us_ == 0 || check.us < fastest_first_us_) fastest_first_us_ = check.us;
    if (!c.is_default && check.us > fastest_first_us_ * hopeless) {
      c.outcome = Outcome::pruned;
      c.why = fmt::format("first run took {:.1f} us", check.us);
    }
  }
}

/// The default is the vendor's first answer that satisfies the constraints. What sums in a narrower type than they allow is not
/// told by every library beforehand; where the check shows it, the next right answer takes the place.
void Tuning::settle_default() {
  const auto standard =
      std::find_if(result_.candidates.begin(), result_.candidates.end(), [](auto& c) { return c.is_default; });
  if (standard == result_.candidates.end() || standard->outcome == Outcome::ok) return;
  // Its own provider's next one, or else the next provider's: the yardstick stays the vendor's where the vendor has one.
  const std::string provider = standard->plan.substr(0, standard->plan.find(':') + 1);
  auto next = result_.candidates.end();
  const auto place = [&](auto c) {
    return std::pair(!c->plan.starts_with(provider), rank_[static_cast<std::size_t>(c - result_.candidates.begin())]);
  };
  for (auto c = result_.candidates.begin(); c != result_.candidates.end(); ++c)
    if (c->outcome == Outcome::ok && (next == result_.candidates.end() || place(c) < place(next))) next = c;
  if (next == result_.candidates.end()) return;
  log_.write(LogLevel::info, fmt::format("the default {} is {}: {}; its place is taken by {}", standard->plan,
                                         to_string(standard->outcome), standard->why, next->plan));
  standard->is_default = false;
  next->is_default = true;
}

Timer* Tuning::timer_of(std::size_t i) {
  std::unique_ptr<Timer>& timer = timers_[i];
  if (timer) return timer.get();
  timer = trial_->timer(*plans_[i], method_, first_us_[i]);
  if (!timer && !method_settled_) {
    method_ = TimingMethod::launches;  // the default comes first: what it cannot do, nobody does
    timer = trial_->timer(*plans_[i], method_, first_us_[i]);
  }
  method_settled_ = method_settled_ || timer != nullptr;
  return timer.get();
}

std::vector<std::vector<double>> Tuning::time_in_turns(const std::vector<std::size_t>& index, std::size_t standing,
                                                       const RoundRule& rule, double deadline) {
  std::vector<Timer*> timers;
  std::vector<std::size_t> timed;
  std::size_t never_dropped = none;
  for (std::size_t t = 0; t < index.size(); ++t) {
    // A timer captures and warms up its plan, which takes time too: two at least, then as many as there is time for.
    if (timers.size() >= 2 && index[t] != standing && elapsed() > deadline) continue;
    Timer* timer = timer_of(index[t]);
    if (timer == nullptr) continue;
    if (index[t] == standing) never_dropped = timers.size();
    timers.push_back(timer);
    timed.push_back(t);
  }
  std::vector<std::vector<double>> samples, all(index.size());
  const auto expired = [&] { return elapsed() > deadline; };
  time_in_turn(timers, never_dropped, rule, expired, samples);
  for (std::size_t t = 0; t < timed.size(); ++t) all[timed[t]] = std::move(samples[t]);
  return all;
}

void Tuning::keep_time(std::size_t i, const std::vector<double>& samples, double scale) {
  CandidateResult& c = result_.candidates[i];
  c.us = median(samples) * scale;
  c.spread = spread(samples);
  c.samples = static_cast<int>(samples.size());
  if (is_time(c.us)) return;
  c.outcome = Outcome::failed;
  c.why = timers_[i] ? "gave no time" : elapsed() > listed_deadline_ ? "time budget" : "could not be timed";
  if (!timers_[i] && elapsed() > listed_deadline_) c.outcome = Outcome::pruned;
}

void Tuning::time_listed() {
  std::vector<std::size_t> index;
  std::size_t standard = none;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    if (!plans_[i] || result_.candidates[i].outcome != Outcome::ok) continue;
    if (result_.candidates[i].is_default) standard = i;
    index.push_back(i);
  }
  const auto samples = time_in_turns(index, standard, rounds_for(request_.effort), listed_deadline_);
  for (std::size_t t = 0; t < index.size(); ++t) keep_time(index[t], samples[t], 1);
}

void Tuning::choose() {
  // By rank, not by when each was ready: among equals every process takes the same.
  std::vector<std::size_t> order(result_.candidates.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return rank_[i] < rank_[j]; });
  std::vector<Measured> measured;
  for (const std::size_t i : order) {
    const CandidateResult& c = result_.candidates[i];
    measured.push_back({c.outcome == Outcome::ok ? c.us : 0, c.spread, c.workspace, c.is_default});
  }
  const std::size_t selected = select(measured);
  if (selected == measured.size()) {
    result_.why = fmt::format("no candidate is right: {}", refusals());
    return;
  }
  const std::size_t winner = order[selected];
  result_.winner = winner;
  result_.plan = plans_[winner];
  result_.measured = true;
  describe_win();
}

void Tuning::confirm() {
  const auto& all = result_.candidates;
  const auto found = std::find_if(all.begin(), all.end(), [](auto& c) { return c.is_default; });
  const auto standard = static_cast<std::size_t>(found - all.begin());
  if (!result_.measured || found == all.end() || !is_time(found->us)) return;
  // A default that stands only because its times are uncertain meets the fastest, too.
  const std::size_t challenger = standard == result_.winner ? fastest() : result_.winner;
  if (all[challenger].us * (1 + noise_floor) >= found->us) return;
  const std::size_t pair[2] = {standard, challenger};
  Timer* const timers[2] = {timer_of(pair[0]), timer_of(pair[1])};
  if (timers[0] == nullptr || timers[1] == nullptr) return;
  std::vector<double> samples[2], ratios;
  const double end = runtime_.now() + std::min(confirm_seconds, std::max(budget_ - elapsed(), 0.0));
  for (int round = 0; round < confirm_rounds && (round < 2 || runtime_.now() < end); ++round)
    for (const int turn : {round % 2, 1 - round % 2}) samples[turn].push_back(timers[turn]->sample());
  // What the chip's clock does, it does to both of a round: their ratio tells more than the two medians.
  for (std::size_t round = samples[0].size() / 2; round < samples[0].size(); ++round)
    ratios.push_back(is_time(samples[0][round]) ? samples[1][round] / samples[0][round] : 0);
  for (int i : {0, 1}) {
    std::vector<double>& s = samples[i];
    s.erase(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(s.size() / 2));
    CandidateResult& c = result_.candidates[pair[i]];
    c.us = median(s);
    c.spread = spread(s);
  }
  const CandidateResult &first = result_.candidates[pair[0]], &second = result_.candidates[pair[1]];
  const std::vector<Measured> measured = {{is_time(first.us) ? 1.0 : 0, 0, first.workspace, true},
                                          {median(ratios), spread(ratios), second.workspace, false}};
  const std::size_t better = select(measured);
  if (better == measured.size()) return;
  result_.winner = pair[better];
  result_.plan = plans_[result_.winner];
  describe_win();
}

void Tuning::describe_win() {
  const CandidateResult& w = result_.candidates[result_.winner];
  const auto standard =
      std::find_if(result_.candidates.begin(), result_.candidates.end(), [](auto& c) { return c.is_default; });
  if (w.is_default)
    result_.why = "no candidate is faster than the default by more than the noise";
  else if (standard != result_.candidates.end() && is_time(standard->us))
    result_.why = fmt::format("{:.2f} us against {:.2f} us of the default {}", w.us, standard->us, standard->plan);
  else
    result_.why = "the fastest; no provider has a default";
}

void Tuning::take_first(std::string why) {
  for (std::size_t i = 0; i < plans_.size(); ++i)
    if (plans_[i]) {
      result_.winner = i;
      result_.plan = std::move(plans_[i]);
      break;
    }
  result_.why = std::move(why);
}

std::string Tuning::refusals() const {
  std::string text;
  int shown = 0;
  for (const CandidateResult& c : result_.candidates)
    if (c.outcome != Outcome::ok && shown++ < 3)
      text += fmt::format("{}{} {} ({})", text.empty() ? "" : "; ", c.plan, to_string(c.outcome), c.why);
  return text.empty() ? "none knows the problem" : text;
}

TuneResult Tuning::finish() {
  for (const CandidateResult& c : result_.candidates) {
    if (c.samples > 0) ++result_.timed;
    const Outcome o = c.outcome;
    if (o == Outcome::failed || o == Outcome::wrong || o == Outcome::red_zone || o == Outcome::no_memory) ++result_.rejected;
    if (log_.enabled(LogLevel::debug))
      log_.write(LogLevel::debug, fmt::format("  {} {} {:.2f} us, error {:.3g}, workspace {}{}{}", c.plan, to_string(o), c.us,
                                              c.error, c.workspace, c.why.empty() ? "" : ": ", c.why));
  }
  result_.seconds = elapsed();
  return std::move(result_);
}

}  // namespace attune

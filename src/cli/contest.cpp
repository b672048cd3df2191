#include "cli/contest.hpp"

#include <algorithm>
#include <limits>

namespace attune::cli {
namespace {

constexpr std::size_t vendor_finalists = 3;
constexpr unsigned kept_roles = role_default | role_winner | role_baseline;
constexpr double finals_seconds = 2.0;
constexpr RoundRule qualifying{3, 5, {1.5, 1.15, 1.06}};
constexpr RoundRule finals{11, 11, {1e9, 1e9, 1e9}};

/// So far behind in its checked run that it cannot be the fastest; the slack covers cold caches and events.
bool hopeless(double us, double fastest) { return us > 4 * fastest + 200; }

}  // namespace

void Contest::add(std::unique_ptr<Plan> plan, unsigned roles) {
  if (!plan) return;
  for (Entrant& entrant : entrants_)
    if (entrant.plan->id() == plan->id()) {
      entrant.roles |= roles;
      return;
    }
  entrants_.push_back({std::move(plan), roles, 0, 0, 0, {}});
}

bool Contest::contains(std::string_view id) const {
  return std::any_of(entrants_.begin(), entrants_.end(), [&](const Entrant& e) { return e.plan->id() == id; });
}

const Entrant* Contest::find(unsigned role) const {
  for (const Entrant& entrant : entrants_)
    if ((entrant.roles & role) != 0 && entrant.wrong.empty()) return &entrant;
  return nullptr;
}

const Entrant* Contest::best(unsigned roles) const {
  const Entrant* best = nullptr;
  for (const Entrant& entrant : entrants_)
    if ((entrant.roles & roles) != 0 && is_time(entrant.us) && (best == nullptr || entrant.us < best->us)) best = &entrant;
  return best;
}

int Contest::dropped() const {
  return static_cast<int>(std::count_if(entrants_.begin(), entrants_.end(), [](const Entrant& e) { return !e.wrong.empty(); }));
}

std::string Contest::run(double seconds) {
  std::size_t workspace = 0;
  for (const Entrant& entrant : entrants_) workspace = std::max(workspace, entrant.plan->traits().workspace);
  trial_ = runtime_.trial(problem_, constraints_, workspace, 0x5eed);
  if (!trial_) return "its operands do not fit in memory";
  check_all();
  qualify(seconds);
  choose_finalists();
  if (finalists_.empty()) return "no plan could be timed";
  repeat();
  return {};
}

void Contest::check_all() {
  double fastest = std::numeric_limits<double>::infinity();
  for (Entrant& entrant : entrants_) {
    Check check = trial_->check(*entrant.plan);
    // A first run may load code: only the second says that a plan is slow.
    if (check.outcome == Outcome::ok && hopeless(check.us, fastest)) check = trial_->check(*entrant.plan);
    if (check.outcome != Outcome::ok) entrant.wrong = check.why.empty() ? to_string(check.outcome) : check.why;
    entrant.error = check.error;
    entrant.first_us = check.us;
    if (entrant.wrong.empty()) fastest = std::min(fastest, check.us);
  }
}

void Contest::qualify(double seconds) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const Entrant& entrant : entrants_)
    if (entrant.wrong.empty()) fastest = std::min(fastest, entrant.first_us);

  timers_.clear();
  timers_.resize(entrants_.size());
  const Entrant* const standard = find(role_default);
  TimingMethod method = TimingMethod::graph;
  if (standard != nullptr && !trial_->timer(*standard->plan, method, standard->first_us)) method = TimingMethod::launches;

  std::vector<std::size_t> who;
  for (std::size_t i = 0; i < entrants_.size(); ++i) {
    const Entrant& entrant = entrants_[i];
    const bool needed = (entrant.roles & kept_roles) != 0;
    if (!entrant.wrong.empty() || (!needed && hopeless(entrant.first_us, fastest))) continue;
    timers_[i] = trial_->timer(*entrant.plan, method, entrant.first_us);
    if (timers_[i]) who.push_back(i);
  }
  const std::vector<double> us = turns(who, qualifying, seconds);
  qualified_us_.assign(entrants_.size(), 0);
  for (std::size_t i = 0; i < who.size(); ++i) qualified_us_[who[i]] = us[i];
}

void Contest::choose_finalists() {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < entrants_.size(); ++i)
    if (is_time(qualified_us_[i])) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return qualified_us_[a] < qualified_us_[b]; });

  finalists_.clear();
  std::size_t vendors = 0;
  bool own = false;
  for (const std::size_t i : order) {
    const unsigned roles = entrants_[i].roles;
    const bool vendor_place = (roles & role_vendor) != 0 && vendors < vendor_finalists;
    const bool own_place = (roles & role_own) != 0 && !own;
    if (vendor_place || own_place || (roles & kept_roles) != 0) {
      finalists_.push_back(i);
      vendors += vendor_place ? 1 : 0;
      own = own || own_place;
    } else {
      timers_[i].reset();
    }
  }
}

void Contest::repeat() {
  for (Entrant& entrant : entrants_) entrant.us = 0;
  const std::vector<double> us = turns(finalists_, finals, finals_seconds);
  for (std::size_t i = 0; i < finalists_.size(); ++i) entrants_[finalists_[i]].us = is_time(us[i]) ? us[i] : 0;
}

std::vector<double> Contest::turns(const std::vector<std::size_t>& who, const RoundRule& rule, double seconds) {
  if (who.empty()) return {};
  std::vector<Timer*> timers;
  std::size_t standard = 0;
  for (std::size_t i = 0; i < who.size(); ++i) {
    timers.push_back(timers_[who[i]].get());
    if ((entrants_[who[i]].roles & role_default) != 0) standard = i;
  }
  const double end = runtime_.now() + seconds;
  std::vector<std::vector<double>> samples;
  time_in_turn(
      timers, standard, rule, [&] { return runtime_.now() > end; }, samples);
  std::vector<double> medians;
  for (std::vector<double>& of_one : samples) {
    const bool failed = of_one.empty() || !std::all_of(of_one.begin(), of_one.end(), is_time);
    medians.push_back(failed ? 0 : median(std::move(of_one)));
  }
  return medians;
}

}  // namespace attune::cli

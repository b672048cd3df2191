// The exhaustive search: variants next to the fastest ones, for as long as that gains.
#include <fmt/format.h>

#include <algorithm>

#include "tune/select.hpp"
#include "tune/tuning.hpp"

namespace attune {
namespace {

/// How many of a provider's fastest variants a step starts from, and how far behind the fastest of all they may be.
constexpr std::size_t starts = 3;
constexpr double near = 1.2;
/// Share of what is left of the budget that preparing one step may take.
constexpr double prepare_share = 0.5;

}  // namespace

void Tuning::refine() {
  if (request_.effort != Effort::exhaustive) return;
  for (bool gained = true; gained && elapsed() < budget_;) {
    const std::size_t standing = fastest();
    if (standing == none) return;
    const double standing_us = result_.candidates[standing].us;
    const std::size_t begin = plans_.size();
    const double deadline = elapsed() + (budget_ - elapsed()) * prepare_share;
    for (const auto& provider : providers_) propose(*provider, standing_us, deadline);
    check_from(begin);

    std::vector<std::size_t> index = {standing};
    for (std::size_t i = begin; i < plans_.size(); ++i)
      if (plans_[i] && result_.candidates[i].outcome == Outcome::ok) index.push_back(i);
    if (index.size() == 1) return;
    const auto samples = time_in_turns(index, standing, RoundRule{}, budget_);
    // The chip may be warmer by now than when the standing one was timed: times are kept in proportion to its own.
    const double now_us = median(samples[0]);
    if (!is_time(now_us)) return;
    for (std::size_t t = 1; t < index.size(); ++t) {
      keep_time(index[t], samples[t], standing_us / now_us);
      timers_[index[t]].reset();  // there may be many steps; who wins gets one again
    }
    gained = result_.candidates[fastest()].us < standing_us * (1 - noise_floor);
  }
}

void Tuning::propose(const Provider& provider, double standing_us, double deadline) {
  const std::string prefix = fmt::format("{}:", provider.name());
  std::vector<const CandidateResult*> order;
  for (const CandidateResult& c : result_.candidates)
    if (c.outcome == Outcome::ok && is_time(c.us) && c.us <= standing_us * near && c.plan.starts_with(prefix))
      order.push_back(&c);
  std::stable_sort(order.begin(), order.end(), [](auto* x, auto* y) { return x->us < y->us; });
  std::vector<std::string> best;
  for (const CandidateResult* c : order)
    if (best.size() < starts) best.push_back(c->plan.substr(prefix.size()));
  if (best.empty()) return;
  for (const std::string& variant : provider.refine(request_.problem, request_.constraints, best)) {
    if (elapsed() > deadline) return;
    std::string id = prefix + variant;
    if (!seen_.insert(id).second) continue;
    add(std::move(id), provider.prepare(variant, request_.problem, request_.constraints), false);
  }
}

std::size_t Tuning::fastest() const {
  std::size_t best = none;
  for (std::size_t i = 0; i < result_.candidates.size(); ++i) {
    const CandidateResult& c = result_.candidates[i];
    if (c.outcome == Outcome::ok && is_time(c.us) && (best == none || c.us < result_.candidates[best].us)) best = i;
  }
  return best;
}

}  // namespace attune

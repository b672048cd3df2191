#include "tune/tuner.hpp"

#include <fmt/format.h>

#include "tune/tuning.hpp"

namespace attune {
namespace {

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

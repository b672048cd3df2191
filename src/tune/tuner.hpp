// Tuning one problem: enumerate, prepare, check, time in turn, select.
#pragma once

#include <attune/problem.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/constraints.hpp"
#include "core/log.hpp"
#include "core/provider.hpp"
#include "core/runtime.hpp"
#include "tune/measure.hpp"

namespace attune {

struct TuneRequest {
  Problem problem;  ///< resolved, not empty, alpha other than zero
  Constraints constraints;
  Effort effort = Effort::standard;
  double budget_seconds = 0;  ///< 0: as the effort says
};

struct TuneResult {
  std::shared_ptr<const Plan> plan;  ///< null when no candidate is right
  std::string why;                   ///< why there is none, or what won against what
  bool measured = false;             ///< false: operands did not fit, the default runs unmeasured
  std::size_t winner = 0;            ///< index into candidates, where there is a plan
  std::vector<CandidateResult> candidates;
  int timed = 0;
  int rejected = 0;
  double seconds = 0;
};

using Providers = std::vector<std::unique_ptr<Provider>>;

/// The first provider's default that is not declined; null plan and why when there is none.
Prepared prepare_default(const Providers& providers, const Problem& problem, const Constraints& constraints);
/// Makes the plan "provider:variant".
Prepared prepare_plan(const Providers& providers, std::string_view plan_id, const Problem& problem, const Constraints& constraints);
/// Version of the provider that the plan id names, for its variant; empty when there is no such provider.
std::string plan_version(const Providers& providers, std::string_view plan_id);

TuneResult tune(const TuneRequest& request, const Providers& providers, Runtime& runtime, const Log& log);

double default_budget_seconds(Effort effort) noexcept;

}  // namespace attune

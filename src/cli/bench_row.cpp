#include "cli/bench_row.hpp"

#include <fmt/format.h>
#include <attune/error.hpp>

#include <algorithm>
#include <chrono>
#include <map>

#include "cli/contest.hpp"
#if defined(ATTUNE_HAS_CUDA)
#include "cli/gemm_baseline.hpp"
#endif

namespace attune::cli {
namespace {

constexpr double prepare_seconds = 0.8;
constexpr double qualify_seconds = 0.6;
constexpr std::size_t own_entrants = 2;

bool is_composed(std::string_view id) { return id.starts_with("compose:"); }

/// Attune's own kernels: the tile provider, also within composed plans, and the host engine's variants other than its
/// libraries.
bool is_own(std::string_view id) {
  return id.starts_with("tile:") || (is_composed(id) && id.find("+tile:") != std::string_view::npos) ||
         (id.starts_with("host:") && !id.starts_with("host:openblas") && !id.starts_with("host:onednn"));
}

/// A composed plan around a vendor's kernel is neither: no vendor offers it, and the kernel is not ours.
unsigned role_of(std::string_view id) { return is_own(id) ? unsigned{role_own} : is_composed(id) ? 0u : unsigned{role_vendor}; }

/// What tuning learned of each plan; empty where the plan was remembered.
using Known = std::map<std::string, const CandidateResult*, std::less<>>;

/// Plan ids in the order in which they deserve the time: known to be fast, unknown; known to fail are left out.
std::vector<std::string> in_order(std::vector<std::string> ids, const Known& known) {
  const auto result = [&](const std::string& id) {
    const auto found = known.find(id);
    return found == known.end() ? nullptr : found->second;
  };
  std::erase_if(ids, [&](const std::string& id) {
    const CandidateResult* const r = result(id);
    return r != nullptr && r->outcome != Outcome::ok && r->outcome != Outcome::pruned;
  });
  std::stable_sort(ids.begin(), ids.end(), [&](const std::string& a, const std::string& b) {
    const auto us = [&](const std::string& id) {
      const CandidateResult* const r = result(id);
      return r == nullptr || !is_time(r->us) ? 1e30 : r->us;
    };
    return us(a) < us(b);
  });
  return ids;
}

class RowBench {
 public:
  RowBench(DeviceContext& device_context, const Row& row)
      : impl_(device_context.impl()),
        device_(device_context.device()),
        asked_(*row.problem),
        problem_(resolve(asked_)),
        constraints_(impl_.constraints_for(asked_)),
        guard_(impl_.runtime().guard()),
        contest_(impl_.runtime(), problem_, constraints_) {}

  Contest& contest() noexcept { return contest_; }

  void add_named(const PlanInfo& info) {
    // As tuning found it: the vendor's first answer that is right.
    Prepared standard = info.default_plan.empty() ? prepare_default(impl_.providers(), problem_, constraints_)
                                                  : prepare_plan(impl_.providers(), info.default_plan, problem_, constraints_);
    if (standard.plan) {
      const unsigned kind = role_of(standard.plan->id());
      contest_.add(std::move(standard.plan), role_default | kind);
    }
    if (contest_.contains(info.plan)) {
      add(info.plan, role_winner | role_of(info.plan));
      return;
    }
    Prepared winner = prepare_plan(impl_.providers(), info.plan, problem_, constraints_);
    if (!winner.plan) throw Error(Status::internal, fmt::format("{}: cannot be made again: {}", info.plan, winner.why));
    contest_.add(std::move(winner.plan), role_winner | role_of(info.plan));
  }

  /// Returns how many could not be prepared in time.
  int add_candidates(const Known& known) {
    std::vector<std::string> vendors, own;
    const Effort effort = std::max(Effort::standard, impl_.settings().effort.get());
    for (const auto& provider : impl_.providers())
      for (const std::string& variant : provider->variants(problem_, constraints_, effort)) {
        std::string id = fmt::format("{}:{}", provider->name(), variant);
        const unsigned role = role_of(id);
        if (role != 0) (role == role_own ? own : vendors).push_back(std::move(id));
      }
    own = in_order(std::move(own), known);
    if (own.size() > own_entrants) own.resize(own_entrants);
    for (const std::string& id : own) add(id, role_own);

    vendors = in_order(std::move(vendors), known);
    const double end = impl_.runtime().now() + prepare_seconds;
    for (std::size_t i = 0; i < vendors.size(); ++i) {
      if (impl_.runtime().now() > end) return static_cast<int>(vendors.size() - i);
      add(vendors[i], role_vendor);
    }
    return 0;
  }

  void add_cublas_calls() {
#if defined(ATTUNE_HAS_CUDA)
    const auto* const gemm = std::get_if<GemmProblem>(&problem_);
    if (gemm == nullptr || device_.kind != Device::Kind::cuda) return;
    for (const bool autotune : {false, true}) {
      std::unique_ptr<Plan> plan = make_gemm_ex_plan(*gemm, constraints_, device_.ordinal, autotune);
      if (!plan) continue;
      (autotune ? autotune_id_ : gemm_ex_id_) = plan->id();
      contest_.add(std::move(plan), role_vendor | role_baseline);
    }
#endif
  }

  double gemm_ex_us() const { return us_of(gemm_ex_id_); }
  double autotune_us() const { return us_of(autotune_id_); }

 private:
  void add(const std::string& id, unsigned roles) {
    contest_.add(prepare_plan(impl_.providers(), id, problem_, constraints_).plan, roles);
  }
  double us_of(const std::string& id) const {
    for (const Entrant& entrant : contest_.entrants())
      if (!id.empty() && entrant.plan->id() == id) return entrant.us;
    return 0;
  }

  Context::Impl& impl_;
  Device device_;
  Problem asked_;
  Problem problem_;
  Constraints constraints_;
  std::unique_ptr<Guard> guard_;
  Contest contest_;
  std::string gemm_ex_id_, autotune_id_;
};

void take_times(const RowBench& bench, const Contest& contest, BenchResult& result) {
  const auto us = [](const Entrant* entrant) { return entrant == nullptr ? 0 : entrant->us; };
  const auto id = [](const Entrant* entrant) { return entrant == nullptr ? std::string() : entrant->plan->id(); };
  result.default_us = us(contest.find(role_default));
  result.winner_us = us(contest.find(role_winner));
  result.winner = id(contest.find(role_winner));
  result.vendor_best_us = us(contest.best(role_vendor));
  result.vendor_best = id(contest.best(role_vendor));
  result.own_best_us = us(contest.best(role_own));
  result.own_best = id(contest.best(role_own));
  result.gemm_ex_us = bench.gemm_ex_us();
  result.gemm_ex_autotune_us = bench.autotune_us();
}

bool slower(const BenchResult& r) { return r.default_us > 0 && r.winner_us > r.default_us * 1.02 + 0.1; }

void compare(DeviceContext& device_context, const PlanInfo& info, const std::vector<CandidateResult>& report,
             BenchResult& result) {
  Known known;
  for (const CandidateResult& candidate : report) known.emplace(candidate.plan, &candidate);
  RowBench bench(device_context, *result.row);
  bench.add_named(info);
  bench.add_cublas_calls();
  result.not_reached = bench.add_candidates(known);

  Contest& contest = bench.contest();
  result.wrong = contest.run(qualify_seconds);
  result.dropped = contest.dropped();
  for (const Entrant& entrant : contest.entrants()) {
    if ((entrant.roles & role_winner) == 0) continue;
    result.max_error = std::max(info.max_error, entrant.error);
    if (!entrant.wrong.empty()) result.wrong = fmt::format("{}: {}", entrant.plan->id(), entrant.wrong);
  }
  if (!result.wrong.empty()) return;
  take_times(bench, contest, result);
  while (slower(result) && ++result.slower < slower_repeats) {
    contest.repeat();
    take_times(bench, contest, result);
  }
  if (!(result.winner_us > 0)) result.wrong = fmt::format("{}: could not be timed", info.plan);
}

}  // namespace

BenchResult bench_row(DeviceContext& device_context, const Ceilings& ceilings, const Row& row) {
  BenchResult result;
  result.row = &row;
  result.wrong = row.wrong;
  if (result.wrong.empty() && (empty_output(*row.problem) || scales_only(*row.problem)))
    result.wrong = "no products to compute: nothing to time";
  if (!result.wrong.empty()) return result;
  result.floor_us = floor_us(ceilings, row);
  try {
    std::vector<CandidateResult> report;
    const auto begin = std::chrono::steady_clock::now();
    device_context.constrain(row.constraints);
    const PlanInfo info = device_context.impl().tune(*row.problem, &report);
    result.tune_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    result.timed = info.timed;
    result.rejected = info.rejected;
    compare(device_context, info, report, result);
  } catch (const Error& e) {
    result.wrong = e.what();
  }
  return result;
}

}  // namespace attune::cli

// Plans of one problem, checked and then timed in turn in one run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.hpp"
#include "core/runtime.hpp"
#include "tune/measure.hpp"

namespace attune::cli {

/// Why a plan takes part; a set of bits, since one plan may be default, winner and vendor candidate at once. Default, winner
/// and baselines are timed to the end, whatever their speed.
enum Role : unsigned { role_vendor = 1, role_own = 2, role_default = 4, role_winner = 8, role_baseline = 16 };

struct Entrant {
  std::unique_ptr<Plan> plan;
  unsigned roles = 0;
  double first_us = 0;  ///< of its checked run
  double us = 0;        ///< median of the last turns; 0: not among them
  double error = 0;
  std::string wrong;  ///< why it dropped out; empty otherwise
};

class Contest {
 public:
  /// `problem` is resolved.
  Contest(Runtime& runtime, const Problem& problem, const Constraints& constraints)
      : runtime_(runtime), problem_(problem), constraints_(constraints) {}

  /// A plan that is there already gains the roles.
  void add(std::unique_ptr<Plan> plan, unsigned roles);
  bool contains(std::string_view id) const;

  /// Checks every plan once and drops the wrong ones; times the rest for `seconds`, dropping losers; then times default,
  /// winner, baselines, the best vendor plans and the best own one in turn, which gives `us`. Empty, or why nothing could be
  /// timed.
  std::string run(double seconds);
  /// Times the same finalists once more, in turn.
  void repeat();

  const std::vector<Entrant>& entrants() const noexcept { return entrants_; }
  /// The first with the role; null where it was dropped or never there.
  const Entrant* find(unsigned role) const;
  /// The fastest finalist with one of the roles; null if there is none.
  const Entrant* best(unsigned roles) const;
  int dropped() const;  ///< wrong ones

 private:
  void check_all();
  void qualify(double seconds);
  void choose_finalists();
  std::vector<double> turns(const std::vector<std::size_t>& who, const RoundRule& rule, double seconds);

  Runtime& runtime_;
  Problem problem_;
  Constraints constraints_;
  std::vector<Entrant> entrants_;
  std::unique_ptr<Trial> trial_;
  std::vector<std::unique_ptr<Timer>> timers_;  ///< of each entrant; null where it is not timed
  std::vector<double> qualified_us_;            ///< of each entrant; 0: not timed
  std::vector<std::size_t> finalists_;
};

}  // namespace attune::cli

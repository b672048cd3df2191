// One problem's tuning, step by step: the work behind tune().
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tune/tuner.hpp"

namespace attune {

class Tuning {
 public:
  Tuning(const TuneRequest& request, const Providers& providers, Runtime& runtime, const Log& log);
  TuneResult run();

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  double elapsed() const { return runtime_.now() - begin_; }

  // The candidates that the providers list (tuning.cpp).
  void enumerate();
  void add(std::string id, Prepared prepared, bool is_default);
  bool open_trial();
  /// Runs each candidate from `begin` on once; what is not right, or hopelessly slow, is out.
  void check_from(std::size_t begin);
  void settle_default();
  /// The samples of each candidate of `index`, taken in turn until `deadline`; `standing` is never dropped. Who cannot be timed
  /// has none.
  std::vector<std::vector<double>> time_in_turns(const std::vector<std::size_t>& index, std::size_t standing,
                                                 const RoundRule& rule, double deadline);
  /// Null where the candidate cannot be timed as the others are.
  Timer* timer_of(std::size_t i);
  void keep_time(std::size_t i, const std::vector<double>& samples, double scale);
  void time_listed();

  // An exhaustive search goes on around the fastest (tuning_refine.cpp).
  void refine();
  void propose(const Provider& provider, double standing_us, double deadline);
  std::size_t fastest() const;

  void choose();
  void confirm();
  void describe_win();
  void take_first(std::string why);
  std::string refusals() const;
  TuneResult finish();

  const TuneRequest& request_;
  const Providers& providers_;
  Runtime& runtime_;
  const Log& log_;
  const double begin_;
  double budget_ = 0;
  double listed_deadline_ = 0;  ///< what the providers list is timed until then
  std::unordered_set<std::string> seen_;
  std::vector<std::shared_ptr<const Plan>> plans_;  ///< one for each candidate; null where there is none
  std::size_t workspace_ = 0;                       ///< of the trial
  std::unique_ptr<Trial> trial_;                    ///< after plans_: goes first, its timers' graphs may need them
  std::vector<std::unique_ptr<Timer>> timers_;      ///< likewise
  TimingMethod method_ = TimingMethod::graph;
  bool method_settled_ = false;
  std::vector<double> first_us_;
  std::vector<std::size_t> rank_;  ///< of each candidate: by provider, then as that lists it, whatever came first in time
  double fastest_first_us_ = 0;
  TuneResult result_;
};

}  // namespace attune

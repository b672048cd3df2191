// Timing candidates in turn, and what became of each.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/outcome.hpp"
#include "core/runtime.hpp"

namespace attune {

/// One candidate's fate.
struct CandidateResult {
  std::string plan;
  Outcome outcome = Outcome::declined;
  std::string why;
  double us = 0;        ///< median of its samples; 0 when never timed
  double spread = 0;    ///< relative uncertainty of us
  double error = 0;     ///< largest |d - reference| over its bound
  std::size_t workspace = 0;
  bool is_default = false;
  int samples = 0;      ///< rounds in which it was timed
};

/// A stopping and pruning rule: numbers in, decisions out.
struct RoundRule {
  int min_rounds = 3;
  int max_rounds = 9;
  double drop_ratio[3] = {1.5, 1.15, 1.06};  ///< after round r, a candidate slower than this times the fastest is dropped (last value holds on)
};

/// The timers take turns, one sample each, round after round, forwards and backwards: whoever follows a hot kernel in one round
/// precedes it in the next. After each round the losers are dropped (the default never is).
/// `samples[i]` receives the samples of timer i; `expired` is asked between samples and ends the rounds early, but never
/// before every timer has one sample or is out.
void time_in_turn(const std::vector<Timer*>& timers, std::size_t default_index, const RoundRule& rule,
                  const std::function<bool()>& expired, std::vector<std::vector<double>>& samples);

/// Which timers stay after a round: pure. `alive` is updated.
void prune(const std::vector<std::vector<double>>& samples, std::size_t default_index, double ratio, std::vector<bool>& alive);

double median(std::vector<double> values);
/// Relative uncertainty of the median: 1.4826 * MAD / median / sqrt(n), doubled; 0 for fewer than two values.
double spread(const std::vector<double>& values);
/// Zero, negative and NaN samples are no measurement.
bool is_time(double us) noexcept;

}  // namespace attune

// Measuring, selecting, deciding and tuning, on scripted candidates and a scripted clock.
#include "tune/tuner.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/problem.hpp"
#include "support/scripted.hpp"
#include "tune/policy.hpp"
#include "tune/select.hpp"

namespace attune {
namespace {

using test::Journal;
using test::Script;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Bench {
  std::shared_ptr<Journal> journal = std::make_shared<Journal>();
  test::ScriptedRuntime runtime{journal};
  Providers providers;
  Log log;
  TuneRequest request;

  explicit Bench(std::vector<Script> scripts) {
    providers.push_back(std::make_unique<test::ScriptedProvider>(std::move(scripts), journal));
    request.problem = resolve(GemmProblem(Op::N, Op::N, 64, 64, 64, DType::f32));
  }
  TuneResult run() { return tune(request, providers, runtime, log); }
};

TEST(Select, TheDefaultStaysWithinTheNoise) {
  const std::vector<Measured> close = {{100.5, 0, 64, true}, {100, 0, 0, false}};
  EXPECT_EQ(select(close), 0u);
  const std::vector<Measured> clear = {{103, 0, 0, true}, {100, 0, 64, false}};
  EXPECT_EQ(select(clear), 1u);
  const std::vector<Measured> noisy = {{103, 0.02, 0, true}, {100, 0.02, 64, false}};
  EXPECT_EQ(select(noisy), 0u) << "a difference below the spreads is none";
}

TEST(Select, ThenTheLeastWorkspaceThenTheEarlier) {
  const std::vector<Measured> m = {{150, 0, 0, true}, {100.2, 0, 8, false}, {100.4, 0, 4, false}, {100, 0, 4, false}};
  EXPECT_EQ(select(m), 2u);
}

TEST(Select, WhatIsNoTimeNeverWins) {
  const std::vector<Measured> m = {{0, 0, 0, true}, {nan, 0, 0, false}, {-5, 0, 0, false}, {7, 0, 0, false}};
  EXPECT_EQ(select(m), 3u);
  const std::vector<Measured> none = {{0, 0, 0, true}};
  EXPECT_EQ(select(none), none.size());
}

TEST(Select, JitteredClocksChooseAlike) {
  for (int seed = 0; seed < 50; ++seed) {
    const double j = 0.004 * std::sin(seed), k = 0.004 * std::cos(seed * 3);
    const std::vector<Measured> m = {{100 * (1 + j), 0.002, 0, true}, {99.9 * (1 + k), 0.002, 0, false}, {120, 0.002, 0, false}};
    EXPECT_EQ(select(m), 0u) << seed;
  }
}

TEST(Measure, MedianAndSpreadIgnoreWhatIsNoTime) {
  EXPECT_EQ(median({3, nan, 1, -2, 0, 2}), 2);
  EXPECT_EQ(median({4, 1}), 2.5);
  EXPECT_EQ(median({nan}), 0);
  EXPECT_EQ(spread({5}), 0);
  EXPECT_EQ(spread({5, 5, 5}), 0);
  EXPECT_GT(spread({4, 5, 6}), 0);
}

TEST(Tuner, TheFastestRightCandidateWins) {
  Bench bench({{"slow", {30}}, {"fast", {10}}, {"middle", {20}}});
  const TuneResult r = bench.run();
  ASSERT_NE(r.plan, nullptr);
  EXPECT_EQ(r.plan->id(), "fake:fast");
  EXPECT_EQ(r.timed, 3);
  EXPECT_EQ(r.rejected, 0);
  EXPECT_TRUE(r.candidates[0].is_default);
}

TEST(Tuner, WrongCandidatesNeverWinAndAreCounted) {
  Bench bench({{"first", {5}, Outcome::wrong}, {"half", {1}, Outcome::wrong}, {"past", {2}, Outcome::red_zone}, {"right", {50}}});
  const TuneResult r = bench.run();
  ASSERT_NE(r.plan, nullptr);
  EXPECT_EQ(r.plan->id(), "fake:right") << "even the default may be wrong";
  EXPECT_EQ(r.rejected, 3);
  EXPECT_EQ(r.timed, 1);
  EXPECT_EQ(bench.journal->samples.count("half"), 0u) << "never timed";
}

TEST(Tuner, AWrongDefaultYieldsItsPlaceToTheNextRightAnswer) {
  Bench bench({{"first", {5}, Outcome::wrong}, {"second", {20}}, {"third", {10}}});
  const TuneResult r = bench.run();
  EXPECT_EQ(r.plan->id(), "fake:third");
  EXPECT_FALSE(r.candidates[0].is_default);
  EXPECT_TRUE(r.candidates[1].is_default);
}

TEST(Tuner, AWrongDefaultsPlaceIsItsOwnProvidersFirst) {
  Bench bench({{"first", {5}, Outcome::wrong}, {"second", {20}}});
  bench.providers.push_back(std::make_unique<test::ScriptedProvider>(std::vector<Script>{{"own", {10}}}, bench.journal, "1", "other"));
  const TuneResult r = bench.run();
  EXPECT_EQ(r.plan->id(), "other:own");
  for (const CandidateResult& c : r.candidates) EXPECT_EQ(c.is_default, c.plan == "fake:second") << c.plan;
}

TEST(Tuner, AmongEqualsTheFirstListedWinsWhateverWasReadyFirst) {
  Script late{"late", {10}};
  late.prepare_seconds = 0.001;
  Bench bench({{"default", {30}}, late});
  bench.providers.push_back(std::make_unique<test::ScriptedProvider>(std::vector<Script>{{"a", {10}}, {"b", {10}}}, bench.journal, "1", "other"));
  EXPECT_EQ(bench.run().plan->id(), "fake:late");
}

TEST(Tuner, NoPlanAtAllIsAnAnswer) {
  Bench bench({{"a", {5}, Outcome::wrong}, {"b", {5}, Outcome::ok, Outcome::no_memory}});
  const TuneResult r = bench.run();
  EXPECT_EQ(r.plan, nullptr);
  EXPECT_NE(r.why.find("fake:a wrong"), std::string::npos) << r.why;
  EXPECT_NE(r.why.find("fake:b no_memory"), std::string::npos) << r.why;
}

TEST(Tuner, CandidatesAreTimedInTurn) {
  Bench bench({{"a", {10}}, {"b", {10.2}}, {"c", {10.1}}});
  bench.run();
  const auto& order = bench.journal->sample_order;
  ASSERT_GE(order.size(), 6u);
  const std::vector<std::string> two_rounds(order.begin(), order.begin() + 6);
  EXPECT_EQ(two_rounds, (std::vector<std::string>{"a", "b", "c", "c", "b", "a"}));
}

TEST(Tuner, LosersAreDroppedButNeverTheDefault) {
  Bench bench({{"default", {30}}, {"best", {10}}, {"loser", {20}}});
  bench.run();
  EXPECT_EQ(bench.journal->samples["loser"], 1);
  EXPECT_GT(bench.journal->samples["default"], 2);
  EXPECT_EQ(bench.journal->samples["default"], bench.journal->samples["best"]);
}

TEST(Tuner, AWinnerThatIsSlowerOnceTheChipIsWarmGivesWay) {
  std::vector<double> warming(9, 9.0);
  warming.resize(200, 12.0);
  Bench bench({{"default", {10}}, {"sprinter", warming}});
  const TuneResult r = bench.run();
  EXPECT_EQ(r.plan->id(), "fake:default");
  EXPECT_EQ(r.candidates[1].us, 12);
}

TEST(Tuner, AClockThatWandersForBothHidesNoWin) {
  // Both slow down and recover together, the winner 4 percent ahead in every round.
  std::vector<double> standard, fast;
  for (int i = 0; i < 200; ++i) {
    const double heat = 1 + i % 4 * 0.1;
    standard.push_back(10 * heat), fast.push_back(9.6 * heat);
  }
  Bench bench({{"default", standard}, {"fast", fast}});
  EXPECT_EQ(bench.run().plan->id(), "fake:fast");
}

TEST(Tuner, NoProvidersSlowPlansKeepAnothersFastOnesOut) {
  std::vector<Script> slow;
  for (int i = 0; i < 50; ++i) slow.push_back({"slow" + std::to_string(i), {20e3}});
  Bench bench(slow);
  bench.providers.push_back(std::make_unique<test::ScriptedProvider>(std::vector<Script>{{"fast", {10}}}, bench.journal, "1", "other"));
  bench.request.budget_seconds = 0.1;
  EXPECT_EQ(bench.run().plan->id(), "other:fast");
}

TEST(Tuner, WhatALibraryCompilesForLongKeepsNobodyOut) {
  Script compiled{"compiled", {20}}, cheap{"cheap", {30}}, best{"best", {10}};
  compiled.prepare_seconds = 0.07;
  std::vector<Script> library(10, compiled);
  for (std::size_t i = 0; i < library.size(); ++i) library[i].variant += std::to_string(i);
  library[0].prepare_seconds = 0;
  Bench bench(library);
  bench.providers.push_back(std::make_unique<test::ScriptedProvider>(std::vector<Script>{cheap, cheap, cheap, best}, bench.journal, "1", "own"));
  bench.request.budget_seconds = 0.1;
  EXPECT_EQ(bench.run().plan->id(), "own:best");
}

TEST(Tuner, AHopelessFirstRunIsNotTimed) {
  Bench bench({{"default", {10}}, {"hopeless", {1}, Outcome::ok, Outcome::ok, 1000}});
  const TuneResult r = bench.run();
  EXPECT_EQ(r.candidates[1].outcome, Outcome::pruned);
  EXPECT_EQ(bench.journal->samples.count("hopeless"), 0u);
}

TEST(Tuner, TheBudgetHoldsFromTheFirstProbe) {
  std::vector<Script> scripts;
  for (int i = 0; i < 500; ++i) scripts.push_back({"v" + std::to_string(i), {300e3}});
  Bench bench(scripts);
  bench.request.budget_seconds = 0.05;
  const TuneResult r = bench.run();
  ASSERT_NE(r.plan, nullptr);
  int checked = 0;
  for (const auto& [name, count] : bench.journal->checks) checked += count;
  EXPECT_LE(checked, 2);
  EXPECT_LE(r.timed, 2);
}

TEST(Tuner, TheBudgetHoldsWhileTimersAreMade) {
  std::vector<Script> scripts;
  for (int i = 0; i < 20; ++i) scripts.push_back({"v" + std::to_string(i), {10}});
  Bench bench(scripts);
  bench.journal->timer_seconds = 0.04;
  bench.request.budget_seconds = 0.05;
  const TuneResult r = bench.run();
  ASSERT_NE(r.plan, nullptr);
  EXPECT_EQ(bench.journal->timers, 2);
  EXPECT_EQ(r.candidates[19].outcome, Outcome::pruned) << r.candidates[19].why;
}

TEST(Tuner, ConfirmingAWinnerTakesNoMoreThanTheBudgetHasLeft) {
  Bench bench({{"default", {10e3}}, {"fast", {5e3}}});
  bench.request.budget_seconds = 0.2;
  EXPECT_EQ(bench.run().plan->id(), "fake:fast");
  EXPECT_LE(bench.journal->clock, 0.2 + 0.05) << "one round of both past it at most";

  Bench spent({{"default", {10e3}}, {"fast", {5e3}}});
  spent.request.budget_seconds = 0.001;
  EXPECT_EQ(spent.run().plan->id(), "fake:fast");
  EXPECT_LE(spent.journal->clock, 0.1) << "two looks, two samples, two rounds";
}

TEST(Tuner, TimesThatAreNoneAreDiscarded) {
  Bench bench({{"default", {10}}, {"zero", {0}, Outcome::ok, Outcome::ok, 9}, {"nan", {nan}, Outcome::ok, Outcome::ok, 9}, {"minus", {-1}, Outcome::ok, Outcome::ok, 9}});
  const TuneResult r = bench.run();
  EXPECT_EQ(r.plan->id(), "fake:default");
  EXPECT_EQ(r.timed, 1);
}

TEST(Tuner, OneMethodForAllCandidatesOfAKey) {
  Bench bench({{"default", {10}, Outcome::ok, Outcome::ok, 0, {}, false, false}, {"other", {5}}});
  EXPECT_EQ(bench.run().plan->id(), "fake:other");
  EXPECT_EQ(bench.journal->method, TimingMethod::launches);

  Bench graphs({{"default", {10}}, {"other", {5}, Outcome::ok, Outcome::ok, 0, {}, false, false}});
  EXPECT_EQ(graphs.run().plan->id(), "fake:default") << "what cannot be timed as the others is out";
}

TEST(Tuner, OperandsThatDoNotFitLeaveTheDefaultUnmeasured) {
  Bench bench({{"default", {10}}, {"fast", {1}}});
  bench.journal->deny_trial = true;
  const TuneResult r = bench.run();
  EXPECT_EQ(r.plan->id(), "fake:default");
  EXPECT_FALSE(r.measured);
}

TEST(Tuner, ConstraintsHoldForEveryCandidate) {
  Script random{"random", {1}};
  random.traits.deterministic = false;
  Script big{"big", {2}};
  big.traits.workspace = 8 * mebibyte;
  Bench bench({{"default", {10}}, random, big});
  bench.request.constraints.deterministic = true;
  bench.request.constraints.workspace_limit = 4 * mebibyte;
  EXPECT_EQ(bench.run().plan->id(), "fake:default");
}

TEST(Policy, ARecordIsUsedBeforeAnythingIsTimed) {
  Situation s;
  s.has_record = s.record_valid = true;
  EXPECT_EQ(decide(s).action, Action::use_record);
  s.effort = Effort::exhaustive;
  EXPECT_EQ(decide(s).action, Action::tune) << "a higher effort tunes again";
  s.benchmark = false;
  EXPECT_EQ(decide(s).action, Action::use_record) << "but not where nothing may be timed";
}

TEST(Policy, NothingIsTimedUnderCaptureOrWithBenchmarkOff) {
  Situation s;
  s.capturing = true;
  EXPECT_EQ(decide(s).action, Action::run_default);
  EXPECT_EQ(decide(s).source, Source::deferred);
  s.capturing = false;
  s.benchmark = false;
  EXPECT_EQ(decide(s).source, Source::default_plan);
  s.has_record = true;
  EXPECT_EQ(decide(s).source, Source::stale);
  s.request = Request::tune;
  EXPECT_EQ(decide(s).action, Action::tune) << "asked for";
}

TEST(Policy, ADeterministicKeyKeepsTheBitsItFirstReturned) {
  Situation s;
  s.deterministic = s.returned_before = true;
  EXPECT_EQ(decide(s).action, Action::run_default);
  s.request = Request::tune;
  EXPECT_EQ(decide(s).action, Action::tune);
}

}  // namespace
}  // namespace attune

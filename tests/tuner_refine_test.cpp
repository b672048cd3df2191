// The exhaustive search around the fastest, on scripted candidates and a scripted clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/problem.hpp"
#include "support/scripted.hpp"
#include "tune/tuner.hpp"

namespace attune {
namespace {

using test::Journal;
using test::Script;

Script listed(std::string name, double us, std::vector<std::string> next) {
  Script s{std::move(name), {us}};
  s.next = std::move(next);
  return s;
}

Script found(std::string name, double us, std::vector<std::string> next = {}) {
  Script s = listed(std::move(name), us, std::move(next));
  s.listed = false;
  return s;
}

struct Search {
  std::shared_ptr<Journal> journal = std::make_shared<Journal>();
  test::ScriptedRuntime runtime{journal};
  Providers providers;
  Log log;
  TuneRequest request;

  explicit Search(std::vector<Script> scripts) {
    providers.push_back(std::make_unique<test::ScriptedProvider>(std::move(scripts), journal));
    request.problem = resolve(GemmProblem(Op::N, Op::N, 64, 64, 64, DType::f32));
    request.effort = Effort::exhaustive;
  }
  TuneResult run() { return tune(request, providers, runtime, log); }
};

const CandidateResult& candidate(const TuneResult& result, const std::string& id) {
  const auto at = std::find_if(result.candidates.begin(), result.candidates.end(), [&](auto& c) { return c.plan == id; });
  EXPECT_NE(at, result.candidates.end()) << id;
  return at == result.candidates.end() ? result.candidates.front() : *at;
}

TEST(Refine, WalksToWhatNobodyListed) {
  Search search(
      {listed("a", 30, {"b", "worse"}), found("b", 20, {"a", "c"}), found("worse", 40), found("c", 10, {"d"}), found("d", 15)});
  const TuneResult r = search.run();
  ASSERT_NE(r.plan, nullptr);
  EXPECT_EQ(r.plan->id(), "fake:c");
  EXPECT_EQ(r.candidates.size(), 5u) << "each once";
  EXPECT_EQ(search.journal->checks["d"], 1) << "tried, and found slower";
  EXPECT_EQ(search.journal->refinements, 3) << "it ends with the step that gains nothing";
}

TEST(Refine, OnlyAtExhaustiveEffort) {
  for (Effort effort : {Effort::quick, Effort::standard}) {
    Search search({listed("a", 30, {"b"}), found("b", 20)});
    search.request.effort = effort;
    EXPECT_EQ(search.run().plan->id(), "fake:a");
    EXPECT_EQ(search.journal->refinements, 0);
  }
}

TEST(Refine, StartsOnlyFromWhatIsNearTheFastest) {
  Search search({listed("a", 10, {"near"}), listed("slow", 14, {"hidden"}), found("near", 11), found("hidden", 1)});
  EXPECT_EQ(search.run().plan->id(), "fake:a");
  EXPECT_EQ(search.journal->prepares.count("hidden"), 0u);
}

TEST(Refine, WhatIsWrongNeverWins) {
  Script wrong = found("wrong", 1);
  wrong.check = Outcome::wrong;
  Script big = found("big", 1);
  big.traits.workspace = std::size_t{1} << 40;
  Search search({listed("a", 30, {"wrong", "big", "absent", "b"}), wrong, big, found("b", 20)});
  search.request.constraints.workspace_limit = no_limit;
  const TuneResult r = search.run();
  EXPECT_EQ(r.plan->id(), "fake:b");
  EXPECT_EQ(r.rejected, 1);
  EXPECT_EQ(candidate(r, "fake:big").outcome, Outcome::pruned) << "the trial has not that much workspace";
  EXPECT_EQ(search.journal->checks.count("big"), 0u);
}

// The first one is timed cold; when the next step comes, everything takes twice as long.
TEST(Refine, AWarmerChipIsNoLoss) {
  Script a = listed("a", 10, {"b"});
  a.us.assign(3, 10.0);
  a.us.resize(400, 20.0);
  Search search({a, found("b", 16, {"c"}), found("c", 14)});
  const TuneResult r = search.run();
  EXPECT_EQ(r.plan->id(), "fake:c");
  EXPECT_NEAR(candidate(r, "fake:b").us, 8, 1e-9) << "in proportion to the one that stood";
}

TEST(Refine, TheBudgetEndsIt) {
  std::vector<Script> chain = {listed("v0", 10e3, {"v1"})};
  double us = 10e3;
  for (int i = 1; i < 400; ++i) chain.push_back(found("v" + std::to_string(i), us *= 0.97, {"v" + std::to_string(i + 1)}));
  Search search(chain);
  search.request.budget_seconds = 1;
  const TuneResult r = search.run();
  ASSERT_NE(r.plan, nullptr);
  EXPECT_NE(r.plan->id(), "fake:v0");
  EXPECT_LT(r.candidates.size(), 60u);
  EXPECT_LT(r.seconds, 1.5);
}

}  // namespace
}  // namespace attune

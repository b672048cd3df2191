// What the conformance tests of the cublasLt provider share: running everything that it lists for a problem.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "providers/cublaslt.hpp"
#include "support/gemm_case.hpp"
#include "support/gpu.hpp"

namespace attune {

inline Constraints with(MathMode math) {
  Constraints constraints;
  constraints.math = math;
  return constraints;
}

class CublasLt : public testing::Test {
 protected:
  /// What is expected of a plan: to be right, or to be right in every element where the tuner's check of samples accepts it
  /// (for what the library does not promise, such as the rounding of its GELU).
  enum class Expect { right, right_if_accepted };

  void SetUp() override {
    ATTUNE_SKIP_WITHOUT_GPU();
    provider_ = make_cublaslt_provider(0, gpu_runtime().info());
  }

  void TearDown() override {
    for (const std::string& id : rejected_) std::cout << "rejected by the check: " << id << "\n";
  }

  /// Runs the default and every variant; returns how many variants ran.
  int run_all(const GemmProblem& problem, const Constraints& constraints, Effort effort = Effort::standard,
              std::size_t most = SIZE_MAX, Expect expect = Expect::right) {
    SCOPED_TRACE(to_string(Problem(problem)));
    GemmCase gemm_case(problem, constraints);
    const Problem resolved = gemm_case.problem();
    const Prepared fallback = provider_->prepare_default(resolved, constraints);
    EXPECT_EQ(fallback.outcome, Outcome::ok) << fallback.why;
    if (expect == Expect::right_if_accepted)
      trial_ = gpu_runtime().trial(resolved, constraints, constraints.workspace_limit, 17);
    if (fallback.plan && accepted(*fallback.plan)) gemm_case.expect_right(*fallback.plan);

    std::vector<std::string> variants = provider_->variants(resolved, constraints, effort);
    EXPECT_FALSE(variants.empty());
    EXPECT_EQ(std::set<std::string>(variants.begin(), variants.end()).size(), variants.size()) << "listed twice";
    if (variants.size() > most) variants.resize(most);
    int ran = 0;
    for (const std::string& variant : variants) {
      const Prepared made = provider_->prepare(variant, resolved, constraints);
      if (!made.plan) continue;
      EXPECT_EQ(made.plan->id(), "cublaslt:" + variant);
      EXPECT_LE(made.plan->traits().workspace, constraints.workspace_limit);
      EXPECT_TRUE(made.plan->traits().deterministic || !constraints.deterministic);
      if (!accepted(*made.plan)) continue;
      gemm_case.expect_right(*made.plan);
      ++ran;
      if (HasFailure()) break;
    }
    if (expect == Expect::right) {
      EXPECT_GT(ran, 0);
    }
    trial_.reset();
    return ran;
  }

  void expect_declined(const GemmProblem& problem, const Constraints& constraints = {}) {
    SCOPED_TRACE(to_string(Problem(problem)));
    const Problem resolved = resolve(problem);
    EXPECT_TRUE(provider_->variants(resolved, constraints, Effort::standard).empty());
    const Prepared made = provider_->prepare_default(resolved, constraints);
    EXPECT_EQ(made.outcome, Outcome::declined);
    EXPECT_FALSE(made.why.empty());
  }

  std::unique_ptr<Provider> provider_;

 private:
  bool accepted(const Plan& plan) {
    if (trial_ == nullptr || trial_->check(plan).outcome == Outcome::ok) return true;
    rejected_.insert(plan.id());
    return false;
  }

  std::unique_ptr<Trial> trial_;
  std::set<std::string> rejected_;
};

}  // namespace attune

// One GEMM problem on the GPU with operands of its own, and the elementwise check of any plan that solves it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/constraints.hpp"
#include "core/plan.hpp"
#include "core/problem.hpp"

namespace attune {

/// Operands lie exactly as aligned as the problem says, outputs between red zones; where beta is zero C holds NaN. What is
/// wrong is reported as a failure of the running test.
class GemmCase {
 public:
  /// fp8 operands have scales, 0.5 and 1.5, or with `null_scales` none.
  GemmCase(const GemmProblem& problem, const Constraints& constraints, bool null_scales = false);
  ~GemmCase();
  GemmCase(const GemmCase&) = delete;
  GemmCase& operator=(const GemmCase&) = delete;

  /// The resolved problem.
  const Problem& problem() const noexcept { return problem_; }
  /// From now on C is D: filled anew before each run. Needs ldc = ldd and stride_c = stride_d.
  void in_place() noexcept { in_place_ = true; }

  /// Poisons D (or fills it with C), runs the plan once and waits; D's span as it is then. Fails when memory around it changed.
  std::vector<std::byte> run(const Plan& plan);
  /// Every element of run() within the bound of core/tolerance.hpp, and the gaps between columns and matrices untouched.
  void expect_right(const Plan& plan);
  /// The same of two replays of a graph that captured the plan once.
  void expect_right_when_replayed(const Plan& plan);

 private:
  struct Memory;
  void prepare_output();
  Status launch(const Plan& plan);
  std::vector<std::byte> read_output(const Plan& plan);
  void expect_right(const std::vector<std::byte>& d, const Plan& plan);

  Problem problem_;
  Constraints constraints_;
  bool in_place_ = false;
  std::unique_ptr<Memory> memory_;
};

}  // namespace attune

// One conformance check for any provider of GPU plans.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/provider.hpp"
#include "support/gpu_call.hpp"

namespace attune {

class GpuConformance : public GpuContract {
 protected:
  void test(std::unique_ptr<Provider> provider) { provider_ = std::move(provider); }

  /// Runs every variant of the problem that the provider can name, and checks every element and what lies around them. All of
  /// them are made before the first one runs, as when they are tuned: none may take from another. Returns how many there were.
  std::size_t conform(const Problem& problem, const CallOptions& options = {}, std::size_t least = 1) {
    validate(problem);
    GpuCall call(problem, options);
    const Constraints within = applied_to(problem, constraints_);
    const Problem resolved = resolve(call.problem());
    SCOPED_TRACE(to_string(resolved));
    std::vector<std::pair<std::string, std::unique_ptr<Plan>>> plans;
    for (const std::string& variant : provider_->variants(resolved, within, Effort::exhaustive)) {
      if (variant.find(only_) == std::string::npos) continue;
      SCOPED_TRACE(variant);
      Prepared prepared = provider_->prepare(variant, resolved, within);
      EXPECT_TRUE(prepared.plan || may_decline_) << prepared.why;
      if (!prepared.plan) continue;
      EXPECT_EQ(prepared.plan->id(), std::string(provider_->name()) + ":" + variant);
      EXPECT_NE(provider_->version(variant), "");
      plans.emplace_back(variant, std::move(prepared.plan));
    }
    std::size_t count = 0;
    for (const auto& [variant, plan] : plans) {
      SCOPED_TRACE(variant);
      const std::size_t bytes = plan->traits().workspace;
      EXPECT_LE(bytes, within.workspace_limit);
      const DeviceBuffer workspace(bytes + 256, 0xff);
      call.reset();
      EXPECT_EQ(plan->run(call.launch(workspace.get())), Status::ok);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      call.expect_right(within, plan->traits().accumulation);
      seen_.insert(variant);
      ++count;
      if (HasFailure()) break;
    }
    EXPECT_GE(count, least);
    return count;
  }

  std::unique_ptr<Provider> provider_;
  Constraints constraints_;
  std::string only_;  ///< variants that do not contain it are left out
  bool may_decline_ = false;  ///< listed variants may still be declined
  std::set<std::string> seen_;
};

}  // namespace attune

#include "kernels/host_pool.hpp"

#include <fmt/format.h>

#include "providers/host_ops.hpp"

namespace attune {
namespace {

class HostPoolPlan final : public Plan {
 public:
  HostPoolPlan(const HostRow& row, const PoolProblem& problem, std::size_t workspace, std::shared_ptr<HostPool> threads)
      : Plan(fmt::format("host:{}", row.name), {.workspace = workspace}),
        row_(row),
        problem_(problem),
        threads_(std::move(threads)) {}

  Status run(const Launch& launch) const noexcept override {
    HostPoolCall call;
    const bool fwd = problem_.direction == PoolDirection::fwd;
    call.x = fwd ? launch.a : launch.b;
    call.y = fwd || problem_.mode != PoolMode::max ? nullptr : launch.more[0];
    call.dy = fwd ? nullptr : launch.a;
    call.out = launch.d;
    call.workspace = launch.workspace;
    call.threads = threads_.get();
    pool_on_host(row_.family, problem_, row_.threaded, call);
    return Status::ok;
  }

 private:
  const HostRow& row_;
  PoolProblem problem_;
  std::shared_ptr<HostPool> threads_;
};

}  // namespace

Prepared prepare_host_pool(const HostRow& row, const PoolProblem& problem, const Constraints& constraints,
                           std::shared_ptr<HostPool> threads) {
  if (!host_pool_takes(row.family, problem)) return declined("layout");
  const std::size_t workspace = host_pool_workspace(row.family, problem, row.threaded ? threads->threads() : 1);
  if (workspace > constraints.workspace_limit) return declined(fmt::format("needs {} bytes of workspace", workspace));
  return {std::make_unique<HostPoolPlan>(row, problem, workspace, std::move(threads)), Outcome::ok, {}};
}

}  // namespace attune

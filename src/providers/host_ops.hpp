// The host engine's plans for the ops that are no contractions.
#pragma once

#include <attune/problem.hpp>
#include <memory>

#include "core/provider.hpp"
#include "kernels/host_threads.hpp"
#include "kernels/host_tiles.hpp"

namespace attune {

Prepared prepare_host_pool(const HostRow& row, const PoolProblem& problem, const Constraints& constraints,
                           std::shared_ptr<HostPool> threads);

}  // namespace attune

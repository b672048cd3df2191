// Pooling by cuDNN: "pooling", and for maxima "pooling_deterministic" too.
#pragma once

#include <attune/pool.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/provider.hpp"
#include "providers/cudnn_library.hpp"

namespace attune::cudnn {

/// The first is what cuDNN's user would call.
std::vector<std::string> pool_variants(const PoolProblem& problem, const Constraints& constraints);
Prepared prepare_pool(const std::shared_ptr<Library>& library, std::string_view variant, const PoolProblem& problem,
                      const Constraints& constraints);
Prepared prepare_default_pool(const std::shared_ptr<Library>& library, const PoolProblem& problem,
                              const Constraints& constraints);

}  // namespace attune::cudnn

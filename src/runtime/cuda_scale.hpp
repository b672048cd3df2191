// The plan of problems that only scale.
#pragma once

#include <attune/problem.hpp>
#include <memory>

#include "core/plan.hpp"

namespace attune {

/// D = beta * C of a valid, resolved problem.
std::unique_ptr<Plan> make_cuda_scale_plan(const Problem& problem, int ordinal);

}  // namespace attune

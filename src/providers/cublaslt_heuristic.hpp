// What cublasLt's heuristic answers.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "providers/cublaslt_matmul.hpp"

namespace attune {

struct LtQuery {
  std::size_t workspace = 0;     ///< bytes, at most
  std::uint32_t reductions = 0;  ///< mask of cublasLtReductionScheme_t
  int count = 0;                 ///< answers, at most
};

/// The answers that can run, the best guess first; none when the library has none.
std::vector<cublasLtMatmulAlgo_t> ask_heuristic(cublasLtHandle_t handle, const LtMatmul& matmul, const LtAlignment& alignment,
                                                const LtQuery& query);

}  // namespace attune

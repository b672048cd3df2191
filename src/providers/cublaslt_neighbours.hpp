// Configurations of cublasLt's algorithms beyond those that its heuristic offers.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <vector>

#include "providers/cublaslt_config.hpp"
#include "providers/cublaslt_matmul.hpp"

namespace attune {

/// Configurations that differ from a given one in one choice: splits of K with their reduction, swizzle, cluster, stages,
/// custom option, tile (the nearest first). As the algorithm's capabilities allow; whether they can run on a problem is not
/// known.
std::vector<LtConfig> neighbours(const LtConfig& config, const cublasLtMatmulAlgo_t& algo, std::uint32_t reductions);

/// A few configurations of every algorithm for these types, its tiles from the smallest to the largest, for those that the
/// heuristic never mentions. Whether they can run on a problem is not known.
std::vector<LtConfig> seeds(cublasLtHandle_t handle, const LtTypes& types);

/// Whether the algorithm's needs are met; the library's own check of an algorithm does not know the addresses.
bool takes_alignment(const cublasLtMatmulAlgo_t& algo, const LtAlignment& alignment) noexcept;

}  // namespace attune

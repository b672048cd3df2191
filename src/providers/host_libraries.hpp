// CPU libraries as candidates of the host engine. Each is one variant, named after the library; each source is built only where
// its library was found.
#pragma once

#include <string>

#include "core/provider.hpp"

namespace attune {

/// fp32 and fp64 GEMM. Not counted as deterministic: the library promises no order of its sums across calls.
Prepared prepare_openblas(const Problem& problem, const Constraints& constraints);
std::string openblas_version();

/// GEMM and convolution with alpha 1 and beta 0 or 1 (filter and data gradients: beta 0), in the types that this CPU takes. Not
/// counted as deterministic, as OpenBLAS.
Prepared prepare_onednn(const Problem& problem, const Constraints& constraints);
std::string onednn_version();

}  // namespace attune

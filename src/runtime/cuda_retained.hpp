// What a graph needs as long as it lives: the workspaces and plans of the calls that were captured into it.
#pragma once

#include <cuda_runtime_api.h>
#include <attune/error.hpp>
#include <cstddef>
#include <memory>

#include "core/plan.hpp"
#include "runtime/cuda_memory.hpp"

namespace attune {

/// Ties a plan and, unless `bytes` is 0, a block for its workspace (of `memory`, on device `ordinal`) to the graph that the
/// stream is being captured into, and gives the block's address. CUDA drops them when the last graph and executable graph are
/// gone, from a thread that may not call CUDA: they go to a list of the process, which outlives every runtime, and
/// `free_retired` empties it. An allocator given by the caller must therefore outlive the graphs. Executable graphs made from
/// one captured graph share its blocks, so they must not run at the same time.
Status retain_in_capture(const std::shared_ptr<const Plan>& plan, std::size_t bytes, CudaMemory& memory, int ordinal,
                         cudaStream_t side_stream, cudaStream_t captured, void** workspace) noexcept;

/// Frees what graphs have dropped since. Called on miss paths and when a runtime begins or ends.
void free_retired() noexcept;

}  // namespace attune

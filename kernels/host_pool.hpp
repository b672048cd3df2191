// The host engine's pooling.
#pragma once

#include <attune/pool.hpp>
#include <cstddef>

#include "kernels/host_threads.hpp"
#include "kernels/host_tiles.hpp"

namespace attune {

struct HostPoolCall {
  const void* x = nullptr;   ///< of fwd, and of bwd with max
  const void* y = nullptr;   ///< of bwd with max
  const void* dy = nullptr;  ///< of bwd
  void* out = nullptr;
  void* workspace = nullptr;
  HostPool* threads = nullptr;
};

/// `problem` is valid and resolved. reference: any strides. channels: channels side by side. planes: rows contiguous.
bool host_pool_takes(HostFamily family, const PoolProblem& problem) noexcept;
std::size_t host_pool_workspace(HostFamily family, const PoolProblem& problem, int threads) noexcept;
void pool_on_host(HostFamily family, const PoolProblem& problem, bool threaded, const HostPoolCall& call);

}  // namespace attune

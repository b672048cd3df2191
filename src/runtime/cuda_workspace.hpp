// Workspaces of calls: one block for each stream, found without a lock.
#pragma once

#include <cuda_runtime_api.h>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/cuda_memory.hpp"

namespace attune {

/// Each stream has one block, and whoever enqueues on the stream holds it for as long as that takes: work on a stream is
/// ordered, but the kernels of two plans enqueued by two threads at once would interleave. The second such thread, and a stream
/// that finds the table full, take memory in the order of the stream for that one call. Streams are told apart by their ids,
/// which CUDA never uses twice.
class WorkspacePool {
 public:
  explicit WorkspacePool(CudaMemory& memory) noexcept : memory_(memory) {}
  WorkspacePool(const WorkspacePool&) = delete;
  WorkspacePool& operator=(const WorkspacePool&) = delete;
  /// Frees every block once the device is idle. Nobody may use the pool any more.
  void release() noexcept;

  struct Lease;
  /// The stream must not be captured. A lease without pointer: denied, and the reason is noted.
  Lease lease(cudaStream_t stream, std::size_t bytes) noexcept;
  void end(const Lease& lease, cudaStream_t stream) noexcept;

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> key{0};  ///< stream id + 1; 0: free
    std::atomic<bool> busy{false};
    Block block;  ///< of whoever set busy
  };
  static constexpr std::size_t slots = 128;
  static constexpr std::size_t most_streams = 64;

  Slot* slot_of(std::uint64_t key) noexcept;
  bool grow(Slot& slot, std::size_t bytes, cudaStream_t stream) noexcept;

  CudaMemory& memory_;
  std::atomic<std::size_t> streams_{0};
  Slot table_[slots];

 public:
  struct Lease {
    void* pointer = nullptr;
    Slot* slot = nullptr;
    Block own;  ///< when there is no slot
  };
};

}  // namespace attune

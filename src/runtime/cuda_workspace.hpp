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
/// for which there is no slot, take memory in the order of the stream for that one call. Streams are told apart by their ids,
/// which CUDA never uses twice.
///
/// Nobody says when a stream is gone. So once there were more than a few, each use of a block is followed by an event, and a
/// new stream takes over the slot of one that has not been used for a while and whose work is done.
class WorkspacePool {
 public:
  /// Streams that have slots for good, and cost no events.
  static constexpr std::size_t few_streams = 8;

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
    std::atomic<std::uint64_t> key{0};  ///< stream id + 1; 0: free. Changed by whoever set busy
    std::atomic<bool> busy{false};
    std::atomic<bool> used{false};  ///< since a new stream last looked for a slot to take over
    bool fenced = false;            ///< the event follows the last use; this and what follows are of whoever set busy
    cudaEvent_t event = nullptr;
    Block block;
  };
  static constexpr std::size_t slots = 64;

  bool crowded() const noexcept { return streams_.load(std::memory_order_relaxed) > few_streams; }
  /// The stream's slot, busy; null when it is busy already, or there is none to be had.
  Slot* hold(std::uint64_t key) noexcept;
  Slot* claim(std::uint64_t key, std::size_t home) noexcept;
  Slot* take_over(std::uint64_t key) noexcept;
  void fence(Slot& slot, cudaStream_t stream) noexcept;
  bool grow(Slot& slot, std::size_t bytes, cudaStream_t stream) noexcept;

  CudaMemory& memory_;
  std::atomic<std::size_t> streams_{0};  ///< slots that were claimed
  std::atomic<std::size_t> hand_{0};
  Slot table_[slots];

 public:
  struct Lease {
    void* pointer = nullptr;
    Slot* slot = nullptr;
    Block own;  ///< when there is no slot
  };
};

}  // namespace attune

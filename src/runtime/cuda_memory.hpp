// Device memory of a runtime: the caller's allocator where one is set, else a private stream-ordered pool and plain blocks.
#pragma once

#include <cuda_runtime_api.h>
#include <attune/context.hpp>
#include <cstddef>
#include <mutex>

namespace attune {

struct Block {
  void* pointer = nullptr;  ///< aligned to 256 bytes; null: denied, and the reason is noted
  std::size_t bytes = 0;
};

/// Thread-safe. Blocks are freed by whoever took them, the same way.
class CudaMemory {
 public:
  explicit CudaMemory(int ordinal) noexcept;
  ~CudaMemory();
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  /// Usable by work enqueued on the stream from now on; given back in the order of the stream, too.
  Block take(std::size_t bytes, cudaStream_t stream) noexcept;
  void give_back(const Block& block, cudaStream_t stream) noexcept;
  /// Usable at once, on any stream; `stream` must not be captured. drop waits until the device no longer uses the block.
  Block take_now(std::size_t bytes, cudaStream_t stream) noexcept;
  void drop(const Block& block, cudaStream_t stream) noexcept;

  bool set_allocator(const Allocator& allocator) noexcept;
  /// Fixed once the first block was taken.
  Allocator allocator() const noexcept;

 private:
  Block from_allocator(const Allocator& allocator, std::size_t bytes, cudaStream_t stream) noexcept;
  /// The allocator as it is from now on.
  Allocator fixed_allocator() noexcept;

  mutable std::mutex mutex_;
  Allocator allocator_;
  bool taken_ = false;
  cudaMemPool_t pool_ = nullptr;  ///< null where the device has none
};

}  // namespace attune

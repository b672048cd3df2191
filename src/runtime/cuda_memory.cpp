#include "runtime/cuda_memory.hpp"

#include <cstdint>
#include <limits>

#include "runtime/cuda_support.hpp"

namespace attune {

CudaMemory::CudaMemory(int ordinal) noexcept {
  int pools = 0;
  if (cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, ordinal) != cudaSuccess || pools == 0) return;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = ordinal;
  if (cudaMemPoolCreate(&pool_, &properties) != cudaSuccess) {
    cudaGetLastError();
    pool_ = nullptr;
    return;
  }
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
  if (cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep) != cudaSuccess) cudaGetLastError();
}

CudaMemory::~CudaMemory() {
  // The driver may already be gone when a context outlives main; its memory went with it.
  if (pool_ != nullptr && cudaMemPoolDestroy(pool_) != cudaSuccess) cudaGetLastError();
}

Allocator CudaMemory::fixed_allocator() noexcept {
  const std::lock_guard lock(mutex_);
  taken_ = true;
  return allocator_;
}

Allocator CudaMemory::allocator() const noexcept {
  const std::lock_guard lock(mutex_);
  return allocator_;
}

bool CudaMemory::set_allocator(const Allocator& allocator) noexcept {
  const std::lock_guard lock(mutex_);
  if (taken_) return false;
  allocator_ = allocator;
  return true;
}

Block CudaMemory::from_allocator(const Allocator& allocator, std::size_t bytes, cudaStream_t stream) noexcept {
  void* pointer = nullptr;
  try {
    pointer = allocator.allocate(bytes, stream, allocator.user);
  } catch (...) {
    note_failure("the allocator threw when asked for %zu bytes", bytes);
    return {};
  }
  if (pointer == nullptr) {
    note_failure("the allocator denied %zu bytes", bytes);
    return {};
  }
  if (reinterpret_cast<std::uintptr_t>(pointer) % 256 != 0) {
    note_failure("the allocator returned memory that is not aligned to 256 bytes");
    allocator.deallocate(pointer, bytes, stream, allocator.user);
    return {};
  }
  return {pointer, bytes};
}

Block CudaMemory::take(std::size_t bytes, cudaStream_t stream) noexcept {
  const Allocator allocator = fixed_allocator();
  const RelaxedCapture relaxed;
  if (allocator.allocate != nullptr) return from_allocator(allocator, bytes, stream);
  void* pointer = nullptr;
  const cudaError_t error =
      pool_ != nullptr ? cudaMallocFromPoolAsync(&pointer, bytes, pool_, stream) : cudaMalloc(&pointer, bytes);
  return cuda_status(error, "taking a workspace") == Status::ok ? Block{pointer, bytes} : Block{};
}

void CudaMemory::give_back(const Block& block, cudaStream_t stream) noexcept {
  if (block.pointer == nullptr) return;
  const Allocator hooks = allocator();
  const RelaxedCapture relaxed;
  if (hooks.deallocate != nullptr) {
    hooks.deallocate(block.pointer, block.bytes, stream, hooks.user);
    return;
  }
  if ((pool_ != nullptr ? cudaFreeAsync(block.pointer, stream) : cudaFree(block.pointer)) != cudaSuccess) cudaGetLastError();
}

Block CudaMemory::take_now(std::size_t bytes, cudaStream_t stream) noexcept {
  const Allocator allocator = fixed_allocator();
  const RelaxedCapture relaxed;
  if (allocator.allocate != nullptr) {
    const Block block = from_allocator(allocator, bytes, stream);
    if (block.pointer != nullptr && cudaStreamSynchronize(stream) != cudaSuccess) cudaGetLastError();
    return block;
  }
  void* pointer = nullptr;
  return cuda_status(cudaMalloc(&pointer, bytes), "cudaMalloc") == Status::ok ? Block{pointer, bytes} : Block{};
}

void CudaMemory::drop(const Block& block, cudaStream_t stream) noexcept {
  if (block.pointer == nullptr) return;
  const Allocator hooks = allocator();
  const RelaxedCapture relaxed;
  if (hooks.deallocate != nullptr)
    hooks.deallocate(block.pointer, block.bytes, stream, hooks.user);
  else if (cudaFree(block.pointer) != cudaSuccess)
    cudaGetLastError();
}

}  // namespace attune

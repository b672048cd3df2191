#include "runtime/cuda_workspace.hpp"

#include <algorithm>

#include "runtime/cuda_support.hpp"

namespace attune {

void WorkspacePool::release() noexcept {
  // The streams may be gone, so the blocks cannot be given back in their order.
  const RelaxedCapture relaxed;
  if (streams_.load() != 0 && cudaDeviceSynchronize() != cudaSuccess) cudaGetLastError();
  for (Slot& slot : table_) {
    memory_.drop(slot.block, nullptr);
    slot.block = {};
    if (slot.event != nullptr && cudaEventDestroy(slot.event) != cudaSuccess) cudaGetLastError();
    slot.event = nullptr;
  }
}

WorkspacePool::Slot* WorkspacePool::hold(std::uint64_t key) noexcept {
  static_assert(slots == 64, "the hash gives six bits");
  const std::size_t home = (key * 0x9E3779B97F4A7C15ull) >> 58;
  const bool everywhere = crowded();  // a slot that was taken over may lie anywhere
  for (std::size_t probe = 0; probe < slots; ++probe) {
    Slot& slot = table_[(home + probe) % slots];
    const std::uint64_t found = slot.key.load(std::memory_order_acquire);
    if (found == 0 && !everywhere) break;
    if (found != key) continue;
    if (slot.busy.exchange(true, std::memory_order_acquire)) return nullptr;
    if (slot.key.load(std::memory_order_relaxed) == key) return &slot;
    slot.busy.store(false, std::memory_order_release);  // taken over meanwhile
    break;
  }
  Slot* const left = everywhere ? take_over(key) : nullptr;
  return left != nullptr ? left : claim(key, home);
}

WorkspacePool::Slot* WorkspacePool::claim(std::uint64_t key, std::size_t home) noexcept {
  for (std::size_t probe = 0; probe < slots; ++probe) {
    Slot& slot = table_[(home + probe) % slots];
    if (slot.key.load(std::memory_order_relaxed) != 0 || slot.busy.exchange(true, std::memory_order_acquire)) continue;
    if (slot.key.load(std::memory_order_relaxed) == 0) {
      slot.key.store(key, std::memory_order_release);
      streams_.fetch_add(1, std::memory_order_relaxed);
      return &slot;
    }
    slot.busy.store(false, std::memory_order_release);
  }
  return nullptr;
}

// The second-chance rule, as in the plan cache: who was used since the hand last passed stays this time.
WorkspacePool::Slot* WorkspacePool::take_over(std::uint64_t key) noexcept {
  const RelaxedCapture relaxed;  // asking an event breaks another thread's capture otherwise
  for (std::size_t step = 0; step < slots; ++step) {
    Slot& slot = table_[hand_.fetch_add(1, std::memory_order_relaxed) % slots];
    if (slot.key.load(std::memory_order_relaxed) == 0 || slot.used.exchange(false, std::memory_order_relaxed)) continue;
    if (slot.busy.exchange(true, std::memory_order_acquire)) continue;
    if (slot.fenced) {
      const cudaError_t state = cudaEventQuery(slot.event);
      if (state == cudaSuccess) {
        slot.key.store(key, std::memory_order_release);
        return &slot;
      }
      if (state != cudaErrorNotReady) cudaGetLastError();
    }
    slot.busy.store(false, std::memory_order_release);
  }
  return nullptr;
}

void WorkspacePool::fence(Slot& slot, cudaStream_t stream) noexcept {
  slot.fenced = false;
  if (!crowded()) return;
  if (slot.event == nullptr) {
    const RelaxedCapture relaxed;
    if (cudaEventCreateWithFlags(&slot.event, cudaEventDisableTiming) != cudaSuccess) {
      cudaGetLastError();
      slot.event = nullptr;
      return;
    }
  }
  slot.fenced = cudaEventRecord(slot.event, stream) == cudaSuccess;
  if (!slot.fenced) cudaGetLastError();
}

bool WorkspacePool::grow(Slot& slot, std::size_t bytes, cudaStream_t stream) noexcept {
  // Work enqueued earlier still uses the old block; it is given back behind that work.
  memory_.give_back(slot.block, stream);
  const std::size_t generous = std::max(bytes, slot.block.bytes + slot.block.bytes / 2);
  slot.block = memory_.take((generous + 255) / 256 * 256, stream);
  if (slot.block.pointer == nullptr && generous > bytes) slot.block = memory_.take(bytes, stream);
  return slot.block.pointer != nullptr;
}

WorkspacePool::Lease WorkspacePool::lease(cudaStream_t stream, std::size_t bytes) noexcept {
  unsigned long long id = 0;
  if (cuda_status(cudaStreamGetId(stream, &id), "cudaStreamGetId") != Status::ok) return {};
  Slot* const slot = hold(std::uint64_t{id} + 1);
  if (slot == nullptr) {
    const Block own = memory_.take(bytes, stream);
    return {own.pointer, nullptr, own};
  }
  if (!slot->used.load(std::memory_order_relaxed)) slot->used.store(true, std::memory_order_relaxed);
  if (slot->block.bytes < bytes && !grow(*slot, bytes, stream)) {
    fence(*slot, stream);
    slot->busy.store(false, std::memory_order_release);
    return {};
  }
  return {slot->block.pointer, slot, {}};
}

void WorkspacePool::end(const Lease& lease, cudaStream_t stream) noexcept {
  if (lease.slot == nullptr) {
    memory_.give_back(lease.own, stream);
    return;
  }
  fence(*lease.slot, stream);
  lease.slot->busy.store(false, std::memory_order_release);
}

}  // namespace attune

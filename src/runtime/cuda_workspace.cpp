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
  }
}

WorkspacePool::Slot* WorkspacePool::slot_of(std::uint64_t key) noexcept {
  std::size_t at = (key * 0x9E3779B97F4A7C15ull) >> 57;
  static_assert(slots == 128, "the hash gives seven bits");
  for (std::size_t probe = 0; probe < slots; ++probe, at = (at + 1) % slots) {
    Slot& slot = table_[at];
    std::uint64_t found = slot.key.load(std::memory_order_acquire);
    if (found == key) return &slot;
    if (found != 0) continue;
    if (streams_.fetch_add(1, std::memory_order_relaxed) >= most_streams) {
      streams_.fetch_sub(1, std::memory_order_relaxed);
      return nullptr;
    }
    if (slot.key.compare_exchange_strong(found, key, std::memory_order_acq_rel)) return &slot;
    streams_.fetch_sub(1, std::memory_order_relaxed);
    if (found == key) return &slot;
  }
  return nullptr;
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
  Slot* slot = slot_of(std::uint64_t{id} + 1);
  if (slot == nullptr || slot->busy.exchange(true, std::memory_order_acquire)) {
    const Block own = memory_.take(bytes, stream);
    return {own.pointer, nullptr, own};
  }
  if (slot->block.bytes < bytes && !grow(*slot, bytes, stream)) {
    slot->busy.store(false, std::memory_order_release);
    return {};
  }
  return {slot->block.pointer, slot, {}};
}

void WorkspacePool::end(const Lease& lease, cudaStream_t stream) noexcept {
  if (lease.slot != nullptr)
    lease.slot->busy.store(false, std::memory_order_release);
  else
    memory_.give_back(lease.own, stream);
}

}  // namespace attune

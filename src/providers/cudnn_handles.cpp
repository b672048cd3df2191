#include "providers/cudnn_handles.hpp"

#include "runtime/cuda_support.hpp"

namespace attune::cudnn {
namespace {

/// Spreads threads over the slots.
std::size_t first_slot() noexcept {
  static std::atomic<std::size_t> threads{0};
  thread_local const std::size_t mine = threads.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace

Status failed(const char* what, cudnnStatus_t status) noexcept {
  char detail[256] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  note_failure("%s: %s %s", what, cudnnGetErrorString(status), detail);
  cudaGetLastError();
  return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                 status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
             ? Status::no_memory
             : Status::device_error;
}

void HandlePool::clear() noexcept {
  for (Slot& slot : slots_)
    if (cudnnHandle_t handle = slot.idle.exchange(nullptr)) cudnnDestroy(handle);
}

HandlePool::Lease HandlePool::borrow() noexcept {
  const std::size_t first = first_slot();
  for (std::size_t i = 0; i < slot_count; ++i) {
    std::atomic<cudnnHandle_t>& idle = slots_[(first + i) % slot_count].idle;
    if (idle.load(std::memory_order_relaxed) == nullptr) continue;
    if (cudnnHandle_t handle = idle.exchange(nullptr, std::memory_order_acquire)) return {*this, handle, CUDNN_STATUS_SUCCESS};
  }
  const RelaxedCapture relaxed;
  cudnnHandle_t handle = nullptr;
  const cudnnStatus_t status = cudnnCreate(&handle);
  return {*this, status == CUDNN_STATUS_SUCCESS ? handle : nullptr, status};
}

void HandlePool::put_back(cudnnHandle_t handle) noexcept {
  const std::size_t first = first_slot();
  for (std::size_t i = 0; i < slot_count; ++i) {
    cudnnHandle_t none = nullptr;
    std::atomic<cudnnHandle_t>& idle = slots_[(first + i) % slot_count].idle;
    if (idle.compare_exchange_strong(none, handle, std::memory_order_release, std::memory_order_relaxed)) return;
  }
  const RelaxedCapture relaxed;
  cudnnDestroy(handle);
}

}  // namespace attune::cudnn

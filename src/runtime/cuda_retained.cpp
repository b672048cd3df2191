#include "runtime/cuda_retained.hpp"

#include <atomic>
#include <new>

#include "runtime/cuda_support.hpp"

namespace attune {
namespace {

struct Retained {
  std::shared_ptr<const Plan> plan;
  Block block;
  Allocator allocator;
  int ordinal = 0;
  Retained* next = nullptr;
};

std::atomic<Retained*> retired{nullptr};

void retire(void* object) {
  auto* item = static_cast<Retained*>(object);
  item->next = retired.load(std::memory_order_relaxed);
  while (!retired.compare_exchange_weak(item->next, item, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace

void free_retired() noexcept {
  if (retired.load(std::memory_order_relaxed) == nullptr) return;
  const RelaxedCapture relaxed;
  for (Retained* item = retired.exchange(nullptr, std::memory_order_acquire); item != nullptr;) {
    const std::unique_ptr<Retained> owner(item);
    const DeviceScope device(item->ordinal);
    if (item->block.pointer != nullptr) {
      // The runtime that took the block may be gone: its allocator and the plain way of freeing need no runtime.
      if (item->allocator.deallocate != nullptr)
        item->allocator.deallocate(item->block.pointer, item->block.bytes, nullptr, item->allocator.user);
      else if (cudaFree(item->block.pointer) != cudaSuccess)
        cudaGetLastError();
    }
    item = item->next;
    owner->plan.reset();
  }
}

Status retain_in_capture(const std::shared_ptr<const Plan>& plan, std::size_t bytes, CudaMemory& memory, int ordinal,
                         cudaStream_t side_stream, cudaStream_t captured, void** workspace) noexcept {
  free_retired();
  const RelaxedCapture relaxed;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const Status found = cuda_status(cudaStreamGetCaptureInfo(captured, &capture, &id, &graph), "cudaStreamGetCaptureInfo");
  if (found != Status::ok) return found;
  if (capture != cudaStreamCaptureStatusActive || graph == nullptr) {
    note_failure("the capture of this stream is no longer valid");
    return Status::device_error;
  }
  std::unique_ptr<Retained> item(new (std::nothrow) Retained);
  if (item == nullptr) {
    note_failure("out of host memory");
    return Status::no_memory;
  }
  item->plan = plan;
  item->ordinal = ordinal;
  if (bytes != 0) {
    item->block = memory.take_now(bytes, side_stream);
    if (item->block.pointer == nullptr) return Status::no_memory;
    item->allocator = memory.allocator();
  }
  void* const pointer = item->block.pointer;
  cudaUserObject_t object = nullptr;
  Status status =
      cuda_status(cudaUserObjectCreate(&object, item.get(), retire, 1, cudaUserObjectNoDestructorSync), "cudaUserObjectCreate");
  if (status != Status::ok) {
    memory.drop(item->block, side_stream);
    return status;
  }
  item.release();  // from here on CUDA's to drop, also when the graph cannot take it
  status = cuda_status(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove), "cudaGraphRetainUserObject");
  if (status != Status::ok) {
    cudaUserObjectRelease(object, 1);
    return status;
  }
  if (pointer != nullptr) *workspace = pointer;
  return Status::ok;
}

}  // namespace attune

// Handles of cuDNN on one device. A handle holds the stream, so each call borrows one for itself.
#pragma once

#include <cudnn.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

#include <attune/error.hpp>

namespace attune::cudnn {

/// For a call that answered with an error: remembers its text, takes it out of CUDA's state.
Status failed(const char* what, cudnnStatus_t status) noexcept;

/// Made when first needed, kept for reuse. Borrowing is lock-free, and a thread mostly finds the handle that it used last.
/// The device must be current whenever a handle is borrowed.
class HandlePool {
 public:
  /// One borrowed handle; null when none could be made.
  class Lease {
   public:
    Lease(HandlePool& pool, cudnnHandle_t handle, cudnnStatus_t status) noexcept
        : pool_(&pool), handle_(handle), status_(status) {}
    Lease(Lease&& other) noexcept
        : pool_(other.pool_), handle_(std::exchange(other.handle_, nullptr)), status_(other.status_) {}
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (handle_) pool_->put_back(handle_);
    }
    cudnnHandle_t get() const noexcept { return handle_; }
    cudnnStatus_t status() const noexcept { return status_; }

   private:
    HandlePool* pool_;
    cudnnHandle_t handle_;
    cudnnStatus_t status_;
  };

  HandlePool() = default;
  HandlePool(const HandlePool&) = delete;
  HandlePool& operator=(const HandlePool&) = delete;

  Lease borrow() noexcept;
  /// Destroys the idle handles; nothing may be borrowed any more.
  void clear() noexcept;

 private:
  struct alignas(64) Slot {
    std::atomic<cudnnHandle_t> idle{nullptr};
  };
  static constexpr std::size_t slot_count = 64;

  void put_back(cudnnHandle_t handle) noexcept;

  std::array<Slot, slot_count> slots_;
};

}  // namespace attune::cudnn

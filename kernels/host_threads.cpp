#include "kernels/host_threads.hpp"

#include <exception>

namespace attune {

HostPool::~HostPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void HostPool::start(std::int64_t tasks, bool threaded, Call call, void* body) noexcept {
  std::unique_lock busy(busy_, std::defer_lock);
  if (!threaded || threads_ == 1 || tasks < 2 || !busy.try_lock()) {
    for (std::int64_t task = 0; task < tasks; ++task) call(body, 0, task);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    try {
      while (static_cast<int>(workers_.size()) < threads_ - 1) {
        const int worker = static_cast<int>(workers_.size()) + 1;
        workers_.emplace_back([this, worker] { serve(worker); });
      }
    } catch (const std::exception&) {
      // The threads that could be had do the work.
    }
    call_ = call, body_ = body, tasks_ = tasks;
    next_.store(0, std::memory_order_relaxed);
    running_ = static_cast<int>(workers_.size());
    ++job_;
  }
  wake_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
}

void HostPool::work(int worker) noexcept {
  for (;;) {
    const std::int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
    if (task >= tasks_) return;
    call_(body_, worker, task);
  }
}

void HostPool::serve(int worker) noexcept {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || job_ != seen; });
    if (stop_) return;
    seen = job_;
    lock.unlock();
    work(worker);
    lock.lock();
    if (--running_ == 0) done_.notify_all();
  }
}

}  // namespace attune

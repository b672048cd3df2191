// The host engine's threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace attune {

/// A fixed number of threads, the caller's among them; the others start with the first job that needs them. Any thread may
/// call `run`; while one job is on, another caller does its own alone. Work must not depend on which thread does a task.
class HostPool {
 public:
  explicit HostPool(int threads) : threads_(threads < 1 ? 1 : threads) {}
  ~HostPool();
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  int threads() const noexcept { return threads_; }

  /// f(worker, task) for every task in [0, tasks); worker is in [0, threads). Returns when all are done. f must not throw.
  template <class F>
  void run(std::int64_t tasks, bool threaded, F&& f) {
    using Body = std::remove_reference_t<F>;
    start(
        tasks, threaded, [](void* body, int worker, std::int64_t task) { (*static_cast<Body*>(body))(worker, task); }, &f);
  }

 private:
  using Call = void (*)(void* body, int worker, std::int64_t task);
  void start(std::int64_t tasks, bool threaded, Call call, void* body) noexcept;
  void work(int worker) noexcept;
  void serve(int worker) noexcept;

  const int threads_;
  std::mutex busy_;  ///< held by the caller whose job is on
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> workers_;
  std::uint64_t job_ = 0;
  int running_ = 0;
  bool stop_ = false;
  Call call_ = nullptr;
  void* body_ = nullptr;
  std::int64_t tasks_ = 0;
  std::atomic<std::int64_t> next_{0};
};

}  // namespace attune

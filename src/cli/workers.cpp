#include "cli/workers.hpp"

#include <attune/error.hpp>

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace attune::cli {
namespace {

struct Waiting {
  const Row* row = nullptr;
  bool begun = false;  ///< a lost worker handed it back
};

/// The rows that wait for devices of one key.
struct Queue {
  std::deque<Waiting> rows;
  int under_way = 0;      ///< rows that a worker has, and may hand back
  std::string last_loss;  ///< why the last worker went
};

class Pool {
 public:
  Pool(const std::vector<Worker>& workers, const std::vector<Row>& rows, const WorkerEvents& events)
      : workers_(workers), events_(events) {
    for (const Worker& worker : workers) queues_[worker.device_key];
    for (const Row& row : rows) {
      if (row.wrong.empty()) {
        for (auto& [key, queue] : queues_) queue.rows.push_back({&row});
        continue;
      }
      events_.begin(row);
      events_.report({&row, "", {}, row.wrong});
    }
  }

  void run() {
    {
      std::vector<std::jthread> threads;
      for (const Worker& worker : workers_) threads.emplace_back([this, &worker] { work(worker); });
    }
    if (failure_) std::rethrow_exception(failure_);
  }

  void report_what_is_left() {
    for (auto& [key, queue] : queues_)
      for (const Waiting& left : queue.rows) {
        if (!left.begun) events_.begin(*left.row);
        events_.report({left.row, "", {}, queue.last_loss});
      }
  }

 private:
  /// Waits while another worker may yet hand a row back; nothing when all rows are done.
  std::optional<Waiting> next(Queue& queue) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue.under_way == 0 || !queue.rows.empty(); });
    if (queue.rows.empty() || failure_) return std::nullopt;
    const Waiting next = queue.rows.front();
    queue.rows.pop_front();
    if (!next.begun) events_.begin(*next.row);
    ++queue.under_way;
    return next;
  }

  /// What an event throws ends the work of all, and is thrown to the caller.
  void work(const Worker& worker) {
    try {
      work_through(worker);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      for (auto& [key, queue] : queues_) queue.rows.clear();
      changed_.notify_all();
    }
  }

  void work_through(const Worker& worker) {
    Queue& queue = queues_.at(worker.device_key);
    while (const std::optional<Waiting> had = next(queue)) {
      const Row* const row = had->row;
      WorkerResult result{row, worker.name, {}, {}};
      bool lost = false;
      try {
        result.info = worker.tune(*row);
      } catch (const Error& e) {
        result.wrong = e.what();
        lost = e.status() == Status::device_error || e.status() == Status::no_device;
      } catch (const std::exception& e) {
        result.wrong = e.what();
      }
      const std::lock_guard lock(mutex_);
      --queue.under_way;
      changed_.notify_all();
      // A row that fails like this on a second device is at fault itself.
      if (lost && !had->begun) {
        queue.rows.push_front({row, true});
        queue.last_loss = worker.name + ": " + result.wrong;
        events_.lost(worker, result.wrong);
        return;
      }
      events_.report(result);
    }
  }

  const std::vector<Worker>& workers_;
  const WorkerEvents& events_;
  std::mutex mutex_;  ///< guards the queues, and is held during events
  std::condition_variable changed_;
  std::exception_ptr failure_;
  std::map<std::string, Queue> queues_;
};

}  // namespace

void tune_with(const std::vector<Worker>& workers, const std::vector<Row>& rows, const WorkerEvents& events) {
  Pool pool(workers, rows, events);
  pool.run();
  pool.report_what_is_left();
}

}  // namespace attune::cli

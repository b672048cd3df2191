#include "cli/workers.hpp"

#include <attune/error.hpp>

#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace attune::cli {
namespace {

/// The rows that wait for devices of one key.
struct Queue {
  std::deque<const Row*> rows;
  std::string last_loss;  ///< why the last worker went
};

class Pool {
 public:
  Pool(const std::vector<Worker>& workers, const std::vector<Row>& rows, const std::function<void(const Row&)>& begin,
       const std::function<void(const WorkerResult&)>& report)
      : workers_(workers), begin_(begin), report_(report) {
    for (const Worker& worker : workers) queues_[worker.device_key];
    for (const Row& row : rows) {
      if (row.wrong.empty()) {
        for (auto& [key, queue] : queues_) queue.rows.push_back(&row);
        continue;
      }
      begin_(row);
      report_({&row, "", {}, row.wrong});
    }
  }

  void run() {
    std::vector<std::jthread> threads;
    for (const Worker& worker : workers_) threads.emplace_back([this, &worker] { work(worker); });
  }

  void report_what_is_left() {
    for (auto& [key, queue] : queues_)
      for (const Row* row : queue.rows) report_({row, "", {}, queue.last_loss});
  }

 private:
  const Row* next(Queue& queue) {
    const std::lock_guard lock(mutex_);
    if (queue.rows.empty()) return nullptr;
    const Row* row = queue.rows.front();
    queue.rows.pop_front();
    begin_(*row);
    return row;
  }

  void work(const Worker& worker) {
    Queue& queue = queues_.at(worker.device_key);
    while (const Row* row = next(queue)) {
      WorkerResult result{row, worker.name, {}, {}};
      bool lost = false;
      try {
        result.info = worker.tune(*row->problem);
      } catch (const Error& e) {
        result.wrong = e.what();
        lost = e.status() == Status::device_error || e.status() == Status::no_device;
      } catch (const std::exception& e) {
        result.wrong = e.what();
      }
      const std::lock_guard lock(mutex_);
      if (lost) {
        queue.rows.push_front(row);
        queue.last_loss = worker.name + ": " + result.wrong;
        return;
      }
      report_(result);
    }
  }

  const std::vector<Worker>& workers_;
  const std::function<void(const Row&)>& begin_;
  const std::function<void(const WorkerResult&)>& report_;
  std::mutex mutex_;  ///< guards the queues and the reports
  std::map<std::string, Queue> queues_;
};

}  // namespace

void tune_with(const std::vector<Worker>& workers, const std::vector<Row>& rows, const std::function<void(const Row&)>& begin,
               const std::function<void(const WorkerResult&)>& report) {
  Pool pool(workers, rows, begin, report);
  pool.run();
  pool.report_what_is_left();
}

}  // namespace attune::cli

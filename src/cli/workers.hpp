// Rows of a workload spread over several contexts, one worker each.
#pragma once

#include <attune/context.hpp>
#include <functional>
#include <string>
#include <vector>

#include "cli/workload.hpp"

namespace attune::cli {

struct Worker {
  std::string name;        ///< of its device, for messages
  std::string device_key;  ///< plans serve devices of one key
  /// Throws Error: device_error and no_device when the device is lost, everything else about the row alone.
  std::function<PlanInfo(const Row&)> tune;
};

/// What became of a row on devices of one key.
struct WorkerResult {
  const Row* row = nullptr;
  std::string worker;
  PlanInfo info;
  std::string wrong;  ///< empty when `info` is there
};

/// What is called as the work goes on: never two of these at once.
struct WorkerEvents {
  std::function<void(const Row&)> begin;            ///< once for each row and device key
  std::function<void(const WorkerResult&)> report;  ///< each result, bad rows included, in the order in which they end
  std::function<void(const Worker&, const std::string& why)> lost;  ///< a worker's device is gone
};

/// Tunes every good row once for each distinct device key: workers of one key share a queue. A worker whose device is lost
/// hands its row back and stops, and another of its key takes it; rows that nobody is left for are reported as wrong.
void tune_with(const std::vector<Worker>& workers, const std::vector<Row>& rows, const WorkerEvents& events);

}  // namespace attune::cli

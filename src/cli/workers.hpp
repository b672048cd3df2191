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
  /// Throws Error: device_error and no_device when the device is lost, everything else about the problem alone.
  std::function<PlanInfo(const Problem&)> tune;
};

/// What became of a row on devices of one key.
struct WorkerResult {
  const Row* row = nullptr;
  std::string worker;
  PlanInfo info;
  std::string wrong;  ///< empty when `info` is there
};

/// Tunes every good row once for each distinct device key: workers of one key share a queue. A worker whose device is lost hands
/// its row back and stops; rows that nobody is left for are reported as wrong. `begin` is called as a row is begun, `report` for
/// each result, bad rows included, in the order in which they end: never two of these calls at once.
void tune_with(const std::vector<Worker>& workers, const std::vector<Row>& rows, const std::function<void(const Row&)>& begin,
               const std::function<void(const WorkerResult&)>& report);

}  // namespace attune::cli

// Times one plan between events: replays of captured graphs, or plain launches.
#pragma once

#include <cuda_runtime_api.h>
#include <vector>

#include "core/runtime.hpp"

namespace attune {

class CudaTrial;

/// How many launches make one sample, so that it takes about 250 us.
int launches_per_sample(double expected_us) noexcept;

/// One sample launches the plan `launches` times on consecutive operand sets and begins where the trial's last sample, of
/// whichever candidate, ended: no launch finds operands that the launches just before it left in the cache. With few launches
/// that takes several graphs, one for each place to begin; each is made when it is first needed.
class CudaTimer final : public Timer {
 public:
  CudaTimer(CudaTrial& trial, const Plan& plan, TimingMethod method, double expected_us);
  ~CudaTimer() override;
  double sample() override;
  /// One untimed sample. Throws Error when the plan cannot be timed this way.
  void warm_up();

 private:
  /// The place of the graph, or of the first launch, and moves the trial on.
  int begin_next() noexcept;
  cudaGraphExec_t graph(int place);
  cudaGraphExec_t capture(int first_set);
  void enqueue(int first_set);
  void replay(int place);

  CudaTrial& trial_;
  const Plan& plan_;
  const TimingMethod method_;
  const int launches_;
  std::vector<cudaGraphExec_t> graphs_;  ///< graph i begins with set i * launches_
};

}  // namespace attune

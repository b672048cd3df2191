#include "runtime/cuda_timer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/trial_kernels.hpp"
#include "runtime/cuda_support.hpp"
#include "runtime/cuda_trial.hpp"

namespace attune {
namespace {

constexpr double sample_us = 250;
constexpr int most_launches = 64;
/// What the host needs at most to enqueue a graph, and one launch: the stream pauses for as long.
constexpr double graph_issue_us = 30;
constexpr double launch_issue_us = 6;

}  // namespace

int launches_per_sample(double expected_us) noexcept {
  if (!(expected_us > 0)) return 20;
  return static_cast<int>(std::clamp(std::ceil(sample_us / expected_us), 1.0, static_cast<double>(most_launches)));
}

CudaTimer::CudaTimer(CudaTrial& trial, const Plan& plan, TimingMethod method, double expected_us)
    : trial_(trial), plan_(plan), method_(method), launches_(launches_per_sample(expected_us)) {
  const int places = (trial.sets() + launches_ - 1) / launches_;
  graphs_.resize(static_cast<std::size_t>(places), nullptr);
}

CudaTimer::~CudaTimer() {
  const DeviceScope device(trial_.lab().ordinal);
  const RelaxedCapture relaxed;
  for (cudaGraphExec_t graph : graphs_)
    if (graph != nullptr && cudaGraphExecDestroy(graph) != cudaSuccess) cudaGetLastError();
}

int CudaTimer::begin_next() noexcept {
  const int places = static_cast<int>(graphs_.size());
  const int place = (trial_.next_set + launches_ - 1) / launches_ % places;
  trial_.next_set = (place * launches_ + launches_) % trial_.sets();
  return place;
}

void CudaTimer::enqueue(int first_set) {
  for (int i = 0; i < launches_; ++i) {
    forget_failure();
    const Status status = trial_.launch(plan_, (first_set + i) % trial_.sets());
    if (status == Status::ok) continue;
    const std::string why = noted_failure();
    throw Error(status, why.empty() ? std::string(to_string(status)) : why);
  }
}

cudaGraphExec_t CudaTimer::capture(int first_set) {
  const cudaStream_t stream = trial_.lab().stream;
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    enqueue(first_set);
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  cuda_check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  cuda_check(error, "cudaGraphInstantiate");
  return executable;
}

cudaGraphExec_t CudaTimer::graph(int place) {
  cudaGraphExec_t& graph = graphs_[static_cast<std::size_t>(place)];
  if (graph == nullptr) {
    graph = capture(place * launches_);
    cuda_check(cudaGraphUpload(graph, trial_.lab().stream), "cudaGraphUpload");
  }
  return graph;
}

void CudaTimer::replay(int place) {
  const CudaLab& lab = trial_.lab();
  const bool replays = method_ == TimingMethod::graph;
  const cudaGraphExec_t executable = replays ? graph(place) : nullptr;
  cuda_check(launch_pause(replays ? graph_issue_us : launch_issue_us * (launches_ + 3), lab.stream), "launching a pause");
  cuda_check(cudaEventRecord(lab.begin, lab.stream), "cudaEventRecord");
  if (replays)
    cuda_check(cudaGraphLaunch(executable, lab.stream), "cudaGraphLaunch");
  else
    enqueue(place * launches_);
  cuda_check(cudaEventRecord(lab.end, lab.stream), "cudaEventRecord");
}

void CudaTimer::warm_up() {
  replay(begin_next());
  cuda_check(cudaStreamSynchronize(trial_.lab().stream), "warming up");
}

double CudaTimer::sample() {
  const DeviceScope device(trial_.lab().ordinal);
  const RelaxedCapture relaxed;
  try {
    replay(begin_next());
    return trial_.lab().elapsed_us() / launches_;
  } catch (const Error&) {
    trial_.lab().recover();
    return std::numeric_limits<double>::quiet_NaN();
  }
}

}  // namespace attune

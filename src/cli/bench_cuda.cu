#include <cuda_runtime.h>

#include <algorithm>

#include "cli/bench_cuda.hpp"

namespace attune::cli {
namespace {

__global__ void do_nothing() {}

/// The fastest of several timings of `work`, in microseconds; 0 after a fault.
template <class Work>
double fastest_us(cudaStream_t stream, Work work) {
  cudaEvent_t begin = nullptr, end = nullptr;
  float best = 0;
  bool good = cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess && work() == cudaSuccess;
  for (int i = 0; good && i < 20; ++i) {
    float ms = 0;
    good = cudaEventRecord(begin, stream) == cudaSuccess && work() == cudaSuccess &&
           cudaEventRecord(end, stream) == cudaSuccess && cudaEventSynchronize(end) == cudaSuccess &&
           cudaEventElapsedTime(&ms, begin, end) == cudaSuccess;
    if (good) best = i == 0 ? ms : std::min(best, ms);
  }
  if (begin != nullptr) cudaEventDestroy(begin);
  if (end != nullptr) cudaEventDestroy(end);
  if (!good) cudaGetLastError();
  return good ? static_cast<double>(best) * 1000 : 0;
}

class OnDevice {
 public:
  explicit OnDevice(int ordinal) {
    good_ = cudaGetDevice(&before_) == cudaSuccess && cudaSetDevice(ordinal) == cudaSuccess &&
            cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess;
  }
  ~OnDevice() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    cudaSetDevice(before_);
    if (!good_) cudaGetLastError();
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  explicit operator bool() const { return good_; }
  cudaStream_t stream() const { return stream_; }

 private:
  int before_ = 0;
  cudaStream_t stream_ = nullptr;
  bool good_ = false;
};

}  // namespace

double cuda_copy_bytes_per_us(int ordinal) noexcept {
  const OnDevice device(ordinal);
  if (!device) return 0;
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return 0;
  const std::size_t bytes = std::min(std::size_t{1} << 30, free / 4);
  void *from = nullptr, *to = nullptr;
  double us = 0;
  if (cudaMalloc(&from, bytes) == cudaSuccess && cudaMalloc(&to, bytes) == cudaSuccess &&
      cudaMemsetAsync(from, 1, bytes, device.stream()) == cudaSuccess)
    us = fastest_us(device.stream(),
                    [&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, device.stream()); });
  cudaFree(to);
  cudaFree(from);
  cudaGetLastError();
  return us > 0 ? 2.0 * static_cast<double>(bytes) / us : 0;
}

double cuda_launch_us(int ordinal) noexcept {
  constexpr int launches = 200;
  const OnDevice device(ordinal);
  if (!device) return 0;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  double us = 0;
  if (cudaStreamBeginCapture(device.stream(), cudaStreamCaptureModeThreadLocal) == cudaSuccess) {
    for (int i = 0; i < launches; ++i) do_nothing<<<1, 32, 0, device.stream()>>>();
    if (cudaStreamEndCapture(device.stream(), &graph) == cudaSuccess && cudaGraphInstantiate(&replay, graph, 0) == cudaSuccess)
      us = fastest_us(device.stream(), [&] { return cudaGraphLaunch(replay, device.stream()); }) / launches;
  }
  if (replay != nullptr) cudaGraphExecDestroy(replay);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
  return us;
}

}  // namespace attune::cli

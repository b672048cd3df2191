#include "runtime/cuda_runtime.hpp"

#include <fmt/format.h>

#include <chrono>
#include <mutex>

#include "kernels/trial_kernels.hpp"
#include "runtime/cuda_memory.hpp"
#include "runtime/cuda_retained.hpp"
#include "runtime/cuda_scale.hpp"
#include "runtime/cuda_support.hpp"
#include "runtime/cuda_trial.hpp"
#include "runtime/cuda_workspace.hpp"

namespace attune {
namespace {

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

void require_device(int ordinal) {
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) cudaGetLastError();
  if (error == cudaErrorInsufficientDriver && driver != 0)
    throw Error(Status::driver_too_old, fmt::format("the GPU driver knows CUDA {}, this library needs CUDA {}",
                                                    version_text(driver), version_text(runtime)));
  if (error == cudaErrorInsufficientDriver)
    throw Error(Status::no_device, fmt::format("CUDA device {} was asked for, but there is no GPU driver", ordinal));
  if (error != cudaSuccess && error != cudaErrorNoDevice)
    throw Error(Status::device_error, fmt::format("CUDA cannot count the devices: {}", cudaGetErrorString(error)));
  if (ordinal < 0 || ordinal >= count)
    throw Error(Status::no_device, fmt::format("CUDA device {} was asked for, but there are {}", ordinal, count));
}

DeviceInfo describe(int ordinal) {
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  DeviceInfo info;
  info.name = properties.name;
  info.cc_major = properties.major;
  info.cc_minor = properties.minor;
  info.processors = properties.multiProcessorCount;
  info.l2_bytes = properties.l2CacheSize;
  info.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  return info;
}

class CudaGuard final : public Guard {
 public:
  explicit CudaGuard(int ordinal) : device_(ordinal) { free_retired(); }

 private:
  DeviceScope device_;
  RelaxedCapture relaxed_;
};

class CudaRuntime final : public Runtime {
 public:
  explicit CudaRuntime(int ordinal) : ordinal_(ordinal), info_(describe(ordinal)), memory_(ordinal), workspaces_(memory_) {
    free_retired();
  }

  ~CudaRuntime() override {
    const DeviceScope device(ordinal_);
    const RelaxedCapture relaxed;
    lab_.reset();
    workspaces_.release();
    if (side_stream_ != nullptr && cudaStreamDestroy(side_stream_) != cudaSuccess) cudaGetLastError();
    free_retired();
  }

  const DeviceInfo& info() const noexcept override { return info_; }

  bool capturing(Stream stream) const noexcept override {
    const DeviceScope device(ordinal_);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    // The legacy stream answers with an error while another stream is captured; it is not captured itself.
    if (cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    return status != cudaStreamCaptureStatusNone;
  }

  std::unique_ptr<Guard> guard() override { return std::make_unique<CudaGuard>(ordinal_); }

  std::mutex& measuring() noexcept override {
    static std::mutex of_device[64];
    return of_device[static_cast<unsigned>(ordinal_) % 64];
  }

  double now() const noexcept override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  std::unique_ptr<Trial> trial(const Problem& problem, const Constraints& constraints, std::size_t workspace,
                               std::uint64_t seed) override {
    const DeviceScope device(ordinal_);
    const RelaxedCapture relaxed;
    free_retired();
    if (lab_ == nullptr) lab_ = std::make_unique<CudaLab>(memory_, ordinal_);
    return CudaTrial::make(*lab_, info_, problem, constraints, workspace, seed);
  }

  std::unique_ptr<Plan> scale_plan(const Problem& problem) override { return make_cuda_scale_plan(problem, ordinal_); }

  Status run(const std::shared_ptr<const Plan>& plan, const Launch& launch) noexcept override {
    const PlanTraits& traits = plan->traits();
    const bool needs_block = traits.workspace != 0 && launch.workspace == nullptr;
    if (!needs_block && !traits.retain_in_graph) return plan->run(launch);
    const DeviceScope device(ordinal_);
    const auto stream = static_cast<cudaStream_t>(launch.stream);
    Launch complete = launch;
    if (capturing(launch.stream)) {
      const Status status = retain(plan, needs_block, stream, &complete.workspace);
      return status == Status::ok ? plan->run(complete) : status;
    }
    if (!needs_block) return plan->run(launch);
    const WorkspacePool::Lease lease = workspaces_.lease(stream, traits.workspace);
    if (lease.pointer == nullptr) return Status::no_memory;
    complete.workspace = lease.pointer;
    const Status status = plan->run(complete);
    workspaces_.end(lease, stream);
    return status;
  }

  std::string last_failure() const override { return noted_failure(); }

  bool set_allocator(const Allocator& allocator) override { return memory_.set_allocator(allocator); }

 private:
  Status retain(const std::shared_ptr<const Plan>& plan, bool needs_block, cudaStream_t captured, void** workspace) noexcept {
    const RelaxedCapture relaxed;
    {
      const std::lock_guard lock(side_stream_mutex_);
      if (side_stream_ == nullptr) {
        const Status made = cuda_status(cudaStreamCreateWithFlags(&side_stream_, cudaStreamNonBlocking), "cudaStreamCreate");
        if (made != Status::ok) return made;
      }
    }
    const std::size_t bytes = needs_block ? plan->traits().workspace : 0;
    return retain_in_capture(plan, bytes, memory_, ordinal_, side_stream_, captured, workspace);
  }

  const int ordinal_;
  const DeviceInfo info_;
  CudaMemory memory_;
  WorkspacePool workspaces_;
  std::unique_ptr<CudaLab> lab_;
  std::mutex side_stream_mutex_;
  cudaStream_t side_stream_ = nullptr;  ///< of no work but the allocations for captured calls
};

}  // namespace

std::unique_ptr<Runtime> make_cuda_runtime(int ordinal) {
  require_device(ordinal);
  const DeviceScope device(ordinal);
  const RelaxedCapture relaxed;
  cuda_check(cudaFree(nullptr), "starting CUDA");
  auto runtime = std::make_unique<CudaRuntime>(ordinal);
  const cudaError_t loadable = kernels_loadable();
  if (loadable != cudaSuccess)
    throw Error(Status::no_device,
                fmt::format("{} (compute capability {}.{}) cannot run the kernels of this build: {}", runtime->info().name,
                            runtime->info().cc_major, runtime->info().cc_minor, cudaGetErrorString(loadable)));
  return runtime;
}

}  // namespace attune

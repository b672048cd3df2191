// Small helpers of everything that calls CUDA: the current device, error checks, the text of the last failure.
#pragma once

#include <cuda_runtime_api.h>
#include <attune/error.hpp>

namespace attune {

/// Makes the device current and puts the former one back. Costs one query where it already is current.
class DeviceScope {
 public:
  explicit DeviceScope(int ordinal) noexcept {
    if (cudaGetDevice(&before_) == cudaSuccess && before_ != ordinal) changed_ = cudaSetDevice(ordinal) == cudaSuccess;
  }
  ~DeviceScope() {
    if (changed_) cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// Lets this thread make calls (allocations, module loads) that would break a stream capture begun by it or another thread.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept { exchanged_ = cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess; }
  ~RelaxedCapture() {
    if (exchanged_) cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool exchanged_ = false;
};

/// Remembers a message for this thread's caller; cut at 511 characters.
[[gnu::format(printf, 1, 2)]] void note_failure(const char* format, ...) noexcept;
/// The message last remembered on this thread; empty when there is none.
const char* noted_failure() noexcept;
void forget_failure() noexcept;

/// For paths that return a status: `what` names the call. Takes the error out of CUDA's state and remembers its text.
Status cuda_failed(cudaError_t error, const char* what) noexcept;
inline Status cuda_status(cudaError_t error, const char* what) noexcept {
  return error == cudaSuccess ? Status::ok : cuda_failed(error, what);
}

/// For paths that throw: Error(no_memory or device_error), with CUDA's state cleared.
[[noreturn]] void throw_cuda_error(cudaError_t error, const char* what);
inline void cuda_check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw_cuda_error(error, what);
}

}  // namespace attune

#include "runtime/cuda_support.hpp"

#include <cstdarg>
#include <cstdio>
#include <string>

namespace attune {
namespace {

thread_local char failure_text[512] = {};

Status status_of(cudaError_t error) noexcept {
  switch (error) {
    case cudaErrorMemoryAllocation: return Status::no_memory;
    case cudaErrorInsufficientDriver: return Status::driver_too_old;
    case cudaErrorNoDevice: return Status::no_device;
    default: return Status::device_error;
  }
}

}  // namespace

void note_failure(const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(failure_text, sizeof failure_text, format, arguments);
  va_end(arguments);
}

const char* noted_failure() noexcept { return failure_text; }

void forget_failure() noexcept { failure_text[0] = '\0'; }

Status cuda_failed(cudaError_t error, const char* what) noexcept {
  cudaGetLastError();
  note_failure("%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
  return status_of(error);
}

void throw_cuda_error(cudaError_t error, const char* what) {
  const Status status = cuda_failed(error, what);
  throw Error(status, noted_failure());
}

}  // namespace attune

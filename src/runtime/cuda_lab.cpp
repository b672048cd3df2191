#include "runtime/cuda_support.hpp"
#include "runtime/cuda_trial.hpp"

namespace attune {

CudaLab::CudaLab(CudaMemory& memory_, int ordinal_) : memory(memory_), ordinal(ordinal_) {
  const RelaxedCapture relaxed;
  try {
    cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    cuda_check(cudaEventCreate(&begin), "cudaEventCreate");
    cuda_check(cudaEventCreate(&end), "cudaEventCreate");
    cuda_check(cudaMalloc(reinterpret_cast<void**>(&findings), sizeof(Findings)), "cudaMalloc");
    cuda_check(cudaMallocHost(reinterpret_cast<void**>(&pinned_findings), sizeof(Findings)), "cudaMallocHost");
  } catch (...) {
    release();
    throw;
  }
}

CudaLab::~CudaLab() { release(); }

void CudaLab::release() noexcept {
  const RelaxedCapture relaxed;
  if (pinned_findings != nullptr) cudaFreeHost(pinned_findings);
  if (findings != nullptr) cudaFree(findings);
  if (end != nullptr) cudaEventDestroy(end);
  if (begin != nullptr) cudaEventDestroy(begin);
  if (stream != nullptr) cudaStreamDestroy(stream);
  cudaGetLastError();
}

double CudaLab::elapsed_us() const {
  cuda_check(cudaEventSynchronize(end), "waiting for a candidate");
  float milliseconds = 0;
  cuda_check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  return milliseconds * 1e3;
}

bool CudaLab::recover() noexcept {
  cudaStreamSynchronize(stream);
  cudaGetLastError();
  // A fault inside a kernel stays with the process: the same wait fails again.
  const bool alive = cudaStreamSynchronize(stream) == cudaSuccess;
  cudaGetLastError();
  return alive;
}

}  // namespace attune

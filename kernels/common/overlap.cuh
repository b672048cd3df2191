// Launches that overlap the kernel before them in their stream: what a block sets up, it sets up while that one ends.
#pragma once

#include <cuda_runtime.h>
#include <atomic>

namespace attune {

/// Until the kernels before this one in its stream, which may still run, have ended and all they wrote is there. A kernel launched
/// by launch_overlapped calls it before its first access to memory, in every thread, or what comes behind it would not wait for
/// them either. No __ldg of what an earlier kernel may write: that kernel may run as long as this one lives.
__device__ inline void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// Once every block has said so, the next kernel may begin, if it is launched to overlap. Any kernel may say it.
__device__ inline void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Whether the current device can (sm_90 and up).
inline bool can_overlap() noexcept {
  constexpr int most = 64;
  static std::atomic<signed char> known[most];  // 0: not asked yet
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= most) return false;
  if (const signed char answer = known[device].load(std::memory_order_relaxed); answer != 0) return answer > 0;
  int major = 0;
  const bool can = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
  known[device].store(can ? 1 : -1, std::memory_order_relaxed);
  return can;
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch_overlapped(void (*kernel)(Parameters...), unsigned blocks, int threads, std::size_t shared, cudaStream_t stream,
                              const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks), config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared, config.stream = stream;
  config.attrs = &attribute, config.numAttrs = can_overlap() ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace attune

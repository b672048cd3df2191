#include "kernels/common/element.cuh"
#include "kernels/trial_kernels.hpp"
#include "kernels/trial_sample.hpp"

namespace attune {
namespace {

constexpr int threads = 256;

template <typename T>
__device__ T random_value(std::uint64_t seed, std::int64_t at) {
  const auto bits = static_cast<std::int64_t>(random_bits(seed, static_cast<std::uint64_t>(at)));
  constexpr double scale = std::is_same_v<T, std::int8_t> || std::is_same_v<T, std::int32_t> ? 127 * 0x1p-63 : 0x1p-63;
  return from_double<T>(static_cast<double>(bits) * scale);
}

template <typename T>
__global__ void __launch_bounds__(threads) fill(T* data, std::int64_t elements, std::uint64_t seed) {
  for (std::int64_t at = grid_index(); at < elements; at += grid_size()) data[at] = random_value<T>(seed, at);
}

template <typename T, typename View>
__global__ void __launch_bounds__(threads) fill_output(T* d, View view, std::uint64_t seed) {
  const std::int64_t rows = view.rows(), cols = view.cols(), count = rows * cols * view.batches();
  for (std::int64_t flat = grid_index(); flat < count; flat += grid_size()) {
    const std::int64_t at = view.d_offset(flat % rows, flat / rows % cols, flat / rows / cols);
    d[at] = random_value<T>(seed, at);
  }
}

__global__ void pause(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

template <typename View>
cudaError_t fill_any(void* d, DType type, const View& view, std::uint64_t seed, cudaStream_t stream) {
  return dispatch_type(type, [&](auto element) {
    using T = decltype(element);
    const unsigned blocks = blocks_for(view.rows() * view.cols() * view.batches(), threads);
    fill_output<<<blocks, threads, 0, stream>>>(static_cast<T*>(d), view, seed);
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t launch_fill(void* data, DType type, std::int64_t elements, std::uint64_t seed, cudaStream_t stream) noexcept {
  if (elements == 0) return cudaSuccess;
  return dispatch_any_type(type, [&](auto element) {
    using T = decltype(element);
    fill<<<blocks_for(elements, threads), threads, 0, stream>>>(static_cast<T*>(data), elements, seed);
    return cudaGetLastError();
  });
}

cudaError_t launch_fill_output(void* d, DType type, const ConvView& view, std::uint64_t seed, cudaStream_t stream) noexcept {
  return fill_any(d, type, view, seed, stream);
}

cudaError_t launch_pause(double microseconds, cudaStream_t stream) noexcept {
  constexpr double cycles_per_us = 1700;  // of today's GPUs; the length needs no precision
  pause<<<1, 1, 0, stream>>>(static_cast<long long>(microseconds * cycles_per_us));
  return cudaGetLastError();
}

cudaError_t kernels_loadable() noexcept {
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, pause);
  if (error != cudaSuccess) cudaGetLastError();
  return error;
}

}  // namespace attune

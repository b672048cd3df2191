#include <cmath>

#include "kernels/common/element.cuh"
#include "kernels/trial_kernels.hpp"
#include "kernels/trial_sample.hpp"

namespace attune {
namespace {

constexpr int threads = 256;

/// Adds a count of every thread to one total.
__device__ void add_to(unsigned long long* total, unsigned count) {
  const unsigned of_warp = __reduce_add_sync(0xffffffffu, count);
  if (threadIdx.x % 32 == 0 && of_warp != 0) atomicAdd(total, static_cast<unsigned long long>(of_warp));
}

__global__ void __launch_bounds__(threads) check_zones(RedZones zones, Findings* findings) {
  unsigned changed = 0;
  for (int zone = 0; zone < zones.count; ++zone)
    for (std::int64_t at = grid_index(); at < zones.bytes[zone]; at += grid_size()) changed += zones.at[zone][at] != 0xff;
  add_to(&findings->outside, changed);
}

template <typename T>
__device__ bool poisoned(const T& value) {
  if constexpr (sizeof(T) == 2)
    return reinterpret_cast<const std::uint16_t&>(value) == 0xffffu;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return value == -1;
  else if constexpr (sizeof(T) == 4)
    return __float_as_uint(value) == 0xffffffffu;
  else
    return static_cast<std::uint64_t>(__double_as_longlong(value)) == ~std::uint64_t{0};
}

/// The span, gaps included. Where it has no gaps (`dense`), every element of it is an output element.
template <typename T>
__global__ void __launch_bounds__(threads) check_span(const T* d, std::int64_t elements, bool dense, Findings* findings) {
  unsigned written = 0, not_finite = 0;
  for (std::int64_t at = grid_index(); at < elements; at += grid_size()) {
    const T value = d[at];
    written += !poisoned(value);
    if (dense) not_finite += !isfinite(to_double(value));
  }
  add_to(&findings->written, written);
  if (dense) add_to(&findings->inside, written);
  add_to(&findings->not_finite, not_finite);
}

template <typename T, typename View>
__global__ void __launch_bounds__(threads) check_elements(const T* d, View view, Findings* findings) {
  const std::int64_t rows = view.rows(), cols = view.cols(), count = rows * cols * view.batches();
  unsigned not_finite = 0, inside = 0;
  for (std::int64_t flat = grid_index(); flat < count; flat += grid_size()) {
    const T value = d[view.d_offset(flat % rows, flat / rows % cols, flat / rows / cols)];
    not_finite += !isfinite(to_double(value));
    inside += !poisoned(value);
  }
  add_to(&findings->inside, inside);
  add_to(&findings->not_finite, not_finite);
}

template <typename View>
__global__ void __launch_bounds__(threads) compare(const void* d, DType type, View view, SampleGrid grid, Bound bound,
                                                   const Reference* references, Findings* findings) {
  double worst = 0;
  unsigned long long last = 0;
  unsigned wrong = 0;
  for (std::int64_t sample = grid_index(); sample < grid.samples; sample += grid_size()) {
    const Element e = sampled_element(grid, sample);
    const Reference r = references[sample];
    const double off = fabs(load_as_double(d, type, view.d_offset(e.row, e.col, e.batch)) - r.value);
    const double allowed = bound.absolute + bound.out * fabs(r.value) + bound.sums * sqrt(r.squares);
    double error = off / allowed;
    if (off == 0) error = 0;
    if (!(error <= 1)) {
      ++wrong;
      last = static_cast<unsigned long long>(sample) + 1;
      if (isnan(error)) error = INFINITY;
    }
    worst = fmax(worst, error);
  }
  add_to(&findings->wrong, wrong);
  // Doubles that are not negative are ordered as their bits are.
  for (int lanes = 16; lanes > 0; lanes /= 2) worst = fmax(worst, __shfl_xor_sync(0xffffffffu, worst, lanes));
  if (threadIdx.x % 32 == 0 && worst > 0)
    atomicMax(&findings->error_bits, static_cast<unsigned long long>(__double_as_longlong(worst)));
  if (last > 0) atomicMax(&findings->last_wrong, last);
}

template <typename View>
cudaError_t check_any(const void* d, DType type, std::int64_t elements, const View& view, Findings* findings,
                      cudaStream_t stream) {
  return dispatch_type(type, [&](auto element) {
    using T = decltype(element);
    const T* output = static_cast<const T*>(d);
    const std::int64_t count = view.rows() * view.cols() * view.batches();
    const bool dense = count == elements;
    check_span<<<blocks_for(elements, threads), threads, 0, stream>>>(output, elements, dense, findings);
    if (!dense) check_elements<<<blocks_for(count, threads), threads, 0, stream>>>(output, view, findings);
    return cudaGetLastError();
  });
}

template <typename View>
cudaError_t compare_any(const void* d, DType type, const View& view, const SampleGrid& grid, const Bound& bound,
                        const Reference* references, Findings* findings, cudaStream_t stream) {
  compare<<<blocks_for(grid.samples, threads), threads, 0, stream>>>(d, type, view, grid, bound, references, findings);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_check_zones(const RedZones& zones, Findings* findings, cudaStream_t stream) noexcept {
  check_zones<<<64, threads, 0, stream>>>(zones, findings);
  return cudaGetLastError();
}

cudaError_t launch_check_output(const void* d, DType type, std::int64_t elements, const GemmView& view, Findings* findings,
                                cudaStream_t stream) noexcept {
  return check_any(d, type, elements, view, findings, stream);
}

cudaError_t launch_check_output(const void* d, DType type, std::int64_t elements, const ConvView& view, Findings* findings,
                                cudaStream_t stream) noexcept {
  return check_any(d, type, elements, view, findings, stream);
}

cudaError_t launch_check_output(const void* d, DType type, std::int64_t elements, const PoolView& view, Findings* findings,
                                cudaStream_t stream) noexcept {
  return check_any(d, type, elements, view, findings, stream);
}

cudaError_t launch_compare(const void* d, DType type, const PoolView& view, const SampleGrid& grid, const Bound& bound,
                           const Reference* references, Findings* findings, cudaStream_t stream) noexcept {
  return compare_any(d, type, view, grid, bound, references, findings, stream);
}

cudaError_t launch_compare(const void* d, DType type, const GemmView& view, const SampleGrid& grid, const Bound& bound,
                           const Reference* references, Findings* findings, cudaStream_t stream) noexcept {
  return compare_any(d, type, view, grid, bound, references, findings, stream);
}

cudaError_t launch_compare(const void* d, DType type, const ConvView& view, const SampleGrid& grid, const Bound& bound,
                           const Reference* references, Findings* findings, cudaStream_t stream) noexcept {
  return compare_any(d, type, view, grid, bound, references, findings, stream);
}

}  // namespace attune

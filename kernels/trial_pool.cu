#include "kernels/common/element.cuh"
#include "kernels/trial_kernels.hpp"
#include "kernels/trial_sample.hpp"

namespace attune {
namespace {

constexpr int threads = 128;

struct Elements {
  const void* base;
  DType type;
  __device__ double operator()(std::int64_t at) const { return load_as_double(base, type, at); }
};

/// A thread forms one element.
__global__ void __launch_bounds__(threads)
    pool_references(PoolView view, SampleGrid grid, Elements a, Elements b, Reference* out) {
  for (std::int64_t sample = grid_index(); sample < grid.samples; sample += grid_size()) {
    const Element e = sampled_element(grid, sample);
    out[sample] = view.forward() ? view.pooled(a, e.row, e.col) : view.spread(b, a, e.row, e.col);
  }
}

template <typename T>
__global__ void __launch_bounds__(threads) pool_all(PoolView view, Elements x, T* y) {
  const std::int64_t rows = view.rows(), count = rows * view.cols();
  for (std::int64_t flat = grid_index(); flat < count; flat += grid_size())
    y[view.d_offset(flat % rows, flat / rows, 0)] = from_double<T>(view.pooled(x, flat % rows, flat / rows).value);
}

}  // namespace

cudaError_t launch_references(const PoolView& view, const SampleGrid& grid, const ReferenceInputs& in, Reference* references,
                              cudaStream_t stream) noexcept {
  const unsigned blocks = blocks_for(grid.samples, threads);
  pool_references<<<blocks, threads, 0, stream>>>(view, grid, Elements{in.a, in.a_type}, Elements{in.b, in.b_type}, references);
  return cudaGetLastError();
}

cudaError_t launch_pooled(const PoolView& view, const void* x, void* y, DType type, cudaStream_t stream) noexcept {
  PoolView forward = view;
  forward.direction = PoolDirection::fwd;
  return dispatch_type(type, [&](auto element) {
    using T = decltype(element);
    const unsigned blocks = blocks_for(forward.rows() * forward.cols(), threads);
    pool_all<<<blocks, threads, 0, stream>>>(forward, Elements{x, type}, static_cast<T*>(y));
    return cudaGetLastError();
  });
}

}  // namespace attune

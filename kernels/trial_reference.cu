#include "kernels/common/element.cuh"
#include "kernels/trial_kernels.hpp"
#include "kernels/trial_sample.hpp"

namespace attune {
namespace {

struct Sums {
  double value = 0;
  double squares = 0;
};

__device__ Sums across_warp(Sums sums) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    sums.value += __shfl_xor_sync(0xffffffffu, sums.value, lanes);
    sums.squares += __shfl_xor_sync(0xffffffffu, sums.squares, lanes);
  }
  return sums;
}

/// Products first, first + step, ... of one element.
template <typename View>
__device__ Sums partial_sums(const View& view, const ReferenceInputs& in, const Element& e, std::int64_t first,
                             std::int64_t step) {
  Sums sums;
  const std::int64_t terms = view.terms();
  for (std::int64_t l = first; l < terms; l += step) {
    std::int64_t a, b;
    if (!view.product(e.row, e.col, e.batch, l, a, b)) continue;
    const double product = load_as_double(in.a, in.a_type, a) * load_as_double(in.b, in.b_type, b);
    sums.value += product;
    sums.squares = fma(product, product, sums.squares);
  }
  return sums;
}

template <typename View>
__device__ Reference finished(const View& view, const ReferenceInputs& in, const Element& e, Sums sums) {
  Reference r{in.alpha * sums.value, in.alpha * in.alpha * sums.squares};
  if (in.c != nullptr) {
    const double scaled = in.beta * load_as_double(in.c, in.c_type, view.c_offset(e.row, e.col, e.batch));
    r.value += scaled;
    r.squares += scaled * scaled;
  }
  if (in.bias != nullptr) {
    // The matrices of a convolution are its groups, each with rows of its own.
    const std::int64_t row = std::is_same_v<View, ConvView> ? e.batch * view.rows() + e.row : e.row;
    const double added = load_as_double(in.bias, in.c_type, row);
    r.value += added;
    r.squares += added * added;
  }
  r.value = activated(in.activation, r.value);
  return r;
}

/// One warp forms one element.
template <typename View>
__global__ void __launch_bounds__(256) reference_by_warp(View view, SampleGrid grid, ReferenceInputs in, Reference* out) {
  const std::int64_t warps = grid_size() / 32;
  for (std::int64_t sample = grid_index() / 32; sample < grid.samples; sample += warps) {
    const Element e = sampled_element(grid, sample);
    const Sums sums = across_warp(partial_sums(view, in, e, threadIdx.x % 32, 32));
    if (threadIdx.x % 32 == 0) out[sample] = finished(view, in, e, sums);
  }
}

/// One block of 1024 threads forms one element.
template <typename View>
__global__ void __launch_bounds__(1024) reference_by_block(View view, SampleGrid grid, ReferenceInputs in, Reference* out) {
  __shared__ Sums of_warp[32];
  for (std::int64_t sample = blockIdx.x; sample < grid.samples; sample += gridDim.x) {
    const Element e = sampled_element(grid, sample);
    const Sums sums = across_warp(partial_sums(view, in, e, threadIdx.x, 1024));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sums;
    __syncthreads();
    if (threadIdx.x < 32) {
      const Sums all = across_warp(of_warp[threadIdx.x]);
      if (threadIdx.x == 0) out[sample] = finished(view, in, e, all);
    }
    __syncthreads();
  }
}

template <typename View>
cudaError_t launch(const View& view, const SampleGrid& grid, const ReferenceInputs& in, Reference* out, cudaStream_t stream) {
  const bool long_sums = view.terms() >= 4096 && grid.samples < 16384;
  if (long_sums)
    reference_by_block<<<blocks_for(grid.samples, 1), 1024, 0, stream>>>(view, grid, in, out);
  else
    reference_by_warp<<<blocks_for(grid.samples, 8), 256, 0, stream>>>(view, grid, in, out);
  return cudaGetLastError();
}

}  // namespace

SampleGrid sample_grid(std::int64_t rows, std::int64_t cols, std::int64_t batches, std::int64_t terms,
                       std::uint64_t seed) noexcept {
  constexpr std::int64_t most_samples = std::int64_t{1} << 21, most_products = std::int64_t{1} << 36, fewest = 4096;
  constexpr std::int64_t cheap_samples = std::int64_t{1} << 16, cheap_products = std::int64_t{1} << 28;
  SampleGrid grid;
  grid.rows = rows, grid.cols = cols, grid.seed = seed;
  for (grid.edge = 1; grid.edge <= 16; grid.edge *= 2) {
    grid.block_rows = (rows + grid.edge - 1) / grid.edge, grid.block_cols = (cols + grid.edge - 1) / grid.edge;
    grid.blocks = grid.block_rows * grid.block_cols * batches;
    if (grid.edge == 16 || (grid.blocks <= cheap_samples && grid.blocks <= cheap_products / (terms > 0 ? terms : 1))) break;
  }
  std::int64_t most = most_products / (terms > 0 ? terms : 1);
  most = most > most_samples ? most_samples : most < fewest ? fewest : most;
  grid.step = (grid.blocks + most - 1) / most;
  if (grid.step < 1) grid.step = 1;
  grid.samples = (grid.blocks + grid.step - 1) / grid.step;
  return grid;
}

cudaError_t launch_references(const GemmView& view, const SampleGrid& grid, const ReferenceInputs& inputs,
                              Reference* references, cudaStream_t stream) noexcept {
  return launch(view, grid, inputs, references, stream);
}

cudaError_t launch_references(const ConvView& view, const SampleGrid& grid, const ReferenceInputs& inputs,
                              Reference* references, cudaStream_t stream) noexcept {
  return launch(view, grid, inputs, references, stream);
}

}  // namespace attune

// What a trial does on the GPU besides running candidates: fill operands, compute sampled references, audit an output.
#pragma once

#include <cuda_runtime_api.h>
#include <attune/types.hpp>
#include <cstddef>
#include <cstdint>

#include "kernels/common/activation.hpp"
#include "kernels/common/pooling.hpp"

namespace attune {

/// `elements` random values, uniform in [-1, 1] with full mantissas, integers in [-127, 127]; element i depends on the seed and i alone.
cudaError_t launch_fill(void* data, DType type, std::int64_t elements, std::uint64_t seed, cudaStream_t stream) noexcept;
/// The same values, but only where the output's elements are; what lies between them is left alone.
cudaError_t launch_fill_output(void* d, DType type, const ConvView& view, std::uint64_t seed, cudaStream_t stream) noexcept;

/// Holds the stream for about this long, so that work enqueued behind it starts without waiting for the host.
cudaError_t launch_pause(double microseconds, cudaStream_t stream) noexcept;

/// Which elements are sampled: one of each `edge` x `edge` block of each output matrix, or of each `step` such blocks.
struct SampleGrid {
  std::int64_t edge = 16;
  std::int64_t rows = 0, cols = 0;                          ///< of one output matrix
  std::int64_t block_rows = 0, block_cols = 0, blocks = 0;  ///< blocks: over all matrices
  std::int64_t step = 1;
  std::int64_t samples = 0;
  std::uint64_t seed = 0;
};
/// Blocks of 16 x 16, or smaller ones, down to every element, where that stays within 2^16 samples and 2^28 products. At least
/// 4,096 samples where there are as many blocks, and one a block unless that needs more than 2^21 samples or 2^36 products.
SampleGrid sample_grid(std::int64_t rows, std::int64_t cols, std::int64_t batches, std::int64_t terms,
                       std::uint64_t seed) noexcept;

struct ReferenceInputs {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  ///< null where beta is zero
  DType a_type = DType::f32, b_type = DType::f32, c_type = DType::f32;
  double alpha = 1, beta = 0;
  const void* bias = nullptr;  ///< null where there is none; of c_type
  Activation activation = Activation::none;
};
cudaError_t launch_references(const GemmView& view, const SampleGrid& grid, const ReferenceInputs& inputs,
                              Reference* references, cudaStream_t stream) noexcept;
cudaError_t launch_references(const ConvView& view, const SampleGrid& grid, const ReferenceInputs& inputs,
                              Reference* references, cudaStream_t stream) noexcept;
/// a is x, or dy of a gradient, whose x is b.
cudaError_t launch_references(const PoolView& view, const SampleGrid& grid, const ReferenceInputs& inputs,
                              Reference* references, cudaStream_t stream) noexcept;
/// All of y, of the view's type of pooling, whatever the view's direction.
cudaError_t launch_pooled(const PoolView& view, const void* x, void* y, DType type, cudaStream_t stream) noexcept;

/// All zero at first.
struct Findings {
  unsigned long long outside = 0;     ///< bytes of red zones that lost their poison
  unsigned long long not_finite = 0;  ///< output elements that are infinite, NaN or still poisoned
  unsigned long long written = 0;     ///< elements of the output's span without poison, gaps included
  unsigned long long inside = 0;      ///< the same among the output's elements alone
  unsigned long long wrong = 0;       ///< samples beyond their bound
  unsigned long long error_bits = 0;  ///< largest |d - reference| / bound, the bits of a double
  unsigned long long last_wrong = 0;  ///< 1 + the largest index of a wrong sample
};

/// Bytes around outputs and workspaces that must keep the poison 0xFF.
struct RedZones {
  static constexpr int most = 20;
  const std::uint8_t* at[most] = {};
  std::int64_t bytes[most] = {};
  int count = 0;

  void add(const void* from, std::size_t length) noexcept {
    at[count] = static_cast<const std::uint8_t*>(from);
    bytes[count++] = static_cast<std::int64_t>(length);
  }
};
cudaError_t launch_check_zones(const RedZones& zones, Findings* findings, cudaStream_t stream) noexcept;

/// Counts `written`, `inside` and `not_finite`. Gaps are intact exactly when `written` is `inside`, so no stride needs to be
/// inverted. `elements` is the span. The poison of an i32 is a number, -1: such an output is never not finite.
cudaError_t launch_check_output(const void* d, DType type, std::int64_t elements, const GemmView& view, Findings* findings,
                                cudaStream_t stream) noexcept;
cudaError_t launch_check_output(const void* d, DType type, std::int64_t elements, const ConvView& view, Findings* findings,
                                cudaStream_t stream) noexcept;
cudaError_t launch_check_output(const void* d, DType type, std::int64_t elements, const PoolView& view, Findings* findings,
                                cudaStream_t stream) noexcept;

/// |d - value| <= absolute + out * |value| + sums * sqrt(squares).
struct Bound {
  double absolute = 0, out = 0, sums = 0;
};
cudaError_t launch_compare(const void* d, DType type, const GemmView& view, const SampleGrid& grid, const Bound& bound,
                           const Reference* references, Findings* findings, cudaStream_t stream) noexcept;
cudaError_t launch_compare(const void* d, DType type, const ConvView& view, const SampleGrid& grid, const Bound& bound,
                           const Reference* references, Findings* findings, cudaStream_t stream) noexcept;
cudaError_t launch_compare(const void* d, DType type, const PoolView& view, const SampleGrid& grid, const Bound& bound,
                           const Reference* references, Findings* findings, cudaStream_t stream) noexcept;

/// Whether this build holds code that the current device can run.
cudaError_t kernels_loadable() noexcept;

}  // namespace attune

// The enumerations and small value types of the public interface.
#pragma once

#include <cstdint>
#include <limits>

namespace attune {
inline namespace v0 {

/// Element type in memory. The fp8 types are inputs of a GEMM with a 16-bit or fp32 output, i8 those of one with an i32 output.
enum class DType : std::uint8_t { f16, bf16, f32, f64, f8_e4m3, f8_e5m2, i8, i32 };

/// op(X) = X, its transpose, or its conjugate transpose (reserved: refused when run).
enum class Op : std::uint8_t { N, T, C };

/// Accumulation, and the type in which alpha and beta are given: `f32` and `f32_tf32` take float, `f64` takes double, `i32` takes
/// std::int32_t (its sums wrap around at 32 bits). `f32_tf32` is f32 with tensor cores allowed to round fp32 inputs to tf32; it is `f32` plus MathMode::tf32 in every respect.
enum class Compute : std::uint8_t { f32, f32_tf32, f64, i32 };

/// The case of a scalar; the case is part of a plan's key, the value is not.
enum class Scalar : std::uint8_t { zero, one, other };

/// What is applied to each output element after alpha * result + beta * C: a bias is added, then the activation is taken.
/// relu(v) = max(v, 0); gelu_erf(v) = v/2 (1 + erf(v / sqrt 2)); gelu_tanh(v) = v/2 (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3)));
/// silu(v) = v / (1 + exp(-v)). All in the compute type, rounded once at the end.
enum class Epilogue : std::uint8_t {
  none, bias, relu, bias_relu, gelu_erf, bias_gelu_erf, gelu_tanh, bias_gelu_tanh, silu, bias_silu,
};

/// Convolution pass: y from x and w; x from y and w; w from x and y.
enum class Direction : std::uint8_t { fwd, dgrad, wgrad };

/// Memory order of packed activations; a filter is K,C/groups,spatial for `nchw` and K,spatial,C/groups for `nhwc`.
/// The same two names serve 1-D (NCW, NWC) and 3-D (NCDHW, NDHWC) problems.
enum class Layout : std::uint8_t { nchw, nhwc };

/// How long a search may be: fewer candidates and rounds, the normal search, or everything that a provider can name.
enum class Effort : std::uint8_t { quick, standard, exhaustive };

/// Where a plan came from. `tuned`: timed by this process. `file`: read from the plan file. `memory`: tuned earlier in this
/// process, nothing was timed for this request. `default`: the vendor's first answer, because benchmarking is off or there
/// was nothing to choose. `deferred`: the default, to be tuned at the next call that may. `stale`: the default, because the
/// remembered plan belongs to another version of its provider.
enum class Source : std::uint8_t { tuned, file, memory, default_plan, deferred, stale };

/// What is allowed beyond strict arithmetic; a set of bits.
enum class MathMode : std::uint32_t {
  strict = 0,
  tf32 = 1u << 0,               ///< fp32 inputs may be rounded to tf32 for tensor cores
  reduced_reduction = 1u << 1,  ///< split-K partial sums may be added in the output's 16-bit type
  transforms = 1u << 2,         ///< Winograd, FFT and banded-matrix convolution, in which an infinity or NaN spreads (on by default, as in cuDNN)
  fp8_fast = 1u << 3,           ///< fp8 products may be added with fewer bits than fp32 (on Hopper, the tensor cores' own sums)
};

constexpr MathMode operator|(MathMode a, MathMode b) noexcept {
  return static_cast<MathMode>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr MathMode operator&(MathMode a, MathMode b) noexcept {
  return static_cast<MathMode>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}
constexpr bool any(MathMode m) noexcept { return m != MathMode::strict; }

enum class LogLevel : std::uint8_t { off, warn, info, debug };

/// A CUDA stream (cudaStream_t converts to it); null is the legacy default stream. The host device ignores it.
using Stream = void*;

/// For a leading dimension or stride: the smallest legal value, from the sizes.
inline constexpr std::int64_t packed = std::numeric_limits<std::int64_t>::min();

/// The device of a Context.
struct Device {
  enum class Kind : std::uint8_t { cuda, host };
  Kind kind = Kind::cuda;
  int ordinal = 0;  ///< CUDA device number

  static constexpr Device cuda(int ordinal = 0) noexcept { return {Kind::cuda, ordinal}; }
  static constexpr Device host() noexcept { return {Kind::host, 0}; }
};

}  // namespace v0
}  // namespace attune

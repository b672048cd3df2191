// Pooling and its gradient, in one, two or three spatial dimensions.
#pragma once

#include <attune/conv.hpp>

namespace attune {
inline namespace v0 {

/// Of each window: its maximum; the sum of its elements that lie in x by their number; the same sum by the size of the window.
enum class PoolMode : std::uint8_t { max, average, average_padded };

/// y from x; or dx from dy, and for `max` from x and y too.
enum class PoolDirection : std::uint8_t { fwd, bwd };

/// What a pooling computes; holds no pointers. x is N,C,in...; y is N,C,out... with
/// out = (in + before + after - window) / stride + 1 in each spatial dimension. Each window must reach into x: before and after
/// are smaller than the window. A maximum is NaN where its window holds one; where a maximum occurs more than once, the
/// gradient goes to the first in the order of the window (outermost dimension slowest). Sums are formed in f32 (f64 for f64),
/// rounded once.
struct PoolProblem {
  PoolDirection direction = PoolDirection::fwd;
  PoolMode mode = PoolMode::max;
  Dims x;  ///< N, C, then 1 to 3 spatial extents
  Spatial window = 1;
  Spatial stride = 1;
  Padding pad = 0;
  DType type = DType::f32;       ///< of x and y, dx and dy: f16, bf16, f32 or f64
  Layout layout = Layout::nchw;  ///< memory order of each tensor whose strides are `packed`
  std::int64_t x_stride[5] = {packed, packed, packed, packed, packed};  ///< of x and dx: elements, in the order of the extents
  std::int64_t y_stride[5] = {packed, packed, packed, packed, packed};  ///< of y and dy
  int align_x = 16;  ///< alignment of the addresses of x and dx in bytes, 1 to 16; calls derive it from the pointers
  int align_y = 16;  ///< of y and dy

  PoolProblem() = default;
  PoolProblem(PoolMode mode_, Dims x_, Spatial window_, Spatial stride_, Padding pad_ = 0) noexcept
      : mode(mode_), x(x_), window(window_), stride(stride_), pad(pad_) {}

  int spatial() const noexcept { return x.count - 2; }
  /// Extents of y. Meaningful for a valid problem.
  constexpr Dims y() const noexcept {
    Dims out;
    out.count = x.count;
    for (int i = 0; i < 2; ++i) out.size[i] = x.size[i];
    for (int i = 0; i < 3 && i + 2 < x.count && i + 2 < 5; ++i) {
      // Sizes past 2^31 are refused when the problem is validated; before that they must not overflow here.
      constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
      bool sane = true;
      for (std::int64_t size : {window[i], x.size[i + 2], pad.before[i], pad.after[i], stride[i]})
        sane = sane && size >= -most && size <= most;
      if (!sane) continue;
      const std::int64_t room = x.size[i + 2] + pad.before[i] + pad.after[i] - window[i];
      out.size[i + 2] = room < 0 || stride[i] <= 0 ? 0 : room / stride[i] + 1;
    }
    return out;
  }
};

/// The tensors of one call, device pointers (host pointers on Device::host()). The output must not overlap an input.
struct PoolArgs {
  const void* x = nullptr;   ///< not read by the gradient of an average
  const void* y = nullptr;   ///< of bwd with `max`: what fwd gave for x
  const void* dy = nullptr;  ///< of bwd
  void* out = nullptr;       ///< y (fwd) or dx (bwd); all of it is written

  static PoolArgs fwd(const void* x, void* y) noexcept { return {x, nullptr, nullptr, y}; }
  static PoolArgs bwd(const void* x, const void* y, const void* dy, void* dx) noexcept { return {x, y, dy, dx}; }
};

/// Runs the problem on the stream with the best plan known, tuning it first where the context may. Returns once the work is
/// enqueued. Throws Error: invalid_argument (the message names the argument and its value), unsupported, no_memory,
/// device_error.
ATTUNE_EXPORT void tuned_pool(Context& ctx, const PoolProblem& problem, const PoolArgs& args, Stream stream = nullptr);
/// The same, returning the code; last_error_message() holds the message.
ATTUNE_EXPORT Status tuned_pool(Context& ctx, const PoolProblem& problem, const PoolArgs& args, Stream stream,
                                std::nothrow_t) noexcept;

}  // namespace v0
}  // namespace attune

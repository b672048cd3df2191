// Convolution (cross-correlation, as in cuDNN) and its two gradients, in one, two or three spatial dimensions.
#pragma once

#include <attune/error.hpp>
#include <attune/types.hpp>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <new>

namespace attune {
inline namespace v0 {

class Context;

/// Tensor extents in the order N, C, then the spatial ones; 3 to 5 of them.
struct Dims {
  int count = 0;
  std::int64_t size[5] = {0, 0, 0, 0, 0};

  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<std::int64_t> sizes) noexcept {
    for (std::int64_t s : sizes) {
      if (count < 5) size[count] = s;
      ++count;  // a count past 5 is refused when the problem is validated
    }
  }
};

/// One value for each spatial dimension, outermost first (D, H, W); a single number sets all three.
struct Spatial {
  std::int64_t value[3] = {0, 0, 0};

  constexpr Spatial(std::int64_t all) noexcept : value{all, all, all} {}
  constexpr Spatial(std::int64_t h, std::int64_t w) noexcept : value{h, w, w} {}
  constexpr Spatial(std::int64_t d, std::int64_t h, std::int64_t w) noexcept : value{d, h, w} {}
  constexpr std::int64_t& operator[](int i) noexcept { return value[i]; }
  constexpr std::int64_t operator[](int i) const noexcept { return value[i]; }
};

/// Rows of zeros around the input, before and after it in each spatial dimension.
struct Padding {
  Spatial before = 0;
  Spatial after = 0;

  constexpr Padding(std::int64_t all) noexcept : before(all), after(all) {}
  constexpr Padding(Spatial both) noexcept : before(both), after(both) {}
  /// Explicit, so that `pad = {1, 2}`, which could mean two things, does not compile.
  constexpr explicit Padding(Spatial before_, Spatial after_) noexcept : before(before_), after(after_) {}
};

/// What a convolution computes; holds no pointers. The sizes are always those of the forward problem, whatever the direction:
/// x is N,C,in...; w is K,C/groups,filter...; y is N,K,out... with
/// out = (in + before + after - dilation * (filter - 1) - 1) / stride + 1 in each spatial dimension.
struct ConvProblem {
  Direction direction = Direction::fwd;
  Dims x;  ///< N, C, then 1 to 3 spatial extents
  Dims w;  ///< K, C / groups, then as many filter extents
  std::int64_t groups = 1;
  Padding pad = 0;
  Spatial stride = 1;
  Spatial dilation = 1;
  DType x_type = DType::f32;
  DType w_type = DType::f32;
  DType y_type = DType::f32;
  Compute compute = Compute::f32;
  Layout layout = Layout::nchw;  ///< memory order of each tensor whose strides are `packed`
  std::int64_t x_stride[5] = {packed, packed, packed, packed, packed};  ///< elements, in the order of the extents
  std::int64_t w_stride[5] = {packed, packed, packed, packed, packed};
  std::int64_t y_stride[5] = {packed, packed, packed, packed, packed};
  Scalar alpha = Scalar::one;  ///< calls derive both cases from the values given
  Scalar beta = Scalar::zero;
  int align_x = 16;  ///< alignment of each tensor's address in bytes, 1 to 16; calls derive it from the pointers
  int align_w = 16;
  int align_y = 16;
  Epilogue epilogue = Epilogue::none;  ///< of fwd only; the bias has one element of y's type for each of the K channels
  int align_bias = 16;

  ConvProblem() = default;
  ConvProblem(Direction direction_, Dims x_, Dims w_) noexcept : direction(direction_), x(x_), w(w_) {}

  /// Gives x, w and y one type, accumulated in f32 (f64 for DType::f64).
  ConvProblem& set_dtype(DType type) noexcept {
    x_type = w_type = y_type = type;
    compute = type == DType::f64 ? Compute::f64 : Compute::f32;
    return *this;
  }
  int spatial() const noexcept { return x.count - 2; }
  /// Extents of y: N, K, then the spatial ones. Meaningful for a valid problem.
  constexpr Dims y() const noexcept {
    Dims out;
    out.count = x.count;
    out.size[0] = x.size[0];
    out.size[1] = w.size[0];
    for (int i = 0; i < 3; ++i) {
      if (i + 2 >= x.count || i + 2 >= 5) break;
      // Sizes past 2^31 are refused when the problem is validated; before that they must not overflow here.
      constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
      bool sane = true;
      for (std::int64_t size : {dilation[i], w.size[i + 2], x.size[i + 2], pad.before[i], pad.after[i], stride[i]})
        sane = sane && size >= -most && size <= most;
      if (!sane) continue;
      const std::int64_t reach = dilation[i] * (w.size[i + 2] - 1) + 1;
      const std::int64_t room = x.size[i + 2] + pad.before[i] + pad.after[i] - reach;
      out.size[i + 2] = room < 0 || stride[i] <= 0 ? 0 : room / stride[i] + 1;
    }
    return out;
  }
};

/// The tensors of one call, device pointers (host pointers on Device::host()). `alpha` and `beta` are host pointers to float
/// or double as Compute says; null means 1 and 0: out = act(alpha * result + beta * C + bias). C has the strides of the output
/// and is the output itself where it is null; it is not read when beta is 0.
struct ConvArgs {
  const void* in0 = nullptr;  ///< x (fwd, wgrad) or dy (dgrad)
  const void* in1 = nullptr;  ///< w (fwd, dgrad) or dy (wgrad)
  void* out = nullptr;        ///< y, dx or dw
  const void* alpha = nullptr;
  const void* beta = nullptr;
  const void* bias = nullptr;
  const void* c = nullptr;  ///< a residual, for example

  ConvArgs() = default;
  ConvArgs(const void* in0_, const void* in1_, void* out_, const void* bias_ = nullptr) noexcept
      : in0(in0_), in1(in1_), out(out_), bias(bias_) {}
  ConvArgs(const void* in0_, const void* in1_, void* out_, const void* alpha_, const void* beta_) noexcept
      : in0(in0_), in1(in1_), out(out_), alpha(alpha_), beta(beta_) {}
  static ConvArgs fwd(const void* x, const void* w, void* y) noexcept { return {x, w, y}; }
  static ConvArgs dgrad(const void* dy, const void* w, void* dx) noexcept { return {dy, w, dx}; }
  static ConvArgs wgrad(const void* x, const void* dy, void* dw) noexcept { return {x, dy, dw}; }
};

/// Runs the problem on the stream with the best plan known, tuning it first where the context may. Returns once the work is
/// enqueued. Throws Error: invalid_argument (the message names the argument and its value), unsupported, no_memory, device_error.
ATTUNE_EXPORT void tuned_conv(Context& ctx, const ConvProblem& problem, const ConvArgs& args, Stream stream = nullptr);
/// The same, returning the code; last_error_message() holds the message.
ATTUNE_EXPORT Status tuned_conv(Context& ctx, const ConvProblem& problem, const ConvArgs& args, Stream stream,
                                std::nothrow_t) noexcept;

}  // namespace v0
}  // namespace attune

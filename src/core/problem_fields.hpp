// The one list of each problem's fields. Hash, equality, text, parsing and the filling in of `packed` are visitors of it.
//
// A visitor has five functions. `field(name, value, default)`: a scalar or an enumeration. `dims(name, dims)`: extents, whose
// count is part of the value. `list(name, values, count, defaults)`: one value for each dimension. `step(name, value,
// default)`: a leading dimension or a stride. `strides(name, values, count, fill)`: one for each dimension, with defaults that
// `fill(std::int64_t[5])` works out when they are wanted. The text form omits what is at its default; a default may depend on
// fields visited before. A step or stride that is `packed` stands for its default; elsewhere that is a number like others.
#pragma once

#include <attune/problem.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <variant>

namespace attune {

template <class P, class Expected>
concept fields_of = std::same_as<std::remove_const_t<P>, Expected>;

constexpr std::int64_t resolved(std::int64_t value, std::int64_t packed_value) noexcept {
  return value == packed ? packed_value : value;
}

/// Saturates instead of overflowing; validation refuses what saturates.
constexpr std::int64_t saturating_mul(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max() : product;
}

constexpr Compute standard_compute(DType out) noexcept {
  return out == DType::f64 ? Compute::f64 : out == DType::i32 ? Compute::i32 : Compute::f32;
}

template <fields_of<GemmProblem> P, class Visitor>
constexpr void visit_fields(P& p, Visitor&& v) {
  const auto rows_a = [&] { return p.op_a == Op::N ? p.m : p.k; };
  const auto cols_a = [&] { return p.op_a == Op::N ? p.k : p.m; };
  const auto rows_b = [&] { return p.op_b == Op::N ? p.k : p.n; };
  const auto cols_b = [&] { return p.op_b == Op::N ? p.n : p.k; };
  const auto least = [](std::int64_t rows) { return rows > 1 ? rows : std::int64_t{1}; };
  const auto lda = [&] { return resolved(p.lda, least(rows_a())); };
  const auto ldb = [&] { return resolved(p.ldb, least(rows_b())); };
  const auto ldc = [&] { return resolved(p.ldc, least(p.m)); };
  const auto ldd = [&] { return resolved(p.ldd, ldc()); };

  v.field("op_a", p.op_a, Op::N);
  v.field("op_b", p.op_b, Op::N);
  v.field("m", p.m, std::int64_t{0});
  v.field("n", p.n, std::int64_t{0});
  v.field("k", p.k, std::int64_t{0});
  v.field("batch", p.batch, std::int64_t{1});
  v.field("a", p.a_type, DType::f32);
  v.field("b", p.b_type, p.a_type);
  v.field("c", p.c_type, p.a_type);
  v.field("compute", p.compute, standard_compute(p.c_type));
  v.step("lda", p.lda, least(rows_a()));
  v.step("ldb", p.ldb, least(rows_b()));
  v.step("ldc", p.ldc, least(p.m));
  v.step("ldd", p.ldd, ldc());
  v.step("stride_a", p.stride_a, saturating_mul(lda(), cols_a()));
  v.step("stride_b", p.stride_b, saturating_mul(ldb(), cols_b()));
  v.step("stride_c", p.stride_c, saturating_mul(ldc(), p.n));
  v.step("stride_d", p.stride_d, saturating_mul(ldd(), p.n));
  v.field("alpha", p.alpha, Scalar::one);
  v.field("beta", p.beta, Scalar::zero);
  v.field("align_a", p.align_a, 16);
  v.field("align_b", p.align_b, 16);
  v.field("align_c", p.align_c, 16);
  v.field("align_d", p.align_d, 16);
  v.field("epilogue", p.epilogue, Epilogue::none);
  v.field("align_bias", p.align_bias, 16);
}

/// Strides of a packed tensor of `count` (3 to 5) extents in the order N, C, spatial.
constexpr void packed_strides(const std::int64_t* size, int count, Layout layout, std::int64_t* stride) noexcept {
  std::int64_t step = 1;
  const auto place = [&](int i) {
    stride[i] = step;
    step = saturating_mul(step, size[i]);
  };
  if (layout == Layout::nhwc) place(1);
  for (int i = count - 1; i >= 2; --i) place(i);
  if (layout == Layout::nchw) place(1);
  place(0);
}

/// Fields that the tensors of several ops have.
template <class P>
constexpr int extents_of(const P& p) noexcept {
  return p.x.count < 3 ? 3 : p.x.count > 5 ? 5 : p.x.count;
}
inline constexpr std::int64_t spatial_ones[3] = {1, 1, 1};
inline constexpr std::int64_t spatial_zeros[3] = {0, 0, 0};

template <fields_of<ConvProblem> P, class Visitor>
constexpr void visit_fields(P& p, Visitor&& v) {
  const auto count = [&] { return extents_of(p); };

  v.field("dir", p.direction, Direction::fwd);
  v.dims("x", p.x);
  v.dims("w", p.w);
  const int spatial = count() - 2;
  v.field("groups", p.groups, std::int64_t{1});
  v.list("pad", p.pad.before.value, spatial, spatial_zeros);
  v.list("pad_after", p.pad.after.value, spatial, p.pad.before.value);
  v.list("stride", p.stride.value, spatial, spatial_ones);
  v.list("dilation", p.dilation.value, spatial, spatial_ones);
  v.field("xt", p.x_type, DType::f32);
  v.field("wt", p.w_type, p.x_type);
  v.field("yt", p.y_type, p.x_type);
  v.field("compute", p.compute, standard_compute(p.y_type));
  v.field("layout", p.layout, Layout::nchw);
  const auto packing = [&](const auto& extents) {
    return [&, extents](std::int64_t* stride) {
      const Dims dims = extents();
      packed_strides(dims.size, count(), p.layout, stride);
    };
  };
  v.strides("x_stride", p.x_stride, count(), packing([&] { return p.x; }));
  v.strides("w_stride", p.w_stride, count(), packing([&] { return p.w; }));
  v.strides("y_stride", p.y_stride, count(), packing([&] { return p.y(); }));
  v.field("alpha", p.alpha, Scalar::one);
  v.field("beta", p.beta, Scalar::zero);
  v.field("align_x", p.align_x, 16);
  v.field("align_w", p.align_w, 16);
  v.field("align_y", p.align_y, 16);
  v.field("epilogue", p.epilogue, Epilogue::none);
  v.field("align_bias", p.align_bias, 16);
}

template <fields_of<PoolProblem> P, class Visitor>
constexpr void visit_fields(P& p, Visitor&& v) {
  v.field("dir", p.direction, PoolDirection::fwd);
  v.field("mode", p.mode, PoolMode::max);
  v.dims("x", p.x);
  const int count = extents_of(p), spatial = count - 2;
  v.list("window", p.window.value, spatial, spatial_ones);
  v.list("stride", p.stride.value, spatial, spatial_ones);
  v.list("pad", p.pad.before.value, spatial, spatial_zeros);
  v.list("pad_after", p.pad.after.value, spatial, p.pad.before.value);
  v.field("type", p.type, DType::f32);
  v.field("layout", p.layout, Layout::nchw);
  v.strides("x_stride", p.x_stride, count, [&](std::int64_t* stride) { packed_strides(p.x.size, count, p.layout, stride); });
  v.strides("y_stride", p.y_stride, count, [&](std::int64_t* stride) { packed_strides(p.y().size, count, p.layout, stride); });
  v.field("align_x", p.align_x, 16);
  v.field("align_y", p.align_y, 16);
}

/// The word with which an op's text begins.
template <class P>
inline constexpr const char* op_name = nullptr;
template <>
inline constexpr const char* op_name<GemmProblem> = "gemm";
template <>
inline constexpr const char* op_name<ConvProblem> = "conv";
template <>
inline constexpr const char* op_name<PoolProblem> = "pool";

/// The op's place in Problem.
template <class P, std::size_t At = 0>
constexpr std::size_t op_index() noexcept {
  if constexpr (std::same_as<std::variant_alternative_t<At, Problem>, P>)
    return At;
  else
    return op_index<P, At + 1>();
}

}  // namespace attune

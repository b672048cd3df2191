// Every direction of a convolution in one form, for kernels that gather an image.
#pragma once

#include "kernels/common/contraction.hpp"

namespace attune {

/// A convolution of any direction as a contraction of an image, gathered, with a strided operand. Rows are channels of the
/// output, columns (outer, position); a term is (tap, inner). In the terms of a direction:
///   fwd    image x,  columns (n, output position), terms (filter tap, c), other operand w
///   dgrad  image dy, columns (n, input position),  terms (filter tap, k), other operand w
///   wgrad  image x,  columns (c, filter tap),      terms (output position, n), other operand dy
/// Coordinate d of the image is (position * position_step + shift + tap * tap_step) / divisor, where that is whole and inside.
struct ImageContraction {
  DType image_type = DType::f32, other_type = DType::f32, out_type = DType::f32;
  std::int64_t rows = 0, outer = 0, inner = 0, groups = 1;
  std::int64_t position[3] = {1, 1, 1}, tap[3] = {1, 1, 1};
  std::int64_t position_step[3] = {}, shift[3] = {}, tap_step[3] = {}, divisor[3] = {1, 1, 1};
  std::int64_t image_extent[3] = {}, image_step[3] = {};
  std::int64_t image_outer = 0, image_inner = 0, image_group = 0;
  std::int64_t other_row = 0, other_inner = 0, other_tap[3] = {}, other_group = 0;
  std::int64_t out_row = 0, out_outer = 0, out_position[3] = {}, out_group = 0;
  bool image_on_m = false;  ///< for the host engine: the image lies along the tile's vectors

  ATTUNE_HD std::int64_t cols() const { return outer * ConvView::volume(position); }
  ATTUNE_HD std::int64_t terms() const { return inner * ConvView::volume(tap); }
};

/// `problem` is resolved.
inline ImageContraction image(const ConvProblem& p, bool image_on_m = false) noexcept {
  const ConvView v = view(p);
  ImageContraction s;
  s.image_on_m = image_on_m;
  s.groups = v.groups;
  const bool wgrad = p.direction == Direction::wgrad, dgrad = p.direction == Direction::dgrad;
  const std::int64_t* image = dgrad ? v.y_step : v.x_step;
  const std::int64_t* other = wgrad ? v.y_step : v.w_step;
  const std::int64_t* out = wgrad ? v.w_step : dgrad ? v.x_step : v.y_step;
  s.image_type = dgrad ? p.y_type : p.x_type;
  s.other_type = wgrad ? p.y_type : p.w_type;
  s.out_type = wgrad ? p.w_type : dgrad ? p.x_type : p.y_type;
  s.rows = dgrad ? v.c : v.k;
  s.outer = wgrad ? v.c : v.n;
  s.inner = wgrad ? v.n : dgrad ? v.k : v.c;
  for (int i = 0; i < 3; ++i) {
    s.position[i] = wgrad ? v.filter[i] : dgrad ? v.in[i] : v.out[i];
    s.tap[i] = wgrad ? v.out[i] : v.filter[i];
    s.position_step[i] = wgrad ? v.dilation[i] : dgrad ? 1 : v.stride[i];
    s.shift[i] = dgrad ? v.pad[i] : -v.pad[i];
    s.tap_step[i] = wgrad ? v.stride[i] : dgrad ? -v.dilation[i] : v.dilation[i];
    s.divisor[i] = dgrad ? v.stride[i] : 1;
    s.image_extent[i] = dgrad ? v.out[i] : v.in[i];
    s.image_step[i] = image[2 + i], s.other_tap[i] = other[2 + i], s.out_position[i] = out[2 + i];
  }
  s.image_outer = wgrad ? image[1] : image[0];
  s.image_inner = wgrad ? image[0] : image[1];
  s.image_group = (dgrad ? v.k : v.c) * image[1];
  s.other_row = dgrad ? other[1] : wgrad ? other[1] : other[0];
  s.other_inner = dgrad ? other[0] : wgrad ? other[0] : other[1];
  s.other_group = v.k * (wgrad ? other[1] : other[0]);
  s.out_row = wgrad ? out[0] : out[1];
  s.out_outer = wgrad ? out[1] : out[0];
  s.out_group = s.rows * s.out_row;
  return s;
}

}  // namespace attune

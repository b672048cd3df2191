// Conformance of the cuDNN provider: every variant that it lists, elementwise, in all directions, layouts and types.
#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

#include "support/cudnn_fixture.hpp"

namespace attune {
namespace {

TEST_F(Cudnn, EveryVariantIsRight) {
  run_everywhere([](ConvProblem&) {});
  run_everywhere([](ConvProblem& p) { p.x = {3, 32, 16, 16}, p.w = {32, 32, 1, 1}, p.pad = 0; });
  run_everywhere([](ConvProblem& p) { p.x = {1, 3, 17, 19}, p.w = {5, 3, 5, 3}; });
}

TEST_F(Cudnn, StridesAndDilation) {
  run_everywhere([](ConvProblem& p) { p.stride = 2; });
  run_everywhere([](ConvProblem& p) { p.dilation = Spatial(2, 3), p.pad = 2; });
  run_everywhere([](ConvProblem& p) { p.stride = Spatial(3, 2), p.dilation = Spatial(1, 2); });
}

TEST_F(Cudnn, PaddingDiffersBySide) {
  run_everywhere([](ConvProblem& p) { p.pad = Padding(Spatial(1, 0), Spatial(0, 2)); });
  run_everywhere([](ConvProblem& p) { p.pad = Padding(Spatial(0, 2), Spatial(2, 1)), p.stride = 2; });
}

TEST_F(Cudnn, Groups) {
  run_everywhere([](ConvProblem& p) { p.groups = 2, p.w = {24, 8, 3, 3}; });
  run_everywhere([](ConvProblem& p) { p.groups = 16, p.w = {16, 1, 3, 3}; });
  run_everywhere([](ConvProblem& p) { p.groups = 16, p.w = {32, 1, 3, 3}, p.stride = 2; });
}

TEST_F(Cudnn, OneAndThreeDimensions) {
  run_everywhere([](ConvProblem& p) { p.x = {2, 16, 50}, p.w = {24, 16, 3}; });
  run_everywhere([](ConvProblem& p) { p.x = {2, 16, 51}, p.w = {24, 16, 5}, p.stride = 2, p.pad = Padding(2, 1); });
  run_everywhere([](ConvProblem& p) { p.x = {1, 16, 5, 9, 7}, p.w = {8, 16, 3, 3, 3}; });
}

TEST_F(Cudnn, AddsToItsOutput) {
  run_everywhere([](ConvProblem& p) { p.beta = Scalar::one; });
}

TEST_F(Cudnn, StridesBeyondPacked) {
  run_everywhere([](ConvProblem& p) {
    p = std::get<ConvProblem>(resolve(p));
    const auto grow = [&](std::int64_t* stride, int least) {
      for (int i = 0; i < 4; ++i)
        if (stride[i] >= least) stride[i] += stride[i] / least * 8;
    };
    // Rows of the activations lie eight elements further apart, and what holds rows grows with them.
    grow(p.x_stride, static_cast<int>(p.layout == Layout::nhwc ? 11 * 16 : 11));
    grow(p.y_stride, static_cast<int>(p.layout == Layout::nhwc ? 11 * 24 : 11));
  });
}

TEST_F(Cudnn, MisalignedOperands) {
  for (int align : {2, 4, 8})
    run_everywhere(
        [align](ConvProblem& p) { p.align_x = p.align_w = p.align_y = std::max(align, static_cast<int>(size_of(p.x_type))); });
}

}  // namespace
}  // namespace attune

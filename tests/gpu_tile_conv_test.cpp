// Conformance of Attune's own convolutions: every variant that the `tile` provider can name, over shapes around their tiles and
// around the edges of images.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cli/workload.hpp"
#include "core/names.hpp"
#include "kernels/conv_depthwise.hpp"
#include "kernels/tiles.hpp"
#include "providers/tile.hpp"
#include "support/gpu_conform.hpp"

namespace attune {
namespace {

class TileConv : public GpuConformance {
 protected:
  void SetUp() override {
    GpuConformance::SetUp();
    if (missing_gpu().empty()) test(make_tile_provider(0, gpu_runtime().info()));
  }
};

TEST(DepthwiseTiling, TilesPastTheMemoryThereIsDoNotWrapAround) {
  DepthwiseShape s;
  s.images = 1, s.channels = 64;
  s.filter[0] = s.filter[1] = 3;
  // In 32 bits such products wrap around, some to what a block has.
  for (int columns : {5592408, 2796204, 1 << 28}) {
    s.out[0] = s.image[0] = 4, s.out[1] = s.image[1] = columns;
    for (bool wgrad : {false, true}) EXPECT_GT(DepthwiseTiling(4, columns, 32, 16, 2, s, wgrad).bytes, 1 << 20) << columns;
  }
}

/// A problem without direction, type and layout.
struct Geometry {
  const char* name;
  Dims x, w;
  std::int64_t groups = 1;
  Padding pad = 0;
  Spatial stride = 1;
  Spatial dilation = 1;
};

ConvProblem problem(const Geometry& g, Direction direction, DType type, Layout layout) {
  ConvProblem p(direction, g.x, g.w);
  p.groups = g.groups, p.pad = g.pad, p.stride = g.stride, p.dilation = g.dilation, p.layout = layout;
  p.set_dtype(type);
  if (type == DType::f32) p.compute = Compute::f32_tf32;
  return p;
}

const Geometry geometries[] = {
    {"plain", {2, 16, 12, 10}, {24, 16, 3, 3}, 1, 1},
    {"one_tap", {2, 32, 9, 7}, {40, 32, 1, 1}},
    {"one_tap_strided", {2, 16, 9, 8}, {32, 16, 1, 1}, 1, 0, 2},
    {"deep", {1, 136, 7, 7}, {72, 136, 3, 3}, 1, 1},
    {"wide", {1, 24, 5, 6}, {264, 24, 3, 3}, 1, 1},
    {"many_positions", {3, 8, 17, 16}, {8, 8, 3, 3}, 1, 1},
    {"strided", {2, 16, 13, 11}, {24, 16, 3, 3}, 1, 1, 2},
    {"strides_differ", {2, 16, 13, 11}, {16, 16, 5, 2}, 1, 2, {3, 1}},
    {"stride_past_filter", {1, 16, 14, 15}, {16, 16, 2, 1}, 1, 0, {4, 3}},
    {"dilated", {1, 16, 14, 13}, {16, 16, 3, 3}, 1, 3, 1, {3, 2}},
    {"dilated_and_strided", {1, 16, 14, 13}, {16, 16, 3, 4}, 1, 3, {2, 4}, {4, 2}},
    {"image_below_reach", {2, 16, 2, 3}, {16, 16, 5, 5}, 1, 2},
    {"padding_past_edge", {1, 16, 3, 3}, {16, 16, 2, 2}, 1, 4},
    {"padding_differs", {2, 16, 6, 7}, {16, 16, 3, 3}, 1, Padding(Spatial(0, 2), Spatial(2, 1)), 2},
    {"one_channel", {2, 1, 12, 11}, {16, 1, 5, 5}, 1, 2},
    {"stem", {2, 3, 20, 22}, {32, 3, 7, 7}, 1, 3, 2},
    {"odd_channels", {1, 13, 9, 8}, {11, 13, 3, 3}, 1, 1},
    {"one_output", {1, 16, 9, 8}, {1, 16, 3, 3}, 1, 1},
    {"few_outputs", {1, 64, 9, 8}, {3, 64, 3, 3}, 1, 1},
    {"one_position", {4, 16, 3, 3}, {24, 16, 3, 3}},
    {"groups", {2, 32, 8, 7}, {64, 8, 3, 3}, 4, 1},
    {"small_groups", {2, 16, 8, 7}, {24, 4, 3, 3}, 4, 1},
    {"multiplier", {2, 12, 8, 7}, {24, 1, 3, 3}, 12, 1},
    {"line", {3, 16, 40}, {24, 16, 5}, 1, 2, 2},
    {"line_grouped", {2, 16, 31}, {16, 8, 3}, 2, 1, 1, 2},
    {"volume", {1, 16, 5, 6, 7}, {16, 16, 3, 3, 3}, 1, 1},
    {"volume_strided", {2, 8, 7, 6, 5}, {16, 8, 3, 2, 3}, 1, Spatial(1, 0, 2), Spatial(2, 1, 3)},
};

const Geometry depthwise[] = {
    {"plain", {2, 32, 12, 10}, {32, 1, 3, 3}, 32, 1},
    {"strided", {2, 32, 13, 12}, {32, 1, 3, 3}, 32, 1, 2},
    {"five", {2, 24, 9, 11}, {24, 1, 5, 5}, 24, 2},
    {"five_strided", {1, 24, 14, 17}, {24, 1, 5, 5}, 24, 2, 2},
    {"seven", {2, 16, 17, 14}, {16, 1, 7, 7}, 16, 3},
    {"many_channels", {1, 130, 7, 7}, {130, 1, 3, 3}, 130, 1},
    {"odd_channels", {2, 13, 9, 8}, {13, 1, 3, 3}, 13, 1},
    {"two_channels", {3, 2, 8, 9}, {2, 1, 5, 5}, 2, 2},
    {"no_padding", {2, 16, 9, 10}, {16, 1, 3, 3}, 16},
    {"padding_past_filter", {2, 16, 5, 4}, {16, 1, 3, 3}, 16, 5},
    {"padding_differs", {2, 16, 6, 7}, {16, 1, 3, 3}, 16, Padding(Spatial(0, 2), Spatial(2, 1))},
    {"image_below_reach", {2, 16, 2, 3}, {16, 1, 7, 7}, 16, 3},
    {"one_position", {4, 16, 3, 3}, {16, 1, 3, 3}, 16},
    {"dilated", {1, 16, 14, 13}, {16, 1, 3, 3}, 16, 2, 1, 2},
    {"dilated_and_strided", {1, 16, 14, 13}, {16, 1, 3, 3}, 16, 3, {2, 3}, {4, 2}},
    {"strides_differ", {1, 16, 13, 12}, {16, 1, 3, 3}, 16, 1, {1, 2}},
    {"stride_past_filter", {1, 16, 14, 15}, {16, 1, 2, 3}, 16, 0, {5, 4}},
    {"not_square", {2, 16, 11, 12}, {16, 1, 5, 3}, 16, Padding(Spatial(2, 1))},
    {"large_filter", {1, 4, 18, 20}, {4, 1, 17, 13}, 4, Padding(Spatial(8, 6))},
    {"large_filter_over_tiles", {5, 3, 40, 37}, {3, 1, 31, 31}, 3, 15},
    {"large_filter_no_padding", {1, 2, 50, 47}, {2, 1, 10, 33}, 2},
    {"tiles_ragged", {2, 72, 31, 37}, {72, 1, 3, 3}, 72, 1},
    {"tiles_ragged_strided", {1, 136, 45, 33}, {136, 1, 5, 5}, 136, 2, 2},
    {"wide_image", {1, 4, 5, 300}, {4, 1, 3, 3}, 4, 1},
    {"line", {3, 16, 40}, {16, 1, 5}, 16, 2},
    {"line_strided", {3, 16, 41}, {16, 1, 3}, 16, 1, 2},
    {"volume", {1, 16, 5, 6, 7}, {16, 1, 3, 3, 3}, 16, 1},
};

constexpr Direction directions[] = {Direction::fwd, Direction::dgrad, Direction::wgrad};
constexpr Layout layouts[] = {Layout::nchw, Layout::nhwc};

class TileConvTypes : public TileConv, public testing::WithParamInterface<std::tuple<Direction, DType>> {
 protected:
  Direction direction() const { return std::get<0>(GetParam()); }
  DType type() const { return std::get<1>(GetParam()); }
  ConvProblem make(const Geometry& g, Layout layout) const { return problem(g, direction(), type(), layout); }
};

TEST_P(TileConvTypes, EveryGeometryAndLayout) {
  for (const Geometry& g : geometries)
    for (Layout layout : layouts) {
      SCOPED_TRACE(g.name);
      conform(make(g, layout));
      if (HasFailure()) return;
    }
}

TEST_P(TileConvTypes, EveryDepthwiseGeometryAndLayout) {
  for (const Geometry& g : depthwise)
    for (Layout layout : layouts) {
      SCOPED_TRACE(g.name);
      conform(make(g, layout));
      conform(make(g, layout), {.alpha = 0.5, .beta = -2, .c_apart = true, .shift = size_of(type())});
      if (HasFailure()) return;
    }
}

TEST_P(TileConvTypes, ScalarsAndCApart) {
  const double scalars[][2] = {{1, 0}, {1, 1}, {-2.5, 0}, {0.5, 1.25}};
  for (const Geometry& g : {geometries[0], geometries[6], geometries[15], geometries[20], depthwise[0]})
    for (const auto& [alpha, beta] : scalars)
      for (bool apart : {false, true})  // where beta is 0, a C apart holds NaNs
        for (Layout layout : layouts) {
          conform(make(g, layout), {.alpha = alpha, .beta = beta, .c_apart = apart});
          if (HasFailure()) return;
        }
}

TEST_P(TileConvTypes, AddressesOffSixteen) {
  for (std::size_t shift : {std::size_t{2}, std::size_t{4}, std::size_t{8}}) {
    if (shift < size_of(type())) continue;
    for (Layout layout : layouts) {
      conform(make(geometries[0], layout), {.alpha = 0.5, .beta = 2, .c_apart = true, .shift = shift});
      conform(make(geometries[16], layout), {.shift = shift});
      if (HasFailure()) return;
    }
  }
}

/// Views into larger tensors.
TEST_P(TileConvTypes, StridesApart) {
  for (Layout layout : layouts)
    for (int of : {0, 1, 2})
      for (std::int64_t gap : {1, 8}) {
        ConvProblem p = std::get<ConvProblem>(resolve(make(geometries[0], layout)));
        p.compute = make(geometries[0], layout).compute;
        std::int64_t* stride = of == 0 ? p.x_stride : of == 1 ? p.w_stride : p.y_stride;
        // Lines further apart, and what lies above them.
        const int lines = layout == Layout::nhwc ? 3 : 2;
        const std::int64_t line = stride[lines];
        for (int i = 0; i < 4; ++i)
          if (stride[i] >= line) stride[i] = stride[i] / line * (line + gap);
        conform(p, {.alpha = 0.5, .beta = 2});
        conform(p);
        if (HasFailure()) return;
      }
}

TEST_P(TileConvTypes, LayoutsThatDiffer) {
  for (int mask = 1; mask < 7; ++mask) {
    ConvProblem first = std::get<ConvProblem>(resolve(make(geometries[6], Layout::nchw)));
    const ConvProblem last = std::get<ConvProblem>(resolve(make(geometries[6], Layout::nhwc)));
    if (mask & 1) std::copy(last.x_stride, last.x_stride + 5, first.x_stride);
    if (mask & 2) std::copy(last.w_stride, last.w_stride + 5, first.w_stride);
    if (mask & 4) std::copy(last.y_stride, last.y_stride + 5, first.y_stride);
    first.compute = make(geometries[6], Layout::nchw).compute;
    conform(first);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TileConvTypes,
                         testing::Combine(testing::ValuesIn(directions),
                                          testing::Values(DType::f16, DType::bf16, DType::f32, DType::f64)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_" +
                                  std::string(name_of(std::get<1>(info.param)));
                         });

TEST_F(TileConv, EveryEpilogue) {
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (std::size_t e = 0; e < std::size(Names<Epilogue>::list); ++e)
      for (Layout layout : layouts)
        for (const Geometry& g : {geometries[0], geometries[20], geometries[16], depthwise[0], depthwise[6]}) {
          ConvProblem p = problem(g, Direction::fwd, type, layout);
          p.epilogue = static_cast<Epilogue>(e);
          conform(p);
          conform(p, {.alpha = 0.5, .beta = 2, .c_apart = true, .shift = size_of(type)});
          if (HasFailure()) return;
        }
}

TEST_F(TileConv, AnyTypesAreServed) {
  const DType floats[] = {DType::f16, DType::bf16, DType::f32};
  for (Direction direction : directions)
    for (DType x : floats)
      for (DType w : floats)
        for (DType y : floats)
          for (Layout layout : layouts) {
            ConvProblem p = problem(geometries[6], direction, DType::f16, layout);
            p.x_type = x, p.w_type = w, p.y_type = y;
            p.compute = Compute::f32_tf32;
            conform(p, {.alpha = 1.5, .beta = 0.5});
            if (HasFailure()) return;
          }
}

TEST_F(TileConv, StrictFp32UsesNoTensorCore) {
  for (Direction direction : directions)
    for (Layout layout : layouts)
      for (const Geometry& g : geometries) {
        ConvProblem p = problem(g, direction, DType::f32, layout);
        p.compute = Compute::f32;
        const Problem resolved = resolve(p);
        for (const std::string& variant : provider_->variants(resolved, applied_to(p, constraints_), Effort::exhaustive)) {
          EXPECT_FALSE(variant.starts_with("conv_mma")) << variant;
          EXPECT_FALSE(variant.starts_with("conv_gather")) << variant;
        }
      }
  ConvProblem p = problem(geometries[0], Direction::fwd, DType::f32, Layout::nchw);
  p.compute = Compute::f32;
  conform(p);
}

/// Everything is served, whatever else declines it.
TEST_F(TileConv, StridesAndTapsPastTheTiledKernels) {
  for (Direction direction : directions)
    for (Layout layout : layouts) {
      ConvProblem stride(direction, {2, 8, 37, 33}, {8, 8, 3, 3});
      stride.stride = {7, 5};
      stride.pad = 1;
      stride.layout = layout;
      stride.set_dtype(DType::f16);
      conform(stride);
      ConvProblem taps(direction, {1, 8, 24, 24}, {8, 8, 19, 18});
      taps.pad = 9;
      taps.layout = layout;
      taps.set_dtype(DType::f16);
      conform(taps);
      if (HasFailure()) return;
    }
}

bool has_splits(const std::string& name) {
  const std::size_t at = name.rfind("_k");
  return at != std::string::npos && at + 2 < name.size() && name.find_first_not_of("0123456789", at + 2) == std::string::npos;
}

TEST_F(TileConv, EveryRowOfTheTablesRuns) {
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (Direction direction : directions)
      for (Layout layout : layouts) {
        conform(problem(geometries[0], direction, type, layout));
        for (const Geometry& g : depthwise)
          if (&g < depthwise + 5 || g.name == std::string("large_filter")) conform(problem(g, direction, type, layout));
      }
  std::size_t mma = 0, gather = 0, any = 0;
  std::set<std::string> rows;
  for (const std::string& name : seen_) {
    // Without the rows and splits that were chosen.
    if (name.starts_with("conv_depthwise_")) rows.insert(name.substr(0, std::min(name.find("_r"), name.find("_k"))));
    if (has_splits(name)) continue;
    mma += name.starts_with("conv_mma_");
    gather += name.starts_with("conv_gather_") || name.starts_with("conv_simt_");
    any += name.starts_with("conv_any_");
  }
  EXPECT_EQ(mma, conv_mma_rows.size());
  EXPECT_EQ(gather, std::size(conv_gather_rows));
  EXPECT_EQ(any, conv_any_rows.size());
  EXPECT_EQ(rows.size(), conv_depthwise_rows.size());
}

TEST_F(TileConv, SplitReductions) {
  for (DType type : {DType::f16, DType::f32, DType::f64})
    for (Direction direction : directions)
      for (Layout layout : layouts) {
        ConvProblem p(direction, {4, 64, 9, 9}, {32, 64, 3, 3});
        p.pad = 1;
        p.layout = layout;
        p.set_dtype(type);
        if (direction == Direction::fwd) p.epilogue = Epilogue::bias_relu;
        conform(p);
        conform(p, {.alpha = 0.5, .beta = -1, .c_apart = true});
        if (HasFailure()) return;
      }
  EXPECT_TRUE(std::any_of(seen_.begin(), seen_.end(), has_splits));
}

TEST_F(TileConv, NamesThatAreNoRowsAreDeclined) {
  const Problem good = resolve(problem(geometries[0], Direction::fwd, DType::f16, Layout::nhwc));
  const std::string row = "conv_mma_f16_fwd_64x64x64_w32x32_s4";
  for (const std::string& text :
       {std::string("conv_mma"), std::string("conv_mma_"), row + "_k0", row + "_k01", row + "_k999", row + "x",
        std::string("conv_mma_bf16_fwd_64x64x64_w32x32_s4"), std::string("conv_mma_f16_dgrad_64x64x64_w32x32_s4"),
        std::string("conv_simt_f32_64x64x16_t4x4"), std::string("conv_any_f64_32x32"), std::string("conv_depthwise_f16_any")})
    EXPECT_EQ(provider_->prepare(text, good, constraints_).outcome, Outcome::declined) << text;
  EXPECT_EQ(provider_->prepare(row, good, constraints_).outcome, Outcome::ok);
  EXPECT_EQ(provider_->prepare(row + "_k3", good, constraints_).outcome, Outcome::ok);
  Constraints tight = constraints_;
  tight.workspace_limit = 0;
  EXPECT_EQ(provider_->prepare(row + "_k3", good, tight).outcome, Outcome::declined);
  const Problem each = resolve(problem(depthwise[0], Direction::fwd, DType::f16, Layout::nhwc));
  EXPECT_EQ(provider_->prepare("conv_depthwise_f16_last_3x3_s1_r12", each, constraints_).outcome, Outcome::ok);
  for (const char* text :
       {"conv_depthwise_f16_last_3x3_s1", "conv_depthwise_f16_last_3x3_s1_r13", "conv_depthwise_f16_last_3x3_s1_k2",
        "conv_depthwise_f16_last_5x5_s1_r4", "conv_depthwise_f16_wgrad_any_k2", "conv_depthwise_f32_any"})
    EXPECT_EQ(provider_->prepare(text, each, constraints_).outcome, Outcome::declined) << text;
  const Problem first = resolve(problem(geometries[0], Direction::fwd, DType::f16, Layout::nchw));
  EXPECT_EQ(provider_->prepare(row, first, constraints_).outcome, Outcome::declined);
}

/// The suite's convolutions with fewer images, channels and positions: their filters, strides, paddings, layouts and types
/// stay.
TEST_F(TileConv, TheSuiteScaledDown) {
  const cli::Workload suite = cli::read_workload(ATTUNE_SOURCE_DIR "/benchmarks/workloads.csv", "");
  int count = 0;
  for (const cli::Row& row : suite.rows) {
    const auto* full = row.problem ? std::get_if<ConvProblem>(&*row.problem) : nullptr;
    if (full == nullptr) continue;
    ConvProblem p = *full;
    // Channels keep their remainder by 8.
    const auto fewer = [](std::int64_t channels) { return channels <= 32 ? channels : 24 + channels % 8; };
    std::int64_t groups = p.groups;
    if (groups > 4) groups = p.w.size[1] == 1 ? fewer(groups) : 4;
    const std::int64_t c = fewer(p.w.size[1]), k = fewer(p.w.size[0] / p.groups);
    p.groups = groups, p.x.size[0] = std::min<std::int64_t>(p.x.size[0], 2);
    p.x.size[1] = c * groups, p.w.size[1] = c, p.w.size[0] = k * groups;
    for (int i = 0; i < p.spatial(); ++i) {
      std::int64_t& in = p.x.size[2 + i];
      const std::int64_t reach = p.dilation[i] * (p.w.size[2 + i] - 1) + 1;
      in = std::min(in,
                    std::max<std::int64_t>(reach - p.pad.before[i] - p.pad.after[i], 0) + (p.spatial() == 3 ? 4 : 8) + in % 2);
    }
    SCOPED_TRACE(row.name);
    conform(p);
    ++count;
    if (HasFailure()) return;
  }
  EXPECT_GT(count, 70);
}

}  // namespace
}  // namespace attune

#include "providers/tile_conv_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "kernels/common/image.hpp"

namespace attune::tile {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() - 4096;

/// What is stepped over once only may have any step: none.
int step_of(std::int64_t extent, std::int64_t step) noexcept { return extent > 1 ? static_cast<int>(step) : 0; }

ConvPhase phase_of(std::int64_t first, std::int64_t positions, std::int64_t shift, std::int64_t first_tap, std::int64_t taps) {
  ConvPhase phase;
  phase.first = static_cast<int>(first), phase.shift = static_cast<int>(shift), phase.first_tap = static_cast<int>(first_tap);
  phase.positions = static_cast<int>(positions), phase.taps = static_cast<int>(taps);
  phase.by_positions = Divider(std::max<std::int64_t>(positions, 1)), phase.by_taps = Divider(std::max<std::int64_t>(taps, 1));
  return phase;
}

/// The positions whose distance to the padded edge leaves the same rest by the stride are reached by the same taps.
void fill_dgrad_phases(ConvAxis& a, std::int64_t in, std::int64_t filter, std::int64_t pad, std::int64_t stride,
                       std::int64_t dilation) {
  const std::int64_t common = std::gcd(stride, dilation), apart = stride / common;
  a.position_step = 1, a.tap_step = static_cast<int>(-dilation / common);
  a.positions_apart = static_cast<int>(stride), a.taps_apart = static_cast<int>(apart);
  a.phases = static_cast<int>(std::min(stride, in));
  for (int i = 0; i < a.phases; ++i) {
    const std::int64_t at = i + pad, positions = (in - i + stride - 1) / stride;
    std::int64_t tap = 0;
    while (tap < std::min(apart, filter) && (at - tap * dilation) % stride != 0) ++tap;
    const bool none = tap == std::min(apart, filter);
    a.phase[i] = none ? phase_of(i, positions, 0, 0, 0)
                      : phase_of(i, positions, (at - tap * dilation) / stride, tap, (filter - tap + apart - 1) / apart);
  }
}

/// Gives the axis bits in the masks where a tap may miss the image; returns the farthest coordinate from 0.
std::int64_t bound(ConvAxis& a, int& next_bit) {
  std::int64_t low = 0, high = 0;
  int taps = 0;
  for (int i = 0; i < a.phases; ++i) {
    const ConvPhase& phase = a.phase[i];
    if (phase.positions == 0 || phase.taps == 0) continue;
    const std::int64_t across = std::int64_t{phase.taps - 1} * a.tap_step;
    low = std::min(low, phase.shift + std::min<std::int64_t>(across, 0));
    high =
        std::max(high, phase.shift + std::int64_t{phase.positions - 1} * a.position_step + std::max<std::int64_t>(across, 0));
    taps = std::max(taps, phase.taps);
  }
  a.bounded = low < 0 || high >= a.extent;
  if (a.bounded) a.bit = next_bit, next_bit += taps;
  return std::max(-low, high);
}

std::int64_t volume_of(const Dims& size) noexcept {
  std::int64_t v = 1;
  for (int i = 0; i < size.count; ++i) v *= size.size[i];
  return v;
}

/// Whether one step walks all positions of the tensor, image by image.
bool positions_collapse(const ConvOutput& out, std::int64_t& step) noexcept {
  std::int64_t span = 0;
  step = 1;
  for (int i = out.size.count - 1; i >= 2; --i) {
    if (out.size.size[i] == 1) continue;
    if (span == 0)
      step = out.stride[i];
    else if (out.stride[i] != span)
      return false;
    span = out.stride[i] * out.size.size[i];
  }
  return true;
}

PlanTraits traits_of(const ConvShape& s, const FinishShape& f, Accumulation accumulation) noexcept {
  PlanTraits traits;
  if (s.splits > 1)
    traits.workspace = static_cast<std::size_t>(s.splits) * static_cast<std::size_t>(s.part) * size_of(f.sum_type);
  traits.accumulation = accumulation;
  return traits;
}

}  // namespace

std::string fill_conv_shape(const ConvProblem& p, ConvShape& s) {
  const ConvView v = view(p);
  const ImageContraction c = image(p);
  const Spans span = spans(p);
  const bool dgrad = p.direction == Direction::dgrad;
  if (std::max({span.a.elements, span.b.elements, span.d.elements}) > most) return "a tensor past 2^31 elements";
  for (int d = 0; d < 3; ++d)
    if (std::max({v.stride[d], v.pad[d], v.dilation[d] * v.filter[d], v.out[d] * v.stride[d]}) > most / 4)
      return "coordinates past 2^31";
  s = {};
  s.wgrad = p.direction == Direction::wgrad;
  std::int64_t reach = 0, positions = 1, taps = 1;
  int next_bit = 0;
  for (int d = 0; d < 3; ++d) {
    ConvAxis& a = s.axis[d];
    const std::int64_t outputs = dgrad ? v.in[d] : v.out[d];
    a.extent = static_cast<int>(c.image_extent[d]), a.image_step = step_of(c.image_extent[d], c.image_step[d]);
    a.other_step = step_of(c.tap[d], c.other_tap[d]), a.out_step = step_of(c.position[d], c.out_position[d]);
    if (dgrad) {
      if (v.stride[d] > most_phases && v.in[d] > most_phases) return "a stride past 4";
      fill_dgrad_phases(a, v.in[d], v.filter[d], v.pad[d], v.stride[d], v.dilation[d]);
    } else {
      a.position_step = static_cast<int>(v.stride[d]), a.tap_step = static_cast<int>(v.dilation[d]);
      a.phase[0] = phase_of(0, v.out[d], -v.pad[d], 0, v.filter[d]);
    }
    reach += bound(a, next_bit) * a.image_step;
    positions *= outputs, taps *= v.filter[d];
    if (std::max(positions, taps) > most) return "positions or taps past 2^31";
  }
  if (next_bit > most_tap_bits) return "more taps than a mask holds";
  reach += (c.outer - 1) * step_of(c.outer, c.image_outer) + (c.inner - 1) * step_of(c.inner, c.image_inner);
  if (reach > most) return "an image and its padding past 2^31 elements";
  if (c.outer > most || c.inner > most || c.rows > most || c.groups > most) return "channels or images past 2^31";
  if (c.outer * (s.wgrad ? taps : positions) > most || c.inner * (s.wgrad ? positions : taps) > most)
    return "rows or terms past 2^31";
  s.groups = static_cast<int>(c.groups);
  s.outer = static_cast<int>(c.outer), s.inner = static_cast<int>(c.inner), s.columns = static_cast<int>(c.rows);
  s.by_outer = Divider(std::max<std::int64_t>(c.outer, 1)), s.by_inner = Divider(std::max<std::int64_t>(c.inner, 1));
  s.image_outer = step_of(c.outer, c.image_outer), s.image_inner = step_of(c.inner, c.image_inner);
  s.other_inner = step_of(c.inner, c.other_inner), s.other_column = step_of(c.rows, c.other_row);
  s.out_outer = step_of(c.outer, c.out_outer), s.out_column = step_of(c.rows, c.out_row);
  s.image_group = c.image_group, s.other_group = c.other_group, s.out_group = c.out_group;
  s.inner_first = !s.wgrad && (s.image_inner == 1 || s.other_inner == 1);
  s.outer_first = s.wgrad && s.out_outer == 1;
  const ConvOutput out = output_of(p);
  s.out_type = out.type;
  s.vectors = !s.wgrad && channels_in_vectors(out.size, out.stride, c.rows, out.type, out.align);
  if (s.wgrad && s.outer_first) {  // along the columns of the tile, which are the shape's rows
    s.vectors = channels_in_vectors(out.size, out.stride, c.outer, out.type, out.align);
  }
  return {};
}

bool split_conv(const ConvProblem& p, DType sum_type, int splits, ConvShape& s, FinishShape& f) {
  const ConvOutput out = output_of(p);
  const std::int64_t elements = volume_of(out.size), channels = std::int64_t{s.columns} * s.groups;
  if (elements > most) return false;
  f = {};
  f.type = s.out_type, f.sum_type = sum_type, f.splits = splits;
  if (s.wgrad) {
    // Dense lines, in the order of the shape's rows.
    std::int64_t step = s.outer_first ? s.outer : 1, dense[3];
    for (int d = 2; d >= 0; --d) dense[d] = step, step *= s.axis[d].phase[0].taps;
    const std::int64_t outer = s.outer_first ? 1 : step;
    const std::int64_t row = s.outer_first ? step : step * s.outer;
    for (int d = 0; d < 3; ++d)
      if (s.axis[d].phase[0].taps > 1 && s.axis[d].out_step != dense[d]) return false;
    if (s.outer > 1 && s.out_outer != outer) return false;
    f.matrices = s.groups, f.lines = s.columns, f.places = row;
    f.d_line = f.c_line = s.out_column, f.d_matrix = f.c_matrix = s.out_group;
    s.out_column = static_cast<int>(row), s.out_group = row * s.columns;
    s.vectors = row % 4 == 0;
  } else {
    std::int64_t step = 1;
    if (!positions_collapse(out, step)) return false;
    const std::int64_t positions = elements / (out.size.size[0] * out.size.size[1]);
    f.matrices = s.outer, f.d_matrix = f.c_matrix = out.stride[0];
    if (out.stride[1] == 1 || out.size.size[1] == 1) {
      f.lines = positions, f.places = channels, f.d_line = f.c_line = step;
    } else if (step == 1) {
      f.turned = f.bias_by_line = true;
      f.lines = channels, f.places = positions, f.d_line = f.c_line = out.stride[1];
    } else {
      return false;
    }
    std::int64_t dense = channels;
    for (int d = 2; d >= 0; --d) {
      s.axis[d].out_step = static_cast<int>(dense);
      dense *= p.direction == Direction::fwd ? view(p).out[d] : view(p).in[d];
    }
    s.out_outer = static_cast<int>(dense), s.out_column = 1, s.out_group = s.columns;
    s.vectors = s.columns % (sum_type == DType::f64 ? 2 : 4) == 0;
  }
  s.splits = splits, s.part = elements;
  return true;
}

std::size_t split_conv_bytes(const ConvProblem& p, DType sum_type, int splits) noexcept {
  return splits == 1
             ? 0
             : static_cast<std::size_t>(splits) * static_cast<std::size_t>(volume_of(output_of(p).size)) * size_of(sum_type);
}

bool channels_in_vectors(const Dims& size, const std::int64_t* stride, std::int64_t group_channels, DType type,
                         int align) noexcept {
  const auto whole = [&](std::int64_t elements) { return elements * static_cast<std::int64_t>(size_of(type)) % 16 == 0; };
  if (align < 16 || stride[1] != 1 || !whole(group_channels)) return false;
  for (int i = 0; i < size.count; ++i)
    if (i != 1 && size.size[i] > 1 && !whole(stride[i])) return false;
  return true;
}

std::vector<int> conv_splits(std::int64_t tiles, std::int64_t steps, std::int64_t least, int processors, Effort effort) {
  std::vector<int> splits = {1};
  const std::int64_t limit = std::min<std::int64_t>(steps / std::max<std::int64_t>(least, 1), 1024);
  for (const int blocks : {1, 2, 4, 8}) {
    if (blocks > 2 && effort != Effort::exhaustive) break;
    const std::int64_t count = std::min(std::int64_t{processors} * blocks / std::max<std::int64_t>(tiles, 1), limit);
    if (count <= splits.back()) continue;
    // As many as are left when each takes whole steps.
    const std::int64_t each = (steps + count - 1) / count, used = (steps + each - 1) / each;
    if (used > splits.back()) splits.push_back(static_cast<int>(used));
  }
  return splits;
}

std::int64_t longest_across(const ConvShape& s) noexcept {
  std::int64_t across = 1;
  for (const ConvAxis& a : s.axis) {
    int longest = 0;
    for (int i = 0; i < a.phases; ++i) longest = std::max(longest, s.wgrad ? a.phase[i].positions : a.phase[i].taps);
    across *= longest;
  }
  return across;
}

TiledConvPlan::TiledConvPlan(const Device& device, std::string_view variant, const ConvProblem& problem, LaunchRow launch_row,
                             int row, const ConvShape& shape, const FinishShape& finish, Accumulation accumulation)
    : Plan(fmt::format("tile:{}", variant), traits_of(shape, finish, accumulation)),
      device_(device.ordinal),
      launch_row_(launch_row),
      row_(row),
      shape_(shape),
      finish_(finish),
      calls_(problem) {}

Status TiledConvPlan::run(const Launch& launch) const noexcept {
  const DeviceScope scope(device_);
  const auto stream = static_cast<cudaStream_t>(launch.stream);
  const ConvCall call = calls_(launch, shape_.splits > 1);
  cudaError_t error = launch_row_(row_, shape_, call, stream);
  if (error == cudaSuccess && shape_.splits > 1)
    error = launch_finish(finish_, {call.partial, call.c, call.bias, call.d, call.alpha, call.beta, call.activation}, stream);
  return cuda_status(error, id().c_str());
}

}  // namespace attune::tile

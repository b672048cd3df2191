// Tensor-core convolution of channels-last tensors: "conv_mma_f16_fwd_128x128x64_w64x64_s3", "_k4" where the reduction is
// split.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/names.hpp"
#include "kernels/conv_mma.hpp"
#include "providers/tile_conv_shape.hpp"

namespace attune::tile {
namespace {

constexpr std::string_view prefix = "conv_mma";

std::string row_name(const ConvMmaRow& r) {
  return fmt::format("{}_{}_{}_{}x{}x{}_w{}x{}_s{}", prefix, r.type == DType::f32 ? "tf32" : name_of(r.type),
                     name_of(r.direction), r.bm, r.bn, r.bk, r.wm, r.wn, r.stages);
}

struct Choice {
  int row = 0;
  int splits = 1;
};

const ConvMmaRow& row_of(const Choice& c) noexcept { return conv_mma_rows[static_cast<std::size_t>(c.row)]; }
std::string to_text(const Choice& c) { return row_name(row_of(c)) + (c.splits > 1 ? fmt::format("_k{}", c.splits) : ""); }

std::optional<Choice> parse(std::string_view variant) {
  for (std::size_t i = 0; i < conv_mma_rows.size(); ++i) {
    std::string_view rest = variant;
    if (!take_word(rest, row_name(conv_mma_rows[i]))) continue;
    Choice c{static_cast<int>(i), 1};
    if (const auto splits = take_number(rest, "_k")) c.splits = *splits;
    if (rest.empty() && to_text(c) == variant) return c;
  }
  return std::nullopt;
}

/// The type of both inputs, where they have the same.
std::optional<DType> input_type(const ConvProblem& p) noexcept {
  const Spans s = spans(p);
  return s.a.type == s.b.type ? std::optional(s.a.type) : std::nullopt;
}

/// Why no row can serve the problem; else its shape.
std::string why_not(const Device& device, const Problem& problem, const Constraints& constraints, ConvShape& shape) {
  const auto* p = std::get_if<ConvProblem>(&problem);
  if (p == nullptr) return "not a convolution";
  const std::optional<DType> type = input_type(*p);
  if (!type || p->compute != Compute::f32) return "types";
  if (*type == DType::f32 && !allows(constraints, MathMode::tf32)) return "types";
  if (device.compute_capability < 80) return "needs compute capability 8.0";
  if (std::string why = fill_conv_shape(*p, shape); !why.empty()) return why;
  const ConvView v = view(*p);
  const bool x = channels_in_vectors(p->x, p->x_stride, v.c, p->x_type, p->align_x);
  const bool w = channels_in_vectors(p->w, p->w_stride, v.c, p->w_type, p->align_w);
  const bool y = channels_in_vectors(p->y(), p->y_stride, v.k, p->y_type, p->align_y);
  switch (p->direction) {
    case Direction::fwd:
      if (!x || !w) return "inputs are not in packets of channels";
      if (shape.out_column != 1 && shape.columns > 1) return "the output's channels are apart";
      break;
    case Direction::dgrad:
      if (!y || !w) return "inputs are not in packets of channels";
      if (shape.out_column != 1) return "the output's channels are apart";
      break;
    case Direction::wgrad: {
      if (!x || !y) return "inputs are not in packets of channels";
      std::int64_t step = shape.outer;
      bool dense = shape.out_outer == 1;
      for (int d = 2; d >= 0; --d) {
        dense = dense && (v.filter[d] == 1 || shape.axis[d].out_step == step);
        step *= v.filter[d];
      }
      if (!dense) return "the output's taps are apart";
    }
  }
  return {};
}

std::int64_t tiles_of(const ConvShape& s, const ConvMmaRow& r) noexcept {
  const bool wgrad = r.direction == Direction::wgrad;
  return ConvTiles(s, wgrad ? r.bn : r.bm, wgrad ? r.bm : r.bn).total / s.splits;
}

/// Slices of the longest reduction among the phases.
std::int64_t steps_of(const ConvShape& s, const ConvMmaRow& r) noexcept {
  const std::int64_t across = longest_across(s), bk = r.bk;
  return s.wgrad ? (across * s.inner + bk - 1) / bk : across * ((s.inner + bk - 1) / bk);
}

/// Cycles, roughly, as for GEMM: waves of tiles, each as long as its steps take, and the second pass of a split reduction.
double cost_of(const Device& device, const ConvProblem& p, const ConvShape& s, const Choice& c) noexcept {
  const ConvMmaRow& r = row_of(c);
  const double per_sm = std::clamp(std::floor(static_cast<double>(device.shared_bytes) / shared_bytes(r)), 1.0, 2.0);
  const double blocks = static_cast<double>(tiles_of(s, r)) * c.splits;
  const double waves = std::ceil(blocks / (device.processors * per_sm)) * per_sm;
  const double area = static_cast<double>(r.bm) * r.bn;
  const double bytes = static_cast<double>(r.bm + r.bn) * static_cast<double>(size_of(r.type));
  const double k = std::ceil(static_cast<double>(steps_of(s, r)) / c.splits) * r.bk;
  double cost = waves * (k * std::max(area / (r.type == DType::f32 ? 512 : 1024), bytes / 48) + 2000);
  if (c.splits > 1) cost += 4000 + static_cast<double>(split_conv_bytes(p, DType::f32, c.splits)) / (device.processors * 16.0);
  return cost;
}

void list(const Device& device, const Problem& problem, const Constraints& constraints, Effort effort,
          std::vector<Candidate>& out) {
  ConvShape shape;
  if (!why_not(device, problem, constraints, shape).empty()) return;
  const ConvProblem& p = std::get<ConvProblem>(problem);
  ConvShape split = shape;
  FinishShape finish;
  const bool splits_well = split_conv(p, DType::f32, 2, split, finish);
  for (std::size_t i = 0; i < conv_mma_rows.size(); ++i) {
    Choice c{static_cast<int>(i), 1};
    const ConvMmaRow& r = row_of(c);
    if (r.type != *input_type(p) || r.direction != p.direction) continue;
    if (static_cast<std::size_t>(shared_bytes(r)) > device.shared_bytes) continue;
    for (const int splits : conv_splits(tiles_of(shape, r), steps_of(shape, r), 4, device.processors, effort)) {
      c.splits = splits;
      if (splits > 1 && (!splits_well || split_conv_bytes(p, DType::f32, splits) > constraints.workspace_limit)) continue;
      out.push_back({to_text(c), cost_of(device, p, shape, c)});
    }
  }
}

Prepared prepare(const Device& device, std::string_view variant, const Problem& problem, const Constraints& constraints) {
  ConvShape shape;
  if (std::string why = why_not(device, problem, constraints, shape); !why.empty()) return declined(std::move(why));
  const std::optional<Choice> choice = parse(variant);
  if (!choice) return declined("no such row");
  const ConvProblem& p = std::get<ConvProblem>(problem);
  const ConvMmaRow& r = row_of(*choice);
  if (r.type != *input_type(p) || r.direction != p.direction) return declined("the row's type or direction");
  if (choice->splits > std::max<std::int64_t>(steps_of(shape, r), 1))
    return declined("more splits than the reduction has steps");
  if (static_cast<std::size_t>(shared_bytes(r)) > device.shared_bytes)
    return declined(fmt::format("needs {} bytes of shared memory, a block has {}", shared_bytes(r), device.shared_bytes));
  if (const std::size_t bytes = split_conv_bytes(p, DType::f32, choice->splits); bytes > constraints.workspace_limit)
    return declined(fmt::format("needs {} bytes of workspace", bytes));
  FinishShape finish;
  if (choice->splits > 1 && !split_conv(p, DType::f32, choice->splits, shape, finish)) return declined("the output's strides");
  if (const cudaError_t error = allow_conv_mma(choice->row); error != cudaSuccess) {
    cudaGetLastError();
    return {nullptr, Outcome::failed, cudaGetErrorString(error)};
  }
  return {std::make_unique<TiledConvPlan>(device, variant, p, launch_conv_mma, choice->row, shape, finish,
                                          Accumulation::tensor_core),
          Outcome::ok,
          {}};
}

int revision(std::string_view variant) {
  const std::optional<Choice> choice = parse(variant);
  return choice ? row_of(*choice).revision : 0;
}

}  // namespace

const Family conv_mma = {prefix, list, prepare, revision};

}  // namespace attune::tile

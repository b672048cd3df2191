// Convolution whose operands are gathered element by element: "conv_gather_f16_128x64x32_w64x32" on tensor cores,
// "conv_simt_f32_128x128x16_t8x8" without them, "_k4" where the reduction is split.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/names.hpp"
#include "kernels/conv_gather.hpp"
#include "providers/tile_conv_shape.hpp"

namespace attune::tile {
namespace {

std::string row_name(const ConvGatherRow& r) {
  if (!r.tensor_cores) return fmt::format("conv_simt_{}_{}x{}x{}_t{}x{}", name_of(r.type), r.bm, r.bn, r.bk, r.wm, r.wn);
  return fmt::format("conv_gather_{}_{}x{}x{}_w{}x{}", r.type == DType::f32 ? "tf32" : name_of(r.type), r.bm, r.bn, r.bk, r.wm,
                     r.wn);
}

struct Choice {
  int row = 0;
  int splits = 1;
};

const ConvGatherRow& row_of(const Choice& c) noexcept { return conv_gather_rows[c.row]; }
std::string to_text(const Choice& c) { return row_name(row_of(c)) + (c.splits > 1 ? fmt::format("_k{}", c.splits) : ""); }

std::optional<Choice> parse(std::string_view variant) {
  for (std::size_t i = 0; i < std::size(conv_gather_rows); ++i) {
    std::string_view rest = variant;
    if (!take_word(rest, row_name(conv_gather_rows[i]))) continue;
    Choice c{static_cast<int>(i), 1};
    if (const auto splits = take_number(rest, "_k")) c.splits = *splits;
    if (rest.empty() && to_text(c) == variant) return c;
  }
  return std::nullopt;
}

DType sum_type(const ConvGatherRow& r) noexcept { return r.type == DType::f64 ? DType::f64 : DType::f32; }

bool suits(const Device& device, const ConvProblem& p, const Constraints& constraints, const ConvGatherRow& r) noexcept {
  const Spans s = spans(p);
  if (s.a.type != r.type || s.b.type != r.type) return false;
  if (r.tensor_cores && (device.compute_capability < 80 || (r.type == DType::f32 && !allows(constraints, MathMode::tf32))))
    return false;
  return static_cast<std::size_t>(shared_bytes(r)) <= device.shared_bytes;
}

/// Slices of the longest reduction among the phases.
std::int64_t steps_of(const ConvShape& s, const ConvGatherRow& r) noexcept {
  return (longest_across(s) * s.inner + r.bk - 1) / r.bk;
}

/// Cycles, roughly, as for GEMM; every element that is gathered costs a few instructions of its own.
double cost_of(const Device& device, const ConvProblem& p, const ConvShape& s, const Choice& c) noexcept {
  const ConvGatherRow& r = row_of(c);
  const double blocks = static_cast<double>(ConvTiles(s, r.bm, r.bn).total) * c.splits;
  const double waves = std::ceil(blocks / (device.processors * 2)) * 2;
  const double products = !r.tensor_cores ? (r.type == DType::f64 ? 50 : 110) : r.type == DType::f32 ? 512 : 1024;
  const double each = static_cast<double>(r.bm) * r.bn / products + (r.bm + r.bn) / 20.0;
  double cost = waves * (std::ceil(static_cast<double>(steps_of(s, r)) / c.splits) * r.bk * each + 3000);
  if (c.splits > 1) cost += 4000 + static_cast<double>(split_conv_bytes(p, sum_type(r), c.splits)) / (device.processors * 16.0);
  return cost;
}

template <bool TensorCores>
void list(const Device& device, const Problem& problem, const Constraints& constraints, Effort effort,
          std::vector<Candidate>& out) {
  const auto* p = std::get_if<ConvProblem>(&problem);
  ConvShape shape;
  if (p == nullptr || !fill_conv_shape(*p, shape).empty()) return;
  for (std::size_t i = 0; i < std::size(conv_gather_rows); ++i) {
    Choice c{static_cast<int>(i), 1};
    const ConvGatherRow& r = row_of(c);
    if (r.tensor_cores != TensorCores || !suits(device, *p, constraints, r)) continue;
    ConvShape split = shape;
    FinishShape finish;
    const bool splits_well = split_conv(*p, sum_type(r), 2, split, finish);
    for (const int splits : conv_splits(ConvTiles(shape, r.bm, r.bn).total, steps_of(shape, r), 4, device.processors, effort)) {
      c.splits = splits;
      if (splits > 1 && (!splits_well || split_conv_bytes(*p, sum_type(r), splits) > constraints.workspace_limit)) continue;
      out.push_back({to_text(c), cost_of(device, *p, shape, c)});
    }
  }
}

Prepared prepare(const Device& device, std::string_view variant, const Problem& problem, const Constraints& constraints) {
  const auto* p = std::get_if<ConvProblem>(&problem);
  if (p == nullptr) return declined("not a convolution");
  const std::optional<Choice> choice = parse(variant);
  if (!choice) return declined("no such row");
  const ConvGatherRow& r = row_of(*choice);
  if (!suits(device, *p, constraints, r)) return declined("the row's type, or its shared memory");
  ConvShape shape;
  if (std::string why = fill_conv_shape(*p, shape); !why.empty()) return declined(std::move(why));
  if (choice->splits > std::max<std::int64_t>(steps_of(shape, r), 1))
    return declined("more splits than the reduction has steps");
  if (const std::size_t bytes = split_conv_bytes(*p, sum_type(r), choice->splits); bytes > constraints.workspace_limit)
    return declined(fmt::format("needs {} bytes of workspace", bytes));
  FinishShape finish;
  if (choice->splits > 1 && !split_conv(*p, sum_type(r), choice->splits, shape, finish))
    return declined("the output's strides");
  if (const cudaError_t error = allow_conv_gather(choice->row); error != cudaSuccess) {
    cudaGetLastError();
    return {nullptr, Outcome::failed, cudaGetErrorString(error)};
  }
  const Accumulation accumulation = r.tensor_cores ? Accumulation::tensor_core : Accumulation::plain;
  return {std::make_unique<TiledConvPlan>(device, variant, *p, launch_conv_gather, choice->row, shape, finish, accumulation),
          Outcome::ok,
          {}};
}

int revision(std::string_view variant) {
  const std::optional<Choice> choice = parse(variant);
  return choice ? row_of(*choice).revision : 0;
}

}  // namespace

const Family conv_gather = {"conv_gather", list<true>, prepare, revision};
const Family conv_simt = {"conv_simt", list<false>, prepare, revision};

}  // namespace attune::tile

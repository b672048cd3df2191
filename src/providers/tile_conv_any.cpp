// Any convolution: "conv_any_f32_32x32" sums 32 channels of the output by 32 of its other indices in fp32, "_k4" with the terms
// split.
#include <fmt/format.h>

#include <algorithm>

#include "core/names.hpp"
#include "kernels/conv_any.hpp"
#include "providers/tile_conv.hpp"

namespace attune::tile {
namespace {

constexpr std::string_view prefix = "conv_any";
constexpr int most_splits = 1024;

std::string row_name(const ConvAnyRow& r) {
  return fmt::format("{}_{}_{}x{}", prefix, name_of(r.type), r.tile.rows, r.tile.columns);
}

struct Choice {
  int row = 0;
  int splits = 1;
};

const ConvAnyRow& row_of(const Choice& c) noexcept { return conv_any_rows[static_cast<std::size_t>(c.row)]; }
std::string to_text(const Choice& c) { return row_name(row_of(c)) + (c.splits > 1 ? fmt::format("_k{}", c.splits) : ""); }

std::optional<Choice> parse(std::string_view variant) {
  for (std::size_t i = 0; i < conv_any_rows.size(); ++i) {
    std::string_view rest = variant;
    if (!take_word(rest, row_name(conv_any_rows[i]))) continue;
    Choice c{static_cast<int>(i), 1};
    if (const auto splits = take_number(rest, "_k")) c.splits = *splits;
    if (rest.empty() && to_text(c) == variant && c.splits <= most_splits) return c;
  }
  return std::nullopt;
}

DType sum_type(const ConvProblem& p) noexcept { return p.compute == Compute::f64 ? DType::f64 : DType::f32; }

std::int64_t tiles_of(const ImageContraction& s, const ConvAnyRow& r) noexcept {
  return (s.rows + r.tile.rows - 1) / r.tile.rows * ((s.cols() + r.tile.columns - 1) / r.tile.columns) * s.groups;
}
std::size_t workspace_of(const ImageContraction& s, const Choice& c) noexcept {
  return c.splits == 1 ? 0
                       : static_cast<std::size_t>(c.splits) * static_cast<std::size_t>(s.rows * s.cols() * s.groups) *
                             size_of(row_of(c).type);
}

double cost_of(const Device& device, const ImageContraction& s, const Choice& c) noexcept {
  const double outputs = static_cast<double>(tiles_of(s, row_of(c))) * conv_any_outputs;
  const double work = outputs * static_cast<double>(s.terms()) * (row_of(c).tile.rows == 2 ? 8 : 4);
  const double busy = std::min(1.0, outputs * c.splits / (2.0 * device.processors * conv_any_outputs));
  return work / (device.processors * 16.0 * busy) + (c.splits > 1 ? 4000 : 2000);
}

class ConvAnyPlan final : public Plan {
 public:
  ConvAnyPlan(const Device& device, const ConvProblem& p, const ConvAnyShape& shape, const Choice& c)
      : Plan(fmt::format("tile:{}", to_text(c)), traits_of(shape.image, c)),
        device_(device.ordinal),
        wide_(sum_type(p) == DType::f64),
        shape_(shape),
        calls_(p) {}

  Status run(const Launch& launch) const noexcept override {
    const DeviceScope scope(device_);
    const cudaError_t error =
        launch_conv_any(wide_, shape_, calls_(launch, shape_.splits > 1), static_cast<cudaStream_t>(launch.stream));
    return cuda_status(error, id().c_str());
  }

 private:
  static PlanTraits traits_of(const ImageContraction& s, const Choice& c) {
    PlanTraits traits;
    traits.workspace = workspace_of(s, c);
    return traits;
  }
  int device_;
  bool wide_;
  ConvAnyShape shape_;
  ConvCalls calls_;
};

/// The splits that fill the processors, as far as the workspace goes.
int splits_for(const Device& device, const ImageContraction& s, Choice c, std::size_t limit) noexcept {
  const std::int64_t wanted = std::int64_t{device.processors} * 4 / std::max<std::int64_t>(tiles_of(s, row_of(c)), 1);
  const std::int64_t most = std::min<std::int64_t>(s.terms() / 64, most_splits);
  c.splits = 2;
  const std::size_t each = workspace_of(s, c) / 2;
  const std::int64_t fit = static_cast<std::int64_t>(limit / std::max<std::size_t>(each, 1));
  return static_cast<int>(std::max<std::int64_t>(std::min({wanted, most, fit}), 1));
}

void list(const Device& device, const Problem& problem, const Constraints& constraints, Effort effort,
          std::vector<Candidate>& out) {
  const auto* p = std::get_if<ConvProblem>(&problem);
  if (p == nullptr) return;
  const ImageContraction s = image(*p);
  std::vector<Candidate> mine;
  for (std::size_t i = 0; i < conv_any_rows.size(); ++i) {
    Choice c{static_cast<int>(i), 1};
    if (row_of(c).type != sum_type(*p)) continue;
    mine.push_back({to_text(c), cost_of(device, s, c)});
    c.splits = splits_for(device, s, c, constraints.workspace_limit);
    if (c.splits > 1) mine.push_back({to_text(c), cost_of(device, s, c)});
  }
  std::stable_sort(mine.begin(), mine.end(), [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; });
  if (effort != Effort::exhaustive && mine.size() > 1) mine.resize(1);
  std::move(mine.begin(), mine.end(), std::back_inserter(out));
}

Prepared prepare(const Device& device, std::string_view variant, const Problem& problem, const Constraints& constraints) {
  const auto* p = std::get_if<ConvProblem>(&problem);
  if (p == nullptr) return declined("not a convolution");
  const std::optional<Choice> choice = parse(variant);
  if (!choice || row_of(*choice).type != sum_type(*p)) return declined("no such row, or one of another type");
  const ConvAnyShape shape{image(*p), row_of(*choice).tile, choice->splits};
  if (choice->splits > 1 && choice->splits > shape.image.terms()) return declined("more splits than the reduction has terms");
  if (const std::size_t bytes = workspace_of(shape.image, *choice); bytes > constraints.workspace_limit)
    return declined(fmt::format("needs {} bytes of workspace", bytes));
  return {std::make_unique<ConvAnyPlan>(device, *p, shape, *choice), Outcome::ok, {}};
}

int revision(std::string_view variant) {
  const std::optional<Choice> choice = parse(variant);
  return choice ? row_of(*choice).revision : 0;
}

}  // namespace

const Family conv_any = {prefix, list, prepare, revision};

}  // namespace attune::tile

// Depthwise convolution: "conv_depthwise_f16_last_3x3_s1_r14" walks down 14 rows of the output,
// "conv_depthwise_f32_first_s1_r8" has a tile of 8 rows in each block, "conv_depthwise_f16_tile_5x5_s1_r8_c14" has one of 8
// rows by 14 columns, "conv_depthwise_f16_wgrad_tile_5x5_s2_k16" sums in 16 parts. "any" is there for what is left.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/names.hpp"
#include "kernels/common/contraction.hpp"
#include "kernels/conv_depthwise.hpp"
#include "kernels/finish.hpp"
#include "providers/tile_conv.hpp"

namespace attune::tile {
namespace {

constexpr std::string_view prefix = "conv_depthwise";
constexpr std::string_view ways[] = {"last", "tile", "wgrad_tile", "first", "toeplitz", "any", "wgrad_any"};

std::string row_name(const ConvDepthwiseRow& r) {
  std::string name = fmt::format("{}_{}_{}", prefix, name_of(r.type), ways[static_cast<std::size_t>(r.way)]);
  if (r.filter != 0) name += fmt::format("_{}x{}", r.filter, r.filter);
  return r.stride == 0 ? name : name + fmt::format("_s{}", r.stride);
}

struct Choice {
  int row = 0;
  int rows = 0;     ///< of the output to a thread or a block; 0 where the row has no such choice
  int splits = 0;   ///< likewise
  int columns = 0;  ///< likewise
};

const ConvDepthwiseRow& row_of(const Choice& c) noexcept { return conv_depthwise_rows[static_cast<std::size_t>(c.row)]; }
bool has_columns(const ConvDepthwiseRow& r) noexcept { return r.way == DepthwiseWay::tile; }
bool has_rows(const ConvDepthwiseRow& r) noexcept {
  return r.way == DepthwiseWay::last || r.way == DepthwiseWay::first || has_columns(r);
}
bool has_splits(const ConvDepthwiseRow& r) noexcept {
  return r.way == DepthwiseWay::wgrad_tile || r.way == DepthwiseWay::wgrad_any;
}

std::string to_text(const Choice& c) {
  return row_name(row_of(c)) + (c.rows > 0 ? fmt::format("_r{}", c.rows) : "") +
         (c.columns > 0 ? fmt::format("_c{}", c.columns) : "") + (c.splits > 0 ? fmt::format("_k{}", c.splits) : "");
}

std::optional<Choice> parse(std::string_view variant) {
  for (std::size_t i = 0; i < conv_depthwise_rows.size(); ++i) {
    std::string_view rest = variant;
    if (!take_word(rest, row_name(conv_depthwise_rows[i]))) continue;
    Choice c{static_cast<int>(i)};
    if (const auto rows = take_number(rest, "_r")) c.rows = *rows;
    if (const auto columns = take_number(rest, "_c")) c.columns = *columns;
    if (const auto splits = take_number(rest, "_k")) c.splits = *splits;
    if (rest.empty() && (c.rows > 0) == has_rows(row_of(c)) && (c.splits > 0) == has_splits(row_of(c)) &&
        (c.columns > 0) == has_columns(row_of(c)))
      return c;
  }
  return std::nullopt;
}

/// Why no row can serve the problem; else its shape, but for what a variant chooses.
std::string why_not(const Problem& problem, DepthwiseShape& s) {
  const auto* p = std::get_if<ConvProblem>(&problem);
  if (p == nullptr) return "not a convolution";
  const ConvView v = view(*p);
  if (v.c != 1 || v.k != 1) return "not depthwise";
  const Spans span = spans(*p);
  if (p->compute != Compute::f32 || span.a.type != span.b.type) return "types";
  if (v.in[0] != 1 || v.filter[0] != 1 || v.out[0] != 1 || v.pad[0] != 0) return "three dimensions";
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;
  if (std::max({span.a.elements, span.b.elements, span.d.elements}) > most) return "a tensor past 2^30 elements";
  const bool dgrad = p->direction == Direction::dgrad;
  const std::int64_t* image = dgrad ? v.y_step : v.x_step;
  const std::int64_t* out = dgrad ? v.x_step : v.y_step;
  const auto step = [](std::int64_t extent, std::int64_t of) { return extent > 1 ? static_cast<int>(of) : 0; };
  s = {};
  s.images = static_cast<int>(v.n), s.channels = static_cast<int>(v.groups);
  bool strided = false;
  std::int64_t reach = 0;
  for (int d = 0; d < 2; ++d) {
    const std::int64_t in = v.in[d + 1], outputs = v.out[d + 1], span_of_taps = v.dilation[d + 1] * (v.filter[d + 1] - 1);
    if (std::max({v.stride[d + 1], v.pad[d + 1], span_of_taps, outputs * v.stride[d + 1]}) > most / 4)
      return "coordinates past 2^28";
    s.image[d] = static_cast<int>(dgrad ? outputs : in), s.out[d] = static_cast<int>(dgrad ? in : outputs);
    s.filter[d] = static_cast<int>(v.filter[d + 1]), s.stride[d] = static_cast<int>(v.stride[d + 1]);
    s.dilation[d] = static_cast<int>(v.filter[d + 1] > 1 ? v.dilation[d + 1] : 1);
    s.pad[d] = static_cast<int>(v.pad[d + 1]);
    // With one output there is no next one: any stride is right.
    if (outputs == 1 && !dgrad) s.stride[d] = 0;
    strided = strided || s.stride[d] > 1;
    s.image_step[d] = step(s.image[d], image[3 + d]), s.out_step[d] = step(s.out[d], out[3 + d]);
    s.filter_step[d] = step(s.filter[d], v.w_step[3 + d]);
    reach += (v.pad[d + 1] + span_of_taps + in + outputs * v.stride[d + 1]) * s.image_step[d];
  }
  if (reach > most) return "an image and its padding past 2^30 elements";
  for (int d = 0; d < 2; ++d)
    if (s.stride[d] == 0) s.stride[d] = s.stride[1 - d] == 0 ? 1 : s.stride[1 - d];
  s.image_n = step(v.n, image[0]), s.image_c = step(v.groups, image[1]);
  s.out_n = step(v.n, out[0]), s.out_c = step(v.groups, out[1]), s.filter_c = step(v.groups, v.w_step[0]);
  s.transposed = dgrad && strided, s.flipped = dgrad && !strided;
  if (s.flipped)
    for (int d = 0; d < 2; ++d) s.pad[d] = s.dilation[d] * (s.filter[d] - 1) - s.pad[d];
  s.out_type = output_of(*p).type;
  if (p->direction == Direction::wgrad && s.filter_step[1] != (s.filter[1] > 1 ? 1 : 0)) return "the filter's taps are apart";
  if (p->direction == Direction::wgrad && s.filter[0] > 1 && s.filter_step[0] != s.filter[1])
    return "the filter's taps are apart";
  return {};
}

/// Pairs of channels of both images, neighbours in memory and aligned as pairs.
bool in_pairs(const ConvProblem& p, const DepthwiseShape& s) noexcept {
  const auto even = [](int step) { return step % 2 == 0; };
  const Spans span = spans(p);
  const int pair = static_cast<int>(size_of(span.a.type)) * 2;
  if (s.channels % 2 != 0 || s.image_c != 1 || s.out_c != 1 || !even(s.image_n) || !even(s.out_n)) return false;
  for (int d = 0; d < 2; ++d)
    if (!even(s.image_step[d]) || !even(s.out_step[d])) return false;
  return std::min(p.align_x, p.align_y) >= pair;
}

bool suits(const ConvProblem& p, const DepthwiseShape& s, const ConvDepthwiseRow& r) noexcept {
  const bool wgrad = p.direction == Direction::wgrad;
  if (r.type != spans(p).a.type || wgrad != has_splits(r)) return false;
  if (r.way == DepthwiseWay::any || r.way == DepthwiseWay::wgrad_any) return true;
  if (s.transposed || s.dilation[0] != 1 || s.dilation[1] != 1 || s.stride[0] != r.stride || s.stride[1] != r.stride)
    return false;
  if (r.way == DepthwiseWay::toeplitz) return s.image_c != 1 && s.filter[1] >= 9 && s.filter[1] <= depthwise_widest;
  if (r.way == DepthwiseWay::first)
    return (s.image_c != 1 || s.image_step[1] == 1) && (r.filter == 0 || s.filter[1] == r.filter);
  return s.filter[0] == r.filter && s.filter[1] == r.filter && in_pairs(p, s);
}

/// Bytes that may be copied at once: of the image, in wgrad of the gradient as well.
int packet_of(const ConvProblem& p, const DepthwiseShape& s) noexcept {
  const bool wgrad = p.direction == Direction::wgrad;
  const int size = static_cast<int>(size_of(spans(p).a.type));
  const int align = static_cast<int>(std::min<std::int64_t>(16, wgrad                           ? std::min(p.align_x, p.align_y)
                                                                : p.direction == Direction::fwd ? p.align_x
                                                                                                : p.align_y));
  int steps = s.channels | s.image_n | s.image_step[0] | s.image_step[1];
  if (wgrad) steps |= s.out_n | s.out_step[0] | s.out_step[1];
  int packet = 16;
  while (packet > align || steps * static_cast<std::int64_t>(size) % packet != 0) packet /= 2;
  return packet;
}

/// Pairs of channels of a tile: the most that leave the fewest lanes without one, in whole packets.
int lanes_of(int channels) noexcept {
  const int pairs = channels / 2, most = depthwise_depth / 2;
  int best = most, waste = std::numeric_limits<int>::max();
  for (int lanes = most; lanes >= most / 2; lanes -= 4)
    if (const int idle = (pairs + lanes - 1) / lanes * lanes - pairs; idle < waste) best = lanes, waste = idle;
  while (best > 4 && best - 4 >= pairs) best -= 4;
  return best;
}

int multiple(int n, int of) noexcept { return (n + of - 1) / of * of; }

/// The tile of at most `bytes` whose halo costs least, or the least tile of all.
DepthwiseTiling tiling_within(const ConvProblem& p, const DepthwiseShape& s, int filter, int stride, int bytes) {
  const bool wgrad = p.direction == Direction::wgrad;
  const DepthwisePatch patch = wgrad ? DepthwisePatch{1, depthwise_strip(stride)} : depthwise_patch(filter, stride);
  const int size = static_cast<int>(size_of(spans(p).a.type)), lanes = lanes_of(s.channels), packet = packet_of(p, s);
  DepthwiseTiling best(patch.rows, patch.columns, lanes, packet, size, s, wgrad);
  const auto loaded = [&](const DepthwiseTiling& t) { return static_cast<double>(t.tiles) * t.image_bytes; };
  for (int across = 1, last = 0; across <= 64; ++across) {
    const int columns = multiple((s.out[1] + across - 1) / across, patch.columns);
    if (columns == last) continue;
    last = columns;
    const auto tiling = [&](int rows) { return DepthwiseTiling(rows, columns, lanes, packet, size, s, wgrad); };
    if (tiling(patch.rows).bytes > bytes) continue;
    int bands = (s.out[0] + patch.rows - 1) / patch.rows;
    int rows = patch.rows;
    for (int fewer = 1; fewer < bands; ++fewer) {
      const int more = multiple((s.out[0] + fewer - 1) / fewer, patch.rows);
      if (tiling(more).bytes <= bytes) {
        rows = more;
        break;
      }
    }
    if (const DepthwiseTiling t = tiling(rows); loaded(t) < loaded(best)) best = t;
    if (columns == patch.columns) break;
  }
  return best;
}

/// Shared memory of a step of wgrad: a few blocks on a processor at once.
constexpr int wgrad_bytes = 48 << 10;

/// False where the tile is not made of patches.
bool fill_choice(const ConvProblem& p, const Choice& c, DepthwiseShape& s) {
  const ConvDepthwiseRow& r = row_of(c);
  if (c.splits > 0) s.splits = c.splits;
  if (r.way == DepthwiseWay::wgrad_tile) s.tiling = tiling_within(p, s, r.filter, r.stride, wgrad_bytes);
  if (r.way == DepthwiseWay::tile) {
    const DepthwisePatch patch = depthwise_patch(r.filter, r.stride);
    if (c.rows % patch.rows != 0 || c.columns % patch.columns != 0) return false;
    if (c.rows > multiple(s.out[0], patch.rows) || c.columns > multiple(s.out[1], patch.columns)) return false;
    s.tiling =
        DepthwiseTiling(c.rows, c.columns, lanes_of(s.channels), packet_of(p, s), static_cast<int>(size_of(r.type)), s, false);
    return true;
  }
  if (c.rows > s.out[0]) return false;
  if (c.rows > 0) s.rows_each = c.rows;
  // Small planes together, so that the block's threads have a strip each.
  if (r.way == DepthwiseWay::first && s.rows_each == s.out[0])
    s.planes_each = std::clamp(1024 / std::max((s.out[1] + 3) / 4 * 4 * s.rows_each, 1), 1, 16);
  return true;
}

std::size_t workspace_of(const DepthwiseShape& s, const Choice& c) noexcept {
  return sizeof(float) * static_cast<std::size_t>(c.splits) * static_cast<std::size_t>(s.channels) *
         static_cast<std::size_t>(s.filter[0] * s.filter[1]);
}

/// Cycles, roughly: the tensors at the speed of memory, or the arithmetic.
double cost_of(const Device& device, const ConvProblem& p, const DepthwiseShape& s, const Choice& c) noexcept {
  const DepthwiseWay way = row_of(c).way;
  const double outputs = static_cast<double>(s.images) * s.channels * s.out[0] * s.out[1];
  const double blocks = way == DepthwiseWay::tile ? static_cast<double>(s.tiling.tiles) * s.tiling.by_groups.by
                        : has_splits(row_of(c))   ? (s.channels / 64.0 + 1) * c.splits
                                                  : device.processors;
  const double busy = std::min(1.0, blocks / device.processors);
  const double bytes = least_bytes(p) / (device.processors * 18.0);
  const double each = way == DepthwiseWay::any         ? 8
                      : way == DepthwiseWay::wgrad_any ? 6
                      : way == DepthwiseWay::first     ? 1.5
                      : way == DepthwiseWay::last      ? 2
                      : way == DepthwiseWay::toeplitz  ? 0.2
                                                       : 1;
  const double products = outputs * s.filter[0] * s.filter[1] / (device.processors * 100.0) * each;
  return std::max(bytes, products) / busy + 2500 + (has_splits(row_of(c)) ? 4000 : 0);
}

class ConvDepthwisePlan final : public Plan {
 public:
  ConvDepthwisePlan(const Device& device, std::string_view variant, const ConvProblem& p, const DepthwiseShape& shape,
                    const Choice& c)
      : Plan(fmt::format("tile:{}", variant), traits_of(shape, c)),
        device_(device.ordinal),
        row_(c.row),
        split_(c.splits > 0),
        shape_(shape),
        calls_(p) {
    const std::int64_t taps = std::int64_t{shape.filter[0]} * shape.filter[1];
    finish_.lines = shape.channels, finish_.places = taps, finish_.splits = c.splits;
    finish_.d_line = finish_.c_line = shape.filter_c, finish_.type = shape.out_type;
  }

  Status run(const Launch& launch) const noexcept override {
    const DeviceScope scope(device_);
    const auto stream = static_cast<cudaStream_t>(launch.stream);
    const ConvCall call = calls_(launch, split_);
    cudaError_t error = launch_conv_depthwise(row_, shape_, call, stream);
    if (error == cudaSuccess && split_)
      error = launch_finish(finish_, {call.partial, call.c, call.bias, call.d, call.alpha, call.beta, call.activation}, stream);
    return cuda_status(error, id().c_str());
  }

 private:
  static PlanTraits traits_of(const DepthwiseShape& s, const Choice& c) {
    PlanTraits traits;
    traits.workspace = workspace_of(s, c);
    if (row_of(c).way == DepthwiseWay::toeplitz) traits.accumulation = Accumulation::tensor_core;
    return traits;
  }
  int device_;
  int row_;
  bool split_;
  DepthwiseShape shape_;
  FinishShape finish_;
  ConvCalls calls_;
};

/// Rows of the output to a thread or a block: as many as leave the processors a few times full, and fewer.
std::vector<int> rows_worth(const Device& device, const DepthwiseShape& s, const ConvDepthwiseRow& r, Effort effort) {
  const double others = r.way == DepthwiseWay::last
                            ? static_cast<double>(s.images) * (s.channels / 2) * ((s.out[1] + 3) / 4) / 256
                            : static_cast<double>(s.images) * s.channels;
  std::vector<int> rows;
  for (const int blocks : {2, 4, 8, 16}) {
    if (effort == Effort::quick && blocks != 4) continue;
    const double bands = std::max(1.0, static_cast<double>(device.processors) * blocks / std::max(others, 1.0));
    int each = std::max(static_cast<int>(s.out[0] / bands), std::min(s.out[0], r.way == DepthwiseWay::last ? 2 : 4));
    if (r.way == DepthwiseWay::first) each = std::min(each, 64);
    if (std::find(rows.begin(), rows.end(), each) == rows.end()) rows.push_back(each);
  }
  return rows;
}

/// Tiles from small ones, for many blocks, to large ones, for little halo.
std::vector<DepthwiseTiling> tiles_worth(const ConvProblem& p, const DepthwiseShape& s, const ConvDepthwiseRow& r,
                                         Effort effort) {
  std::vector<DepthwiseTiling> tiles;
  for (const int bytes : {0, 16 << 10, 28 << 10, 48 << 10, 72 << 10, 110 << 10}) {
    if (effort == Effort::quick && bytes != 48 << 10) continue;
    const DepthwiseTiling t = tiling_within(p, s, r.filter, r.stride, bytes);
    const auto same = [&](const DepthwiseTiling& other) { return other.rows == t.rows && other.columns == t.columns; };
    if (std::none_of(tiles.begin(), tiles.end(), same)) tiles.push_back(t);
  }
  return tiles;
}

std::vector<int> splits_worth(const Device& device, const ConvProblem& p, const DepthwiseShape& s, const ConvDepthwiseRow& r,
                              Effort effort) {
  const bool tiled = r.way == DepthwiseWay::wgrad_tile;
  const DepthwiseTiling tiling = tiled ? tiling_within(p, s, r.filter, r.stride, wgrad_bytes) : DepthwiseTiling();
  const std::int64_t across =
      tiled ? static_cast<std::int64_t>(tiling.by_groups.by)
            : std::int64_t{s.image_c == 1 ? (s.channels + 31) / 32 : s.channels} * s.filter[0] * ((s.filter[1] + 7) / 8);
  const std::int64_t most = tiled ? tiling.tiles : std::int64_t{s.images} * s.out[0] * s.out[1] / 32;
  std::vector<int> splits;
  for (const int blocks : {1, 2, 4, 8}) {
    if (effort == Effort::quick && blocks != 4) continue;
    const std::int64_t wanted = std::int64_t{device.processors} * blocks / across;
    const int count = static_cast<int>(std::clamp<std::int64_t>(wanted, 1, std::clamp<std::int64_t>(most, 1, 512)));
    if (std::find(splits.begin(), splits.end(), count) == splits.end()) splits.push_back(count);
  }
  return splits;
}

/// Whether the variant can run: the workspace, the shared memory.
std::string obstacle(const Device& device, const Constraints& constraints, const DepthwiseShape& s, const Choice& c) {
  const DepthwiseWay way = row_of(c).way;
  if ((way == DepthwiseWay::toeplitz || way == DepthwiseWay::wgrad_tile) && !allows(constraints, MathMode::transforms))
    return "transforms, which multiply by zero what lies beside a window";
  if (const std::size_t bytes = workspace_of(s, c); bytes > constraints.workspace_limit)
    return fmt::format("needs {} bytes of workspace", bytes);
  if (const std::size_t bytes = static_cast<std::size_t>(conv_depthwise_shared(c.row, s)); bytes > device.shared_bytes)
    return fmt::format("needs {} bytes of shared memory, a block has {}", bytes, device.shared_bytes);
  return {};
}

void list(const Device& device, const Problem& problem, const Constraints& constraints, Effort effort,
          std::vector<Candidate>& out) {
  DepthwiseShape shape;
  if (!why_not(problem, shape).empty()) return;
  const ConvProblem& p = std::get<ConvProblem>(problem);
  for (std::size_t i = 0; i < conv_depthwise_rows.size(); ++i) {
    Choice c{static_cast<int>(i)};
    const ConvDepthwiseRow& r = row_of(c);
    if (!suits(p, shape, r)) continue;
    const auto add = [&] {
      DepthwiseShape chosen = shape;
      if (fill_choice(p, c, chosen) && obstacle(device, constraints, chosen, c).empty())
        out.push_back({to_text(c), cost_of(device, p, chosen, c)});
    };
    if (has_columns(r)) {
      for (const DepthwiseTiling& t : tiles_worth(p, shape, r, effort)) c.rows = t.rows, c.columns = t.columns, add();
    } else if (has_rows(r)) {
      for (const int rows : rows_worth(device, shape, r, effort)) c.rows = rows, add();
    } else if (has_splits(r)) {
      for (const int splits : splits_worth(device, p, shape, r, effort)) c.splits = splits, add();
    } else {
      add();
    }
  }
}

Prepared prepare(const Device& device, std::string_view variant, const Problem& problem, const Constraints& constraints) {
  DepthwiseShape shape;
  if (std::string why = why_not(problem, shape); !why.empty()) return declined(std::move(why));
  const std::optional<Choice> choice = parse(variant);
  if (!choice) return declined("no such row");
  const ConvProblem& p = std::get<ConvProblem>(problem);
  if (!suits(p, shape, row_of(*choice))) return declined("the row's type, layout, filter, stride or direction");
  if (choice->splits > 512 || !fill_choice(p, *choice, shape)) return declined("rows, columns or splits that do not fit");
  if (std::string why = obstacle(device, constraints, shape, *choice); !why.empty()) return declined(std::move(why));
  if (const cudaError_t error = allow_conv_depthwise(choice->row); error != cudaSuccess) {
    cudaGetLastError();
    return {nullptr, Outcome::failed, cudaGetErrorString(error)};
  }
  return {std::make_unique<ConvDepthwisePlan>(device, variant, p, shape, *choice), Outcome::ok, {}};
}

int revision(std::string_view variant) {
  const std::optional<Choice> choice = parse(variant);
  return choice ? row_of(*choice).revision : 0;
}

}  // namespace

const Family conv_depthwise = {prefix, list, prepare, revision};

}  // namespace attune::tile

// Pooling: "pool_f16_fwd_max_x16_c" moves 16 bytes of channels at a time (e: an element), neighbouring threads take
// neighbouring channels (w: columns); "_3s2o2": of 3 x 3 windows 2 apart, 2 places a thread; "_split": a window is shared out.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/names.hpp"
#include "kernels/pool.hpp"
#include "providers/tile_family.hpp"

namespace attune::tile {
namespace {

constexpr std::string_view prefix = "pool";

std::string row_name(const PoolRow& r) {
  std::string name = fmt::format("{}_{}_{}_{}_{}_{}", prefix, name_of(r.type), r.forward ? "fwd" : "bwd", r.max ? "max" : "avg",
                                 r.width > 1 ? "x16" : "e", r.channels_fast ? 'c' : 'w');
  if (r.window != 0) name += fmt::format("_{}s{}o{}", r.window, r.stride, r.outs);
  if (r.way == PoolWay::split) name += "_split";
  return name;
}

std::optional<std::size_t> row_of(std::string_view variant) {
  for (std::size_t i = 0; i < pool_rows.size(); ++i)
    if (row_name(pool_rows[i]) == variant) return i;
  return std::nullopt;
}

/// Whether x and y can be moved in packets of channels.
bool in_packets(const PoolProblem& p, int width) noexcept {
  if (width == 1) return true;
  const Dims y = p.y();
  const auto whole = [&](const Dims& dims, const std::int64_t* stride) {
    for (int i = 0; i < dims.count; ++i)
      if (dims.size[i] > 1 && (i == 1 ? stride[i] != 1 : stride[i] % width != 0)) return false;
    return true;
  };
  return p.align_x >= 16 && p.align_y >= 16 && p.x.size[1] % width == 0 && whole(p.x, p.x_stride) && whole(y, p.y_stride);
}

/// Why the row does not take the problem; null when it does.
const char* why_not(const PoolRow& r, const PoolProblem& p) noexcept {
  if (r.type != p.type || r.forward != (p.direction == PoolDirection::fwd) || r.max != (p.mode == PoolMode::max))
    return "a row of another type, direction or mode";
  const PoolView v = view(p);
  if (r.window != 0)
    for (int i = 1; i < 3; ++i)
      if (v.window[i] != r.window || v.stride[i] != r.stride) return "another window or stride";
  if (!in_packets(p, r.width)) return "the channels do not lie in packets";
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const std::int64_t* extent = r.forward ? v.out : v.in;
  if (v.c * extent[2] > most || v.terms() > most) return "a row of the output is too long";
  for (int i = 0; i < 3; ++i)
    if (v.out[i] * v.stride[i] + v.window[i] + v.pad[i] > most || v.in[i] + v.pad[i] > most) return "the image is too large";
  return nullptr;
}

/// Lower for what looks better: rows that fit the memory order first, then those made for the window.
double cost_of(const PoolRow& r, const PoolProblem& p) noexcept {
  const PoolView v = view(p);
  double cost = r.width > 1 ? 1 : 4;
  const bool channels_last = p.x_stride[1] == 1 && p.x.size[1] > 1;
  if (r.channels_fast != channels_last) cost *= 8;
  if (r.window != 0) cost *= r.outs > 1 ? 0.8 : 0.9;
  if (r.way == PoolWay::split) cost *= v.terms() >= 32 ? 0.5 : 4;
  return cost;
}

class TilePoolPlan final : public Plan {
 public:
  TilePoolPlan(int device, int row, const PoolProblem& p)
      : Plan(fmt::format("tile:{}", row_name(pool_rows[static_cast<std::size_t>(row)])), {}),
        device_(device),
        row_(row),
        view_(view(p)) {}

  Status run(const Launch& launch) const noexcept override {
    const DeviceScope scope(device_);
    PoolCall call;
    call.out = launch.d;
    if (view_.forward()) {
      call.x = launch.a;
    } else {
      call.dy = launch.a;
      if (view_.mode == PoolMode::max) call.x = launch.b, call.y = launch.more[0];
    }
    return cuda_status(launch_pool(row_, view_, call, static_cast<cudaStream_t>(launch.stream)), id().c_str());
  }

 private:
  int device_;
  int row_;
  PoolView view_;
};

void list(const Device&, const Problem& problem, const Constraints&, Effort, std::vector<Candidate>& out) {
  const auto* p = std::get_if<PoolProblem>(&problem);
  if (p == nullptr) return;
  for (const PoolRow& r : pool_rows)
    if (why_not(r, *p) == nullptr) out.push_back({row_name(r), cost_of(r, *p)});
}

Prepared prepare(const Device& device, std::string_view variant, const Problem& problem, const Constraints&) {
  const auto* p = std::get_if<PoolProblem>(&problem);
  if (p == nullptr) return declined("not a pooling");
  const std::optional<std::size_t> row = row_of(variant);
  if (!row) return declined("no such row");
  if (const char* why = why_not(pool_rows[*row], *p)) return declined(why);
  return {std::make_unique<TilePoolPlan>(device.ordinal, static_cast<int>(*row), *p), Outcome::ok, {}};
}

int revision(std::string_view variant) {
  const std::optional<std::size_t> row = row_of(variant);
  return row ? pool_rows[*row].revision : 0;
}

}  // namespace

const Family pool = {prefix, list, prepare, revision};

}  // namespace attune::tile

// Hopper's GEMM: "wgmma_bf16_kk_128x256_s4_c2", "_g1" where one warpgroup multiplies, c4k where the four blocks of a cluster share k, "_swap" where op(A) and op(B) change places,
// "_k4" where the reduction is split.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/finish.hpp"
#include "kernels/gemm_hopper.hpp"
#include "providers/tile_family.hpp"
#include "runtime/cuda_tensor_map.hpp"

namespace attune::tile {
namespace {

constexpr std::string_view prefix = "wgmma";

std::string row_name(const HopperGemmRow& r) {
  return fmt::format("{}_{}_{}{}_{}x{}_s{}_c{}{}{}", prefix, r.type == DType::f32 ? "tf32" : r.type == DType::f16 ? "f16" : "bf16",
                     r.x_k_major ? 'k' : 'm', r.y_k_major ? 'k' : 'n', r.bm, r.bn, r.stages, r.cluster, r.share_k ? "k" : "",
                     r.groups == 1 ? "_g1" : "");
}

struct Choice {
  int row = 0;
  bool swapped = false;
  int splits = 1;
};

const HopperGemmRow& row_of(const Choice& c) noexcept { return hopper_gemm_rows[static_cast<std::size_t>(c.row)]; }

std::string to_text(const Choice& c) {
  return row_name(row_of(c)) + (c.swapped ? "_swap" : "") + (c.splits > 1 ? fmt::format("_k{}", c.splits) : "");
}

std::optional<Choice> parse(std::string_view variant) {
  for (std::size_t i = 0; i < hopper_gemm_rows.size(); ++i) {
    std::string_view rest = variant;
    if (!take_word(rest, row_name(hopper_gemm_rows[i]))) continue;
    Choice c;
    c.row = static_cast<int>(i);
    c.swapped = take_word(rest, "_swap");
    if (const auto splits = take_number(rest, "_k")) c.splits = *splits;
    if (rest.empty() && to_text(c) == variant) return c;
  }
  return std::nullopt;
}

std::string why_not(const Device& device, const Problem& problem, const Constraints& constraints) {
  const auto* p = std::get_if<GemmProblem>(&problem);
  if (p == nullptr) return "not a GEMM";
  if (!has_hopper_gemm() || device.compute_capability != 90) return "needs code for sm_90a, and such a GPU";
  if (p->a_type != p->b_type || p->compute != Compute::f32) return "types";
  if (p->a_type == DType::f32 ? !allows(constraints, MathMode::tf32) : p->a_type != DType::f16 && p->a_type != DType::bf16)
    return "types";
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() - 4096;
  if (std::max({p->m, p->n, p->k, p->batch}) > most) return "m, n, k or batch past 2^31";
  if (!in_vectors(p->align_a, p->a_type, p->op_a == Op::N ? p->k : p->m, p->lda, p->batch, p->stride_a) ||
      !in_vectors(p->align_b, p->b_type, p->op_b == Op::N ? p->n : p->k, p->ldb, p->batch, p->stride_b))
    return "an operand whose lines are not aligned to 16 bytes";
  return {};
}

bool suits(const GemmProblem& p, const Choice& c) noexcept {
  const HopperGemmRow& r = row_of(c);
  const bool a_k = p.op_a == Op::T, b_k = p.op_b == Op::N;
  return r.type == p.a_type && r.x_k_major == (c.swapped ? b_k : a_k) && r.y_k_major == (c.swapped ? a_k : b_k);
}

std::int64_t tiles_of(const GemmProblem& p, const Choice& c) noexcept {
  const HopperGemmRow& r = row_of(c);
  const std::int64_t rows = c.swapped ? p.n : p.m, columns = c.swapped ? p.m : p.n;
  const std::int64_t height = std::int64_t{r.bm} * (r.share_k ? 1 : r.cluster);
  return (rows + height - 1) / height * r.cluster * ((columns + r.bn - 1) / r.bn) * p.batch;
}

std::size_t workspace_of(const GemmProblem& p, int splits) noexcept {
  return splits == 1 ? 0 : static_cast<std::size_t>(splits) * static_cast<std::size_t>(p.batch * p.m * p.n) * sizeof(float);
}

/// In the units of the other families: cycles, roughly.
double cost_of(const Device& device, const GemmProblem& p, const Choice& c) noexcept {
  const HopperGemmRow& r = row_of(c);
  const double waves = std::ceil(static_cast<double>(tiles_of(p, c)) * c.splits / device.processors);
  // 4,096 bytes of k a tile row and column each cycle at the tensor cores' best; small tiles wait for memory instead.
  const double k_bytes = static_cast<double>(p.k) / (r.share_k ? r.cluster : c.splits) * static_cast<double>(size_of(r.type));
  const double multiply = static_cast<double>(r.bm) * r.bn / 4096.0 * std::max(1.0, 128.0 / r.bm);
  const double load = static_cast<double>(r.bm + r.bn / (r.share_k ? 1 : r.cluster)) / 48.0;
  double cost = waves * (k_bytes * std::max(multiply, load) + 1200) + (r.share_k ? 1500 : 0);
  if (c.splits > 1) cost += 4000 + static_cast<double>(workspace_of(p, c.splits)) / (device.processors * 16.0);
  return cost;
}

class HopperGemmPlan final : public Plan {
 public:
  HopperGemmPlan(const Device& device, const GemmProblem& p, const Choice& c, const HopperGemmMaps& maps, const HopperGemmShape& shape,
                 int blocks)
      : Plan(fmt::format("tile:{}", to_text(c)), traits_of(p, c)),
        device_(device.ordinal),
        blocks_(blocks),
        row_(c.row),
        epilogue_(p.epilogue),
        reads_c_(p.beta != Scalar::zero),
        out_type_(p.c_type),
        maps_(maps),
        shape_(shape),
        finish_{p.batch, p.n, p.m, c.splits, p.stride_d, p.ldd, p.stride_c, p.ldc, p.c_type, DType::f32} {}

  Status run(const Launch& launch) const noexcept override {
    const DeviceScope scope(device_);
    const auto stream = static_cast<cudaStream_t>(launch.stream);
    HopperGemmCall call;
    call.c = reads_c_ ? launch.c : nullptr, call.d = launch.d;
    call.bias = has_bias(epilogue_) ? launch.bias : nullptr;
    call.alpha = *static_cast<const float*>(launch.alpha);
    call.beta = reads_c_ ? *static_cast<const float*>(launch.beta) : 0;
    call.out_type = out_type_, call.activation = activation(epilogue_);
    if (shape_.splits > 1) call.partial = static_cast<float*>(launch.workspace);
    HopperGemmMaps maps = maps_;
    if (!with_address(maps.x, shape_.swapped ? launch.b : launch.a) || !with_address(maps.y, shape_.swapped ? launch.a : launch.b) ||
        (shape_.boxes && !with_address(maps.d, launch.d))) {
      note_failure("%s: the driver takes no such address", id().c_str());
      return Status::device_error;
    }
    cudaError_t error = launch_hopper_gemm(row_, maps, shape_, call, blocks_, stream);
    if (error == cudaSuccess && shape_.splits > 1)
      error = launch_finish(finish_, {call.partial, call.c, call.bias, call.d, call.alpha, call.beta, call.activation}, stream);
    return cuda_status(error, id().c_str());
  }

 private:
  static PlanTraits traits_of(const GemmProblem& p, const Choice& c) {
    PlanTraits traits;
    traits.workspace = workspace_of(p, c.splits);
    traits.accumulation = Accumulation::tensor_core;
    return traits;
  }
  int device_;
  int blocks_;  ///< that the device holds at once
  int row_;
  Epilogue epilogue_;
  bool reads_c_;
  DType out_type_;
  HopperGemmMaps maps_;
  HopperGemmShape shape_;
  FinishShape finish_;
};

/// An operand's map: lines along k, or along the tile.
std::string make_map(const HopperGemmRow& r, bool k_major, std::int64_t extent, std::int64_t k, std::int64_t ld, std::int64_t batch,
                     std::int64_t stride, int tile, CUtensorMap& map) {
  const auto size = static_cast<std::int64_t>(size_of(r.type));
  const int along = static_cast<int>(128 / size);
  TensorMapShape s;
  s.type = r.type, s.as_tf32 = r.type == DType::f32;
  s.extent[0] = k_major ? k : extent, s.extent[1] = k_major ? extent : k, s.extent[2] = stride == 0 ? 1 : batch;
  s.step[0] = ld * size, s.step[1] = stride * size;
  s.box[0] = along, s.box[1] = k_major ? tile : along, s.box[2] = 1;
  return make_tensor_map(s, map);
}

std::string make_maps(const GemmProblem& p, const Choice& c, HopperGemmMaps& maps, HopperGemmShape& shape) {
  const HopperGemmRow& r = row_of(c);
  shape.rows = c.swapped ? p.n : p.m, shape.columns = c.swapped ? p.m : p.n, shape.k = p.k, shape.batch = p.batch;
  shape.x_batched = (c.swapped ? p.stride_b : p.stride_a) != 0, shape.y_batched = (c.swapped ? p.stride_a : p.stride_b) != 0;
  shape.d_line = p.ldd, shape.d_batch = p.stride_d, shape.c_line = p.ldc, shape.c_batch = p.stride_c;
  shape.swapped = c.swapped, shape.splits = c.splits;
  shape.vectors = output_in_vectors(p);
  shape.plain = c.splits == 1 && !r.share_k && p.c_type == p.a_type && size_of(p.c_type) == 2 && r.bn % 64 == 0 && p.beta == Scalar::zero &&
                p.epilogue == Epilogue::none;
  shape.boxes = shape.plain && shape.vectors && p.m % (16 / static_cast<std::int64_t>(size_of(p.c_type))) == 0;
  const std::int64_t x_ld = c.swapped ? p.ldb : p.lda, y_ld = c.swapped ? p.lda : p.ldb;
  const std::int64_t x_stride = c.swapped ? p.stride_b : p.stride_a, y_stride = c.swapped ? p.stride_a : p.stride_b;
  std::string why = make_map(r, r.x_k_major, shape.rows, p.k, x_ld, p.batch, x_stride, r.bm, maps.x);
  if (why.empty()) why = make_map(r, r.y_k_major, shape.columns, p.k, y_ld, p.batch, y_stride,
                              r.bn / (r.share_k ? 1 : r.cluster), maps.y);
  if (why.empty() && shape.boxes) {
    TensorMapShape d;
    const auto size = static_cast<std::int64_t>(size_of(p.c_type));
    d.type = p.c_type;
    d.extent[0] = p.m, d.extent[1] = p.n, d.extent[2] = p.batch;
    d.step[0] = p.ldd * size, d.step[1] = p.stride_d * size;
    d.box[0] = d.box[1] = 64;
    why = make_tensor_map(d, maps.d);
  }
  return why;
}

void list(const Device& device, const Problem& problem, const Constraints& constraints, Effort effort, std::vector<Candidate>& out) {
  if (!why_not(device, problem, constraints).empty()) return;
  const GemmProblem& p = std::get<GemmProblem>(problem);
  for (std::size_t i = 0; i < hopper_gemm_rows.size(); ++i)
    for (bool swapped : {false, true}) {
      Choice c{static_cast<int>(i), swapped, 1};
      if (!suits(p, c)) continue;
      const std::int64_t block_k = 128 / static_cast<std::int64_t>(size_of(p.a_type));
      if (row_of(c).share_k) {
        if (p.k >= 2 * block_k * row_of(c).cluster) out.push_back({to_text(c), cost_of(device, p, c)});
        continue;
      }
      for (const int splits : splits_of(tiles_of(p, c), p.k, 4 * block_k, device.processors, effort)) {
        c.splits = splits;
        if (workspace_of(p, splits) <= constraints.workspace_limit) out.push_back({to_text(c), cost_of(device, p, c)});
      }
    }
}

Prepared prepare(const Device& device, std::string_view variant, const Problem& problem, const Constraints& constraints) {
  if (std::string why = why_not(device, problem, constraints); !why.empty()) return declined(std::move(why));
  const std::optional<Choice> choice = parse(variant);
  if (!choice) return declined("no such row");
  const GemmProblem& p = std::get<GemmProblem>(problem);
  const HopperGemmRow& r = row_of(*choice);
  if (!suits(p, *choice)) return declined("the row's type or layout");
  const std::int64_t block_k = 128 / static_cast<std::int64_t>(size_of(p.a_type));
  if (tiles_of(p, *choice) > std::numeric_limits<std::int32_t>::max() / choice->splits) return declined("more tiles than 2^31");
  if (choice->splits > 1 && r.share_k) return declined("splits beside those of the cluster");
  if (choice->splits > std::max<std::int64_t>(p.k / block_k, 1)) return declined("more splits than the reduction has blocks");
  if (static_cast<std::size_t>(shared_bytes(r)) > device.shared_bytes) return declined("needs more shared memory than a block has");
  if (const std::size_t bytes = workspace_of(p, choice->splits); bytes > constraints.workspace_limit)
    return declined(fmt::format("needs {} bytes of workspace", bytes));
  HopperGemmMaps maps{};
  HopperGemmShape shape;
  int blocks = 0;
  if (std::string why = make_maps(p, *choice, maps, shape); !why.empty()) return declined(std::move(why));
  if (const cudaError_t error = allow_hopper_gemm(choice->row, blocks); error != cudaSuccess) {
    cudaGetLastError();
    return {nullptr, Outcome::failed, cudaGetErrorString(error)};
  }
  // Under a short reduction, or where no tile follows, there is nothing to store a tile under.
  shape.direct = p.k <= 4 * block_k || tiles_of(p, *choice) <= blocks;
  return {std::make_unique<HopperGemmPlan>(device, p, *choice, maps, shape, blocks), Outcome::ok, {}};
}

int revision(std::string_view variant) {
  const std::optional<Choice> choice = parse(variant);
  return choice ? row_of(*choice).revision : 0;
}

}  // namespace

const Family hopper_gemm = {prefix, list, prepare, revision};

}  // namespace attune::tile

// GEMM without tensor cores: "simt_f32_128x128x16_t8x8", "_k4" where the reduction is split; "simt_f32_16x16x16_t4x4_p16" takes
// sixteen whole problems of a batch at a time, "simt_f16_32x32x32_mma_p4" four on tensor cores; "simt_any_f32" takes every type.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/names.hpp"
#include "kernels/finish.hpp"
#include "kernels/gemm_simt.hpp"
#include "providers/tile_family.hpp"

namespace attune::tile {
namespace {

constexpr std::string_view prefix = "simt";
constexpr int any_edge = 32;  ///< of the tile of rows for any types

std::string row_name(const SimtGemmRow& r) {
  if (r.any_types) return fmt::format("{}_any_{}", prefix, name_of(r.type));
  if (r.tensor_cores) return fmt::format("{}_{}_{}x{}x{}_mma_p{}", prefix, name_of(r.type), r.bm, r.bn, r.bk, r.problems);
  return fmt::format("{}_{}_{}x{}x{}_t{}x{}{}", prefix, name_of(r.type), r.bm, r.bn, r.bk, r.tm, r.tn,
                     r.problems > 0 ? fmt::format("_p{}", r.problems) : "");
}

struct Choice {
  int row = 0;
  int splits = 1;
};

const SimtGemmRow& row_of(const Choice& c) noexcept { return simt_gemm_rows[c.row]; }
std::string to_text(const Choice& c) { return row_name(row_of(c)) + (c.splits > 1 ? fmt::format("_k{}", c.splits) : ""); }

/// Whether a block takes all of k.
bool whole(const SimtGemmRow& r) noexcept { return r.any_types || r.problems > 0; }

std::optional<Choice> parse(std::string_view variant) {
  for (std::size_t i = 0; i < std::size(simt_gemm_rows); ++i) {
    std::string_view rest = variant;
    if (!take_word(rest, row_name(simt_gemm_rows[i]))) continue;
    Choice c{static_cast<int>(i), 1};
    if (const auto splits = take_number(rest, "_k")) c.splits = *splits;
    if (rest.empty() && to_text(c) == variant && (c.splits == 1 || !whole(row_of(c)))) return c;
  }
  return std::nullopt;
}

DType sum_type(const GemmProblem& p) noexcept {
  return p.compute == Compute::f64 ? DType::f64 : p.compute == Compute::i32 ? DType::i32 : DType::f32;
}

bool suits(const GemmProblem& p, const SimtGemmRow& r) noexcept {
  if (r.problems > 0)
    return p.a_type == r.type && p.b_type == r.type && (r.type == DType::f64) == (p.compute == Compute::f64) && p.m <= r.bm &&
           p.n <= r.bn && p.k <= r.bk && p.batch <= std::numeric_limits<std::int32_t>::max();
  return r.type == sum_type(p) && (r.any_types || (p.a_type == r.type && p.b_type == r.type));
}

std::int64_t tiles_of(const GemmProblem& p, const SimtGemmRow& r) noexcept {
  const int bm = r.any_types ? any_edge : r.bm, bn = r.any_types ? any_edge : r.bn;
  return (p.m + bm - 1) / bm * ((p.n + bn - 1) / bn) * p.batch;
}

std::size_t workspace_of(const GemmProblem& p, const Choice& c) noexcept {
  return c.splits == 1 ? 0 : static_cast<std::size_t>(c.splits) * static_cast<std::size_t>(p.batch * p.m * p.n) * size_of(row_of(c).type);
}

double cost_of(const Device& device, const GemmProblem& p, const Choice& c) noexcept {
  const SimtGemmRow& r = row_of(c);
  const double waves = std::ceil(static_cast<double>(tiles_of(p, r)) * c.splits / device.processors);
  const double k = static_cast<double>(p.k) / c.splits;
  if (r.any_types) return waves * (k * 128 + 1500);
  if (r.problems > 0) {
    const double blocks = std::ceil(static_cast<double>(p.batch) / r.problems / device.processors);
    return blocks * r.problems * r.bm * r.bn * static_cast<double>(size_of(r.type)) * 3 / 18 + 1500;
  }
  const double area = static_cast<double>(r.bm) * r.bn;
  double cost = waves * (k * std::max(area / 128, static_cast<double>((r.bm + r.bn)) * static_cast<double>(size_of(r.type)) / 32) + 1500);
  if (c.splits > 1) cost += 4000 + static_cast<double>(workspace_of(p, c)) / (device.processors * 16.0);
  return cost;
}

PlanTraits traits_of(const GemmProblem& p, const Choice& c) {
  PlanTraits traits;
  traits.workspace = workspace_of(p, c);
  if (row_of(c).tensor_cores) traits.accumulation = Accumulation::tensor_core;
  return traits;
}

class SimtGemmPlan final : public Plan {
 public:
  SimtGemmPlan(const Device& device, const GemmProblem& p, const Choice& c)
      : Plan(fmt::format("tile:{}", to_text(c)), traits_of(p, c)),
        device_(device.ordinal),
        row_(c.row),
        compute_(p.compute),
        epilogue_(p.epilogue),
        reads_c_(p.beta != Scalar::zero) {
    const bool na = p.op_a == Op::N, nb = p.op_b == Op::N;
    shape_.m = p.m, shape_.n = p.n, shape_.k = p.k, shape_.batch = p.batch;
    shape_.a_i = na ? 1 : p.lda, shape_.a_l = na ? p.lda : 1, shape_.a_batch = p.stride_a;
    shape_.b_l = nb ? 1 : p.ldb, shape_.b_j = nb ? p.ldb : 1, shape_.b_batch = p.stride_b;
    shape_.d_j = p.ldd, shape_.d_batch = p.stride_d, shape_.c_j = p.ldc, shape_.c_batch = p.stride_c;
    shape_.a_type = p.a_type, shape_.b_type = p.b_type, shape_.out_type = p.c_type;
    shape_.a_vectors = in_vectors(p.align_a, p.a_type, na ? p.k : p.m, p.lda, p.batch, p.stride_a);
    shape_.b_vectors = in_vectors(p.align_b, p.b_type, nb ? p.n : p.k, p.ldb, p.batch, p.stride_b);
    shape_.vectors = output_in_vectors(p);
    shape_.splits = c.splits;
    finish_ = {p.batch,  p.n,      p.m,   c.splits, p.stride_d, p.ldd, p.stride_c,
               p.ldc,    p.c_type, row_of(c).type};
  }

  Status run(const Launch& launch) const noexcept override {
    const DeviceScope scope(device_);
    const auto stream = static_cast<cudaStream_t>(launch.stream);
    SimtGemmCall call;
    call.a = launch.a, call.b = launch.b, call.d = launch.d;
    call.c = reads_c_ ? launch.c : nullptr;
    call.bias = has_bias(epilogue_) ? launch.bias : nullptr;
    call.alpha = scalar_value(launch.alpha, compute_);
    call.beta = reads_c_ ? scalar_value(launch.beta, compute_) : 0;
    call.scale_a = static_cast<const float*>(launch.scale_a), call.scale_b = static_cast<const float*>(launch.scale_b);
    call.activation = activation(epilogue_);
    if (shape_.splits > 1) call.partial = launch.workspace;
    cudaError_t error = launch_simt_gemm(row_, shape_, call, stream);
    if (error == cudaSuccess && shape_.splits > 1)
      error = launch_finish(finish_, {call.partial, call.c, call.bias, call.d, call.alpha, call.beta, call.activation}, stream);
    return cuda_status(error, id().c_str());
  }

 private:
  int device_;
  int row_;
  Compute compute_;
  Epilogue epilogue_;
  bool reads_c_;
  SimtGemmShape shape_;
  FinishShape finish_;
};

void list(const Device& device, const Problem& problem, const Constraints& constraints, Effort effort, std::vector<Candidate>& out) {
  const auto* p = std::get_if<GemmProblem>(&problem);
  if (p == nullptr) return;
  for (std::size_t i = 0; i < std::size(simt_gemm_rows); ++i) {
    Choice c{static_cast<int>(i), 1};
    const SimtGemmRow& r = row_of(c);
    if (!suits(*p, r)) continue;
    if (whole(r)) {
      out.push_back({to_text(c), cost_of(device, *p, c)});
      continue;
    }
    for (const int splits : splits_of(tiles_of(*p, r), p->k, 4 * r.bk, device.processors, effort)) {
      c.splits = splits;
      if (workspace_of(*p, c) <= constraints.workspace_limit) out.push_back({to_text(c), cost_of(device, *p, c)});
    }
  }
}

Prepared prepare(const Device& device, std::string_view variant, const Problem& problem, const Constraints& constraints) {
  const auto* p = std::get_if<GemmProblem>(&problem);
  if (p == nullptr) return declined("not a GEMM");
  const std::optional<Choice> choice = parse(variant);
  if (!choice || !suits(*p, row_of(*choice))) return declined("no such row, or one of another type");
  if (choice->splits > 1 && choice->splits > p->k / row_of(*choice).bk) return declined("more splits than the reduction has blocks");
  if (const std::size_t bytes = workspace_of(*p, *choice); bytes > constraints.workspace_limit)
    return declined(fmt::format("needs {} bytes of workspace", bytes));
  if (const std::size_t bytes = simt_gemm_shared(choice->row); bytes > device.shared_bytes)
    return declined(fmt::format("needs {} bytes of shared memory, a block has {}", bytes, device.shared_bytes));
  if (const cudaError_t error = allow_simt_gemm(choice->row); error != cudaSuccess) {
    cudaGetLastError();
    return {nullptr, Outcome::failed, cudaGetErrorString(error)};
  }
  return {std::make_unique<SimtGemmPlan>(device, *p, *choice), Outcome::ok, {}};
}

int revision(std::string_view variant) {
  const std::optional<Choice> choice = parse(variant);
  return choice ? row_of(*choice).revision : 0;
}

}  // namespace

const Family simt_gemm = {prefix, list, prepare, revision};

}  // namespace attune::tile

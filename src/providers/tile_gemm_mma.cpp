// Tensor-core GEMM: "mma_f16_kk_128x128x64_w64x32_s3", with "_shift" where a row takes any alignment, "_swap" where op(A) and op(B)
// change places, "_k4" where the reduction is split. The letters say whether X and Y lie along k (k) or along the tile (m, n).
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernels/finish.hpp"
#include "kernels/gemm_mma.hpp"
#include "providers/tile_family.hpp"

namespace attune::tile {
namespace {

constexpr std::string_view prefix = "mma";

std::string row_name(const MmaGemmRow& r) {
  return fmt::format("{}_{}_{}{}_{}x{}x{}_w{}x{}_s{}{}", prefix, r.type == DType::f32 ? "tf32" : r.type == DType::f16 ? "f16" : "bf16",
                     r.x_k_major ? 'k' : 'm', r.y_k_major ? 'k' : 'n', r.bm, r.bn, r.bk, r.wm, r.wn, r.stages,
                     r.shifted ? "_shift" : "");
}

/// A variant of one problem: a row and what is chosen at run time.
struct Choice {
  int row = 0;
  bool swapped = false;
  int splits = 1;
};

const MmaGemmRow& row_of(const Choice& c) noexcept { return mma_gemm_rows[static_cast<std::size_t>(c.row)]; }

std::string to_text(const Choice& c) {
  return row_name(row_of(c)) + (c.swapped ? "_swap" : "") + (c.splits > 1 ? fmt::format("_k{}", c.splits) : "");
}

std::optional<Choice> parse(std::string_view variant) {
  for (std::size_t i = 0; i < mma_gemm_rows.size(); ++i) {
    std::string_view rest = variant;
    if (!take_word(rest, row_name(mma_gemm_rows[i]))) continue;
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
  if (p->a_type != p->b_type || p->compute != Compute::f32) return "types";
  if (p->a_type == DType::f32 ? !allows(constraints, MathMode::tf32) : p->a_type != DType::f16 && p->a_type != DType::bf16)
    return "types";
  if (device.compute_capability < 80) return "needs compute capability 8.0";
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() - 4096;
  if (std::max({p->m, p->n, p->k}) > most) return "m, n or k past 2^31";
  return {};
}

bool a_aligned(const GemmProblem& p) noexcept {
  return in_vectors(p.align_a, p.a_type, p.op_a == Op::N ? p.k : p.m, p.lda, p.batch, p.stride_a);
}
bool b_aligned(const GemmProblem& p) noexcept {
  return in_vectors(p.align_b, p.b_type, p.op_b == Op::N ? p.n : p.k, p.ldb, p.batch, p.stride_b);
}

/// Whether the row's layouts and loads suit the problem.
bool suits(const GemmProblem& p, const Choice& c) noexcept {
  const MmaGemmRow& r = row_of(c);
  const bool a_k = p.op_a == Op::T, b_k = p.op_b == Op::N;
  if (r.type != p.a_type || r.x_k_major != (c.swapped ? b_k : a_k) || r.y_k_major != (c.swapped ? a_k : b_k)) return false;
  return r.shifted || (a_aligned(p) && b_aligned(p));
}

std::int64_t tiles_of(const GemmProblem& p, const Choice& c) noexcept {
  const MmaGemmRow& r = row_of(c);
  const std::int64_t rows = c.swapped ? p.n : p.m, columns = c.swapped ? p.m : p.n;
  return (rows + r.bm - 1) / r.bm * ((columns + r.bn - 1) / r.bn) * p.batch;
}

std::size_t workspace_of(const GemmProblem& p, int splits) noexcept {
  return splits == 1 ? 0 : static_cast<std::size_t>(splits) * static_cast<std::size_t>(p.batch * p.m * p.n) * sizeof(float);
}

/// Cycles, roughly: waves of tiles, each as long as its k takes at the tile's reach of the tensor cores, and the second pass of a
/// split reduction.
double cost_of(const Device& device, const GemmProblem& p, const Choice& c) noexcept {
  const MmaGemmRow& r = row_of(c);
  const double blocks = static_cast<double>(tiles_of(p, c)) * c.splits;
  const double per_sm = std::clamp(static_cast<double>(device.shared_bytes) / shared_bytes(r), 1.0, 2.0);
  const double waves = std::ceil(blocks / (device.processors * std::floor(per_sm))) * std::floor(per_sm);
  const double area = static_cast<double>(r.bm) * r.bn;
  // Small tiles load more for each product than they multiply.
  const double bytes = static_cast<double>(r.bm + r.bn) * static_cast<double>(size_of(r.type));
  const double k = static_cast<double>(p.k) / c.splits;
  const double body = k * std::max(area / (r.type == DType::f32 ? 512 : 1024), bytes / 48) * (r.shifted ? 1.2 : 1.0);
  double cost = waves * (body + 1500);
  if (c.splits > 1) cost += 4000 + static_cast<double>(workspace_of(p, c.splits)) / (device.processors * 16.0);
  return cost;
}

class MmaGemmPlan final : public Plan {
 public:
  MmaGemmPlan(const Device& device, const GemmProblem& p, const Choice& c)
      : Plan(fmt::format("tile:{}", to_text(c)), traits_of(p, c)), device_(device.ordinal), row_(c.row), epilogue_(p.epilogue) {
    shape_.swapped = c.swapped, shape_.splits = c.splits;
    shape_.rows = p.m, shape_.columns = p.n, shape_.k = p.k, shape_.batch = p.batch;
    const Spans s = spans(p);
    shape_.x_ld = p.lda, shape_.x_batch = p.stride_a, shape_.x_elements = s.a.elements;
    shape_.y_ld = p.ldb, shape_.y_batch = p.stride_b, shape_.y_elements = s.b.elements;
    if (c.swapped) {
      std::swap(shape_.rows, shape_.columns);
      std::swap(shape_.x_ld, shape_.y_ld);
      std::swap(shape_.x_batch, shape_.y_batch);
      std::swap(shape_.x_elements, shape_.y_elements);
    }
    shape_.d_line = p.ldd, shape_.d_batch = p.stride_d, shape_.c_line = p.ldc, shape_.c_batch = p.stride_c;
    shape_.vectors = output_in_vectors(p);
    reads_c_ = p.beta != Scalar::zero;
    out_type_ = p.c_type;
    finish_ = {p.batch, p.n, p.m, c.splits, p.stride_d, p.ldd, p.stride_c, p.ldc, p.c_type, DType::f32};
  }

  Status run(const Launch& launch) const noexcept override {
    const DeviceScope scope(device_);
    const auto stream = static_cast<cudaStream_t>(launch.stream);
    MmaGemmCall call;
    call.x = shape_.swapped ? launch.b : launch.a, call.y = shape_.swapped ? launch.a : launch.b;
    call.c = reads_c_ ? launch.c : nullptr, call.d = launch.d;
    call.bias = has_bias(epilogue_) ? launch.bias : nullptr;
    call.alpha = *static_cast<const float*>(launch.alpha);
    call.beta = reads_c_ ? *static_cast<const float*>(launch.beta) : 0;
    call.out_type = out_type_, call.activation = activation(epilogue_);
    if (shape_.splits > 1) call.partial = static_cast<float*>(launch.workspace);
    cudaError_t error = launch_mma_gemm(row_, shape_, call, stream);
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
  int row_;
  Epilogue epilogue_;
  bool reads_c_ = false;
  DType out_type_ = DType::f32;
  MmaGemmShape shape_;
  FinishShape finish_;
};

void list(const Device& device, const Problem& problem, const Constraints& constraints, Effort effort, std::vector<Candidate>& out) {
  if (!why_not(device, problem, constraints).empty()) return;
  const GemmProblem& p = std::get<GemmProblem>(problem);
  const bool aligned = a_aligned(p) && b_aligned(p);
  for (std::size_t i = 0; i < mma_gemm_rows.size(); ++i) {
    const MmaGemmRow& r = mma_gemm_rows[i];
    if (static_cast<std::size_t>(shared_bytes(r)) > device.shared_bytes || (r.shifted && aligned && effort != Effort::exhaustive))
      continue;
    for (bool swapped : {false, true}) {
      Choice c{static_cast<int>(i), swapped, 1};
      if (!suits(p, c)) continue;
      for (const int splits : splits_of(tiles_of(p, c), p.k, 4 * r.bk, device.processors, effort)) {
        c.splits = splits;
        if (workspace_of(p, splits) <= constraints.workspace_limit) out.push_back({to_text(c), cost_of(device, p, c)});
      }
    }
  }
}

Prepared prepare(const Device& device, std::string_view variant, const Problem& problem, const Constraints& constraints) {
  if (std::string why = why_not(device, problem, constraints); !why.empty()) return declined(std::move(why));
  const std::optional<Choice> choice = parse(variant);
  if (!choice) return declined("no such row");
  const GemmProblem& p = std::get<GemmProblem>(problem);
  const MmaGemmRow& r = row_of(*choice);
  if (!suits(p, *choice)) return declined("the row's type, layout or alignment");
  if (choice->splits > std::max<std::int64_t>(p.k / r.bk, 1)) return declined("more splits than the reduction has blocks");
  if (static_cast<std::size_t>(shared_bytes(r)) > device.shared_bytes)
    return declined(fmt::format("needs {} bytes of shared memory, a block has {}", shared_bytes(r), device.shared_bytes));
  if (const std::size_t bytes = workspace_of(p, choice->splits); bytes > constraints.workspace_limit)
    return declined(fmt::format("needs {} bytes of workspace", bytes));
  if (const cudaError_t error = allow_mma_gemm(choice->row); error != cudaSuccess) {
    cudaGetLastError();
    return {nullptr, Outcome::failed, cudaGetErrorString(error)};
  }
  return {std::make_unique<MmaGemmPlan>(device, p, *choice), Outcome::ok, {}};
}

int revision(std::string_view variant) {
  const std::optional<Choice> choice = parse(variant);
  return choice ? row_of(*choice).revision : 0;
}

}  // namespace

const Family mma_gemm = {prefix, list, prepare, revision};

}  // namespace attune::tile

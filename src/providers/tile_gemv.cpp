// A matrix times a few vectors: "gemv_f16_k_x16_v4" reads a matrix that lies along k (r: along its rows) 16 bytes (e: an element) at a
// time and takes up to 4 vectors; "_w4": four warps share a group of rows; "_swap": the matrix is op(B)^T.
#include <fmt/format.h>

#include <algorithm>

#include "core/names.hpp"
#include "kernels/gemv.hpp"
#include "providers/tile_family.hpp"

namespace attune::tile {
namespace {

constexpr std::string_view prefix = "gemv";

std::string row_name(const GemvRow& r) {
  return fmt::format("{}_{}_{}_{}_v{}", prefix, name_of(r.type), r.k_major ? 'k' : 'r', r.vector_loads ? "x16" : "e", r.vectors);
}

struct Choice {
  int row = 0;
  bool swapped = false;
  int warps = 1;
};

const GemvRow& row_of(const Choice& c) noexcept { return gemv_rows[static_cast<std::size_t>(c.row)]; }

std::string to_text(const Choice& c) {
  return row_name(row_of(c)) + (c.warps > 1 ? fmt::format("_w{}", c.warps) : "") + (c.swapped ? "_swap" : "");
}

std::optional<Choice> parse(std::string_view variant) {
  for (std::size_t i = 0; i < gemv_rows.size(); ++i) {
    std::string_view rest = variant;
    if (!take_word(rest, row_name(gemv_rows[i]))) continue;
    Choice c;
    c.row = static_cast<int>(i);
    if (const auto warps = take_number(rest, "_w")) c.warps = *warps;
    c.swapped = take_word(rest, "_swap");
    const bool known = c.warps == 1 || ((c.warps == 2 || c.warps == 4 || c.warps == 8) && row_of(c).k_major);
    if (rest.empty() && known && to_text(c) == variant) return c;
  }
  return std::nullopt;
}

GemvShape shape_of(const GemmProblem& p, const Choice& c) noexcept {
  const bool na = p.op_a == Op::N, nb = p.op_b == Op::N;
  GemvShape s;
  s.k = p.k, s.batch = p.batch, s.out_type = p.c_type, s.warps_each = c.warps;
  s.d_batch = p.stride_d, s.c_batch = p.stride_c;
  if (!c.swapped) {
    s.rows = p.m, s.vectors = static_cast<int>(p.n);
    s.ld = p.lda, s.matrix_batch = p.stride_a;
    s.vector_l = nb ? 1 : p.ldb, s.vector_v = nb ? p.ldb : 1, s.vector_batch = p.stride_b;
    s.d_r = 1, s.d_v = p.ldd, s.c_r = 1, s.c_v = p.ldc, s.bias_r = 1;
  } else {
    s.rows = p.n, s.vectors = static_cast<int>(p.m);
    s.ld = p.ldb, s.matrix_batch = p.stride_b;
    s.vector_l = na ? p.lda : 1, s.vector_v = na ? 1 : p.lda, s.vector_batch = p.stride_a;
    s.d_r = p.ldd, s.d_v = 1, s.c_r = p.ldc, s.c_v = 1, s.bias_v = 1;
  }
  return s;
}

bool suits(const GemmProblem& p, const Choice& c) noexcept {
  const GemvRow& r = row_of(c);
  const bool na = p.op_a == Op::N, nb = p.op_b == Op::N;
  const bool k_major = c.swapped ? nb : !na;
  if (p.a_type != r.type || p.b_type != r.type || p.compute == Compute::i32 || k_major != r.k_major) return false;
  if ((c.swapped ? p.m : p.n) > r.vectors) return false;
  if (!r.vector_loads) return true;
  return c.swapped ? in_vectors(p.align_b, p.b_type, nb ? p.n : p.k, p.ldb, p.batch, p.stride_b)
                   : in_vectors(p.align_a, p.a_type, na ? p.k : p.m, p.lda, p.batch, p.stride_a);
}

class GemvPlan final : public Plan {
 public:
  GemvPlan(const Device& device, const GemmProblem& p, const Choice& c)
      : Plan(fmt::format("tile:{}", to_text(c)), {}),
        device_(device.ordinal),
        row_(c.row),
        swapped_(c.swapped),
        compute_(p.compute),
        epilogue_(p.epilogue),
        reads_c_(p.beta != Scalar::zero),
        shape_(shape_of(p, c)) {}

  Status run(const Launch& launch) const noexcept override {
    const DeviceScope scope(device_);
    GemvCall call;
    call.matrix = swapped_ ? launch.b : launch.a, call.vectors = swapped_ ? launch.a : launch.b, call.d = launch.d;
    call.c = reads_c_ ? launch.c : nullptr;
    call.bias = has_bias(epilogue_) ? launch.bias : nullptr;
    call.alpha = scalar_value(launch.alpha, compute_);
    call.beta = reads_c_ ? scalar_value(launch.beta, compute_) : 0;
    call.activation = activation(epilogue_);
    return cuda_status(launch_gemv(row_, shape_, call, static_cast<cudaStream_t>(launch.stream)), id().c_str());
  }

 private:
  int device_;
  int row_;
  bool swapped_;
  Compute compute_;
  Epilogue epilogue_;
  bool reads_c_;
  GemvShape shape_;
};

/// The same units as the tiled families: the matrix at the speed of memory, or the arithmetic where that takes longer.
double cost_of(const Device& device, const GemmProblem& p, const Choice& c) noexcept {
  const GemvRow& r = row_of(c);
  const double elements = static_cast<double>(c.swapped ? p.n : p.m) * static_cast<double>(p.k) * static_cast<double>(p.batch);
  const double bytes = elements * static_cast<double>(size_of(r.type)) / (device.processors * 18.0);
  const double products = elements * r.vectors / (device.processors * 60.0);
  return std::max(bytes, products) * (r.vector_loads ? 1 : 3) + 2000 + 100.0 / c.warps;
}

void list(const Device& device, const Problem& problem, const Constraints&, Effort effort, std::vector<Candidate>& out) {
  const auto* p = std::get_if<GemmProblem>(&problem);
  if (p == nullptr) return;
  for (bool swapped : {false, true}) {
    bool aligned = false;
    int least = 0;  // the fewest vectors of a row that suffices
    for (std::size_t i = 0; i < gemv_rows.size(); ++i) {
      Choice c{static_cast<int>(i), swapped, 1};
      const GemvRow& r = row_of(c);
      if (!suits(*p, c)) continue;
      aligned = aligned || r.vector_loads;
      if (effort != Effort::exhaustive && ((aligned && !r.vector_loads) || (least != 0 && r.vectors > least))) continue;
      least = r.vectors;
      const std::int64_t rows = (swapped ? p->n : p->m) * p->batch;
      for (const int warps : {1, 2, 4, 8}) {
        if (warps > 1 && (!r.k_major || p->k < 512 * warps)) break;
        // More warps to a row where there are few rows.
        const bool pays = rows * warps / 2 <= std::int64_t{device.processors} * 64;
        c.warps = warps;
        if (warps == 1 || pays || effort == Effort::exhaustive) out.push_back({to_text(c), cost_of(device, *p, c)});
      }
    }
  }
}

Prepared prepare(const Device& device, std::string_view variant, const Problem& problem, const Constraints&) {
  const auto* p = std::get_if<GemmProblem>(&problem);
  if (p == nullptr) return declined("not a GEMM");
  const std::optional<Choice> choice = parse(variant);
  if (!choice || !suits(*p, *choice)) return declined("no such row, or the problem's type, layout, alignment or count of vectors");
  return {std::make_unique<GemvPlan>(device, *p, *choice), Outcome::ok, {}};
}

int revision(std::string_view variant) {
  const std::optional<Choice> choice = parse(variant);
  return choice ? row_of(*choice).revision : 0;
}

}  // namespace

const Family gemv = {prefix, list, prepare, revision};

}  // namespace attune::tile

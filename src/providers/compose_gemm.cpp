// Rewriting of GEMM: operands copied to aligned lines, results through sums in fp32.
#include <algorithm>

#include "providers/compose_rewrite.hpp"

namespace attune::compose {
namespace {

constexpr std::int64_t alignment = 16;  // bytes that vendor kernels and own ones like lines to begin at

std::int64_t per_line(DType type) noexcept { return alignment / static_cast<std::int64_t>(size_of(type)); }
std::int64_t round_up(std::int64_t value, std::int64_t step) noexcept { return (value + step - 1) / step * step; }
std::size_t padded(std::size_t bytes) noexcept { return (bytes + 255) / 256 * 256; }

bool is_aligned(int align, DType type, std::int64_t lines, std::int64_t ld, std::int64_t batch, std::int64_t stride) noexcept {
  const std::int64_t unit = per_line(type);
  return align >= alignment && (lines <= 1 || ld % unit == 0) && (batch <= 1 || stride % unit == 0);
}

/// One operand as lines of places.
struct Lines {
  std::int64_t lines, places, ld, stride;
  DType type;
  int align;
  std::int64_t elements;
  bool aligned(std::int64_t batch) const noexcept { return is_aligned(align, type, lines, ld, batch, stride); }
};

/// Copies an operand to aligned lines; `places` may grow by zeros. Returns the new leading dimension and stride.
void copy(Rewrite& r, Operand operand, const Lines& from, std::int64_t batch, std::int64_t padded_places, std::int64_t& ld,
          std::int64_t& stride) {
  const std::int64_t matrices = from.stride == 0 ? 1 : batch;
  Copy c;
  c.operand = operand;
  c.shape.matrices = matrices;
  c.shape.lines = c.shape.padded_lines = from.lines;
  c.shape.places = from.places;
  ld = c.shape.padded_places = c.shape.to_line = round_up(padded_places, per_line(from.type));
  c.shape.from_matrix = from.stride, c.shape.from_line = from.ld, c.shape.from_place = 1;
  stride = from.stride == 0 ? 0 : from.lines * ld;
  c.shape.to_matrix = from.lines * ld;
  c.shape.from_elements = from.elements;
  c.shape.element_bytes = static_cast<int>(size_of(from.type));
  c.at = r.workspace;
  r.workspace += padded(static_cast<std::size_t>(matrices * from.lines * ld) * size_of(from.type));
  r.copies.push_back(c);
}

/// Copies an operand so that its lines lie along k, k filled up with zeros.
void turn(Rewrite& r, Operand operand, const Lines& from, std::int64_t batch, std::int64_t k, std::int64_t& ld, std::int64_t& stride) {
  Lines turned = from;
  std::swap(turned.lines, turned.places);
  copy(r, operand, turned, batch, k, ld, stride);
  Relayout& shape = r.copies.back().shape;
  shape.from_line = 1, shape.from_place = from.ld;
}

/// D in fp32 (or fp64) in the workspace, and home from there with everything that follows a sum.
void send_through_sums(Rewrite& r, const GemmProblem& p, GemmProblem& inner) {
  inner.c_type = p.compute == Compute::f64 ? DType::f64 : DType::f32;
  inner.alpha = Scalar::one, inner.beta = Scalar::zero;
  inner.epilogue = Epilogue::none;
  inner.align_bias = inner.align_c = inner.align_d = 16;
  inner.ldc = inner.ldd = p.m;
  inner.stride_c = inner.stride_d = p.m * p.n;
  r.through_sums = true;
  r.finish = {p.batch, p.n, p.m, 1, p.stride_d, p.ldd, p.stride_c, p.ldc, p.c_type, inner.c_type};
  r.sums_at = r.workspace;
  r.workspace += padded(static_cast<std::size_t>(p.batch * p.m * p.n) * size_of(inner.c_type));
}

std::optional<Rewrite> rewrite(const Problem& problem, bool copy_inputs, bool through_sums) {
  const auto* p = std::get_if<GemmProblem>(&problem);
  if (p == nullptr || size_of(p->a_type) == 1) return std::nullopt;  // those are copied along k
  const bool na = p->op_a == Op::N, nb = p->op_b == Op::N;
  const Spans s = spans(problem);
  const Lines a{na ? p->k : p->m, na ? p->m : p->k, p->lda, p->stride_a, p->a_type, p->align_a, s.a.elements};
  const Lines b{nb ? p->n : p->k, nb ? p->k : p->n, p->ldb, p->stride_b, p->b_type, p->align_b, s.b.elements};
  const bool copy_a = copy_inputs && !a.aligned(p->batch), copy_b = copy_inputs && !b.aligned(p->batch);
  if (copy_inputs && !copy_a && !copy_b) return std::nullopt;
  Rewrite r;
  GemmProblem inner = *p;
  // Where both operands are copied along k, zeros may fill it up to whole vectors: kernels then need no loop for the rest.
  const std::int64_t unit = per_line(p->a_type);
  std::int64_t k = p->k;
  if (p->k % unit != 0 && (copy_a || na) && (copy_b || !nb) && copy_a + copy_b == 2 && !na && nb) k = round_up(p->k, unit);
  if (copy_a) {
    copy(r, Operand::a, a, p->batch, na ? p->m : k, inner.lda, inner.stride_a);
    inner.align_a = 16;
  }
  if (copy_b) {
    copy(r, Operand::b, b, p->batch, nb ? k : p->n, inner.ldb, inner.stride_b);
    inner.align_b = 16;
  }
  inner.k = k;
  if (through_sums) send_through_sums(r, *p, inner);
  r.inner = inner;
  return r;
}

/// Both operands along k, aligned, k a multiple of 16 bytes: what fp8 needs on Hopper, and integers like best.
std::optional<Rewrite> along_k(const Problem& problem, bool sums) {
  const auto* p = std::get_if<GemmProblem>(&problem);
  if (p == nullptr || size_of(p->a_type) != 1 || (sums && p->compute == Compute::i32)) return std::nullopt;
  const bool na = p->op_a == Op::N, nb = p->op_b == Op::N;
  const Spans s = spans(problem);
  const Lines a{na ? p->k : p->m, na ? p->m : p->k, p->lda, p->stride_a, p->a_type, p->align_a, s.a.elements};
  const Lines b{nb ? p->n : p->k, nb ? p->k : p->n, p->ldb, p->stride_b, p->b_type, p->align_b, s.b.elements};
  const std::int64_t k = round_up(p->k, alignment);
  const bool take_a = na || !a.aligned(p->batch) || k != p->k, take_b = !nb || !b.aligned(p->batch) || k != p->k;
  if (!take_a && !take_b && !sums) return std::nullopt;
  Rewrite r;
  GemmProblem inner = *p;
  inner.op_a = Op::T, inner.op_b = Op::N, inner.k = k;
  if (take_a) {
    if (na)
      turn(r, Operand::a, a, p->batch, k, inner.lda, inner.stride_a);
    else
      copy(r, Operand::a, a, p->batch, k, inner.lda, inner.stride_a);
    inner.align_a = 16;
  }
  if (take_b) {
    if (!nb)
      turn(r, Operand::b, b, p->batch, k, inner.ldb, inner.stride_b);
    else
      copy(r, Operand::b, b, p->batch, k, inner.ldb, inner.stride_b);
    inner.align_b = 16;
  }
  if (sums) send_through_sums(r, *p, inner);
  r.inner = inner;
  return r;
}

bool plain_output(const Problem& problem) noexcept {
  const auto* p = std::get_if<GemmProblem>(&problem);
  return p != nullptr && p->epilogue == Epilogue::none;
}

bool aligned_output(const Problem& problem) noexcept {
  const auto* p = std::get_if<GemmProblem>(&problem);
  return p != nullptr && is_aligned(p->align_d, p->c_type, p->n, p->ldd, p->batch, p->stride_d);
}

std::optional<Rewrite> copied(const Problem& problem) { return rewrite(problem, true, false); }

std::optional<Rewrite> copied_through_sums(const Problem& problem) {
  if (plain_output(problem) && aligned_output(problem)) return std::nullopt;
  return rewrite(problem, true, true);
}

std::optional<Rewrite> through_sums(const Problem& problem) {
  if (plain_output(problem) && aligned_output(problem)) return std::nullopt;
  return rewrite(problem, false, true);
}

}  // namespace

std::optional<Rewrite> turned(const Problem& problem) { return along_k(problem, false); }

std::optional<Rewrite> turned_through_sums(const Problem& problem) {
  if (plain_output(problem) && aligned_output(problem)) return std::nullopt;
  return along_k(problem, true);
}

const Kind gemm_kinds[] = {{"copy", copied}, {"copy_sums", copied_through_sums}, {"sums", through_sums}, {"turn", turned},
                           {"turn_sums", turned_through_sums}};
const std::size_t gemm_kind_count = std::size(gemm_kinds);

}  // namespace attune::compose

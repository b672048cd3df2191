#include "core/problem.hpp"

#include "core/problem_fields.hpp"
#include "kernels/common/contraction.hpp"

namespace attune {
namespace {

struct Resolver {
  template <class T>
  void field(const char*, T&, T) const {}
  void dims(const char*, Dims&) const {}
  void list(const char*, std::int64_t*, int, const std::int64_t*) const {}
  void step(const char*, std::int64_t& value, std::int64_t standard) const { value = resolved(value, standard); }
  template <class Fill>
  void strides(const char*, std::int64_t* values, int count, Fill&& fill) const {
    std::int64_t standard[5];
    fill(standard);
    for (int i = 0; i < count; ++i) values[i] = resolved(values[i], standard[i]);
  }
};

std::int64_t span_of(const std::int64_t* size, const std::int64_t* stride, int count) noexcept {
  std::int64_t last = 0;
  for (int i = 0; i < count; ++i) {
    if (size[i] == 0) return 0;
    last += (size[i] - 1) * stride[i];
  }
  return last + 1;
}

std::int64_t volume_of(const Dims& dims) noexcept {
  std::int64_t volume = 1;
  for (int i = 0; i < dims.count; ++i) volume = saturating_mul(volume, dims.size[i]);
  return volume;
}

Spans spans_of(const GemmProblem& p) noexcept {
  const auto matrix = [&](DType type, std::int64_t rows, std::int64_t cols, std::int64_t ld, std::int64_t step) {
    const std::int64_t size[3] = {rows, cols, p.batch}, stride[3] = {1, ld, step};
    return Span{type, span_of(size, stride, 3)};
  };
  Spans s;
  s.a = p.op_a == Op::N ? matrix(p.a_type, p.m, p.k, p.lda, p.stride_a) : matrix(p.a_type, p.k, p.m, p.lda, p.stride_a);
  s.b = p.op_b == Op::N ? matrix(p.b_type, p.k, p.n, p.ldb, p.stride_b) : matrix(p.b_type, p.n, p.k, p.ldb, p.stride_b);
  s.d = matrix(p.c_type, p.m, p.n, p.ldd, p.stride_d);
  s.c = p.beta == Scalar::zero ? Span{p.c_type, 0} : matrix(p.c_type, p.m, p.n, p.ldc, p.stride_c);
  s.bias = {p.c_type, has_bias(p.epilogue) ? p.m : 0};
  return s;
}

Spans spans_of(const ConvProblem& p) noexcept {
  const Dims y = p.y();
  const Span sx{p.x_type, span_of(p.x.size, p.x_stride, p.x.count)};
  const Span sw{p.w_type, span_of(p.w.size, p.w_stride, p.w.count)};
  const Span sy{p.y_type, span_of(y.size, p.y_stride, y.count)};
  Spans s;
  switch (p.direction) {
    case Direction::fwd: s = {sx, sw, {}, sy, {}}; break;
    case Direction::dgrad: s = {sy, sw, {}, sx, {}}; break;
    case Direction::wgrad: s = {sx, sy, {}, sw, {}}; break;
  }
  s.bias = {p.y_type, has_bias(p.epilogue) ? p.w.size[0] : 0};
  s.c = p.beta == Scalar::zero ? Span{s.d.type, 0} : s.d;
  return s;
}

}  // namespace

Problem resolve(const Problem& problem) {
  Problem copy = problem;
  std::visit(
      [](auto& p) {
        visit_fields(p, Resolver());
        if (p.compute == Compute::f32_tf32) p.compute = Compute::f32;
      },
      copy);
  return copy;
}

Constraints applied_to(const Problem& problem, Constraints constraints) noexcept {
  constraints.math = std::visit([&](const auto& p) { return modes_for(p, constraints.math); }, problem);
  return constraints;
}

std::size_t size_of(DType type) noexcept {
  switch (type) {
    case DType::f16:
    case DType::bf16: return 2;
    case DType::f32: return 4;
    case DType::f64: return 8;
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::i8: return 1;
    case DType::i32: return 4;
  }
  return 0;
}

bool empty_output(const Problem& problem) noexcept {
  return std::visit([](const auto& p) {
    const auto v = view(p);
    return v.rows() == 0 || v.cols() == 0 || v.batches() == 0;
  }, problem);
}

bool scales_only(const Problem& problem) noexcept {
  return std::visit([](const auto& p) { return p.alpha == Scalar::zero || view(p).terms() == 0; }, problem);
}

double flops(const Problem& problem) noexcept {
  return std::visit([](const auto& p) {
    const auto v = view(p);
    double terms = static_cast<double>(v.terms()) * static_cast<double>(v.rows()) * static_cast<double>(v.cols());
    if constexpr (std::is_same_v<std::decay_t<decltype(p)>, ConvProblem>)  // counted forward: a strided dgrad skips terms
      terms = static_cast<double>(v.n) * v.k * v.c * v.volume(v.filter) * v.volume(v.out);
    return 2 * terms * static_cast<double>(v.batches());
  }, problem);
}

double least_bytes(const Problem& problem) noexcept {
  if (const auto* g = std::get_if<GemmProblem>(&problem)) {
    const auto times = [&](std::int64_t step) { return step == 0 ? 1.0 : static_cast<double>(g->batch); };
    const double m = static_cast<double>(g->m), n = static_cast<double>(g->n), k = static_cast<double>(g->k);
    const double out = m * n * static_cast<double>(size_of(g->c_type));
    return m * k * times(g->stride_a) * static_cast<double>(size_of(g->a_type)) +
           k * n * times(g->stride_b) * static_cast<double>(size_of(g->b_type)) + out * times(g->stride_d) +
           (g->beta == Scalar::zero ? 0 : out * times(g->stride_c));
  }
  const auto& c = std::get<ConvProblem>(problem);
  const double x = static_cast<double>(volume_of(c.x)) * static_cast<double>(size_of(c.x_type));
  const double w = static_cast<double>(volume_of(c.w)) * static_cast<double>(size_of(c.w_type));
  const double y = static_cast<double>(volume_of(c.y())) * static_cast<double>(size_of(c.y_type));
  const double out = c.direction == Direction::fwd ? y : c.direction == Direction::dgrad ? x : w;
  return x + w + y + (c.beta == Scalar::zero ? 0 : out);
}

bool spans_fit(const Problem& problem, std::int64_t bytes) noexcept {
  const Spans s = spans(problem);
  for (const Span& span : {s.a, s.b, s.c, s.d, s.bias})
    if (span.elements > bytes / static_cast<std::int64_t>(size_of(span.type))) return false;
  return true;
}

Spans spans(const Problem& problem) noexcept {
  return std::visit([](const auto& p) { return spans_of(p); }, problem);
}

}  // namespace attune

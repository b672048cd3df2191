#include "core/operands.hpp"

#include "core/problem.hpp"

namespace attune {
namespace {

std::int64_t span_of(const std::int64_t* size, const std::int64_t* stride, int count) noexcept {
  std::int64_t last = 0;
  for (int i = 0; i < count; ++i) {
    if (size[i] == 0) return 0;
    last += (size[i] - 1) * stride[i];
  }
  return last + 1;
}

Span span_of(const Dims& dims, const std::int64_t* stride, DType type) noexcept {
  return {type, span_of(dims.size, stride, dims.count)};
}

Operand output(const char* name, const Span& span, int align) noexcept { return {name, span, align, true, false}; }

Operands operands_of(const GemmProblem& p) noexcept {
  const auto matrix = [&](DType type, std::int64_t rows, std::int64_t cols, std::int64_t ld, std::int64_t step) {
    const std::int64_t size[3] = {rows, cols, p.batch}, stride[3] = {1, ld, step};
    return Span{type, span_of(size, stride, 3)};
  };
  const bool na = p.op_a == Op::N, nb = p.op_b == Op::N;
  Operands o;
  o.a = {"A", matrix(p.a_type, na ? p.m : p.k, na ? p.k : p.m, p.lda, p.stride_a), p.align_a};
  o.b = {"B", matrix(p.b_type, nb ? p.k : p.n, nb ? p.n : p.k, p.ldb, p.stride_b), p.align_b};
  o.c = {"C", p.beta == Scalar::zero ? Span{p.c_type, 0} : matrix(p.c_type, p.m, p.n, p.ldc, p.stride_c), p.align_c};
  o.d = output("D", matrix(p.c_type, p.m, p.n, p.ldd, p.stride_d), p.align_d);
  o.bias = {"bias", {p.c_type, has_bias(p.epilogue) ? p.m : 0}, p.align_bias};
  return o;
}

Operands operands_of(const ConvProblem& p) noexcept {
  const Operand x{"", span_of(p.x, p.x_stride, p.x_type), p.align_x}, w{"", span_of(p.w, p.w_stride, p.w_type), p.align_w},
      y{"", span_of(p.y(), p.y_stride, p.y_type), p.align_y};
  Operands o;
  switch (p.direction) {
    case Direction::fwd: o.a = x, o.b = w, o.d = y; break;
    case Direction::dgrad: o.a = y, o.b = w, o.d = x; break;
    case Direction::wgrad: o.a = x, o.b = y, o.d = w; break;
  }
  o.c = o.d;
  if (p.beta == Scalar::zero) o.c.span.elements = 0;
  o.a.name = "in0", o.b.name = "in1", o.c.name = "C";
  o.d = output("out", o.d.span, o.d.align);
  o.bias = {"bias", {p.y_type, has_bias(p.epilogue) ? p.w.size[0] : 0}, p.align_bias};
  return o;
}

Operands operands_of(const PoolProblem& p) noexcept {
  const Span x = span_of(p.x, p.x_stride, p.type), y = span_of(p.y(), p.y_stride, p.type);
  Operands o;
  if (p.direction == PoolDirection::fwd) {
    o.a = {"x", x, p.align_x};
    o.d = output("out", y, p.align_y);
    return o;
  }
  o.a = {"dy", y, p.align_y};
  o.d = output("out", x, p.align_x);
  if (p.mode != PoolMode::max) return o;
  o.b = {"x", x, p.align_x};
  o.add({"y", y, p.align_y});
  return o;
}

}  // namespace

Operands operands(const Problem& problem) noexcept {
  return std::visit([](const auto& p) { return operands_of(p); }, problem);
}

Spans spans(const Problem& problem) noexcept {
  const Operands o = operands(problem);
  return {o.a.span, o.b.span, o.c.span, o.d.span, o.bias.span};
}

}  // namespace attune

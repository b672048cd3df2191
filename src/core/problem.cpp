#include "core/problem.hpp"

#include "core/problem_fields.hpp"
#include "kernels/common/pooling.hpp"

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

std::int64_t volume_of(const Dims& dims) noexcept {
  std::int64_t volume = 1;
  for (int i = 0; i < dims.count; ++i) volume = saturating_mul(volume, dims.size[i]);
  return volume;
}

double bytes_of(const Dims& dims, DType type) noexcept {
  return static_cast<double>(volume_of(dims)) * static_cast<double>(size_of(type));
}

double least_bytes_of(const GemmProblem& g) noexcept {
  const auto times = [&](std::int64_t step) { return step == 0 ? 1.0 : static_cast<double>(g.batch); };
  const double m = static_cast<double>(g.m), n = static_cast<double>(g.n), k = static_cast<double>(g.k);
  const double out = m * n * static_cast<double>(size_of(g.c_type));
  return m * k * times(g.stride_a) * static_cast<double>(size_of(g.a_type)) +
         k * n * times(g.stride_b) * static_cast<double>(size_of(g.b_type)) + out * times(g.stride_d) +
         (g.beta == Scalar::zero ? 0 : out * times(g.stride_c));
}

double least_bytes_of(const ConvProblem& c) noexcept {
  const double x = bytes_of(c.x, c.x_type), w = bytes_of(c.w, c.w_type), y = bytes_of(c.y(), c.y_type);
  const double out = c.direction == Direction::fwd ? y : c.direction == Direction::dgrad ? x : w;
  return x + w + y + (c.beta == Scalar::zero ? 0 : out);
}

double least_bytes_of(const PoolProblem& p) noexcept {
  const double x = bytes_of(p.x, p.type), y = bytes_of(p.y(), p.type);
  // The gradient of a maximum needs x once more; y follows from it.
  return x + y + (p.direction == PoolDirection::bwd && p.mode == PoolMode::max ? x : 0);
}

double flops_of(const GemmProblem& p) noexcept {
  return 2 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) * static_cast<double>(p.batch);
}

/// Counted forward: a strided dgrad skips terms.
double flops_of(const ConvProblem& p) noexcept {
  const ConvView v = view(p);
  return 2 * static_cast<double>(v.n) * static_cast<double>(v.k) * static_cast<double>(v.c) *
         static_cast<double>(v.volume(v.filter)) * static_cast<double>(v.volume(v.out)) * static_cast<double>(v.groups);
}

double flops_of(const PoolProblem& p) noexcept {
  return static_cast<double>(volume_of(p.y())) * static_cast<double>(view(p).terms());
}

}  // namespace

Problem resolve(const Problem& problem) {
  Problem copy = problem;
  std::visit(
      []<class P>(P& p) {
        visit_fields(p, Resolver());
        if constexpr (is_contraction<P>)
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
  bool scales = false;
  visit_contraction(problem, [&](const auto& p) { scales = p.alpha == Scalar::zero || view(p).terms() == 0; });
  return scales;
}

double flops(const Problem& problem) noexcept {
  return std::visit([](const auto& p) { return flops_of(p); }, problem);
}

double least_bytes(const Problem& problem) noexcept {
  return std::visit([](const auto& p) { return least_bytes_of(p); }, problem);
}

bool spans_fit(const Problem& problem, std::int64_t bytes) noexcept {
  const Operands o = operands(problem);
  const auto fits = [&](const Operand& operand) {
    return operand.span.elements <= bytes / static_cast<std::int64_t>(size_of(operand.span.type));
  };
  for (int i = 0; i < o.more_count; ++i)
    if (!fits(o.more[i])) return false;
  return fits(o.a) && fits(o.b) && fits(o.c) && fits(o.d) && fits(o.bias);
}

}  // namespace attune

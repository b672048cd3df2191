#include "support/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "core/problem.hpp"
#include "core/tolerance.hpp"
#include "kernels/common/number.hpp"
#include "kernels/common/pooling.hpp"

namespace attune::test {
namespace {

constexpr int untouched = 0xff;

template <class View>
Reference compute(const View& v, const Spans& spans, const void* a, const void* b, const void* c, double alpha, double beta,
                  const void* bias, Activation activation) {
  Reference r;
  r.terms = v.terms();
  for (std::int64_t z = 0; z < v.batches(); ++z)
    for (std::int64_t j = 0; j < v.cols(); ++j)
      for (std::int64_t i = 0; i < v.rows(); ++i) {
        double sum = 0, squares = 0;
        for (std::int64_t l = 0; l < r.terms; ++l) {
          std::int64_t at_a = 0, at_b = 0;
          if (!v.product(i, j, z, l, at_a, at_b)) continue;
          const double product = alpha * load_number(a, spans.a.type, at_a) * load_number(b, spans.b.type, at_b);
          sum += product;
          squares += product * product;
        }
        if (c != nullptr) {
          const double added = beta * load_number(c, spans.d.type, v.c_offset(i, j, z));
          sum += added;
          squares += added * added;
        }
        if (bias != nullptr) {
          const double added = load_number(bias, spans.d.type, std::is_same_v<View, ConvView> ? z * v.rows() + i : i);
          sum += added;
          squares += added * added;
        }
        if (spans.d.type == DType::i32) {  // in whole numbers, which wrap around
          std::uint64_t whole = 0;
          for (std::int64_t l = 0; l < r.terms; ++l) {
            std::int64_t at_a = 0, at_b = 0;
            if (v.product(i, j, z, l, at_a, at_b))
              whole += static_cast<std::uint64_t>(static_cast<std::int64_t>(load_number(a, spans.a.type, at_a) * load_number(b, spans.b.type, at_b)));
          }
          whole *= static_cast<std::uint64_t>(static_cast<std::int64_t>(alpha));
          if (c != nullptr)
            whole += static_cast<std::uint64_t>(static_cast<std::int64_t>(beta)) *
                     static_cast<std::uint64_t>(static_cast<std::int64_t>(load_number(c, spans.d.type, v.c_offset(i, j, z))));
          sum = static_cast<std::int32_t>(static_cast<std::uint32_t>(whole));
        }
        r.value.push_back(activated(activation, sum));
        r.squares.push_back(squares);
        r.at.push_back(v.d_offset(i, j, z));
      }
  return r;
}

}  // namespace

Reference reference(const Problem& problem, const void* a, const void* b, const void* c, double alpha, double beta,
                    const void* bias) {
  Reference result;
  visit_contraction(problem, [&](const auto& p) {
    result = compute(view(p), spans(problem), a, b, p.beta == Scalar::zero ? nullptr : c, alpha, beta,
                     has_bias(p.epilogue) ? bias : nullptr, activation(p.epilogue));
  });
  return result;
}

Comparison compare(const Problem& problem, const Constraints& constraints, Accumulation accumulation, const Reference& r,
                   const void* d) {
  const Tolerance allowed = tolerance(problem, constraints, accumulation);
  const DType type = spans(problem).d.type;
  const auto [rows, cols] = std::visit([](const auto& p) { return std::pair(view(p).rows(), view(p).cols()); }, problem);
  Comparison result;
  for (std::size_t i = 0; i < r.value.size(); ++i) {
    const double value = load_number(d, type, r.at[i]);
    const double error = std::abs(value - r.value[i]), bound = allowed.bound(r.value[i], r.squares[i], r.terms);
    result.max_error = std::max(result.max_error, error == 0 ? 0 : error / bound);
    if (error <= bound) continue;
    const auto flat = static_cast<std::int64_t>(i);
    result.ok = false;
    result.message = fmt::format("element ({}, {}, {}) is {}, not {} +- {}", flat % rows, flat / rows % cols,
                                 flat / rows / cols, value, r.value[i], bound);
    break;
  }
  return result;
}

void fill(void* memory, DType type, std::int64_t elements, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const double scale = type == DType::i8 || type == DType::i32 ? 127 * 0x1p-63 : 0x1p-63;
  for (std::int64_t i = 0; i < elements; ++i)
    store_number(memory, type, i, static_cast<double>(static_cast<std::int64_t>(random())) * scale);
}

HostCase::HostCase(const Problem& problem, double alpha, double beta, std::uint64_t seed)
    : problem_(resolve(problem)) {
  const Spans s = spans(problem_);
  in_place_ = std::holds_alternative<ConvProblem>(problem_);
  visit_contraction(problem_, [&](const auto& p) {
    alpha_.set(p.compute, alpha), beta_.set(p.compute, beta), adds_ = p.beta != Scalar::zero;
  });
  const auto make = [&](std::vector<std::byte>& memory, const Span& span, std::uint64_t salt) {
    memory.resize(span.bytes());
    fill(memory.data(), span.type, span.elements, seed * 4 + salt);
  };
  make(a_, s.a, 0);
  make(b_, s.b, 1);
  make(bias_, s.bias, 3);
  if (adds_)
    make(c_, s.c, 2);
  else
    c_.assign(s.d.bytes() * 4 + 4096, std::byte{untouched});
  d_.resize(2 * zone + s.d.bytes() + 64);
  shift_ = 64 - reinterpret_cast<std::uintptr_t>(d_.data()) % 64;
  reference_ = reference(problem_, a_.data(), b_.data(), adds_ ? c_.data() : nullptr, alpha_.value, beta_.value,
                         bias_.data());
}

std::size_t HostCase::output_bytes() const noexcept { return spans(problem_).d.bytes(); }

Launch HostCase::launch(std::size_t workspace) {
  std::fill(d_.begin(), d_.end(), std::byte{untouched});
  workspace_.assign(workspace + 256, std::byte{untouched});
  std::byte* d = d_.data() + zone + shift_;
  const std::size_t element = size_of(spans(problem_).d.type);
  if (in_place_ && adds_)
    for (std::int64_t at : reference_.at)
      std::memcpy(d + static_cast<std::size_t>(at) * element, c_.data() + static_cast<std::size_t>(at) * element, element);
  Launch launch;
  launch.a = a_.data(), launch.b = b_.data(), launch.d = d;
  launch.c = in_place_ ? d : c_.data();
  launch.alpha = alpha_.as_given(), launch.beta = beta_.as_given();
  launch.bias = bias_.empty() ? nullptr : bias_.data();
  launch.workspace = workspace_.data() + (256 - reinterpret_cast<std::uintptr_t>(workspace_.data()) % 256);
  return launch;
}

Comparison HostCase::verify(const Constraints& constraints, Accumulation accumulation) const {
  Comparison result = compare(problem_, constraints, accumulation, reference_, output());
  if (!result.ok) return result;
  const std::size_t element = size_of(spans(problem_).d.type), begin = zone + shift_;
  std::vector<bool> written(d_.size());
  for (std::int64_t at : reference_.at)
    std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(begin + static_cast<std::size_t>(at) * element), element, true);
  for (std::size_t i = 0; i < d_.size(); ++i)
    if (!written[i] && d_[i] != std::byte{untouched}) {
      result.ok = false;
      result.message = fmt::format("byte {} from the output's address was written",
                                   static_cast<std::int64_t>(i) - static_cast<std::int64_t>(begin));
      break;
    }
  return result;
}

}  // namespace attune::test

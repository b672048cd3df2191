#include "support/pool_case.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "core/problem.hpp"
#include "kernels/common/number.hpp"

namespace attune::test {
namespace {

using Index = std::array<std::int64_t, 5>;

void for_each_index(const Dims& dims, const std::function<void(const Index&)>& f) {
  Index i{};
  for (int d = 0; d < dims.count; ++d)
    if (dims.size[d] == 0) return;
  for (;;) {
    f(i);
    int d = dims.count - 1;
    while (d >= 0 && ++i[static_cast<std::size_t>(d)] == dims.size[d]) i[static_cast<std::size_t>(d--)] = 0;
    if (d < 0) return;
  }
}

std::int64_t offset(const Index& i, const std::int64_t* stride, int count) {
  std::int64_t at = 0;
  for (int d = 0; d < count; ++d) at += i[static_cast<std::size_t>(d)] * stride[d];
  return at;
}

/// f(index in x) for each element of the window at `y`, those in the padding left out; returns how many there are.
std::int64_t for_each_in_window(const PoolProblem& p, const Index& y, const std::function<void(const Index&)>& f) {
  Dims window;
  window.count = p.spatial();
  for (int d = 0; d < window.count; ++d) window.size[d] = p.window[d];
  std::int64_t count = 0;
  for_each_index(window, [&](const Index& w) {
    Index x = y;
    for (int d = 0; d < p.spatial(); ++d) {
      const auto at = static_cast<std::size_t>(d);
      x[at + 2] = y[at + 2] * p.stride[d] - p.pad.before[d] + w[at];
      if (x[at + 2] < 0 || x[at + 2] >= p.x.size[d + 2]) return;
    }
    ++count;
    f(x);
  });
  return count;
}

double divisor(const PoolProblem& p, std::int64_t inside) {
  if (p.mode == PoolMode::average) return static_cast<double>(inside);
  double whole = 1;
  for (int d = 0; d < p.spatial(); ++d) whole *= static_cast<double>(p.window[d]);
  return whole;
}

}  // namespace

PoolCase::PoolCase(const PoolProblem& problem, std::uint64_t seed, bool ties, int shift) {
  const int align = shift == 0 ? 16 : alignment_of(reinterpret_cast<const void*>(static_cast<std::uintptr_t>(shift)));
  PoolProblem aligned = problem;
  aligned.align_x = aligned.align_y = align;
  problem_ = std::get<PoolProblem>(resolve(aligned));
  const Operands o = operands(problem_);
  const bool fwd = problem_.direction == PoolDirection::fwd;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> any(-1, 1);
  PoolProblem backward = problem_;
  backward.direction = PoolDirection::bwd, backward.mode = PoolMode::max;
  const Operands all = operands(backward);
  const auto make = [&](std::vector<std::byte>& memory, const Span& span, bool few) {
    memory.resize(span.bytes());
    for (std::int64_t i = 0; i < span.elements; ++i)
      store_number(memory.data(), span.type, i, few ? std::round(any(random) * 2) : any(random));
  };
  make(x_, all.b.span, ties);
  make(dy_, all.a.span, false);
  output_bytes_ = o.d.span.bytes();
  form_y();
  if (!fwd) form_dx();
}

void PoolCase::form_y() {
  const PoolProblem& p = problem_;
  const Dims y = p.y();
  PoolProblem forward = p;
  forward.direction = PoolDirection::fwd;
  y_.assign(spans(forward).d.bytes(), untouched);
  for_each_index(y, [&](const Index& i) {
    double most = 0, sum = 0, magnitude = 0;
    bool first = true;
    const std::int64_t inside = for_each_in_window(p, i, [&](const Index& x) {
      const double v = load_number(x_.data(), p.type, offset(x, p.x_stride, p.x.count));
      if (first || v > most || (std::isnan(v) && !std::isnan(most))) most = v;
      first = false;
      sum += v, magnitude += std::abs(v);
    });
    const double by = divisor(p, inside), value = p.mode == PoolMode::max ? most : sum / by;
    const std::int64_t at = offset(i, p.y_stride, y.count);
    store_number(y_.data(), p.type, at, value);
    if (p.direction == PoolDirection::bwd) return;
    at_.push_back(at);
    value_.push_back(value);
    magnitude_.push_back(p.mode == PoolMode::max ? 0 : magnitude / by);
  });
}

void PoolCase::form_dx() {
  const PoolProblem& p = problem_;
  std::vector<double> sum(x_.size() / size_of(p.type)), magnitude(sum.size());
  for_each_index(p.y(), [&](const Index& i) {
    const std::int64_t from = offset(i, p.y_stride, p.x.count);
    const double gradient = load_number(dy_.data(), p.type, from), most = load_number(y_.data(), p.type, from);
    std::vector<std::int64_t> targets;
    for_each_in_window(p, i, [&](const Index& x) {
      const std::int64_t at = offset(x, p.x_stride, p.x.count);
      const double v = load_number(x_.data(), p.type, at);
      const bool is_most = v == most || (std::isnan(v) && std::isnan(most));
      if (p.mode != PoolMode::max || (is_most && targets.empty())) targets.push_back(at);
    });
    const double by = p.mode == PoolMode::max ? 1 : divisor(p, static_cast<std::int64_t>(targets.size()));
    for (std::int64_t at : targets) {
      sum[static_cast<std::size_t>(at)] += gradient / by;
      magnitude[static_cast<std::size_t>(at)] += std::abs(gradient / by);
    }
  });
  for_each_index(p.x, [&](const Index& i) {
    const std::int64_t at = offset(i, p.x_stride, p.x.count);
    at_.push_back(at);
    value_.push_back(sum[static_cast<std::size_t>(at)]);
    magnitude_.push_back(magnitude[static_cast<std::size_t>(at)]);
  });
}

std::string PoolCase::complaint(const std::byte* with_zones) const {
  const DType type = problem_.type;
  const double rounding = type == DType::f16 ? 0x1p-11 : type == DType::bf16 ? 0x1p-8 : type == DType::f32 ? 0x1p-24 : 0x1p-53;
  const double sums = type == DType::f64 ? 0x1p-48 : 0x1p-19;  // of the values added up, each once rounded and added
  const double least = type == DType::f16 ? 0x1p-25 : 0;
  const std::byte* d = with_zones + zone;
  std::vector<bool> is_element(output_bytes_ / size_of(type));
  for (std::size_t i = 0; i < at_.size(); ++i) {
    is_element[static_cast<std::size_t>(at_[i])] = true;
    const double value = load_number(d, type, at_[i]);
    if (std::isnan(value) && std::isnan(value_[i])) continue;
    const double bound = magnitude_[i] == 0 ? 0 : least + rounding * std::abs(value_[i]) + sums * magnitude_[i];
    if (!(std::abs(value - value_[i]) <= bound))
      return fmt::format("element {} at {} is {}, not {} +- {}", i, at_[i], value, value_[i], bound);
  }
  for (std::size_t i = 0; i < 2 * zone + output_bytes_; ++i) {
    const bool inside = i >= zone && i < zone + output_bytes_ && is_element[(i - zone) / size_of(type)];
    if (!inside && with_zones[i] != untouched) return fmt::format("byte {} beside the elements was written", i);
  }
  return {};
}

}  // namespace attune::test

#include "runtime/host_audit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "core/tolerance.hpp"
#include "kernels/common/number.hpp"
#include "kernels/common/pooling.hpp"

namespace attune {
namespace {

constexpr std::int64_t block = 16;
constexpr int poison_byte = 0xff;

std::int64_t blocks_of(std::int64_t size) { return (size + block - 1) / block; }

/// f(i) for i in [0, count), on as many threads as pay.
template <class F>
void spread(std::int64_t count, double work_each, int threads, F&& f) {
  constexpr double worth_a_thread = 2e5;
  const int workers = static_cast<int>(std::clamp(static_cast<double>(count) * work_each / worth_a_thread, 1.0, 1.0 * threads));
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    constexpr std::int64_t chunk = 16;
    for (std::int64_t from; (from = next.fetch_add(chunk)) < count;)
      for (std::int64_t i = from; i < std::min(count, from + chunk); ++i) f(i);
  };
  std::vector<std::jthread> others;
  others.reserve(static_cast<std::size_t>(workers));
  for (int i = 1; i < workers; ++i) others.emplace_back(work);
  work();
}

bool untouched(const std::byte* from, std::size_t bytes) {
  return std::all_of(from, from + bytes, [](std::byte b) { return b == std::byte{poison_byte}; });
}

}  // namespace

HostAudit::HostAudit(const Problem& problem, const Constraints& constraints, const HostOperands& operands, int threads,
                     std::uint64_t seed)
    : problem_(problem), constraints_(constraints) {
  const Span d = spans(problem).d;
  type_ = d.type;
  element_ = size_of(d.type);
  span_ = d.bytes();
  std::visit([&](const auto& p) { prepare(p, operands, threads, seed); }, problem);
}

namespace {

/// Element (i, j, z) of a contraction's output.
template <class P>
auto evaluation(const P& p, const HostOperands& o) {
  return [v = view(p), all = spans(p), act = activation(p.epilogue), o](std::int64_t i, std::int64_t j, std::int64_t z) {
    constexpr bool stacked = std::is_same_v<P, ConvProblem>;  // the matrices of a convolution are its groups
    double sum = 0, squares = 0;
    with_type(all.a.type, [&](auto a_tag) {
      with_type(all.b.type, [&](auto b_tag) {
        const auto* a = static_cast<const decltype(a_tag)*>(o.a);
        const auto* b = static_cast<const decltype(b_tag)*>(o.b);
        for (std::int64_t l = 0; l < v.terms(); ++l) {
          std::int64_t a_at = 0, b_at = 0;
          if (!v.product(i, j, z, l, a_at, b_at)) continue;
          const double product = static_cast<double>(widen(a[a_at])) * static_cast<double>(widen(b[b_at]));
          sum += product;
          squares += product * product;
        }
      });
    });
    sum *= o.alpha, squares *= o.alpha * o.alpha;
    const auto add = [&](double added) { sum += added, squares += added * added; };
    if (o.c != nullptr) add(o.beta * load_number(o.c, all.d.type, v.c_offset(i, j, z)));
    if (o.bias != nullptr) add(load_number(o.bias, all.d.type, (stacked ? z * v.rows() : 0) + i));
    return Reference{activated(act, sum), squares};
  };
}

auto evaluation(const PoolProblem& p, const HostOperands& o) {
  return [v = view(p), type = p.type, o](std::int64_t i, std::int64_t j, std::int64_t) {
    const auto a = [&](std::int64_t at) { return load_number(o.a, type, at); };
    const auto b = [&](std::int64_t at) { return load_number(o.b, type, at); };
    return v.forward() ? v.pooled(a, i, j) : v.spread(b, a, i, j);
  };
}

}  // namespace

template <class P>
void HostAudit::prepare(const P& problem, const HostOperands& operands, int threads, std::uint64_t seed) {
  const auto v = view(problem);
  const std::int64_t rows = v.rows(), cols = v.cols(), places = static_cast<std::int64_t>(span_ / element_);
  terms_ = v.terms();
  if (rows * cols * v.batches() != places) {
    is_element_.assign(static_cast<std::size_t>(places), 0);
    for (std::int64_t z = 0; z < v.batches(); ++z)
      for (std::int64_t j = 0; j < cols; ++j)
        for (std::int64_t i = 0; i < rows; ++i) is_element_[static_cast<std::size_t>(v.d_offset(i, j, z))] = 1;
  }
  const std::int64_t down = blocks_of(rows), across = blocks_of(cols);
  samples_.resize(static_cast<std::size_t>(down * across * v.batches()));
  const auto element = evaluation(problem, operands);
  spread(static_cast<std::int64_t>(samples_.size()), static_cast<double>(terms_), threads, [&](std::int64_t index) {
    std::minstd_rand random(static_cast<std::uint32_t>(seed + static_cast<std::uint64_t>(index) * 2654435761u) % 2147483646u +
                            1);
    random.discard(3);
    const auto pick = [&](std::int64_t first, std::int64_t size) {
      return first + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(std::min(block, size - first)));
    };
    const std::int64_t i = pick(index % down * block, rows), j = pick(index / down % across * block, cols);
    const std::int64_t z = index / (down * across);
    const Reference r = element(i, j, z);
    samples_[static_cast<std::size_t>(index)] = {v.d_offset(i, j, z), r.value, r.squares};
  });
}

void HostAudit::poison(std::byte* buffer, const void* initial) const noexcept {
  std::memset(buffer, poison_byte, bytes());
  if (initial == nullptr) return;
  const auto* from = static_cast<const std::byte*>(initial);
  std::byte* to = buffer + red_zone;
  if (is_element_.empty()) {
    std::memcpy(to, from, span_);
    return;
  }
  for (std::size_t i = 0; i < is_element_.size(); ++i)
    if (is_element_[i]) std::memcpy(to + i * element_, from + i * element_, element_);
}

void HostAudit::inspect(const std::byte* buffer, Accumulation accumulation, Check& check) const {
  const std::byte* d = buffer + red_zone;
  const auto found = [&](Outcome outcome, std::string why) { check.outcome = outcome, check.why = std::move(why); };
  if (!untouched(buffer, red_zone)) return found(Outcome::red_zone, "wrote before the output");
  if (!untouched(d + span_, red_zone)) return found(Outcome::red_zone, "wrote behind the output");
  for (std::size_t i = 0; i < is_element_.size(); ++i)
    if (!is_element_[i] && !untouched(d + i * element_, element_))
      return found(Outcome::red_zone, fmt::format("wrote between the output's elements, at {}", i));

  const std::size_t places = span_ / element_;
  const std::size_t bad = with_type(type_, [&](auto tag) {
    const auto* values = reinterpret_cast<const decltype(tag)*>(d);
    std::size_t i = 0;
    while (i < places && (std::isfinite(widen(values[i])) || (!is_element_.empty() && !is_element_[i]))) ++i;
    return i;
  });
  if (bad < places) return found(Outcome::wrong, fmt::format("element {} is not finite", bad));

  const Tolerance allowed = tolerance(problem_, constraints_, accumulation);
  for (const Sample& sample : samples_) {
    const double value = load_number(d, type_, sample.at);
    const double error = std::abs(value - sample.value), bound = allowed.bound(sample.value, sample.squares, terms_);
    check.error = std::max(check.error, error == 0 ? 0 : error / bound);
    if (!(error <= bound))
      return found(Outcome::wrong, fmt::format("element {} is {}, not {} +- {}", sample.at, value, sample.value, bound));
  }
  found(Outcome::ok, {});
}

}  // namespace attune

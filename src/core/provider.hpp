// A source of candidates.
#pragma once

#include <attune/problem.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/constraints.hpp"
#include "core/outcome.hpp"
#include "core/plan.hpp"

namespace attune {

/// A plan, or why there is none.
struct Prepared {
  std::unique_ptr<Plan> plan;
  Outcome outcome = Outcome::declined;  ///< ok exactly when there is a plan
  std::string why;
};

inline Prepared declined(std::string why) { return {nullptr, Outcome::declined, std::move(why)}; }

/// Problems handed to a provider are valid, not empty, resolved (no `packed` left) and have alpha other than zero. Every function
/// may be called from any thread; failure is a value, nothing throws but std::bad_alloc.
class Provider {
 public:
  virtual ~Provider() = default;

  virtual std::string_view name() const noexcept = 0;
  /// Of what the variant's speed and result depend on: the library's version, or the row's revision. Recorded with a plan.
  virtual std::string version(std::string_view variant) const = 0;
  /// The variants worth trying within the constraints, the most promising first, each once. A variant is the text behind
  /// "name:" in a plan id; some may still be declined by prepare.
  virtual std::vector<std::string> variants(const Problem& problem, const Constraints& constraints, Effort effort) const = 0;
  /// Variants that differ little from `best`, this provider's fastest so far, the fastest first: an exhaustive search goes on
  /// from them. Some may have been listed before, some may be declined by prepare; none where there is nothing to vary.
  virtual std::vector<std::string> refine(const Problem&, const Constraints&, std::span<const std::string> /*best*/) const {
    return {};
  }
  /// Makes the plan that the text names. Declines what the text, the problem or the constraints forbid.
  virtual Prepared prepare(std::string_view variant, const Problem& problem, const Constraints& constraints) const = 0;
  /// What the library would run by itself, within the constraints. Declined where this provider is nobody's default.
  virtual Prepared prepare_default(const Problem& problem, const Constraints& constraints) const = 0;
};

}  // namespace attune

#include "providers/compose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/problem.hpp"
#include "providers/compose_rewrite.hpp"
#include "runtime/cuda_support.hpp"

namespace attune {
namespace compose {
namespace {

std::vector<Kind> all_kinds() {
  std::vector<Kind> all(gemm_kinds, gemm_kinds + gemm_kind_count);
  all.insert(all.end(), conv_kinds, conv_kinds + conv_kind_count);
  return all;
}

}  // namespace

const std::vector<Kind>& kinds() {
  static const std::vector<Kind>* const all = new std::vector<Kind>(all_kinds());
  return *all;
}

}  // namespace compose

namespace {

constexpr int revision = 1;

class ComposedPlan final : public Plan {
 public:
  ComposedPlan(std::string id, PlanTraits traits, int device, const Problem& problem, compose::Rewrite rewrite,
               std::unique_ptr<Plan> inner)
      : Plan(std::move(id), traits), device_(device), rewrite_(std::move(rewrite)), inner_(std::move(inner)) {
    visit_contraction(problem,
                      [&](const auto& p) { compute_ = p.compute, epilogue_ = p.epilogue, reads_c_ = p.beta != Scalar::zero; });
    one_.set(compute_, 1), zero_.set(compute_, 0);
  }

  Status run(const Launch& launch) const noexcept override {
    const DeviceScope scope(device_);
    const auto stream = static_cast<cudaStream_t>(launch.stream);
    char* const workspace = static_cast<char*>(launch.workspace);
    Launch middle = launch;
    Relayout shapes[2];
    RelayoutCall calls[2];
    int count = 0;
    for (const compose::Copy& copy : rewrite_.copies) {
      const void*& operand = copy.operand == compose::Operand::a ? middle.a : middle.b;
      shapes[count] = copy.shape;
      calls[count++] = {operand, workspace + copy.at};
      operand = workspace + copy.at;
    }
    if (count > 0)
      if (const Status status = cuda_status(launch_relayout(shapes, calls, count, stream), "copying operands"); status != Status::ok)
        return status;
    if (rewrite_.exchanged) {
      std::swap(middle.a, middle.b);
      std::swap(middle.scale_a, middle.scale_b);
    }
    middle.workspace = workspace + rewrite_.workspace;
    if (!rewrite_.through_sums) return inner_->run(middle);

    middle.d = workspace + rewrite_.sums_at, middle.c = nullptr, middle.bias = nullptr;
    middle.alpha = one_.as_given(), middle.beta = zero_.as_given();
    if (const Status status = inner_->run(middle); status != Status::ok) return status;
    FinishCall call;
    call.sums = middle.d, call.d = launch.d;
    call.c = reads_c_ ? launch.c : nullptr;
    call.bias = has_bias(epilogue_) ? launch.bias : nullptr;
    call.alpha = scalar_value(launch.alpha, compute_);
    call.beta = reads_c_ ? scalar_value(launch.beta, compute_) : 0;
    call.activation = activation(epilogue_);
    return cuda_status(launch_finish(rewrite_.finish, call, stream), "finishing the output");
  }

 private:
  int device_;
  compose::Rewrite rewrite_;
  std::unique_ptr<Plan> inner_;
  Compute compute_ = Compute::f32;
  Epilogue epilogue_ = Epilogue::none;
  bool reads_c_ = false;
  GivenScalar one_, zero_;
};

class ComposeProvider final : public Provider {
 public:
  ComposeProvider(int ordinal, std::vector<const Provider*> inner) : ordinal_(ordinal), inner_(std::move(inner)) {}

  std::string_view name() const noexcept override { return "compose"; }

  std::string version(std::string_view variant) const override {
    const auto [kind, provider, rest] = split(variant);
    if (kind == nullptr || provider == nullptr) return {};
    const std::string version = provider->version(rest);
    return version.empty() ? version : fmt::format("r{}+{}", revision, version);
  }

  std::vector<std::string> variants(const Problem& problem, const Constraints& constraints, Effort effort) const override {
    std::vector<std::string> names;
    if (constraints.sm_count != 0) return names;
    const std::size_t most = effort == Effort::quick ? 2 : effort == Effort::standard ? 6 : 64;
    for (const compose::Kind& kind : compose::kinds()) {
      const std::optional<compose::Rewrite> rewrite = kind.apply(problem);
      if (!rewrite || rewrite->workspace > constraints.workspace_limit) continue;
      const Constraints within = inside(constraints, *rewrite);
      for (const Provider* provider : inner_) {
        std::vector<std::string> inner = provider->variants(rewrite->inner, within, effort);
        if (inner.size() > most) inner.resize(most);
        for (const std::string& variant : inner) names.push_back(fmt::format("{}+{}:{}", kind.name, provider->name(), variant));
      }
    }
    return names;
  }

  /// What lies around the best plans within each composition, by the word of the provider inside.
  std::vector<std::string> refine(const Problem& problem, const Constraints& constraints, std::span<const std::string> best) const override {
    std::vector<std::string> names;
    for (const compose::Kind& kind : compose::kinds())
      for (const Provider* provider : inner_) {
        std::vector<std::string> inner;
        for (const std::string& variant : best)
          if (const Parts parts = split(variant); parts.kind == &kind && parts.provider == provider) inner.emplace_back(parts.rest);
        if (inner.empty()) continue;
        const std::optional<compose::Rewrite> rewrite = kind.apply(problem);
        if (!rewrite || rewrite->workspace > constraints.workspace_limit) continue;
        for (const std::string& variant : provider->refine(rewrite->inner, inside(constraints, *rewrite), inner))
          names.push_back(fmt::format("{}+{}:{}", kind.name, provider->name(), variant));
      }
    return names;
  }

  Prepared prepare(std::string_view variant, const Problem& problem, const Constraints& constraints) const override {
    const auto [kind, provider, rest] = split(variant);
    if (kind == nullptr || provider == nullptr) return declined("no such composition");
    if (constraints.sm_count != 0) return declined("a limit on the SMs");
    std::optional<compose::Rewrite> rewrite = kind->apply(problem);
    if (!rewrite) return declined("the problem needs no such step");
    if (rewrite->workspace > constraints.workspace_limit)
      return declined(fmt::format("needs {} bytes of workspace", rewrite->workspace));
    Prepared inner = provider->prepare(rest, rewrite->inner, inside(constraints, *rewrite));
    if (!inner.plan) return inner;
    PlanTraits traits = inner.plan->traits();
    traits.workspace += rewrite->workspace;
    if (traits.workspace > constraints.workspace_limit) return declined(fmt::format("needs {} bytes of workspace", traits.workspace));
    return {std::make_unique<ComposedPlan>(fmt::format("{}:{}", name(), variant), traits, ordinal_, problem, std::move(*rewrite),
                                           std::move(inner.plan)),
            Outcome::ok,
            {}};
  }

  Prepared prepare_default(const Problem&, const Constraints&) const override { return declined("composed plans are nobody's default"); }

 private:
  struct Parts {
    const compose::Kind* kind = nullptr;
    const Provider* provider = nullptr;
    std::string_view rest;
  };
  Parts split(std::string_view variant) const noexcept {
    Parts parts;
    const std::size_t plus = variant.find('+'), colon = variant.find(':');
    if (plus == std::string_view::npos || colon == std::string_view::npos || colon < plus) return parts;
    for (const compose::Kind& kind : compose::kinds())
      if (kind.name == variant.substr(0, plus)) parts.kind = &kind;
    for (const Provider* provider : inner_)
      if (provider->name() == variant.substr(plus + 1, colon - plus - 1)) parts.provider = provider;
    parts.rest = variant.substr(colon + 1);
    return parts;
  }
  static Constraints inside(Constraints constraints, const compose::Rewrite& rewrite) noexcept {
    if (constraints.workspace_limit != no_limit) constraints.workspace_limit -= rewrite.workspace;
    return applied_to(rewrite.inner, constraints);
  }

  int ordinal_;
  std::vector<const Provider*> inner_;
};

}  // namespace

std::unique_ptr<Provider> make_compose_provider(int ordinal, const DeviceInfo&, std::vector<const Provider*> inner) {
  return std::make_unique<ComposeProvider>(ordinal, std::move(inner));
}

}  // namespace attune

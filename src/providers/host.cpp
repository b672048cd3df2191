#include "providers/host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "core/problem.hpp"
#include "kernels/host_loops.hpp"
#include "kernels/host_packed.hpp"
#include "kernels/host_threads.hpp"
#include "kernels/host_tiles.hpp"
#include "providers/host_libraries.hpp"
#include "providers/host_ops.hpp"

namespace attune {
namespace {

struct Library {
  std::string_view name;
  Prepared (*prepare)(const Problem&, const Constraints&);
  std::string (*version)();
};
/// In the order in which they are asked for a default plan.
constexpr Library libraries[] = {
#if ATTUNE_HAS_OPENBLAS
    {"openblas", prepare_openblas, openblas_version},
#endif
#if ATTUNE_HAS_ONEDNN
    {"onednn", prepare_onednn, onednn_version},
#endif
    {{}, nullptr, nullptr},
};

using PoolPtr = std::shared_ptr<HostPool>;  // of threads

class HostPlan : public Plan {
 public:
  Status run(const Launch& launch) const noexcept final {
    HostCall call;
    call.a = launch.a, call.b = launch.b, call.c = read_c_ ? launch.c : nullptr, call.d = launch.d;
    call.alpha = scalar_value(launch.alpha, compute_);
    call.beta = scalar_value(launch.beta, compute_);
    for (const void* scale : {launch.scale_a, launch.scale_b})
      if (scale != nullptr) call.alpha *= *static_cast<const float*>(scale);
    call.bias = has_bias(epilogue_) ? launch.bias : nullptr;
    call.activation = activation(epilogue_);
    call.workspace = launch.workspace;
    call.pool = pool_.get();
    launch_kernel(call);
    return Status::ok;
  }

 protected:
  HostPlan(const HostRow& row, const Problem& problem, std::size_t workspace, PoolPtr pool)
      : Plan(fmt::format("host:{}", row.name), {.workspace = workspace}), pool_(std::move(pool)) {
    visit_contraction(problem,
                      [&](const auto& p) { compute_ = p.compute, epilogue_ = p.epilogue, read_c_ = p.beta != Scalar::zero; });
  }
  virtual void launch_kernel(const HostCall& call) const noexcept = 0;

 private:
  PoolPtr pool_;
  Compute compute_ = Compute::f32;
  Epilogue epilogue_ = Epilogue::none;
  bool read_c_ = false;
};

class LoopPlan final : public HostPlan {
 public:
  LoopPlan(const HostRow& row, const Problem& problem, PoolPtr pool)
      : HostPlan(row, problem, 0, std::move(pool)), row_(row), problem_(problem) {}

 private:
  void launch_kernel(const HostCall& call) const noexcept override {
    if (const auto* gemm = std::get_if<GemmProblem>(&problem_)) {
      if (row_.family == HostFamily::reference)
        reference_gemm(*gemm, row_.threaded, call);
      else
        loop_gemm(row_.family, *gemm, row_.threaded, call);
    } else {
      const ConvProblem& conv = std::get<ConvProblem>(problem_);
      if (row_.family == HostFamily::reference)
        reference_conv(conv, row_.threaded, call);
      else if (row_.family == HostFamily::depthwise)
        depthwise_conv(conv, row_.threaded, call);
      else
        direct_conv(conv, row_.threaded, call);
    }
  }
  const HostRow& row_;
  Problem problem_;
};

using Contraction = std::variant<StridedContraction, ImageContraction>;

class PackedPlan final : public HostPlan {
 public:
  PackedPlan(const HostRow& row, const Problem& problem, const Contraction& contraction, const PackedShape& shape,
             std::size_t workspace, PoolPtr pool)
      : HostPlan(row, problem, workspace, std::move(pool)),
        contraction_(contraction),
        shape_(shape),
        entries_(packed_entries(row.isa)) {}

 private:
  void launch_kernel(const HostCall& call) const noexcept override {
    if (const auto* strided = std::get_if<StridedContraction>(&contraction_))
      entries_.strided(*strided, shape_, call);
    else
      entries_.image(*std::get_if<ImageContraction>(&contraction_), shape_, call);
  }
  Contraction contraction_;
  PackedShape shape_;
  PackedEntries entries_;
};

/// HostOp has the order of Problem's alternatives.
HostOp op_of(const Problem& problem) { return static_cast<HostOp>(problem.index()); }

bool loops_take(HostFamily family, const Problem& problem) {
  if (const auto* gemm = std::get_if<GemmProblem>(&problem)) return family == HostFamily::reference || loops_take(*gemm);
  const ConvProblem& conv = std::get<ConvProblem>(problem);
  if (family == HostFamily::depthwise) return depthwise_takes(conv);
  return family == HostFamily::reference || direct_takes(conv);
}

/// The problem as the row's kernel sees it; false when it cannot.
bool contract(HostFamily family, const Problem& problem, Contraction& out) {
  if (const auto* gemm = std::get_if<GemmProblem>(&problem)) {
    out = strided(*gemm);
    return true;
  }
  const ConvProblem& conv = std::get<ConvProblem>(problem);
  if (family == HostFamily::pointwise) {
    StridedContraction s;
    if (!pointwise(conv, s)) return false;
    out = s;
    return true;
  }
  out = image(conv, family == HostFamily::image_m);
  return true;
}

/// Above so many operations a variant this slow is not worth its first trial.
double worth(HostFamily family, Effort effort) {
  const double base = family == HostFamily::reference ? 5e7 : family == HostFamily::dot ? 5e8 : packs(family) ? 1e18 : 1e10;
  return effort == Effort::exhaustive ? 10 * base : base;
}

class HostProvider final : public Provider {
 public:
  explicit HostProvider(const DeviceInfo& info) : pool_(std::make_shared<HostPool>(info.processors)) {}

  std::string_view name() const noexcept override { return "host"; }

  std::string version(std::string_view variant) const override {
    for (const Library& library : libraries)
      if (!variant.empty() && library.name == variant) return library.version();
    for (const HostRow& row : host_rows)
      if (row.name == variant) return fmt::format("r{}", row.revision);
    return {};
  }

  std::vector<std::string> variants(const Problem& problem, const Constraints& constraints, Effort effort) const override {
    std::vector<std::string> names, slow;
    for (const Library& library : libraries)
      if (!library.name.empty() && library.prepare(problem, constraints).plan) names.emplace_back(library.name);
    const bool fast = host_supports(HostIsa::avx2);
    const double work = flops(problem);
    for (std::size_t i = 0; i < host_row_count; ++i) {
      const HostRow& row = host_rows[i];
      if (row.op != op_of(problem) || !prepare_row(static_cast<int>(i), problem, constraints).plan) continue;
      const bool outdated = packs(row.family) && row.isa == HostIsa::base && fast && effort != Effort::exhaustive;
      (outdated || work > worth(row.family, effort) ? slow : names).emplace_back(row.name);
    }
    while (names.size() < 2 && !slow.empty()) {
      names.push_back(slow.front());
      slow.erase(slow.begin());
    }
    constexpr std::size_t quick_count = 5;
    if (effort == Effort::quick && names.size() > quick_count) names.resize(quick_count);
    return names;
  }

  Prepared prepare(std::string_view variant, const Problem& problem, const Constraints& constraints) const override {
    for (const Library& library : libraries)
      if (!variant.empty() && library.name == variant) return library.prepare(problem, constraints);
    for (std::size_t i = 0; i < host_row_count; ++i)
      if (host_rows[i].name == variant && host_rows[i].op == op_of(problem))
        return prepare_row(static_cast<int>(i), problem, constraints);
    return declined(fmt::format("no variant {} of this operation", variant));
  }

  Prepared prepare_default(const Problem& problem, const Constraints& constraints) const override {
    for (const Library& library : libraries) {
      if (library.name.empty()) continue;
      Prepared prepared = library.prepare(problem, constraints);
      if (prepared.plan) return prepared;
    }
    for (std::size_t i = 0; i < host_row_count; ++i) {
      if (host_rows[i].op != op_of(problem)) continue;
      Prepared prepared = prepare_row(static_cast<int>(i), problem, constraints);
      if (prepared.plan) return prepared;
    }
    return declined("no row takes the problem");
  }

 private:
  Prepared prepare_row(int index, const Problem& problem, const Constraints& constraints) const {
    const HostRow& row = host_rows[index];
    if (!host_supports(row.isa)) return declined("the CPU lacks the instruction set");
    if (const auto* pool = std::get_if<PoolProblem>(&problem)) return prepare_host_pool(row, *pool, constraints, pool_);
    if (!packs(row.family)) {
      if (!loops_take(row.family, problem)) return declined("types or layout");
      return {std::make_unique<LoopPlan>(row, problem, pool_), Outcome::ok, {}};
    }
    Contraction contraction;
    if (!contract(row.family, problem, contraction)) return declined("not a GEMM");
    // Sums of 8-bit integers are exact in double, and for any length that memory holds below its 2^53.
    bool wide = false;
    visit_contraction(problem, [&](const auto& p) { wide = p.compute != Compute::f32; });
    PackedShape shape;
    if (const auto* s = std::get_if<StridedContraction>(&contraction)) {
      shape = packed_shape(index, wide, s->m, s->n, s->k, s->batch[0] * s->batch[1], pool_->threads());
    } else {
      const ImageContraction& i = *std::get_if<ImageContraction>(&contraction);
      const std::int64_t m = i.image_on_m ? i.cols() : i.rows, n = i.image_on_m ? i.rows : i.cols();
      shape = packed_shape(index, wide, m, n, i.terms(), i.groups, pool_->threads());
    }
    const std::size_t workspace = shape.worker_bytes() * static_cast<std::size_t>(row.threaded ? pool_->threads() : 1);
    if (workspace > constraints.workspace_limit) return declined(fmt::format("needs {} bytes of workspace", workspace));
    return {std::make_unique<PackedPlan>(row, problem, contraction, shape, workspace, pool_), Outcome::ok, {}};
  }

  PoolPtr pool_;
};

}  // namespace

std::unique_ptr<Provider> make_host_provider(const DeviceInfo& info) { return std::make_unique<HostProvider>(info); }

std::vector<std::pair<std::string, std::string>> host_library_versions() {
  std::vector<std::pair<std::string, std::string>> versions;
  for (const Library& library : libraries)
    if (library.version != nullptr) versions.emplace_back(library.name, library.version());
  return versions;
}

}  // namespace attune

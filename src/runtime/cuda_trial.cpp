#include "runtime/cuda_trial.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "core/tolerance.hpp"
#include "kernels/trial_sample.hpp"
#include "runtime/cuda_support.hpp"
#include "runtime/cuda_timer.hpp"

namespace attune {
namespace {

/// A first run shorter than this may be the host's loading of the kernel and no more than that: it is timed again.
constexpr double surely_slow_us = 100e3;

/// Of fp8 operands, in every trial.
constexpr float operand_scales[2] = {0.5f, 1.5f};

TrialView view_of(const Problem& problem) {
  return std::visit([](const auto& p) -> TrialView { return view(p); }, problem);
}

SampleGrid grid_of(const Problem& problem, std::uint64_t seed) {
  return std::visit([&](const auto& v) { return sample_grid(v.rows(), v.cols(), v.batches(), v.terms(), seed); },
                    view_of(problem));
}

double value_of(Scalar scalar, double other) noexcept { return scalar == Scalar::zero ? 0 : scalar == Scalar::one ? 1 : other; }

/// Each operand of each set has random numbers of its own.
std::uint64_t operand_seed(std::uint64_t seed, int set, int operand) noexcept {
  return random_bits(seed, static_cast<std::uint64_t>(set) * 16 + static_cast<std::uint64_t>(operand));
}

}  // namespace

std::unique_ptr<CudaTrial> CudaTrial::make(CudaLab& lab, const DeviceInfo& info, const Problem& problem,
                                           const Constraints& constraints, std::size_t workspace, std::uint64_t seed) {
  if (!spans_fit(problem, info.memory_bytes)) return nullptr;
  const SampleGrid grid = grid_of(problem, seed);
  const std::size_t reference_bytes = static_cast<std::size_t>(grid.samples) * sizeof(Reference);
  std::size_t free = 0, total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const std::size_t most = free - free / 16;  // the process wants to live on while it tunes
  for (int sets = most_operand_sets; sets > 0;) {
    const TrialLayout layout = trial_layout(problem, info.l2_bytes, workspace, reference_bytes, sets);
    if (layout.total <= most) {
      const Block block = lab.memory.take_now(layout.total, lab.stream);
      if (block.pointer != nullptr) {
        std::unique_ptr<CudaTrial> trial(new CudaTrial(lab, problem, constraints, seed, grid, layout, block));
        trial->generate();
        return trial;
      }
    }
    sets = layout.sets / 2;
  }
  return nullptr;
}

CudaTrial::CudaTrial(CudaLab& lab, const Problem& problem, const Constraints& constraints, std::uint64_t seed,
                     const SampleGrid& grid, const TrialLayout& layout, const Block& block)
    : lab_(lab),
      problem_(problem),
      constraints_(constraints),
      operands_(operands(problem)),
      spans_(spans(problem)),
      seed_(seed),
      view_(view_of(problem)),
      grid_(grid),
      layout_(layout),
      block_(block) {
  visit_contraction(problem_, [&](const auto& p) {
    const bool whole = p.compute == Compute::i32;
    alpha_.set(p.compute, value_of(p.alpha, whole ? 3 : 1.25));
    beta_.set(p.compute, value_of(p.beta, whole ? -2 : -0.75));
  });
  scaled_ = is_fp8(spans_.a.type);
}

CudaTrial::~CudaTrial() {
  const DeviceScope device(lab_.ordinal);
  lab_.recover();
  lab_.memory.drop(block_, lab_.stream);
}

void CudaTrial::generate() {
  const auto fill = [&](int set, std::size_t offset, const Span& span, int operand) {
    cuda_check(
        launch_fill(at(layout_.in_set(set, offset)), span.type, span.elements, operand_seed(seed_, set, operand), lab_.stream),
        "generating operands");
  };
  for (int set = 0; set < layout_.sets; ++set) {
    fill(set, layout_.a, spans_.a, 0);
    fill(set, layout_.b, spans_.b, 1);
    fill(set, layout_.c, spans_.c, 2);
    fill(set, layout_.bias, spans_.bias, 3);
    for (int i = 0; i < operands_.more_count; ++i) fill(set, layout_.more[i], operands_.more[i].span, 4 + i);
    make_consistent(set);
    if (scaled_)
      for (int operand : {0, 1})
        cuda_check(cudaMemcpyAsync(static_cast<char*>(at(layout_.in_set(set, layout_.scales))) + operand * 16, operand_scales + operand,
                                   sizeof(float), cudaMemcpyHostToDevice, lab_.stream),
                   "copying scales");
  }
  ReferenceInputs in;
  in.a = at(layout_.a), in.b = at(layout_.b), in.c = beta_.value != 0 ? at(layout_.c) : nullptr;
  in.a_type = spans_.a.type, in.b_type = spans_.b.type, in.c_type = spans_.c.type;
  in.alpha = alpha_.value, in.beta = beta_.value;
  if (scaled_) in.alpha *= static_cast<double>(operand_scales[0]) * static_cast<double>(operand_scales[1]);
  in.bias = spans_.bias.elements != 0 ? at(layout_.bias) : nullptr;
  visit_contraction(problem_, [&](const auto& p) { in.activation = activation(p.epilogue); });
  auto* references = static_cast<Reference*>(at(layout_.references));
  std::visit(
      [&](const auto& v) { cuda_check(launch_references(v, grid_, in, references, lab_.stream), "computing references"); },
      view_);
}

void CudaTrial::make_consistent(int set) {
  const auto* view = std::get_if<PoolView>(&view_);
  if (view == nullptr || operands_.more_count == 0) return;
  // The y of a maximum's gradient is what the forward pass made of x.
  cuda_check(launch_pooled(*view, at(layout_.in_set(set, layout_.b)), at(layout_.in_set(set, layout_.more[0])), spans_.b.type,
                           lab_.stream),
             "generating operands");
}

void CudaTrial::prepare_output(const Plan& plan) {
  const auto poison = [&](std::size_t from, std::size_t bytes) {
    cuda_check(cudaMemsetAsync(at(from - red_zone_bytes), 0xff, bytes + 2 * red_zone_bytes, lab_.stream), "poisoning");
  };
  poison(layout_.d, spans_.d.bytes());
  poison(layout_.workspace, plan.traits().workspace);
  if (const auto* conv = std::get_if<ConvView>(&view_); conv != nullptr && accumulates_in_place())
    cuda_check(launch_fill_output(output(), spans_.d.type, *conv, operand_seed(seed_, 0, 2), lab_.stream),
               "generating operands");
  cuda_check(cudaMemsetAsync(lab_.findings, 0, sizeof(Findings), lab_.stream), "cudaMemsetAsync");
}

Status CudaTrial::launch(const Plan& plan, int set) const noexcept {
  Launch launch;
  launch.a = at(layout_.in_set(set, layout_.a));
  launch.b = at(layout_.in_set(set, layout_.b));
  launch.c = at(layout_.in_set(set, layout_.c));
  launch.d = at(layout_.in_set(set, layout_.d));
  launch.alpha = alpha_.as_given();
  launch.beta = beta_.as_given();
  if (spans_.bias.elements != 0) launch.bias = at(layout_.in_set(set, layout_.bias));
  if (scaled_) {
    const auto* scales = static_cast<const char*>(at(layout_.in_set(set, layout_.scales)));
    launch.scale_a = scales, launch.scale_b = scales + 16;  // aligned as most libraries want them
  }
  void* more[Launch::most_more];
  for (int i = 0; i < operands_.more_count; ++i) more[i] = at(layout_.in_set(set, layout_.more[i]));
  launch.more = more;
  launch.workspace = plan.traits().workspace != 0 ? at(layout_.workspace) : nullptr;
  launch.stream = lab_.stream;
  return plan.run(launch);
}

double CudaTrial::timed_run(const Plan& plan, int set) {
  cuda_check(launch_pause(20, lab_.stream), "launching a pause");
  cuda_check(cudaEventRecord(lab_.begin, lab_.stream), "cudaEventRecord");
  forget_failure();
  const Status status = launch(plan, set);
  if (status != Status::ok) {
    const std::string why = noted_failure();
    throw Error(status, why.empty() ? std::string(to_string(status)) : why);
  }
  cuda_check(cudaGetLastError(), "launching the plan");
  cuda_check(cudaEventRecord(lab_.end, lab_.stream), "cudaEventRecord");
  return lab_.elapsed_us();
}

void CudaTrial::examine(const Plan& plan) {
  RedZones zones;
  const auto around = [&](std::size_t from, std::size_t bytes) {
    zones.add(at(from - red_zone_bytes), red_zone_bytes);
    zones.add(at(from + bytes), red_zone_bytes);
  };
  around(layout_.d, spans_.d.bytes());
  around(layout_.workspace, plan.traits().workspace);
  cuda_check(launch_check_zones(zones, lab_.findings, lab_.stream), "checking red zones");

  const Tolerance allowed = tolerance(problem_, constraints_, plan.traits().accumulation);
  const auto* references = static_cast<const Reference*>(at(layout_.references));
  std::visit(
      [&](const auto& v) {
        const Bound bound{allowed.absolute, allowed.out, allowed.of_sums(v.terms())};
        cuda_check(launch_check_output(output(), spans_.d.type, spans_.d.elements, v, lab_.findings, lab_.stream),
                   "checking the output");
        cuda_check(launch_compare(output(), spans_.d.type, v, grid_, bound, references, lab_.findings, lab_.stream),
                   "comparing the output");
      },
      view_);
  cuda_check(cudaMemcpyAsync(lab_.pinned_findings, lab_.findings, sizeof(Findings), cudaMemcpyDeviceToHost, lab_.stream),
             "cudaMemcpyAsync");
  cuda_check(cudaStreamSynchronize(lab_.stream), "running the plan");
}

std::string CudaTrial::where(unsigned long long sample) const {
  const Element e = sampled_element(grid_, static_cast<std::int64_t>(sample) - 1);
  return fmt::format("row {} column {} of matrix {}", e.row, e.col, e.batch);
}

Check CudaTrial::judge() const {
  const Findings& f = *lab_.pinned_findings;
  const auto elements =
      static_cast<unsigned long long>(grid_.rows * grid_.cols * (grid_.blocks / (grid_.block_rows * grid_.block_cols)));
  Check result;
  result.error = std::bit_cast<double>(f.error_bits);
  if (f.outside != 0) {
    result.outcome = Outcome::red_zone;
    result.why = fmt::format("{} bytes beside the output or the workspace were overwritten", f.outside);
  } else if (f.not_finite != 0) {
    result.outcome = Outcome::wrong;
    result.error = INFINITY;
    result.why = fmt::format("{} of {} elements are not finite or were not written", f.not_finite, elements);
  } else if (f.written != f.inside) {
    result.outcome = Outcome::red_zone;
    result.why = fmt::format("{} elements between columns or matrices of the output were overwritten",
                             static_cast<long long>(f.written - f.inside));
  } else if (f.wrong != 0) {
    result.outcome = Outcome::wrong;
    result.why = fmt::format("{} of {} sampled elements are beyond the bound, by up to {:.3g} times; one is at {}", f.wrong,
                             grid_.samples, result.error, where(f.last_wrong));
  } else {
    result.outcome = Outcome::ok;
  }
  return result;
}

Check CudaTrial::check(const Plan& plan) {
  const DeviceScope device(lab_.ordinal);
  const RelaxedCapture relaxed;
  Check result;
  if (plan.traits().workspace > layout_.workspace_bytes) {
    result.why = fmt::format("needs {} bytes of workspace, the trial has {}", plan.traits().workspace, layout_.workspace_bytes);
    return result;
  }
  try {
    prepare_output(plan);
    const double cold = timed_run(plan, 0);
    examine(plan);
    result = judge();
    result.us = cold;
    if (result.outcome == Outcome::ok && cold < surely_slow_us) result.us = std::min(cold, timed_run(plan, layout_.sets - 1));
  } catch (const Error& error) {
    result.outcome = Outcome::failed;
    result.why = error.what();
    if (!lab_.recover()) result.why += "; the device is lost to this process";
  }
  return result;
}

std::unique_ptr<Timer> CudaTrial::timer(const Plan& plan, TimingMethod method, double expected_us) {
  const DeviceScope device(lab_.ordinal);
  const RelaxedCapture relaxed;
  if (plan.traits().workspace > layout_.workspace_bytes) return nullptr;
  if (method == TimingMethod::graph && !plan.traits().capturable) return nullptr;
  try {
    if (accumulates_in_place())  // adding up over many launches must not end in infinities
      for (int set = 0; set < layout_.sets; ++set)
        cuda_check(launch_fill(at(layout_.in_set(set, layout_.c)), spans_.c.type, spans_.c.elements,
                               operand_seed(seed_, set, 2), lab_.stream),
                   "generating operands");
    auto timer = std::make_unique<CudaTimer>(*this, plan, method, expected_us);
    timer->warm_up();
    return timer;
  } catch (const Error&) {
    lab_.recover();
    return nullptr;
  }
}

}  // namespace attune

#include "cli/ceilings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "cli/contest.hpp"
#if defined(ATTUNE_HAS_CUDA)
#include "cli/bench_cuda.hpp"
#endif

namespace attune::cli {
namespace {

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A copy by every thread at once, the fastest of a few.
double host_copy_bytes_per_us() {
  constexpr std::size_t bytes = std::size_t{256} << 20;
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t share = bytes / threads;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double begin = now_us();
    std::vector<std::jthread> workers;
    for (std::size_t t = 0; t < threads; ++t)
      workers.emplace_back([&, t] { std::memcpy(to.data() + t * share, from.data() + t * share, share); });
    workers.clear();
    best = std::max(best, 2.0 * static_cast<double>(share * threads) / (now_us() - begin));
  }
  return best;
}

class EmptyPlan final : public Plan {
 public:
  EmptyPlan() : Plan("bench:empty", {}) {}
  Status run(const Launch&) const noexcept override { return Status::ok; }
};

double host_launch_us() {
  const std::unique_ptr<Plan> plan = std::make_unique<EmptyPlan>();
  const Plan* volatile opaque = plan.get();
  constexpr int calls = 10000;
  const double begin = now_us();
  for (int i = 0; i < calls; ++i) static_cast<void>(opaque->run({}));
  return (now_us() - begin) / calls;
}

struct PeakSize {
  const char* dtype;
  DType type, out;
  Compute compute;
  std::int64_t device, host;  ///< large enough to fill the machine, small enough to take milliseconds
};
constexpr PeakSize peak_sizes[] = {
    {"bf16", DType::bf16, DType::bf16, Compute::f32, 8192, 512},
    {"fp16", DType::f16, DType::f16, Compute::f32, 8192, 512},
    {"tf32", DType::f32, DType::f32, Compute::f32_tf32, 8192, 1024},
    {"fp32", DType::f32, DType::f32, Compute::f32, 4096, 1024},
    {"fp64", DType::f64, DType::f64, Compute::f64, 4096, 1024},
    {"fp8", DType::f8_e4m3, DType::bf16, Compute::f32, 8192, 256},
    {"int8", DType::i8, DType::i32, Compute::i32, 8192, 256},
};

double peak_flops_per_us(DeviceContext& device_context, const PeakSize& size) {
  const std::int64_t n = device_context.on_host() ? size.host : size.device;
  GemmProblem square(Op::T, Op::N, n, n, n, size.type);
  square.c_type = size.out;
  square.compute = size.compute;
  const Problem problem = resolve(square);
  const Constraints constraints = device_context.impl().constraints_for(square);
  Runtime& runtime = device_context.impl().runtime();
  const auto guard = runtime.guard();
  Contest contest(runtime, problem, constraints);
  contest.add(prepare_default(device_context.impl().providers(), problem, constraints).plan, role_default | role_vendor);
  for (const auto& provider : device_context.impl().providers()) {
    std::vector<std::string> variants = provider->variants(problem, constraints, Effort::quick);
    if (variants.size() > 8) variants.resize(8);
    for (const std::string& variant : variants) contest.add(provider->prepare(variant, problem, constraints).plan, role_vendor);
  }
  if (!contest.run(0.5).empty()) return 0;
  const Entrant* const best = contest.best(role_default | role_vendor);
  return best == nullptr ? 0 : flops(problem) / best->us;
}

}  // namespace

Ceilings measure_ceilings(DeviceContext& device_context, const Workload& workload) {
  Ceilings ceilings;
#if defined(ATTUNE_HAS_CUDA)
  if (!device_context.on_host()) {
    ceilings.copy_bytes_per_us = cuda_copy_bytes_per_us(device_context.device().ordinal);
    ceilings.launch_us = cuda_launch_us(device_context.device().ordinal);
  }
#endif
  if (device_context.on_host()) {
    ceilings.copy_bytes_per_us = host_copy_bytes_per_us();
    ceilings.launch_us = host_launch_us();
  }
  for (const PeakSize& size : peak_sizes) {
    const bool used = std::any_of(workload.rows.begin(), workload.rows.end(),
                                  [&](const Row& row) { return row.wrong.empty() && row.dtype == size.dtype; });
    if (!used) continue;
    if (const double peak = peak_flops_per_us(device_context, size); peak > 0) ceilings.flops_per_us[size.dtype] = peak;
  }
  return ceilings;
}

double floor_us(const Ceilings& ceilings, const Row& row) {
  const Problem problem = resolve(*row.problem);
  double floor = ceilings.launch_us;
  if (ceilings.copy_bytes_per_us > 0) floor = std::max(floor, least_bytes(problem) / ceilings.copy_bytes_per_us);
  if (const auto peak = ceilings.flops_per_us.find(row.dtype); peak != ceilings.flops_per_us.end())
    floor = std::max(floor, flops(problem) / peak->second);
  return floor;
}

std::string to_text(const Ceilings& ceilings) {
  std::string text =
      fmt::format("copy {:.0f} GB/s, empty launch {:.3f} us", ceilings.copy_bytes_per_us / 1e3, ceilings.launch_us);
  for (const auto& [dtype, peak] : ceilings.flops_per_us) text += fmt::format(", {} {:.2f} TFLOP/s", dtype, peak / 1e6);
  return text;
}

}  // namespace attune::cli

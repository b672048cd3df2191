#include "cli/device_context.hpp"

#include <attune/error.hpp>

#include <charconv>
#include <cstdlib>

namespace attune::cli {
namespace {

Device choose_device(const Options& options, std::string& fallback) {
  if (options.device) return *options.device;
  std::string why;
  if (cuda_device_count(why) > 0) return Device::cuda(0);
  fallback = why.empty() ? "no GPU is visible" : why;
  return Device::host();
}

Context make_context(Device device, const Options& options, bool own_plans_only) {
  if (options.plans || own_plans_only)
    for (const char* name : {"ATTUNE_CACHE_FILE", "ATTUNE_CACHE_READ", "ATTUNE_CACHE_WRITE", "CUDNN_BENCHMARK_FILE",
                             "CUDNN_BENCHMARK_FILE_READ", "CUDNN_BENCHMARK_FILE_WRITE"})
      unsetenv(name);
  return Context(device);
}

}  // namespace

std::optional<Device> parse_device(const std::string& text) {
  if (text == "host") return Device::host();
  if (text == "cuda") return Device::cuda(0);
  if (!text.starts_with("cuda:")) return std::nullopt;
  int ordinal = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 5, end, ordinal);
  if (error != std::errc() || stop != end || ordinal < 0) return std::nullopt;
  return Device::cuda(ordinal);
}

std::string to_text(Device device) {
  return device.kind == Device::Kind::host ? std::string("host") : "cuda:" + std::to_string(device.ordinal);
}

DeviceContext::DeviceContext(const Options& options, bool own_plans_only)
    : device_(choose_device(options, fallback_)), context_(make_context(device_, options, own_plans_only)) {
  impl().change([&](Settings& settings) {
    if (options.effort) settings.effort.set(*options.effort, Origin::flag, "--effort");
    if (options.budget_ms) settings.budget_ms.set(*options.budget_ms, Origin::flag, "--budget-ms");
    if (options.plans) {
      settings.cache_read.set(*options.plans, Origin::flag, "--plans");
      settings.cache_write.set(*options.plans, Origin::flag, "--plans");
    }
  });
  own_ = impl().settings();
}

void DeviceContext::constrain(const std::optional<Constraints>& constraints) {
  if (!constraints && !constrained_) return;
  constrained_ = constraints.has_value();
  impl().change([&](Settings& settings) {
    settings.deterministic = own_.deterministic;
    settings.workspace_limit = own_.workspace_limit;
    settings.math = own_.math;
    if (!constraints) return;
    settings.deterministic.set(constraints->deterministic, Origin::flag, "row");
    settings.workspace_limit.set(constraints->workspace_limit, Origin::flag, "row");
    settings.math.set(constraints->math, Origin::flag, "row");
  });
}

}  // namespace attune::cli

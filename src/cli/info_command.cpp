// attune info: version, devices, libraries, settings.
#include <fmt/format.h>
#include <attune/error.hpp>
#include <attune/version.hpp>

#include "cli/options.hpp"
#include "cli/device_context.hpp"
#include "cli/table.hpp"

namespace attune::cli {
namespace {

void print_device(Device device) {
  try {
    const Backend backend = make_backend(device);
    const DeviceInfo& info = backend.runtime->info();
    const bool host = device.kind == Device::Kind::host;
    fmt::print("  {:<8} {}: {} {}, last-level cache {}, memory {}", to_text(device), info.name, info.processors,
               host ? "threads" : "SMs", format_bytes(static_cast<double>(info.l2_bytes)),
               format_bytes(static_cast<double>(info.memory_bytes)));
    if (!host) fmt::print(", compute capability {}.{}", info.cc_major, info.cc_minor);
    std::string names;
    for (const auto& provider : backend.providers) names += (names.empty() ? "" : ", ") + std::string(provider->name());
    fmt::print("; providers: {}\n", names);
  } catch (const Error& e) {
    fmt::print("  {:<8} cannot be used: {}\n", to_text(device), e.what());
  }
}

}  // namespace

int run_info(const Options& options) {
  fmt::print("attune {}\n\ndevices\n", version());
  std::string why;
  const int count = cuda_device_count(why);
  for (int i = 0; i < count; ++i) print_device(Device::cuda(i));
  if (count == 0) fmt::print("  cuda     none: {}\n", why);
  print_device(Device::host());

  fmt::print("\nlibraries\n");
  for (const auto& [name, version] : library_versions()) fmt::print("  {:<12} {}\n", name, version);

  DeviceContext device_context(options);
  fmt::print("\nsettings of {}\n", to_text(device_context.device()));
  for (const auto& [name, value] : describe(device_context.impl().settings())) fmt::print("  {:<18} {}\n", name, value);
  return exit_ok;
}

}  // namespace attune::cli

// One command's context: the device asked for, with the flags applied over environment and defaults.
#pragma once

#include <attune/context.hpp>
#include <optional>
#include <string>

#include "cli/options.hpp"
#include "context_impl.hpp"

namespace attune::cli {

class DeviceContext {
 public:
  /// Takes plan files named by the environment out of it where --plans is given or `own_plans_only`: a flag beats the
  /// environment, and a context reads the files of its environment at once. Throws Error.
  explicit DeviceContext(const Options& options, bool own_plans_only = false);

  /// From now on these hold, over every setting; none: the command's own settings again.
  void constrain(const std::optional<Constraints>& constraints);

  Context& context() noexcept { return context_; }
  Context::Impl& impl() noexcept { return context_.impl(); }
  Device device() const noexcept { return device_; }
  bool on_host() const noexcept { return device_.kind == Device::Kind::host; }
  /// Why the host engine runs although nobody asked for it; empty otherwise.
  const std::string& fallback() const noexcept { return fallback_; }

 private:
  std::string fallback_;  // choosing the device may set it
  Device device_;
  Context context_;
  Settings own_;  ///< without what rows ask for
  bool constrained_ = false;
};

}  // namespace attune::cli

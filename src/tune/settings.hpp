// The settings of a context, each with where its value came from.
#pragma once

#include <attune/context.hpp>
#include <attune/types.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/constraints.hpp"

namespace attune {

/// In rising order of authority: a value replaces one of the same or a lower origin. Whoever deploys cannot recompile, so the
/// environment beats the program; a flag of the `attune` program beats the environment.
enum class Origin : std::uint8_t { standard, api, environment, flag };

template <class T>
class Setting {
 public:
  explicit Setting(T value) : value_(std::move(value)), source_("default") {}
  const T& get() const noexcept { return value_; }
  /// "default", "api", "--effort", or the name of the environment variable.
  const std::string& source() const noexcept { return source_; }
  /// Returns whether the value was taken.
  bool set(T value, Origin origin, std::string source) {
    if (origin < origin_) return false;
    value_ = std::move(value);
    origin_ = origin;
    source_ = std::move(source);
    return true;
  }

 private:
  T value_;
  Origin origin_ = Origin::standard;
  std::string source_;
};

struct Settings {
  Setting<bool> benchmark{true};
  Setting<bool> deterministic{false};
  Setting<Effort> effort{Effort::standard};
  Setting<double> budget_ms{0.0};                       ///< 0: as the effort says
  Setting<std::size_t> workspace_limit{256 * mebibyte};  ///< rounded
  Setting<MathMode> math{MathMode::transforms};
  Setting<std::string> cache_read{std::string()};
  Setting<std::string> cache_write{std::string()};
  Setting<std::string> record{std::string()};
  Setting<LogLevel> log{LogLevel::off};
};

using GetEnv = std::function<const char*(const char*)>;

/// Reads ATTUNE_* and, unless ATTUNE_CUDNN_ENV is off, the CUDNN_* names, which have less authority than ours. Unknown values
/// leave the setting as it was; each gives one message in `warnings` that names the variable, the value and what is accepted.
void apply_environment(Settings& settings, const GetEnv& get_env, std::vector<std::string>& warnings);

/// 0 off false no and an empty value are false; 1 on true yes are true; case does not matter. Returns whether it is one of
/// these.
bool parse_switch(std::string_view text, bool& value) noexcept;
bool parse_effort(std::string_view text, Effort& value) noexcept;
bool parse_log_level(std::string_view text, LogLevel& value) noexcept;

/// One line per setting, "name = value (source)", in a fixed order; for `attune info` and the log.
std::vector<std::pair<std::string, std::string>> describe(const Settings& settings);

}  // namespace attune

#include "tune/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <string_view>

#include "core/names.hpp"

namespace attune {
namespace {

constexpr std::string_view switch_words = "0, off, false, no, 1, on, true, yes";
constexpr double max_budget_ms = 1e9;
constexpr double max_workspace_mebibytes = 1 << 30;

/// Letter case does not matter; the words are in lower case.
bool is_any_of(std::string_view word, std::initializer_list<std::string_view> words) noexcept {
  const auto same = [word](std::string_view other) {
    return std::equal(word.begin(), word.end(), other.begin(), other.end(),
                      [](char a, char b) { return a == b || (a >= 'A' && a <= 'Z' && a - 'A' + 'a' == b); });
  };
  return std::any_of(words.begin(), words.end(), same);
}

template <class E>
bool parse_name(std::string_view text, E& value) noexcept {
  for (std::size_t i = 0; i < std::size(Names<E>::list); ++i)
    if (is_any_of(text, {Names<E>::list[i]})) {
      value = static_cast<E>(i);
      return true;
    }
  return false;
}

/// A plain number from zero to `most`; the words for off are zero.
bool parse_amount(std::string_view text, double most, double& value) noexcept {
  double number = 0;
  bool on = false;
  if (!parse_switch(text, on) || on) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || !(number >= 0 && number <= most)) return false;
  }
  value = number;
  return true;
}

bool parse_workspace(std::string_view text, std::size_t& value) noexcept {
  if (is_any_of(text, {"none"})) {
    value = no_limit;
    return true;
  }
  double mebibytes = 0;
  if (!parse_amount(text, max_workspace_mebibytes, mebibytes)) return false;
  value = round_workspace_limit(static_cast<std::size_t>(mebibytes * static_cast<double>(mebibyte)));
  return true;
}

/// A path; the words for off mean no file. The words for on name no file: "./1" is one.
bool parse_path(std::string_view text, std::string& value) {
  bool on = false;
  const bool is_switch = parse_switch(text, on);
  if (is_switch && on) return false;
  value = is_switch ? std::string() : std::string(text);
  return true;
}

/// The value as a message may show it: short, without control characters.
std::string shown(std::string_view value) {
  constexpr std::size_t most = 64;
  std::string out(value.substr(0, most));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  if (value.size() > most) out += "...";
  return out;
}

class Environment {
 public:
  Environment(const GetEnv& get_env, std::vector<std::string>& warnings) : get_env_(get_env), warnings_(warnings) {}

  /// Sets every setting named from one variable, if it is there and `parse` takes its value.
  template <class T, class Parse, class... Targets>
  void read(const char* name, std::string_view accepted, T value, Parse parse, Targets&... targets) {
    const char* text = get_env_(name);
    if (text == nullptr) return;
    if (parse(std::string_view(text), value))
      (targets.set(value, Origin::environment, name), ...);
    else
      warnings_.push_back(fmt::format("{}={} is ignored: accepted are {}", name, shown(text), accepted));
  }
  void read_switch(const char* name, Setting<bool>& setting) { read(name, switch_words, false, parse_switch, setting); }
  template <class... Targets>
  void read_file(const char* name, Targets&... targets) {
    read(name, "a path, or 0, off, false, no or nothing for no file", std::string(), parse_path, targets...);
  }

 private:
  const GetEnv& get_env_;
  std::vector<std::string>& warnings_;
};

std::string workspace_text(std::size_t bytes) {
  return bytes == no_limit ? "no limit" : fmt::format("{} MiB", bytes / mebibyte);
}

std::string path_text(const std::string& path) { return path.empty() ? "no file" : path; }

const char* switch_text(bool on) { return on ? "on" : "off"; }

}  // namespace

void apply_environment(Settings& s, const GetEnv& get_env, std::vector<std::string>& warnings) {
  Environment env(get_env, warnings);

  // Each later variable overrides the earlier ones, so the order is that of rising authority.
  Setting<bool> cudnn_names(true);
  env.read_switch("ATTUNE_CUDNN_ENV", cudnn_names);
  if (cudnn_names.get()) {
    env.read_switch("CUDNN_AUTO_TUNE", s.benchmark);
    env.read_switch("CUDNN_BENCHMARK", s.benchmark);
    env.read_switch("CUDNN_DETERMINISTIC", s.deterministic);
    env.read_file("CUDNN_BENCHMARK_FILE", s.cache_read, s.cache_write);
    env.read_file("CUDNN_BENCHMARK_FILE_READ", s.cache_read);
    env.read_file("CUDNN_BENCHMARK_FILE_WRITE", s.cache_write);
  }

  env.read_switch("ATTUNE_BENCHMARK", s.benchmark);
  env.read_switch("ATTUNE_DETERMINISTIC", s.deterministic);
  env.read("ATTUNE_EFFORT", accepted<Effort>(), Effort::standard, parse_effort, s.effort);
  env.read(
      "ATTUNE_BUDGET_MS", fmt::format("milliseconds from 0 (as the effort says) to {:.0f}", max_budget_ms), 0.0,
      [](std::string_view text, double& value) { return parse_amount(text, max_budget_ms, value); }, s.budget_ms);
  env.read("ATTUNE_WORKSPACE_MB", "a number of MiB, or none for no limit", std::size_t{0}, parse_workspace, s.workspace_limit);
  env.read_file("ATTUNE_CACHE_FILE", s.cache_read, s.cache_write);
  env.read_file("ATTUNE_CACHE_READ", s.cache_read);
  env.read_file("ATTUNE_CACHE_WRITE", s.cache_write);
  env.read_file("ATTUNE_RECORD", s.record);
  env.read("ATTUNE_LOG", accepted<LogLevel>(), LogLevel::off, parse_log_level, s.log);
}

bool parse_switch(std::string_view text, bool& value) noexcept {
  const bool off = text.empty() || is_any_of(text, {"0", "off", "false", "no"});
  if (!off && !is_any_of(text, {"1", "on", "true", "yes"})) return false;
  value = !off;
  return true;
}

bool parse_effort(std::string_view text, Effort& value) noexcept { return parse_name(text, value); }

bool parse_log_level(std::string_view text, LogLevel& value) noexcept {
  bool on = false;
  if (!parse_switch(text, on) || on) return parse_name(text, value);
  value = LogLevel::off;
  return true;
}

std::vector<std::pair<std::string, std::string>> describe(const Settings& s) {
  std::vector<std::pair<std::string, std::string>> lines;
  const auto add = [&](const char* name, std::string_view value, const std::string& source) {
    lines.emplace_back(name, fmt::format("{} ({})", value, source));
  };
  add("benchmark", switch_text(s.benchmark.get()), s.benchmark.source());
  add("deterministic", switch_text(s.deterministic.get()), s.deterministic.source());
  add("effort", name_of(s.effort.get()), s.effort.source());
  add("budget", s.budget_ms.get() > 0 ? fmt::format("{} ms", s.budget_ms.get()) : "as the effort says", s.budget_ms.source());
  add("workspace limit", workspace_text(s.workspace_limit.get()), s.workspace_limit.source());
  add("math", to_text(s.math.get()), s.math.source());
  add("plan file read", path_text(s.cache_read.get()), s.cache_read.source());
  add("plan file written", path_text(s.cache_write.get()), s.cache_write.source());
  add("record file", path_text(s.record.get()), s.record.source());
  add("log", name_of(s.log.get()), s.log.source());
  return lines;
}

}  // namespace attune

#include "tune/settings.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace attune {
namespace {

struct Applied {
  Settings settings;
  std::vector<std::string> warnings;
};

Applied apply(const std::map<std::string, std::string>& variables, Settings start = {}) {
  Applied out{std::move(start), {}};
  const GetEnv get_env = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  apply_environment(out.settings, get_env, out.warnings);
  return out;
}

std::map<std::string, std::string> described(const Settings& settings) {
  std::map<std::string, std::string> lines;
  for (const auto& [name, value] : describe(settings)) lines[name] = value;
  return lines;
}

TEST(Settings, WithoutVariablesTheDefaultsHold) {
  const Applied a = apply({});
  EXPECT_TRUE(a.warnings.empty());
  EXPECT_TRUE(a.settings.benchmark.get());
  EXPECT_FALSE(a.settings.deterministic.get());
  EXPECT_EQ(a.settings.effort.get(), Effort::standard);
  EXPECT_EQ(a.settings.workspace_limit.get(), 256 * mebibyte);
  EXPECT_EQ(a.settings.cache_read.get(), "");
  EXPECT_EQ(a.settings.log.get(), LogLevel::off);
  for (const auto& [name, value] : describe(a.settings)) EXPECT_NE(value.find("(default)"), std::string::npos) << name;
}

TEST(Settings, EachVariableSetsItsSettingAndIsItsSource) {
  const Applied a = apply({{"ATTUNE_BENCHMARK", "0"},
                           {"ATTUNE_DETERMINISTIC", "1"},
                           {"ATTUNE_EFFORT", "exhaustive"},
                           {"ATTUNE_BUDGET_MS", "250.5"},
                           {"ATTUNE_WORKSPACE_MB", "256"},
                           {"ATTUNE_CACHE_READ", "/a/read.jsonl"},
                           {"ATTUNE_CACHE_WRITE", "write.jsonl"},
                           {"ATTUNE_LOG", "debug"}});
  EXPECT_TRUE(a.warnings.empty());
  EXPECT_FALSE(a.settings.benchmark.get());
  EXPECT_TRUE(a.settings.deterministic.get());
  EXPECT_EQ(a.settings.effort.get(), Effort::exhaustive);
  EXPECT_EQ(a.settings.budget_ms.get(), 250.5);
  EXPECT_EQ(a.settings.workspace_limit.get(), 256 * mebibyte);
  EXPECT_EQ(a.settings.cache_read.get(), "/a/read.jsonl");
  EXPECT_EQ(a.settings.cache_write.get(), "write.jsonl");
  EXPECT_EQ(a.settings.log.get(), LogLevel::debug);
  const auto lines = described(a.settings);
  EXPECT_EQ(lines.at("benchmark"), "off (ATTUNE_BENCHMARK)");
  EXPECT_EQ(lines.at("deterministic"), "on (ATTUNE_DETERMINISTIC)");
  EXPECT_EQ(lines.at("effort"), "exhaustive (ATTUNE_EFFORT)");
  EXPECT_EQ(lines.at("budget"), "250.5 ms (ATTUNE_BUDGET_MS)");
  EXPECT_EQ(lines.at("workspace limit"), "256 MiB (ATTUNE_WORKSPACE_MB)");
  EXPECT_EQ(lines.at("plan file read"), "/a/read.jsonl (ATTUNE_CACHE_READ)");
  EXPECT_EQ(lines.at("plan file written"), "write.jsonl (ATTUNE_CACHE_WRITE)");
  EXPECT_EQ(lines.at("log"), "debug (ATTUNE_LOG)");
}

TEST(Settings, OneFileVariableServesReadingAndWriting) {
  Applied a = apply({{"ATTUNE_CACHE_FILE", "both"}});
  EXPECT_EQ(a.settings.cache_read.get(), "both");
  EXPECT_EQ(a.settings.cache_write.get(), "both");
  a = apply({{"ATTUNE_CACHE_FILE", "both"}, {"ATTUNE_CACHE_WRITE", ""}});
  EXPECT_EQ(a.settings.cache_read.get(), "both");
  EXPECT_EQ(a.settings.cache_write.get(), "");
  EXPECT_EQ(a.settings.cache_write.source(), "ATTUNE_CACHE_WRITE");
}

TEST(Settings, AnEmptyFileVariableOverridesTheProgramsFile) {
  Settings start;
  start.cache_read.set("program", Origin::api, "api");
  start.cache_write.set("program", Origin::api, "api");
  for (const char* nothing : {"", "0", "off", "false", "no"}) {
    const Applied a = apply({{"ATTUNE_CACHE_FILE", nothing}}, start);
    EXPECT_EQ(a.settings.cache_read.get(), "");
    EXPECT_EQ(a.settings.cache_write.get(), "");
    EXPECT_TRUE(a.warnings.empty());
  }
  const Applied a = apply({{"ATTUNE_CACHE_FILE", "1"}}, start);
  EXPECT_EQ(a.settings.cache_read.get(), "program");
  EXPECT_EQ(a.warnings.size(), 1u);
}

TEST(Settings, TheEnvironmentBeatsTheProgramAndAFlagBeatsBoth) {
  Settings start;
  start.effort.set(Effort::quick, Origin::api, "api");
  Applied a = apply({{"ATTUNE_EFFORT", "exhaustive"}}, start);
  EXPECT_EQ(a.settings.effort.get(), Effort::exhaustive);
  EXPECT_FALSE(a.settings.effort.set(Effort::quick, Origin::api, "api"));
  EXPECT_EQ(a.settings.effort.get(), Effort::exhaustive);
  EXPECT_TRUE(a.settings.effort.set(Effort::quick, Origin::flag, "--effort"));
  a = apply({{"ATTUNE_EFFORT", "exhaustive"}}, a.settings);
  EXPECT_EQ(a.settings.effort.get(), Effort::quick);
  EXPECT_EQ(described(a.settings).at("effort"), "quick (--effort)");
}

TEST(Settings, CudnnNamesAreHonouredAndNamedAsTheSource) {
  const Applied a = apply({{"CUDNN_BENCHMARK", "0"}, {"CUDNN_DETERMINISTIC", "1"}, {"CUDNN_BENCHMARK_FILE", "f"}});
  EXPECT_TRUE(a.warnings.empty());
  EXPECT_FALSE(a.settings.benchmark.get());
  EXPECT_EQ(a.settings.benchmark.source(), "CUDNN_BENCHMARK");
  EXPECT_TRUE(a.settings.deterministic.get());
  EXPECT_EQ(a.settings.deterministic.source(), "CUDNN_DETERMINISTIC");
  EXPECT_EQ(a.settings.cache_read.get(), "f");
  EXPECT_EQ(a.settings.cache_write.source(), "CUDNN_BENCHMARK_FILE");
}

TEST(Settings, CudnnReadAndWriteFilesBeatTheCommonOne) {
  const Applied a =
      apply({{"CUDNN_BENCHMARK_FILE", "f"}, {"CUDNN_BENCHMARK_FILE_READ", "r"}, {"CUDNN_BENCHMARK_FILE_WRITE", "w"}});
  EXPECT_EQ(a.settings.cache_read.get(), "r");
  EXPECT_EQ(a.settings.cache_read.source(), "CUDNN_BENCHMARK_FILE_READ");
  EXPECT_EQ(a.settings.cache_write.get(), "w");
  EXPECT_EQ(a.settings.cache_write.source(), "CUDNN_BENCHMARK_FILE_WRITE");
}

TEST(Settings, CudnnAutoTuneIsBenchmarkUnlessBenchmarkIsGiven) {
  Applied a = apply({{"CUDNN_AUTO_TUNE", "off"}});
  EXPECT_FALSE(a.settings.benchmark.get());
  EXPECT_EQ(a.settings.benchmark.source(), "CUDNN_AUTO_TUNE");
  a = apply({{"CUDNN_AUTO_TUNE", "off"}, {"CUDNN_BENCHMARK", "on"}});
  EXPECT_TRUE(a.settings.benchmark.get());
  EXPECT_EQ(a.settings.benchmark.source(), "CUDNN_BENCHMARK");
}

TEST(Settings, OurNamesBeatCudnnNames) {
  const Applied a = apply({{"CUDNN_BENCHMARK", "0"},
                           {"ATTUNE_BENCHMARK", "1"},
                           {"CUDNN_DETERMINISTIC", "1"},
                           {"ATTUNE_DETERMINISTIC", "0"},
                           {"CUDNN_BENCHMARK_FILE_READ", "theirs"},
                           {"CUDNN_BENCHMARK_FILE_WRITE", "theirs"},
                           {"ATTUNE_CACHE_FILE", "ours"}});
  EXPECT_TRUE(a.settings.benchmark.get());
  EXPECT_EQ(a.settings.benchmark.source(), "ATTUNE_BENCHMARK");
  EXPECT_FALSE(a.settings.deterministic.get());
  EXPECT_EQ(a.settings.cache_read.get(), "ours");
  EXPECT_EQ(a.settings.cache_write.get(), "ours");
}

TEST(Settings, CudnnNamesCanBeIgnored) {
  const Applied a = apply({{"ATTUNE_CUDNN_ENV", "0"}, {"CUDNN_BENCHMARK", "0"}, {"CUDNN_DETERMINISTIC", "perhaps"}});
  EXPECT_TRUE(a.settings.benchmark.get());
  EXPECT_EQ(a.settings.benchmark.source(), "default");
  EXPECT_TRUE(a.warnings.empty());
}

TEST(Settings, NoVariableSetsTheMathModes) {
  const Applied a = apply({{"ATTUNE_MATH", "tf32"}, {"ATTUNE_TF32", "1"}, {"ATTUNE_MATH_MODES", "tf32"}});
  EXPECT_EQ(a.settings.math.get(), MathMode::transforms);
}

TEST(Settings, AnUnknownValueIsOneWarningThatNamesTheAcceptedOnes) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"ATTUNE_BENCHMARK", "off, false, no, 1"},
                                                                  {"ATTUNE_DETERMINISTIC", "off, false, no, 1"},
                                                                  {"ATTUNE_EFFORT", "quick, standard, exhaustive"},
                                                                  {"ATTUNE_BUDGET_MS", "milliseconds"},
                                                                  {"ATTUNE_WORKSPACE_MB", "none"},
                                                                  {"ATTUNE_LOG", "off, warn, info, debug"},
                                                                  {"ATTUNE_CUDNN_ENV", "off, false, no, 1"},
                                                                  {"CUDNN_BENCHMARK", "off, false, no, 1"},
                                                                  {"CUDNN_AUTO_TUNE", "off, false, no, 1"},
                                                                  {"CUDNN_DETERMINISTIC", "off, false, no, 1"}};
  for (const auto& [name, accepted] : cases) {
    const Applied a = apply({{name, "perhaps"}});
    ASSERT_EQ(a.warnings.size(), 1u) << name;
    EXPECT_NE(a.warnings[0].find(name + "=perhaps"), std::string::npos) << a.warnings[0];
    EXPECT_NE(a.warnings[0].find(accepted), std::string::npos) << a.warnings[0];
    EXPECT_EQ(describe(a.settings), describe(Settings{})) << name;
  }
}

TEST(Settings, AWarningShowsLittleOfAStrangeValue) {
  const Applied a = apply({{"ATTUNE_EFFORT", "\x1b[2J" + std::string(100'000, 'x')}});
  ASSERT_EQ(a.warnings.size(), 1u);
  EXPECT_LT(a.warnings[0].size(), 200u);
  EXPECT_EQ(a.warnings[0].find('\x1b'), std::string::npos);
}

TEST(Settings, SwitchWords) {
  bool value = true;
  for (const char* word : {"", "0", "off", "false", "no", "OFF", "No"}) {
    value = true;
    EXPECT_TRUE(parse_switch(word, value)) << word;
    EXPECT_FALSE(value) << word;
  }
  for (const char* word : {"1", "on", "true", "yes", "True", "YES"}) {
    value = false;
    EXPECT_TRUE(parse_switch(word, value)) << word;
    EXPECT_TRUE(value) << word;
  }
  for (const char* word : {"2", " 1", "on ", "enable", "-1", "o"}) {
    value = true;
    EXPECT_FALSE(parse_switch(word, value)) << word;
    EXPECT_TRUE(value) << word;
  }
}

TEST(Settings, EffortAndLogWords) {
  Effort effort = Effort::standard;
  EXPECT_TRUE(parse_effort("Quick", effort));
  EXPECT_EQ(effort, Effort::quick);
  EXPECT_FALSE(parse_effort("", effort));
  EXPECT_FALSE(parse_effort("quickly", effort));
  EXPECT_EQ(effort, Effort::quick);
  LogLevel level = LogLevel::debug;
  EXPECT_TRUE(parse_log_level("WARN", level));
  EXPECT_EQ(level, LogLevel::warn);
  for (const char* word : {"off", "0", "no", ""}) {
    level = LogLevel::debug;
    EXPECT_TRUE(parse_log_level(word, level));
    EXPECT_EQ(level, LogLevel::off);
  }
  EXPECT_FALSE(parse_log_level("1", level));
}

TEST(Settings, WorkspaceIsRoundedDownAndNoneIsNoLimit) {
  const std::vector<std::pair<std::string, std::size_t>> cases = {{"0", 0},
                                                                  {"off", 0},
                                                                  {"0.5", 0},
                                                                  {"1", mebibyte},
                                                                  {"31.9", 4 * mebibyte},
                                                                  {"255", 32 * mebibyte},
                                                                  {"100000", 256 * mebibyte},
                                                                  {"none", no_limit},
                                                                  {"NONE", no_limit}};
  for (const auto& [text, bytes] : cases) {
    const Applied a = apply({{"ATTUNE_WORKSPACE_MB", text}});
    EXPECT_EQ(a.settings.workspace_limit.get(), bytes) << text;
    EXPECT_TRUE(a.warnings.empty()) << text;
  }
  EXPECT_EQ(described(apply({{"ATTUNE_WORKSPACE_MB", "none"}}).settings).at("workspace limit"),
            "no limit (ATTUNE_WORKSPACE_MB)");
}

TEST(Settings, NumbersThatAreNoneAreRefused) {
  for (const char* text : {"-1", "nan", "inf", "1e999", "10ms", "1,5", " 5", "0x10", "1e30"}) {
    EXPECT_EQ(apply({{"ATTUNE_BUDGET_MS", text}}).warnings.size(), 1u) << text;
    EXPECT_EQ(apply({{"ATTUNE_WORKSPACE_MB", text}}).warnings.size(), 1u) << text;
  }
  EXPECT_EQ(described(apply({{"ATTUNE_BUDGET_MS", ""}}).settings).at("budget"), "as the effort says (ATTUNE_BUDGET_MS)");
}

}  // namespace
}  // namespace attune

// Recording the problems that calls bring, and tuning rows on several devices at once, on scripted contexts.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include <attune/gemm.hpp>

#include "cli/workers.hpp"
#include "context_impl.hpp"
#include "support/scripted.hpp"
#include "tune/problem_counts.hpp"

namespace attune {
namespace {

namespace fs = std::filesystem;
using test::Journal;

class Recorded : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / (std::string("attune_record_") + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = (folder_ / "problems.txt").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  Context context() {
    Backend backend;
    backend.runtime = std::make_unique<test::ScriptedRuntime>(journal_);
    backend.providers.push_back(std::make_unique<test::ScriptedProvider>(std::vector<test::Script>{{"a", {10}}, {"b", {5}}}, journal_));
    return Context::Impl::wrap(std::make_unique<Context::Impl>(std::move(backend), [](const char*) -> const char* { return nullptr; }));
  }
  void call(Context& ctx, std::int64_t m) {
    alignas(64) static float a[4096], b[4096], d[4096];
    tuned_gemm(ctx, GemmProblem(Op::N, Op::N, m, 8, 8, DType::f32), GemmArgs(a, b, d));
  }
  std::map<std::string, std::uint64_t> counts() {
    std::vector<ProblemCount> list;
    EXPECT_EQ(read_problem_counts(path_, list), "");
    std::map<std::string, std::uint64_t> counts;
    for (const ProblemCount& count : list) counts[count.problem] = count.calls;
    return counts;
  }

  std::shared_ptr<Journal> journal_ = std::make_shared<Journal>();
  fs::path folder_;
  std::string path_;
};

TEST_F(Recorded, EveryCallCountsOnceHitsAndMisses) {
  {
    Context ctx = context();
    ctx.set_record_file(path_);
    for (int i = 0; i < 5; ++i) call(ctx, 16);
    for (int i = 0; i < 3; ++i) call(ctx, 24);
  }
  const auto found = counts();
  ASSERT_EQ(found.size(), 2u);
  for (const auto& [text, calls] : found) {
    const auto p = std::get<GemmProblem>(parse_problem(text));
    EXPECT_EQ(calls, p.m == 16 ? 5u : 3u) << text;
  }
}

TEST_F(Recorded, UntunedAndPreparedPlansCountTheirCallsToo) {
  {
    Context ctx = context();
    ctx.set_benchmark(false);
    ctx.set_record_file(path_);
    ctx.prepare(GemmProblem(Op::N, Op::N, 32, 8, 8, DType::f32));
    for (int i = 0; i < 4; ++i) call(ctx, 16);
  }
  const auto found = counts();
  ASSERT_EQ(found.size(), 1u) << "what was only prepared was not called";
  EXPECT_EQ(found.begin()->second, 4u);
}

TEST_F(Recorded, ProcessesAddUpAndOtherLinesStay) {
  std::ofstream(path_) << "# mine\nconv,kept,as,it,is\n";
  for (int process = 0; process < 3; ++process) {
    Context ctx = context();
    ctx.set_record_file(path_);
    for (int i = 0; i < 7; ++i) call(ctx, 16);
  }
  EXPECT_EQ(counts().begin()->second, 21u);
  std::stringstream text;
  text << std::ifstream(path_).rdbuf();
  EXPECT_EQ(text.str().rfind("# mine\nconv,kept,as,it,is\n21 gemm ", 0), 0u) << text.str();
}

TEST_F(Recorded, ChangingTheFileEndsTheOneAndBeginsTheOther) {
  const std::string other = (folder_ / "other.txt").string();
  {
    Context ctx = context();
    call(ctx, 16);  // before anything is recorded
    ctx.set_record_file(path_);
    call(ctx, 16), call(ctx, 16);
    ctx.set_record_file(other);
    call(ctx, 16);
    ctx.set_record_file("");
    call(ctx, 16);
  }
  EXPECT_EQ(counts().begin()->second, 2u);
  path_ = other;
  EXPECT_EQ(counts().begin()->second, 1u);
}

TEST_F(Recorded, WhatTf32MayDoIsInTheText) {
  {
    Context ctx = context();
    ctx.set_math_modes(MathMode::tf32);
    ctx.set_record_file(path_);
    call(ctx, 16);
  }
  EXPECT_EQ(std::get<GemmProblem>(parse_problem(counts().begin()->first)).compute, Compute::f32_tf32);
}

TEST_F(Recorded, AFileThatCannotBeWrittenIsOneWarningAndNoFailedCall) {
  int warnings = 0;
  {
    Context ctx = context();
    ctx.set_log(LogLevel::warn, [](LogLevel, const char*, void* user) { ++*static_cast<int*>(user); }, &warnings);
    ctx.set_record_file((folder_ / "none" / "x.txt").string());
    call(ctx, 16), call(ctx, 16);
  }
  EXPECT_EQ(warnings, 1);
}

TEST(ProblemCounts, LinesAreReadAsTheyAreWritten) {
  ProblemCount count;
  ASSERT_TRUE(parse_count("12 gemm m=1", count));
  EXPECT_EQ(count.calls, 12u);
  EXPECT_EQ(count.problem, "gemm m=1");
  EXPECT_EQ(to_line(count), "12 gemm m=1");
  for (const char* line : {"", "12", "12 ", "gemm m=1", "-1 gemm", "99999999999999999999999 gemm", "# 12 gemm"})
    EXPECT_FALSE(parse_count(line, count)) << line;
}

namespace workers {

using cli::Row;
using cli::Worker;
using cli::WorkerResult;

std::vector<Row> rows(int count) {
  std::vector<Row> rows;
  for (int i = 0; i < count; ++i) rows.push_back(cli::parse_row("gemm,r" + std::to_string(i) + ",fp32,N,N,8,8," + std::to_string(8 + i) + ",1", i + 1));
  return rows;
}

struct Outcome {
  std::multiset<std::string> done;  ///< "row on device key"
  std::vector<std::string> wrong;
  int begun = 0;
};

/// Workers of these names and keys; those in `lost` lose their device at their first problem.
Outcome run(const std::vector<std::pair<std::string, std::string>>& devices, const std::vector<Row>& list,
            const std::set<std::string>& lost = {}) {
  std::map<std::string, std::string> key_of;
  std::vector<Worker> workers;
  for (const auto& [name, key] : devices) {
    key_of[name] = key;
    workers.push_back({name, key, [dead = lost.contains(name)](const Problem&) -> PlanInfo {
                         if (dead) throw Error(Status::device_error, "gone");
                         return {};
                       }});
  }
  Outcome outcome;
  tune_with(
      workers, list, [&](const Row&) { ++outcome.begun; },
      [&](const WorkerResult& result) {
        if (result.wrong.empty())
          outcome.done.insert(result.row->name + " on " + key_of[result.worker]);
        else
          outcome.wrong.push_back(result.row->name + ": " + result.wrong);
      });
  return outcome;
}

TEST(Workers, EqualDevicesShareTheRows) {
  const Outcome outcome = run({{"cuda:0", "H"}, {"cuda:1", "H"}}, rows(20));
  EXPECT_EQ(outcome.done.size(), 20u);
  EXPECT_EQ(std::set<std::string>(outcome.done.begin(), outcome.done.end()).size(), 20u) << "each once";
  EXPECT_EQ(outcome.begun, 20);
}

TEST(Workers, DifferentDevicesTuneEachRow) {
  const Outcome outcome = run({{"cuda:0", "H"}, {"cuda:1", "A"}}, rows(5));
  EXPECT_EQ(std::set<std::string>(outcome.done.begin(), outcome.done.end()).size(), 10u);
}

TEST(Workers, ALostDeviceCostsNoRowOfItsKind) {
  const Outcome outcome = run({{"cuda:0", "H"}, {"cuda:1", "H"}}, rows(20), {"cuda:1"});
  EXPECT_EQ(outcome.done.size(), 20u);
  EXPECT_TRUE(outcome.wrong.empty());
}

TEST(Workers, RowsThatNobodyIsLeftForAreReported) {
  const Outcome outcome = run({{"cuda:0", "H"}, {"cuda:1", "A"}}, rows(3), {"cuda:1"});
  EXPECT_EQ(outcome.done.size(), 3u);
  ASSERT_EQ(outcome.wrong.size(), 3u);
  EXPECT_NE(outcome.wrong[0].find("cuda:1: gone"), std::string::npos) << outcome.wrong[0];
}

TEST(Workers, BadRowsAreReportedOnceAndTuneNothing) {
  std::vector<Row> list = rows(2);
  list.push_back(cli::parse_row("gemm,bad,fp32,N,N,8,8", 3));
  const Outcome outcome = run({{"cuda:0", "H"}, {"cuda:1", "A"}}, list);
  EXPECT_EQ(outcome.done.size(), 4u);
  EXPECT_EQ(outcome.wrong.size(), 1u);
}

}  // namespace workers
}  // namespace
}  // namespace attune

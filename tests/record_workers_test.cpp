// Recording the problems that calls bring, and tuning rows on several devices at once, on scripted contexts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include <attune/gemm.hpp>

#include "cli/workers.hpp"
#include "context_impl.hpp"
#include "support/scripted.hpp"
#include "tune/plan_file.hpp"
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

  static std::vector<test::Script> scripts() { return {{"a", {10}}, {"b", {5}}}; }
  Context context(
      std::vector<test::Script> scripts = Recorded::scripts(),
      const GetEnv& environment = [](const char*) -> const char* { return nullptr; }) {
    return Context::Impl::wrap(
        std::make_unique<Context::Impl>(test::scripted_backend(std::move(scripts), journal_), environment));
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

TEST_F(Recorded, AHitWhosePlanFailsIsOneCall) {
  {
    Context ctx = context({{"a", {10}}, {"b", {5}, Outcome::ok, Outcome::ok, 0, {.workspace = 1 << 20}}});
    ctx.set_record_file(path_);
    call(ctx, 16);
    journal_->deny_workspace = true;
    call(ctx, 16);
    journal_->deny_workspace = false;
    EXPECT_EQ(journal_->runs["a"] + journal_->runs["fake:a"], 1) << "the second call fell back";
    call(ctx, 16);
  }
  EXPECT_EQ(counts().begin()->second, 3u);
}

TEST_F(Recorded, TheEnvironmentBeatsTheProgram) {
  const std::string from_program = (folder_ / "program.txt").string();
  setenv("ATTUNE_TEST_RECORD", path_.c_str(), 1);
  {
    Context ctx = context(scripts(), [](const char* name) -> const char* {
      return std::string_view(name) == "ATTUNE_RECORD" ? std::getenv("ATTUNE_TEST_RECORD") : nullptr;
    });
    ctx.set_record_file(from_program);
    call(ctx, 16);
  }
  unsetenv("ATTUNE_TEST_RECORD");
  EXPECT_EQ(counts().begin()->second, 1u);
  EXPECT_FALSE(fs::exists(from_program));
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

TEST_F(Recorded, ConstraintsThatAreNotTheDefaultsAreInTheTextAndComeBack) {
  {
    Context ctx = context();
    ctx.set_record_file(path_);
    call(ctx, 16);
    ctx.set_deterministic(true);
    ctx.set_workspace_limit(std::size_t{32} << 20);
    call(ctx, 16), call(ctx, 16);
  }
  const auto found = counts();
  ASSERT_EQ(found.size(), 2u);
  for (const auto& [text, calls] : found) {
    const Called called = parse_called(text);
    EXPECT_EQ(called.constraints.has_value(), calls == 2) << text;
    EXPECT_EQ(called.constraints.value_or(Constraints()).deterministic, calls == 2) << text;
    EXPECT_EQ(called.constraints.value_or(Constraints()).workspace_limit, (calls == 2 ? 32u : 256u) * mebibyte) << text;
    EXPECT_EQ(std::get<GemmProblem>(called.problem).m, 16);
  }
}

TEST(ProblemCounts, ConstraintsAreReadAsTheyAreWritten) {
  for (const std::size_t limit : workspace_limits)
    for (const bool deterministic : {false, true})
      for (unsigned modes = 0; modes < 16; ++modes) {
        const Constraints c{deterministic, static_cast<MathMode>(modes), limit, 0};
        EXPECT_EQ(parse_constraints(to_text(c)), c) << to_text(c);
      }
  for (const char* text : {"math=fast", "math=tf32,", "workspace=3MiB", "deterministic=1", "sms=4", "x"}) {
    try {
      parse_constraints(text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), Status::invalid_argument);
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  }
}

TEST_F(Recorded, AFileThatCannotBeWrittenIsOneWarningAndNoFailedCall) {
  int warnings = 0;
  {
    Context ctx = context();
    ctx.set_log(
        LogLevel::warn, [](LogLevel, const char*, void* user) { ++*static_cast<int*>(user); }, &warnings);
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
  for (int i = 0; i < count; ++i)
    rows.push_back(cli::parse_row("gemm,r" + std::to_string(i) + ",fp32,N,N,8,8," + std::to_string(8 + i) + ",1", i + 1));
  return rows;
}

struct Outcome {
  std::multiset<std::string> done;  ///< "row on device key"
  std::vector<std::string> wrong, lost;
  int begun = 0;
};

/// Workers of these names and keys; those in `lost` lose their device at their first problem.
Outcome run(const std::vector<std::pair<std::string, std::string>>& devices, const std::vector<Row>& list,
            const std::set<std::string>& lost = {}) {
  std::map<std::string, std::string> key_of;
  std::vector<Worker> workers;
  for (const auto& [name, key] : devices) {
    key_of[name] = key;
    workers.push_back({name, key, [dead = lost.contains(name)](const Row&) -> PlanInfo {
                         if (dead) throw Error(Status::device_error, "gone");
                         return {};
                       }});
  }
  Outcome outcome;
  tune_with(workers, list,
            {[&](const Row&) { ++outcome.begun; },
             [&](const WorkerResult& result) {
               if (result.wrong.empty())
                 outcome.done.insert(result.row->name + " on " + key_of[result.worker]);
               else
                 outcome.wrong.push_back(result.row->name + ": " + result.wrong);
             },
             [&](const Worker& worker, const std::string&) { outcome.lost.push_back(worker.name); }});
  return outcome;
}

/// Contexts on backends of these device names, with one plan file, as the program makes them for several GPUs.
std::size_t records_after(const std::vector<std::string>& devices, const std::vector<Row>& list, std::set<std::string>& keys,
                          int& tunings) {
  const fs::path path = fs::temp_directory_path() / ("attune_workers_" + std::to_string(::getpid()) + ".jsonl");
  fs::remove(path);
  std::vector<Context> contexts;
  std::vector<std::shared_ptr<Journal>> journals;
  std::vector<Worker> workers;
  contexts.reserve(devices.size());
  for (const std::string& device : devices) {
    journals.push_back(std::make_shared<Journal>());
    Backend backend;
    backend.runtime = std::make_unique<test::ScriptedRuntime>(journals.back(), device);
    backend.providers.push_back(
        std::make_unique<test::ScriptedProvider>(std::vector<test::Script>{{"a", {10}}, {"b", {5}}}, journals.back()));
    const std::string key = backend.runtime->info().key();
    contexts.push_back(Context::Impl::wrap(
        std::make_unique<Context::Impl>(std::move(backend), [](const char*) -> const char* { return nullptr; })));
    contexts.back().set_plan_file(path.string());
    workers.push_back({"cuda:" + std::to_string(workers.size()), key,
                       [&ctx = contexts.back()](const Row& row) { return ctx.tune(*row.problem); }});
  }
  tune_with(workers, list,
            {[](const Row&) {}, [](const WorkerResult& result) { EXPECT_EQ(result.wrong, ""); },
             [](const Worker&, const std::string&) { ADD_FAILURE(); }});
  const PlanFile file = read_plan_file(path.string());
  EXPECT_EQ(file.error, "");
  EXPECT_TRUE(file.kept.empty()) << "every line is whole";
  for (const Record& record : file.records) keys.insert(record.key.device);
  tunings = 0;
  for (const auto& journal : journals) tunings += journal->trials;
  fs::remove(path);
  fs::remove(path.string() + ".lock");
  return file.records.size();
}

TEST(Workers, ContextsOfEqualDevicesTuneEachProblemOnceIntoOneFile) {
  std::set<std::string> keys;
  int tunings = 0;
  EXPECT_EQ(records_after({"H", "H"}, rows(12), keys, tunings), 12u);
  EXPECT_EQ(keys.size(), 1u);
  EXPECT_EQ(tunings, 12);
}

TEST(Workers, ContextsOfDifferentDevicesTuneEachProblemForEachIntoOneFile) {
  std::set<std::string> keys;
  int tunings = 0;
  EXPECT_EQ(records_after({"H", "A"}, rows(12), keys, tunings), 24u);
  EXPECT_EQ(keys.size(), 2u);
  EXPECT_EQ(tunings, 24);
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

TEST(Workers, ARowHandedBackLateFindsAWorkerThatHadNothingLeftToDo) {
  std::promise<void> other_has_row, other_is_idle;
  std::atomic<int> done{0};
  const std::vector<Row> list = rows(2);
  const auto idle = other_is_idle.get_future().share();
  const auto has_row = other_has_row.get_future().share();
  const std::vector<Worker> workers{{"cuda:0", "H",
                                     [&](const Row&) -> PlanInfo {
                                       other_has_row.set_value();
                                       idle.wait();
                                       std::this_thread::sleep_for(std::chrono::milliseconds(50));
                                       throw Error(Status::device_error, "gone");
                                     }},
                                    {"cuda:1", "H", [&](const Row&) -> PlanInfo {
                                       has_row.wait();
                                       ++done;
                                       return {};
                                     }}};
  std::vector<std::string> wrong, lost;
  int begun = 0, good = 0;
  tune_with(workers, list,
            {[&](const Row&) { ++begun; },
             [&](const WorkerResult& result) {
               if (!result.wrong.empty()) wrong.push_back(result.wrong);
               if (++good == 1) other_is_idle.set_value();
             },
             [&](const Worker& worker, const std::string&) { lost.push_back(worker.name); }});
  EXPECT_EQ(done, 2);
  EXPECT_TRUE(wrong.empty());
  EXPECT_EQ(lost, std::vector<std::string>{"cuda:0"});
  EXPECT_EQ(begun, 2) << "a row handed back is not begun again";
}

TEST(Workers, RowsThatNobodyIsLeftForAreReported) {
  const Outcome outcome = run({{"cuda:0", "H"}, {"cuda:1", "A"}}, rows(3), {"cuda:1"});
  EXPECT_EQ(outcome.done.size(), 3u);
  ASSERT_EQ(outcome.wrong.size(), 3u);
  EXPECT_NE(outcome.wrong[0].find("cuda:1: gone"), std::string::npos) << outcome.wrong[0];
  EXPECT_EQ(outcome.lost, std::vector<std::string>{"cuda:1"});
  EXPECT_EQ(outcome.begun, 6);
}

TEST(Workers, WhatAnEventThrowsReachesTheCaller) {
  const std::vector<Row> list = rows(20);
  const std::vector<Worker> workers = {{"cuda:0", "H", [](const Row&) { return PlanInfo(); }}, {"cuda:1", "A", [](const Row&) { return PlanInfo(); }}};
  const cli::WorkerEvents events{[](const Row&) {}, [](const WorkerResult&) { throw std::runtime_error("no room to write"); },
                                 [](const Worker&, const std::string&) {}};
  EXPECT_THROW(tune_with(workers, list, events), std::runtime_error);
}

TEST(Workers, ARowThatLosesTwoDevicesIsAtFaultItself) {
  const std::vector<Row> list = rows(6);
  std::vector<Worker> workers;
  for (const char* name : {"cuda:0", "cuda:1", "cuda:2"})
    workers.push_back({name, "H", [](const Row& row) -> PlanInfo {
                         if (row.name == "r0") throw Error(Status::device_error, "gone");
                         return {};
                       }});
  std::vector<std::string> wrong;
  int done = 0;
  tune_with(workers, list,
            {[](const Row&) {}, [&](const WorkerResult& r) { r.wrong.empty() ? void(++done) : wrong.push_back(r.row->name); },
             [](const Worker&, const std::string&) {}});
  EXPECT_EQ(wrong, std::vector<std::string>{"r0"});
  EXPECT_EQ(done, 5);
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

// The call path from end to end on scripted candidates: tuning once, remembering, capture, failure, files, limits.
#include <gtest/gtest.h>

#include <attune/attune.hpp>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "context_impl.hpp"
#include "support/scripted.hpp"

namespace attune {
namespace {

using test::Journal;
using test::Script;

const char* no_environment(const char*) { return nullptr; }

struct Fixture {
  std::shared_ptr<Journal> journal = std::make_shared<Journal>();
  std::vector<Script> scripts = {{"default", {20}}, {"fast", {10}}};
  std::vector<std::string> messages;

  Context make(std::string version = "1", std::size_t capacity = 64, GetEnv env = no_environment) {
    return Context::Impl::wrap(std::make_unique<Context::Impl>(test::scripted_backend(scripts, journal, std::move(version)), env, capacity));
  }
  void listen(Context& ctx, LogLevel level = LogLevel::warn) {
    ctx.set_log(level, [](LogLevel, const char* m, void* user) { static_cast<Fixture*>(user)->messages.push_back(m); }, this);
  }
  int runs(const std::string& id) { return journal->runs.count(id) ? journal->runs[id] : 0; }
};

alignas(64) float a[64 * 64], b[64 * 64], d[64 * 64];
const GemmProblem problem(Op::N, Op::N, 64, 64, 64, DType::f32);

struct TempFolder {
  std::filesystem::path path;
  TempFolder() {
    char name[] = "/tmp/attune_test_XXXXXX";
    path = mkdtemp(name);
  }
  ~TempFolder() { std::filesystem::remove_all(path); }
  std::string file(const char* name = "plans.jsonl") const { return path / name; }
};

TEST(Context, TunesOnceThenHits) {
  Fixture f;
  Context ctx = f.make();
  for (int i = 0; i < 5; ++i) tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.journal->trials, 1);
  EXPECT_EQ(f.runs("fake:fast"), 5) << "the caller's operands see the winner alone, once a call";
  EXPECT_EQ(f.runs("fake:default"), 0);
  const Stats s = ctx.stats();
  EXPECT_EQ(s.hits, 4u);
  EXPECT_EQ(s.misses, 1u);
  EXPECT_EQ(s.tuned, 1u);
  EXPECT_EQ(s.candidates_timed, 2u);
  const PlanInfo info = ctx.plan_for(problem);
  EXPECT_EQ(info.plan, "fake:fast");
  EXPECT_EQ(info.source, Source::memory);
  EXPECT_EQ(info.timed, 0) << "by this request nothing was";
  EXPECT_EQ(info.default_plan, "fake:default");
  EXPECT_EQ(info.time_us, 10);
  EXPECT_EQ(info.default_us, 20);
}

TEST(Context, EveryFormOfGemmIsTheSameProblem) {
  Fixture f;
  Context ctx = f.make();
  const float one = 1, zero = 0;
  tuned_gemm(ctx, problem, {a, b, d});
  tuned_gemm(ctx, Op::N, Op::N, 64, 64, 64, &one, a, DType::f32, 64, b, DType::f32, 64, &zero, d, DType::f32, 64, Compute::f32);
  tuned_gemm_strided_batched(ctx, Op::N, Op::N, 64, 64, 64, &one, a, DType::f32, 64, 4096, b, DType::f32, 64, 4096, &zero, d, DType::f32,
                             64, 4096, 1, Compute::f32);
  tuned_gemm_row_major(ctx, Op::N, Op::N, 64, 64, 64, &one, a, DType::f32, 64, b, DType::f32, 64, &zero, d, DType::f32, 64, Compute::f32);
  tuned_gemm(ctx, GemmProblem::row_major(Op::N, Op::N, 64, 64, 64, DType::f32), GemmArgs::row_major(a, b, d));
  EXPECT_EQ(f.journal->trials, 1);
  EXPECT_EQ(f.runs("fake:fast"), 5);
}

TEST(Context, BadArgumentsAreRefusedAndLeaveNothing) {
  Fixture f;
  Context ctx = f.make();
  const float one = 1, zero = 0;
  const auto refused = [&](auto call, const char* part) {
    try {
      call();
      ADD_FAILURE() << part;
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), Status::invalid_argument);
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused([&] { tuned_gemm(ctx, problem, {nullptr, b, d}); }, "A: is null");
  refused([&] { tuned_gemm(ctx, problem, {a, nullptr, d}); }, "B: is null");
  refused([&] { tuned_gemm(ctx, problem, {a, b, nullptr}); }, "D: is null");
  refused([&] { tuned_gemm(ctx, problem, {a, b, a}); }, "overlaps A at");
  refused([&] { tuned_gemm(ctx, problem, {a, b, nullptr, d, &one, &one}); }, "C: is null");
  refused([&] { tuned_gemm(ctx, problem, {a, b, d + 4, d, &one, &one}); }, "must be C itself");
  refused([&] { tuned_gemm(ctx, problem, {reinterpret_cast<char*>(a) + 1, b, d}); }, "align_a = 1");
  refused([&] {
    tuned_gemm(ctx, Op::N, Op::N, 64, 64, 64, &one, a, DType::f32, 63, b, DType::f32, 64, &zero, d, DType::f32, 64, Compute::f32);
  }, "lda = 63");
  refused([&] {
    tuned_gemm(ctx, Op::N, Op::N, 64, 64, 64, nullptr, a, DType::f32, 64, b, DType::f32, 64, &zero, d, DType::f32, 64, Compute::f32);
  }, "alpha is null");
  refused([&] { tuned_conv(ctx, ConvProblem(Direction::fwd, {1, 3, 8, 8}, {4, 2, 3, 3}), ConvArgs::fwd(a, b, d)); }, "w[1] = 2");
  EXPECT_EQ(ctx.stats().entries, 0u);
  EXPECT_EQ(f.journal->trials, 0);
  EXPECT_TRUE(f.journal->runs.empty());
  // The same holds warm, also for a number that elsewhere means a default.
  tuned_gemm(ctx, problem, {a, b, d});
  refused([&] { tuned_gemm(ctx, problem, {a, b, a}); }, "overlaps A at");
  refused([&] { tuned_gemm(ctx, problem, {nullptr, b, d}); }, "A: is null");
  GemmProblem none = problem;
  none.batch = packed;
  refused([&] { tuned_gemm(ctx, none, {a, b, d}); }, "batch = -9223372036854775808");
  EXPECT_EQ(f.runs("fake:fast"), 1);
}

TEST(Context, ARefusalNamesTheCallersOwnArgument) {
  Fixture f;
  Context ctx = f.make();
  const float one = 1, zero = 0;
  struct Call {
    Op transa = Op::N, transb = Op::N;
    std::int64_t m = 4, n = 6, k = 8;
    const void *a, *b;
    DType a_type = DType::f32, b_type = DType::f32;
    std::int64_t lda = 16, ldb = 16;
    void* c;
    std::int64_t ldc = 16;
  };
  const Call good{.a = a, .b = b, .c = d};
  const auto says = [&](bool row_major, Call x, const std::string& message) {
    const auto run = [&](auto form) {
      return form(ctx, x.transa, x.transb, x.m, x.n, x.k, &one, x.a, x.a_type, x.lda, x.b, x.b_type, x.ldb, &zero, x.c,
                  DType::f32, x.ldc, Compute::f32, Stream(), std::nothrow);
    };
    EXPECT_NE(row_major ? run([](auto&&... args) { return tuned_gemm_row_major(args...); })
                        : run([](auto&&... args) { return tuned_gemm(args...); }),
              Status::ok);
    EXPECT_EQ(std::string(last_error_message()).substr(0, message.size()), message);
  };
  const auto with = [&](auto edit) {
    Call x = good;
    edit(x);
    return x;
  };
  for (const bool row_major : {false, true}) {
    says(row_major, with([](Call& x) { x.m = -1; }), "m = -1:");
    says(row_major, with([](Call& x) { x.n = -1; }), "n = -1:");
    says(row_major, with([](Call& x) { x.lda = -1; }), "lda = -1:");
    says(row_major, with([](Call& x) { x.ldb = -1; }), "ldb = -1:");
    says(row_major, with([](Call& x) { x.ldc = -1; }), "ldc = -1:");
    says(row_major, with([](Call& x) { x.transa = Op::C; }), "transa = C:");
    says(row_major, with([](Call& x) { x.transb = Op::C; }), "transb = C:");
    says(row_major, with([](Call& x) { x.a_type = DType::i32; }), "a_type = i32:");
    says(row_major, with([](Call& x) { x.b_type = DType::i32; }), "b_type = i32:");
    says(row_major, with([](Call& x) { x.b_type = static_cast<DType>(99); }), "b_type = 99:");
    says(row_major, with([](Call& x) { x.a = nullptr; }), "A: is null");
    says(row_major, with([](Call& x) { x.b = nullptr; }), "B: is null");
    says(row_major, with([](Call& x) { x.c = nullptr; }), "C: is null");
    says(row_major, with([](Call& x) { x.a = reinterpret_cast<char*>(a) + 1; }), "align_a = 1:");
    says(row_major, with([](Call& x) { x.b = reinterpret_cast<char*>(b) + 1; }), "align_b = 1:");
    says(row_major, with([](Call& x) { x.c = reinterpret_cast<char*>(d) + 1; }), "align_c = 1:");
  }
  says(false, with([](Call& x) { x.lda = 3; }), "lda = 3: must be at least 4, the rows of A");
  says(false, with([](Call& x) { x.ldb = 7; }), "ldb = 7: must be at least 8, the rows of B");
  says(true, with([](Call& x) { x.lda = 7; }), "lda = 7: must be at least 8, the columns of A");
  says(true, with([](Call& x) { x.ldb = 5; }), "ldb = 5: must be at least 6, the columns of B");
  says(true, with([](Call& x) { x.ldc = 5; }), "ldc = 5: must be at least 6, the columns of C");
  tuned_gemm_row_major(ctx, Op::N, Op::N, 4, 6, 8, &one, a, DType::f32, 16, b, DType::f32, 16, &zero, d, DType::f32, 16,
                       Compute::f32);
  says(true, with([](Call& x) { x.c = a; }), "C = ");
  EXPECT_NE(std::string(last_error_message()).find("overlaps A at"), std::string::npos) << last_error_message();
}

TEST(Context, TheNonThrowingFormReturnsTheCodeAndKeepsTheMessage) {
  Fixture f;
  Context ctx = f.make();
  EXPECT_EQ(tuned_gemm(ctx, problem, {a, b, d}, nullptr, std::nothrow), Status::ok);
  EXPECT_EQ(tuned_gemm(ctx, problem, {nullptr, b, d}, nullptr, std::nothrow), Status::invalid_argument);
  EXPECT_STREQ(last_error_message(), "A: is null");
  GemmProblem complex = problem;
  complex.op_a = Op::C;
  EXPECT_EQ(tuned_gemm(ctx, complex, {a, b, d}, nullptr, std::nothrow), Status::unsupported);
}

TEST(Context, EmptyProblemsSucceedWithoutLaunchOrEntry) {
  Fixture f;
  Context ctx = f.make();
  for (auto [m, n, batch] : {std::tuple(0, 4, 1), std::tuple(4, 0, 1), std::tuple(4, 4, 0)}) {
    GemmProblem p(Op::N, Op::N, m, n, 8, DType::f32);
    p.batch = batch;
    EXPECT_NO_THROW(tuned_gemm(ctx, p, {nullptr, nullptr, nullptr}));
  }
  tuned_conv(ctx, ConvProblem(Direction::fwd, {0, 4, 8, 8}, {4, 4, 3, 3}), ConvArgs::fwd(nullptr, b, nullptr));
  EXPECT_TRUE(f.journal->runs.empty());
  EXPECT_EQ(ctx.stats().entries, 0u);
}

TEST(Context, NoProductsOrAlphaZeroScaleC) {
  Fixture f;
  Context ctx = f.make();
  const float zero = 0, two = 2;
  tuned_gemm(ctx, GemmProblem(Op::N, Op::N, 64, 64, 0, DType::f32), {nullptr, nullptr, d, d, nullptr, &two});
  tuned_gemm(ctx, problem, {a, b, d, d, &zero, &two});
  tuned_conv(ctx, ConvProblem(Direction::wgrad, {0, 4, 8, 8}, {4, 4, 3, 3}), ConvArgs::wgrad(nullptr, nullptr, d));
  EXPECT_EQ(f.journal->scale_runs, 3);
  EXPECT_EQ(f.journal->trials, 0);
}

TEST(Context, SixteenThreadsOneColdKeyOneTuning) {
  Fixture f;
  Context ctx = f.make();
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) tuned_gemm(ctx, problem, {a, b, d});
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(f.journal->trials, 1);
  EXPECT_EQ(f.runs("fake:fast"), 800);
}

TEST(Context, AColdKeyUnderCaptureRunsTheDefaultAndIsTunedLater) {
  Fixture f;
  Context ctx = f.make();
  f.journal->capturing = true;
  tuned_gemm(ctx, problem, {a, b, d});
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.runs("fake:default"), 2);
  EXPECT_EQ(f.journal->trials, 0);
  EXPECT_EQ(ctx.plan_for(problem).source, Source::deferred);
  EXPECT_EQ(ctx.stats().deferred, 1u);
  f.journal->capturing = false;
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.journal->trials, 1);
  EXPECT_EQ(f.runs("fake:fast"), 1);
}

TEST(Context, ACapturingThreadDoesNotWaitForATuningOne) {
  Fixture f;
  Context ctx = f.make();
  bool inside = false;
  f.journal->on_check = [&] {
    if (inside) return;
    inside = true;
    f.journal->capturing = true;
    std::thread other([&] { tuned_gemm(ctx, problem, {a, b, d}); });
    other.join();  // would wait for ever
    f.journal->capturing = false;
  };
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_TRUE(inside);
  EXPECT_EQ(f.runs("fake:default"), 1);
  EXPECT_EQ(f.runs("fake:fast"), 1);
}

TEST(Context, BenchmarkOffTimesNothing) {
  Fixture f;
  Context ctx = f.make();
  ctx.set_benchmark(false);
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.runs("fake:default"), 1);
  EXPECT_EQ(f.journal->trials, 0);
  EXPECT_EQ(ctx.plan_for(problem).source, Source::default_plan);
  for (int i = 0; i < 3; ++i) tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(ctx.stats().misses, 1u);
}

TEST(Context, AKeyThatRanItsDefaultForWantOfBetterIsTunedWhenItMayBe) {
  Fixture f;
  Context ctx = f.make();
  ctx.set_benchmark(false);
  tuned_gemm(ctx, problem, {a, b, d});
  ctx.set_benchmark(true);
  for (int i = 0; i < 3; ++i) tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.journal->trials, 1);
  EXPECT_EQ(f.runs("fake:fast"), 3);
  EXPECT_EQ(ctx.stats().misses, 2u);
}

TEST(Context, ARecordReadLaterServesKeysThatRunTheirDefault) {
  TempFolder folder;
  Fixture other;
  Context tuned = other.make();
  tuned.tune(problem);
  tuned.save(folder.file());

  Fixture f;
  Context ctx = f.make();
  ctx.set_benchmark(false);
  tuned_gemm(ctx, problem, {a, b, d});
  ctx.load(folder.file());
  EXPECT_EQ(ctx.plan_for(problem).plan, "fake:fast") << "what the next call runs";
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.runs("fake:fast"), 1);
  EXPECT_EQ(ctx.prepare(problem).source, Source::file);
  EXPECT_EQ(f.journal->trials, 0);
  // A tuned plan stays, whatever is read: nobody asked.
  Context quick = f.make();
  quick.set_effort(Effort::quick);
  tuned_gemm(quick, problem, {a, b, d});
  quick.load(folder.file());
  tuned_gemm(quick, problem, {a, b, d});
  EXPECT_EQ(quick.plan_for(problem).effort, Effort::quick);
}

TEST(Context, ADeferredKeyThatMayNotTuneRunsAtOnce) {
  Fixture f;
  Context ctx = f.make();
  f.journal->capturing = true;
  for (int i = 0; i < 5; ++i) tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(ctx.stats().misses, 1u) << "captured calls hit";
  f.journal->capturing = false;
  ctx.set_benchmark(false);
  for (int i = 0; i < 5; ++i) tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(ctx.stats().misses, 1u) << "and those that may not tune";
  ctx.set_benchmark(true);
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.runs("fake:fast"), 1);
}

TEST(Context, ADeterministicKeyIsBoundByTheFirstCallOfAPreparedPlan) {
  Fixture f;
  Context ctx = f.make("1", 1);
  ctx.set_deterministic(true);
  ctx.set_benchmark(false);
  ctx.prepare(problem);
  for (int i = 0; i < 3; ++i) tuned_gemm(ctx, problem, {a, b, d});
  ctx.set_benchmark(true);
  tuned_gemm(ctx, problem, {a, b, d});
  tuned_gemm(ctx, GemmProblem(Op::N, Op::N, 32, 32, 32, DType::f32), {a, b, d});  // evicts
  for (int i = 0; i < 3; ++i) tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.runs("fake:default"), 7);
  EXPECT_EQ(ctx.plan_for(problem).plan, "fake:default");
  // Once settled for, such a key hits.
  const std::uint64_t misses = ctx.stats().misses;
  for (int i = 0; i < 3; ++i) tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(ctx.stats().misses, misses);
}

TEST(Context, AReplacedPlanIsNotTimedAgainUnlessAsked) {
  Fixture f;
  f.scripts[1].fails_to_run = true;
  Context ctx = f.make();
  tuned_gemm(ctx, problem, {a, b, d});
  ctx.set_benchmark(false);
  ctx.set_benchmark(true);
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.journal->trials, 1);
  EXPECT_EQ(f.runs("fake:default"), 2);
  ctx.tune(problem);
  EXPECT_EQ(f.journal->trials, 2);
}

TEST(Context, APlanThatFailsLaterIsReplacedAndTheCallSucceeds) {
  Fixture f;
  f.scripts[1].fails_to_run = true;
  Context ctx = f.make();
  f.listen(ctx);
  for (int i = 0; i < 3; ++i) tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.runs("fake:default"), 3);
  EXPECT_EQ(f.runs("fake:fast"), 1) << "not tried again";
  EXPECT_EQ(f.journal->trials, 1) << "nothing is timed again";
  EXPECT_EQ(ctx.stats().replaced, 1u);
  ASSERT_EQ(f.messages.size(), 1u);
  EXPECT_NE(f.messages[0].find("fake:fast failed"), std::string::npos);
}

TEST(Context, ADeniedWorkspaceStillGivesAnAnswerAndCostsNothingForGood) {
  Fixture f;
  f.scripts = {{"frugal", {30}}, {"hungry", {10}}};
  f.scripts[1].traits.workspace = mebibyte;
  Context ctx = f.make();
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.runs("fake:hungry"), 1);
  f.journal->deny_workspace = true;
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.runs("fake:frugal"), 1);
  f.journal->deny_workspace = false;
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.runs("fake:hungry"), 2);
}

TEST(Context, NobodyCanIsAClearError) {
  Fixture f;
  f.scripts = {{"only", {1}, Outcome::wrong}};
  Context ctx = f.make();
  try {
    tuned_gemm(ctx, problem, {a, b, d});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), Status::unsupported);
    EXPECT_NE(std::string(e.what()).find("fake:only wrong"), std::string::npos) << e.what();
  }
  EXPECT_EQ(ctx.stats().entries, 0u);
}

TEST(Context, ANewProcessReadsTheFileAndTimesNothing) {
  Fixture f;
  const TempFolder folder;
  {
    Context ctx = f.make();
    ctx.set_plan_file(folder.file());
    EXPECT_EQ(ctx.tune(problem).source, Source::tuned);
    EXPECT_EQ(ctx.tune(problem).source, Source::memory);
    EXPECT_EQ(ctx.tune(problem).timed, 0);
  }
  Context ctx = f.make();
  ctx.set_plan_file(folder.file());
  const PlanInfo info = ctx.tune(problem);
  EXPECT_EQ(info.source, Source::file);
  EXPECT_EQ(info.plan, "fake:fast");
  EXPECT_EQ(info.timed, 0);
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.journal->trials, 1);
}

TEST(Context, ARecordOfAnotherVersionIsStaleAndTunedAgain) {
  Fixture f;
  const TempFolder folder;
  {
    Context ctx = f.make("1");
    ctx.set_plan_file(folder.file());
    ctx.tune(problem);
  }
  Context off = f.make("2");
  off.set_benchmark(false);
  off.set_plan_file(folder.file());
  EXPECT_EQ(off.plan_for(problem).source, Source::stale);
  Context on = f.make("2");
  on.set_plan_file(folder.file());
  EXPECT_EQ(on.tune(problem).source, Source::tuned);
  EXPECT_EQ(f.journal->trials, 2);
  // And the first version's record is still there for whoever has that version.
  Context back = f.make("1");
  back.set_plan_file(folder.file());
  EXPECT_EQ(back.tune(problem).source, Source::file);
}

TEST(Context, AFileThatCannotBeWrittenIsOneWarning) {
  Fixture f;
  Context ctx = f.make();
  f.listen(ctx);
  ctx.set_plan_file("/nonexistent-folder/plans.jsonl");
  for (std::int64_t m = 8; m < 12; ++m) ctx.tune(GemmProblem(Op::N, Op::N, m, 8, 8, DType::f32));
  EXPECT_EQ(ctx.stats().tuned, 4u);
  EXPECT_EQ(f.messages.size(), 1u);
}

TEST(Context, AnEvictedKeyKeepsItsPlanWithoutTiming) {
  Fixture f;
  Context ctx = f.make("1", 2);
  for (std::int64_t m = 1; m <= 6; ++m) ctx.tune(GemmProblem(Op::N, Op::N, m, 8, 8, DType::f32));
  EXPECT_EQ(ctx.stats().entries, 2u);
  EXPECT_EQ(f.journal->trials, 6);
  const PlanInfo again = ctx.tune(GemmProblem(Op::N, Op::N, 1, 8, 8, DType::f32));
  EXPECT_EQ(again.source, Source::memory);
  EXPECT_EQ(again.plan, "fake:fast");
  EXPECT_EQ(f.journal->trials, 6);
}

TEST(Context, AHigherEffortTunesAgainOnlyWhenAsked) {
  Fixture f;
  Context ctx = f.make();
  ctx.set_effort(Effort::quick);
  tuned_gemm(ctx, problem, {a, b, d});
  ctx.set_effort(Effort::exhaustive);
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.journal->trials, 1);
  EXPECT_EQ(ctx.tune(problem).source, Source::tuned);
  EXPECT_EQ(f.journal->trials, 2);
}

TEST(Context, PrepareTimesNothing) {
  Fixture f;
  Context ctx = f.make();
  EXPECT_EQ(ctx.prepare(problem).source, Source::deferred);
  EXPECT_EQ(f.journal->trials, 0);
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.journal->trials, 1);
}

TEST(Context, AskingForThePlanMakesItOnceAndCountsItOnce) {
  Fixture f;
  Context ctx = f.make();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ctx.plan_for(problem).source, Source::deferred);
  EXPECT_EQ(ctx.workspace_size(problem), 0u);
  EXPECT_EQ(f.journal->prepares["default"], 1);
  EXPECT_EQ(ctx.stats().deferred, 1u);
  EXPECT_EQ(f.journal->trials, 0);
  EXPECT_TRUE(f.journal->runs.empty());
  // The candidates are listed while the key is tuned: the answer is there at once.
  bool asked = false;
  f.journal->on_check = [&] {
    asked = true;
    EXPECT_EQ(ctx.plan_for(problem).plan, "fake:default");
  };
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_TRUE(asked);
}

TEST(Context, TheCallersWorkspaceLimitsThePlans) {
  Fixture f;
  f.scripts = {{"frugal", {30}}, {"hungry", {10}}};
  f.scripts[1].traits.workspace = 2 * mebibyte;
  Context ctx = f.make();
  alignas(256) static char memory[512];
  EXPECT_THROW(ctx.set_workspace(memory + 1, 100), Error);
  ctx.set_workspace(memory, sizeof memory);
  EXPECT_EQ(ctx.tune(problem).plan, "fake:frugal");
  ctx.set_workspace(nullptr, 0);
  EXPECT_EQ(ctx.tune(problem).plan, "fake:hungry");
  EXPECT_EQ(ctx.workspace_size(problem), 2 * mebibyte);
}

TEST(Context, TheEnvironmentBeatsTheProgram) {
  Fixture f;
  Context ctx = f.make("1", 64, [](const char* name) -> const char* {
    return std::string(name) == "ATTUNE_BENCHMARK" ? "off" : nullptr;
  });
  ctx.set_benchmark(true);
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.journal->trials, 0);
}

TEST(Context, SaveLoadAndMergeCarryRecords) {
  Fixture f;
  const TempFolder folder;
  Context ctx = f.make();
  ctx.tune(problem);
  ctx.save(folder.file("a"));
  ctx.tune(GemmProblem(Op::T, Op::N, 64, 64, 64, DType::f32));
  ctx.save(folder.file("b"));
  Context::merge(folder.file("a"), folder.file("b"));
  Context other = f.make();
  EXPECT_EQ(other.load(folder.file("a")), 2u);
  EXPECT_EQ(other.tune(problem).source, Source::file);
  EXPECT_EQ(f.journal->trials, 2);
  EXPECT_THROW(other.load(folder.file("missing")), Error);
  EXPECT_EQ(other.load(folder.file("a")), 0u) << "all of it is there";
  // A better record takes the place of one, and counts.
  ctx.set_effort(Effort::exhaustive);
  ctx.tune(problem);
  ctx.save(folder.file("better"));
  const std::uint64_t records = other.stats().records;
  EXPECT_EQ(other.load(folder.file("better")), 1u);
  EXPECT_EQ(other.stats().records, records);
}

TEST(Context, AFileReadTwiceCountsOnceAndIsReadWheneverNamed) {
  Fixture f;
  const TempFolder folder;
  {
    Context ctx = f.make();
    ctx.tune(problem);
    ctx.save(folder.file());
  }
  std::ifstream in(folder.file());
  std::string line;
  std::getline(in, line);
  const std::string device = "Fictional GPU", other = "Another GPU";
  std::string foreign = line;
  foreign.replace(foreign.find(device), device.size(), other);
  std::ofstream(folder.file(), std::ios::app) << foreign << "\nnot a record\n";

  Context ctx = f.make();
  ctx.set_plan_file(folder.file());
  EXPECT_EQ(ctx.stats().records, 2u);
  EXPECT_EQ(ctx.stats().records_skipped, 2u) << "the foreign one and the damaged line";
  EXPECT_EQ(ctx.load(folder.file()), 0u);
  EXPECT_EQ(ctx.stats().records_skipped, 2u);
  // Another process adds to the file: naming it once more reads it.
  {
    Context writer = f.make();
    writer.set_plan_file(folder.file());
    writer.tune(GemmProblem(Op::N, Op::N, 16, 16, 16, DType::f32));
  }
  ctx.set_plan_file(folder.file());
  EXPECT_EQ(ctx.stats().records, 3u);
  EXPECT_EQ(ctx.stats().records_skipped, 2u);
}

TEST(Context, PreparingADeterministicKeyDoesNotBindIt) {
  Fixture f;
  Context ctx = f.make();
  ctx.set_deterministic(true);
  ctx.prepare(problem);
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.journal->trials, 1);
  EXPECT_EQ(f.runs("fake:fast"), 1);
  EXPECT_EQ(f.runs("fake:default"), 0);
}

TEST(Context, ADeterministicKeyKeepsItsBitsWhateverIsLoadedLater) {
  TempFolder folder;
  Fixture other;
  Context tuned = other.make();
  tuned.set_deterministic(true);
  tuned.tune(problem);
  tuned.save(folder.file());

  Fixture f;
  Context ctx = f.make("1", 1);
  ctx.set_deterministic(true);
  f.journal->capturing = true;
  tuned_gemm(ctx, problem, {a, b, d});
  f.journal->capturing = false;
  EXPECT_EQ(ctx.load(folder.file()), 1u);
  tuned_gemm(ctx, problem, {a, b, d});
  tuned_gemm(ctx, GemmProblem(Op::N, Op::N, 32, 32, 32, DType::f32), {a, b, d});  // evicts
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_GE(f.runs("fake:default"), 3);
  EXPECT_EQ(ctx.plan_for(problem).plan, "fake:default");
  EXPECT_EQ(ctx.tune(problem).plan, "fake:fast") << "asked for, it changes";
}

TEST(Context, APlanThatFailsWhenWarmIsNotRunTwice) {
  Fixture f;
  f.scripts[1].fails_to_run = true;
  Context ctx = f.make("1", 1);
  ctx.tune(problem);
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.runs("fake:fast"), 1);
  EXPECT_EQ(f.runs("fake:default"), 1);
  EXPECT_EQ(ctx.stats().replaced, 1u);
  // Nor does its record bring it back once its entry is gone.
  ctx.set_benchmark(false);
  tuned_gemm(ctx, GemmProblem(Op::N, Op::N, 32, 32, 32, DType::f32), {a, b, d});
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.runs("fake:fast"), 1);
  EXPECT_EQ(f.runs("fake:default"), 3);
}

TEST(Context, AFailureThatMayHaveWrittenIsReported) {
  Fixture f;
  f.scripts[1].fails_to_run = true;
  f.scripts[1].traits.restartable = false;
  Context ctx = f.make();
  const float one = 1;
  GemmProblem adds = problem;
  adds.beta = Scalar::one;
  ctx.tune(adds);
  EXPECT_EQ(tuned_gemm(ctx, adds, {a, b, d, d, &one, &one}, nullptr, std::nothrow), Status::device_error);
  EXPECT_EQ(f.runs("fake:fast"), 1);
  EXPECT_EQ(f.runs("fake:default"), 0) << "adding to D once more would be silently wrong";
  alignas(64) static float c[64 * 64];
  EXPECT_EQ(tuned_gemm(ctx, adds, {a, b, c, d, &one, &one}, nullptr, std::nothrow), Status::ok) << "C is as it was";
  EXPECT_EQ(f.runs("fake:default"), 1);
}

TEST(Context, NoPlanRunsTwiceForOneCallAndNoneBehindASpoiltOutput) {
  Fixture f;
  f.scripts[0].fails_to_run = f.scripts[1].fails_to_run = true;
  f.scripts.push_back({"third", {30}});
  Context ctx = f.make();
  tuned_gemm(ctx, problem, {a, b, d});
  EXPECT_EQ(f.runs("fake:fast"), 1);
  EXPECT_EQ(f.runs("fake:default"), 1);
  EXPECT_EQ(f.runs("fake:third"), 1);

  Fixture spoils;
  spoils.scripts = f.scripts;
  spoils.scripts[0].traits.restartable = false;
  Context other = spoils.make();
  const float one = 1;
  EXPECT_EQ(tuned_gemm(other, problem, {a, b, d, d, &one, &one}, nullptr, std::nothrow), Status::device_error);
  EXPECT_EQ(spoils.runs("fake:third"), 0);
}

TEST(Context, ALogCallbackMayAskItsContext) {
  TempFolder folder;
  Fixture f;
  Context ctx = f.make();
  ctx.tune(problem);
  ctx.save(folder.file());
  struct Asker {
    Context* ctx;
    std::uint64_t records = 0;
  } asker{&ctx};
  ctx.set_log(LogLevel::info, [](LogLevel, const char*, void* user) {
    auto& who = *static_cast<Asker*>(user);
    who.records = who.ctx->stats().records;
  }, &asker);
  ctx.load(folder.file());
  EXPECT_EQ(asker.records, 1u);
  ctx.set_plan_file("/nonexistent/folder/plans.jsonl");
  ctx.tune(GemmProblem(Op::N, Op::N, 16, 16, 16, DType::f32));
  EXPECT_EQ(asker.records, 2u);
}

TEST(Context, SettingsThatChangeMeanwhileSplitNoKey) {
  // One thread flips a setting, others call: no deterministic key may hold a plan that is not.
  Fixture f;
  f.scripts = {{"default", {20}}, {"fast", {10}}};
  f.scripts[1].traits.deterministic = false;
  Context ctx = f.make();
  std::atomic<bool> stop{false};
  std::thread flips([&] {
    for (bool on = true; !stop; on = !on) ctx.set_deterministic(on);
  });
  for (int i = 0; i < 300; ++i)
    tuned_gemm(ctx, GemmProblem(Op::N, Op::N, 8 + i % 50, 8, 8, DType::f32), {a, b, d});
  stop = true;
  flips.join();
  ctx.set_deterministic(true);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(ctx.plan_for(GemmProblem(Op::N, Op::N, 8 + i, 8, 8, DType::f32)).deterministic) << i;
}

}  // namespace
}  // namespace attune

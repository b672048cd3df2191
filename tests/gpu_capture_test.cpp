// Calls on a stream that is being captured, and what their graphs may rely on afterwards.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/gpu_call.hpp"

namespace attune {
namespace {

using GpuCapture = GpuContract;

constexpr cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                           cudaStreamCaptureModeRelaxed};

/// What `body` enqueues on the stream, instantiated; the captured graph itself is destroyed at once.
class Replay {
 public:
  template <class Body>
  Replay(cudaStream_t stream, Body&& body, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) : stream_(stream) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
    body();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess) << "the capture was broken";
    if (graph == nullptr) return;
    EXPECT_EQ(cudaGraphInstantiate(&executable_, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  ~Replay() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  void run() const {
    ASSERT_NE(executable_, nullptr);
    EXPECT_EQ(cudaGraphLaunch(executable_, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

struct Case {
  Problem problem;
  CallOptions options;
};

/// fp32 convolutions: what has not been checked may still be trusted.
std::vector<Case> cases() {
  return {{long_reduction(), {.alpha = 1, .beta = 2}},
          {GemmProblem(Op::N, Op::N, 80, 48, 96, DType::f32), {}},
          {small_conv(Direction::fwd, DType::f32, Layout::nchw), {}},
          {small_conv(Direction::wgrad, DType::f32, Layout::nchw), {.beta = 1}}};
}

Accumulation accumulation(Context& ctx, const Problem& problem) {
  PlanInfo info;
  return ctx.impl().prepare(problem, info)->traits().accumulation;
}

TEST_F(GpuCapture, AColdKeyRunsItsDefaultAndIsTunedByTheNextEagerCall) {
  const GpuStream stream;
  for (cudaStreamCaptureMode mode : modes)
    for (const Case& c : cases()) {
      if (mode != modes[0] && std::holds_alternative<ConvProblem>(c.problem)) continue;
      Context ctx = gpu_context();
      GpuCall call(c.problem, c.options);
      const Replay replay(
          stream, [&] { call.run(ctx, stream); }, mode);
      const PlanInfo deferred = ctx.plan_for(call.problem());
      EXPECT_EQ(deferred.source, Source::deferred) << deferred.reason;
      EXPECT_EQ(deferred.plan, deferred.default_plan);
      EXPECT_EQ(ctx.stats().tuned, 0u);
      EXPECT_EQ(ctx.stats().deferred, 1u);
      const Accumulation captured = accumulation(ctx, call.problem());
      const Constraints constraints = ctx.impl().constraints_for(call.problem());
      for (int i = 0; i < 2; ++i) {
        call.reset();
        replay.run();
        call.expect_right(constraints, captured);
      }
      call.reset();
      call.run(ctx, stream);
      call.expect_right(ctx);
      EXPECT_EQ(ctx.stats().tuned, 1u);
      EXPECT_EQ(ctx.plan_for(call.problem()).source, Source::memory);
      call.reset();
      replay.run();
      call.expect_right(constraints, captured);
      call.expect_inputs_untouched();
    }
}

TEST_F(GpuCapture, ADeterministicKeyKeepsTheBitsOfItsFirstReplay) {
  const GpuStream stream;
  Context ctx = gpu_context();
  ctx.set_deterministic(true);
  GpuCall call(long_reduction());
  const Replay replay(stream, [&] { call.run(ctx, stream); });
  replay.run();
  const Bytes captured = call.output();
  call.reset();
  call.run(ctx, stream);
  EXPECT_TRUE(call.output() == captured) << "an eager call changed the plan of a deterministic key";
  EXPECT_EQ(ctx.stats().tuned, 0u);
  EXPECT_EQ(ctx.tune(call.problem()).source, Source::tuned) << "asked for, it is tuned";
  call.expect_right(ctx);
}

TEST_F(GpuCapture, AWarmKeyReplays) {
  const GpuStream stream;
  Context ctx = gpu_context();
  for (cudaStreamCaptureMode mode : modes)
    for (const Case& c : cases()) {
      GpuCall call(c.problem, c.options);
      call.run(ctx, stream);
      const Replay replay(
          stream, [&] { call.run(ctx, stream); }, mode);
      EXPECT_EQ(ctx.plan_for(call.problem()).source, Source::memory);
      for (int i = 0; i < 2; ++i) {
        call.reset();
        replay.run();
        call.expect_right(ctx);
      }
    }
  EXPECT_EQ(ctx.stats().deferred, 0u);
}

/// Several operands of one problem.
std::vector<std::unique_ptr<GpuCall>> calls_of(const Problem& problem, std::uint64_t count) {
  std::vector<std::unique_ptr<GpuCall>> calls;
  for (std::uint64_t seed = 1; seed <= count; ++seed)
    calls.push_back(std::make_unique<GpuCall>(problem, CallOptions{.seed = seed}));
  return calls;
}

TEST_F(GpuCapture, CallsOfParallelBranchesHaveWorkspacesOfTheirOwn) {
  const GpuStream stream, branch;
  cudaEvent_t forked = nullptr, joined = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming), cudaSuccess);
  Context ctx = gpu_context();
  remember_plan(ctx, long_reduction(), plan_with_workspace(ctx, long_reduction()));
  const auto calls = calls_of(long_reduction(), 6);
  const Replay replay(stream, [&] {
    EXPECT_EQ(cudaEventRecord(forked, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(branch, forked), cudaSuccess);
    for (std::size_t i = 0; i < calls.size(); ++i) calls[i]->run(ctx, i % 2 == 0 ? stream : branch);
    EXPECT_EQ(cudaEventRecord(joined, branch), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(stream, joined), cudaSuccess);
  });
  EXPECT_EQ(ctx.plan_for(long_reduction()).source, Source::file);
  EXPECT_GT(ctx.plan_for(long_reduction()).workspace, 0u);
  for (int i = 0; i < 5; ++i) {
    for (const auto& call : calls) call->reset();
    replay.run();
    for (const auto& call : calls) call->expect_right(ctx);
  }
  cudaEventDestroy(forked);
  cudaEventDestroy(joined);
}

TEST_F(GpuCapture, ALargerEagerCallDoesNotDisturbTheGraph) {
  const GpuStream stream;
  Context ctx = gpu_context();
  const GemmProblem small = long_reduction(), large = long_reduction(128, 96, 16384);
  for (const GemmProblem& p : {small, large}) remember_plan(ctx, p, plan_with_workspace(ctx, p));
  GpuCall captured(small), eager(small), larger(large);
  eager.run(ctx, stream);
  const Replay replay(stream, [&] { captured.run(ctx, stream); });
  larger.run(ctx, stream);
  for (int i = 0; i < 3; ++i) {
    captured.reset();
    larger.reset();
    replay.run();
    larger.run(ctx, stream);
    eager.run(ctx, stream);
    captured.expect_right(ctx);
    larger.expect_right(ctx);
    eager.expect_right(ctx);
  }
}

/// Memory that a graph still uses must not be handed out again: these blocks would take its place.
class Scribble {
 public:
  explicit Scribble(std::size_t bytes) : content_(bytes, std::byte{0x77}) {
    for (int i = 0; i < 8; ++i) blocks_.push_back(std::make_unique<DeviceBuffer>(content_));
  }
  void expect_untouched() const {
    for (const auto& block : blocks_) EXPECT_TRUE(block->read() == content_) << "a graph wrote to memory it no longer owns";
  }

 private:
  Bytes content_;
  std::vector<std::unique_ptr<DeviceBuffer>> blocks_;
};

TEST_F(GpuCapture, AGraphOutlivesTheReplacementOfItsPlan) {
  const GpuStream stream;
  Context ctx = gpu_context();
  const std::string plan = plan_with_workspace(ctx, long_reduction());
  remember_plan(ctx, long_reduction(), plan, Effort::quick);
  GpuCall call(long_reduction());
  const Replay replay(stream, [&] { call.run(ctx, stream); });
  const std::size_t workspace = ctx.workspace_size(long_reduction());
  EXPECT_EQ(ctx.plan_for(long_reduction()).plan, plan);
  ctx.set_effort(Effort::standard);
  EXPECT_EQ(ctx.tune(long_reduction()).source, Source::tuned);
  const Scribble scribble(workspace);
  for (int i = 0; i < 2; ++i) {
    call.reset();
    replay.run();
    call.expect_right(ctx);
  }
  scribble.expect_untouched();
}

TEST_F(GpuCapture, AGraphOutlivesTheEvictionOfItsPlan) {
  const GpuStream stream;
  Context ctx = gpu_context(2);
  const Problem conv_problem = small_conv(Direction::dgrad, DType::f32, Layout::nchw);
  remember_plan(ctx, long_reduction(), plan_with_workspace(ctx, long_reduction()));
  GpuCall gemm(long_reduction()), conv(conv_problem);
  gemm.run(ctx, stream);
  conv.run(ctx, stream);
  const std::size_t workspace = ctx.workspace_size(long_reduction());
  const Accumulation of_gemm = accumulation(ctx, gemm.problem()), of_conv = accumulation(ctx, conv.problem());
  const Replay replay(stream, [&] {
    gemm.run(ctx, stream);
    conv.run(ctx, stream);
  });
  ctx.set_benchmark(false);
  for (std::int64_t m = 8; m <= 48; m += 8) GpuCall(GemmProblem(Op::N, Op::N, m, 8, 8, DType::f32)).run(ctx, stream);
  EXPECT_GE(ctx.stats().evicted, 2u);
  const Scribble scribble(workspace);
  gemm.reset();
  conv.reset();
  replay.run();
  gemm.expect_right({}, of_gemm);
  conv.expect_right({}, of_conv);
  scribble.expect_untouched();
}

// The graph's user objects keep plans and workspaces, so the context may go first.
TEST_F(GpuCapture, AGraphOutlivesItsContext) {
  const GpuStream stream;
  GpuCall gemm(long_reduction()), conv(small_conv(Direction::fwd, DType::f32, Layout::nchw));
  std::optional<Replay> replay;
  std::size_t workspace = 0;
  Accumulation of_conv{};
  {
    Context ctx = gpu_context();
    remember_plan(ctx, long_reduction(), plan_with_workspace(ctx, long_reduction()));
    conv.run(ctx, stream);
    replay.emplace(stream, [&] {
      gemm.run(ctx, stream);
      conv.run(ctx, stream);
    });
    workspace = ctx.workspace_size(long_reduction());
    of_conv = accumulation(ctx, conv.problem());
  }
  const Scribble scribble(workspace);
  for (int i = 0; i < 2; ++i) {
    gemm.reset();
    conv.reset();
    replay->run();
    gemm.expect_right({}, Accumulation::tensor_core);
    conv.expect_right({}, of_conv);
  }
  scribble.expect_untouched();
  replay.reset();
  // What the graph dropped is freed by whoever comes next.
  Context next = gpu_context();
  gemm.reset();
  gemm.run(next, stream);
  gemm.expect_right(next);
}

TEST_F(GpuCapture, TuningAndAnotherThreadsCaptureDoNotDisturbEachOther) {
  Context ctx = gpu_context();
  const GpuStream tuning, capturing;
  const Problem conv_problem = small_conv(Direction::fwd, DType::f32, Layout::nchw);
  GpuCall gemm(long_reduction()), conv(conv_problem);
  GpuCall same_gemm(long_reduction()), same_conv(conv_problem), warm_gemm(long_reduction()), warm_conv(conv_problem);
  std::promise<void> begun, tuned;
  std::optional<Replay> replay;
  std::thread capturer([&] {
    replay.emplace(capturing, [&] {
      begun.set_value();
      same_gemm.run(ctx, capturing);  // cold, or being tuned: not waited for
      same_conv.run(ctx, capturing);
      tuned.get_future().wait();
      warm_gemm.run(ctx, capturing);
      warm_conv.run(ctx, capturing);
    });
  });
  begun.get_future().wait();
  gemm.run(ctx, tuning);
  conv.run(ctx, tuning);
  tuned.set_value();
  capturer.join();
  tuning.wait();
  EXPECT_EQ(ctx.plan_for(gemm.problem()).source, Source::memory);
  EXPECT_EQ(ctx.plan_for(conv.problem()).source, Source::memory);
  gemm.expect_right(ctx);
  conv.expect_right(ctx);
  replay->run();
  for (GpuCall* call : {&same_gemm, &warm_gemm}) call->expect_right({}, Accumulation::tensor_core);
  for (GpuCall* call : {&same_conv, &warm_conv}) call->expect_right({}, Accumulation::transform);
}

TEST_F(GpuCapture, ACallIntoABrokenCaptureFailsAndHarmsNothing) {
  const GpuStream stream;
  for (bool warm : {false, true})
    for (const Case& c : cases()) {
      Context ctx = gpu_context();
      GpuCall call(c.problem, c.options);
      if (warm) call.run(ctx, stream);
      const std::string before = warm ? ctx.plan_for(call.problem()).plan : "";
      ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
      ASSERT_NE(cudaStreamSynchronize(stream), cudaSuccess) << "waiting breaks a capture";
      cudaGetLastError();
      EXPECT_EQ(call.try_run(ctx, stream), Status::device_error) << to_string(c.problem);
      EXPECT_NE(std::string(last_error_message()), "");
      EXPECT_EQ(cudaGetLastError(), cudaSuccess) << last_error_message();
      cudaGraph_t graph = nullptr;
      EXPECT_NE(cudaStreamEndCapture(stream, &graph), cudaSuccess);
      cudaGetLastError();
      call.reset();
      call.run(ctx, stream);
      call.expect_right(ctx);
      if (warm) {
        EXPECT_EQ(ctx.plan_for(call.problem()).plan, before);
      }
      EXPECT_EQ(ctx.stats().replaced, 0u);
    }
}

}  // namespace
}  // namespace attune

// Streams, threads and workspaces of calls on the GPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "support/gpu_call.hpp"

namespace attune {
namespace {

using GpuWorkspace = GpuContract;

/// Allocator hooks that count, remember and, if told so, deny.
class Hooks {
 public:
  ~Hooks() { EXPECT_TRUE(live_.empty()) << live_.size() << " blocks were never given back"; }
  Allocator get() {
    return {[](std::size_t bytes, Stream stream, void* user) { return static_cast<Hooks*>(user)->allocate(bytes, stream); },
            [](void* pointer, std::size_t bytes, Stream, void* user) noexcept {
              static_cast<Hooks*>(user)->deallocate(pointer, bytes);
            },
            this};
  }
  int calls() const { return calls_; }
  bool saw(Stream stream) const { return streams_.count(stream) != 0; }
  std::atomic<bool> deny{false};

 private:
  void* allocate(std::size_t bytes, Stream stream) {
    const std::lock_guard lock(mutex_);
    ++calls_;
    streams_.insert(stream);
    void* pointer = nullptr;
    if (deny || cudaMalloc(&pointer, bytes) != cudaSuccess) return nullptr;
    live_[pointer] = bytes;
    return pointer;
  }
  void deallocate(void* pointer, std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(pointer);
    if (found == live_.end() || found->second != bytes) {
      ADD_FAILURE() << "deallocate of " << pointer << ", " << bytes << " bytes, which was not allocated so";
      return;
    }
    live_.erase(found);
    EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  }

  std::mutex mutex_;
  std::map<void*, std::size_t> live_;
  std::set<Stream> streams_;
  int calls_ = 0;
};

std::vector<Problem> fp32_problems() {
  return {long_reduction(64, 48, 2048, DType::f32), small_conv(Direction::fwd, DType::f32, Layout::nchw),
          small_conv(Direction::dgrad, DType::f32, Layout::nhwc), small_conv(Direction::wgrad, DType::f32, Layout::nchw)};
}

TEST_F(GpuWorkspace, AColdCallComesBehindWhatItsStreamHolds) {
  const GpuStream apart, blocking(cudaStreamDefault);
  Context ctx = gpu_context();
  std::int64_t m = 64;
  for (cudaStream_t stream :
       {static_cast<cudaStream_t>(apart), static_cast<cudaStream_t>(blocking), cudaStream_t{nullptr}, cudaStreamPerThread}) {
    GpuCall call(long_reduction(m += 8));
    call.spoil_inputs();
    const DeviceBuffer late_a(call.host_a()), late_b(call.host_b());
    const Launch operands = call.launch(nullptr);
    const auto write_late = [&] {
      EXPECT_EQ(cudaLaunchHostFunc(
                    stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }, nullptr),
                cudaSuccess);
      for (auto [to, from] : {std::pair(operands.a, &late_a), std::pair(operands.b, &late_b)})
        EXPECT_EQ(cudaMemcpyAsync(const_cast<void*>(to), from->get(), from->size(), cudaMemcpyDeviceToDevice, stream),
                  cudaSuccess);
    };
    write_late();
    call.run(ctx, stream);
    EXPECT_EQ(ctx.plan_for(call.problem()).source, Source::memory);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    call.expect_right(ctx);
    // The same of a warm call.
    for (auto [to, from] : {std::pair(operands.a, &late_a), std::pair(operands.b, &late_b)})
      EXPECT_EQ(cudaMemset(const_cast<void*>(to), 0xff, from->size()), cudaSuccess);
    call.reset();
    write_late();
    call.run(ctx, stream);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    call.expect_right(ctx);
  }
}

/// 200 calls of each of two threads; each call has an output of its own.
void run_from_two_threads(Context& ctx, const GemmProblem& problem, const cudaStream_t (&streams)[2]) {
  constexpr std::size_t calls = 200;
  GpuCall first(problem, {.seed = 1}), second(problem, {.seed = 2});
  GpuCall* const operands[2] = {&first, &second};
  std::vector<std::unique_ptr<DeviceBuffer>> outputs;
  for (GpuCall* call : operands) outputs.push_back(std::make_unique<DeviceBuffer>(calls * call->output_bytes(), 0xff));
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      const Launch l = operands[t]->launch(nullptr);
      for (std::size_t i = 0; i < calls; ++i) {
        void* d = static_cast<std::byte*>(outputs[t]->get()) + i * operands[t]->output_bytes();
        if (tuned_gemm(ctx, problem, {l.a, l.b, d}, streams[t], std::nothrow) != Status::ok) ++failures;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  for (int t = 0; t < 2; ++t) {
    const Bytes all = outputs[t]->read();
    operands[t]->run(ctx);
    operands[t]->expect_right(ctx);
    const Bytes one = operands[t]->output();
    for (std::size_t i = 0; i < calls; ++i)
      ASSERT_TRUE(std::equal(one.begin(), one.end(), all.begin() + static_cast<std::ptrdiff_t>(i * one.size())))
          << "call " << i << " of thread " << t;
  }
}

TEST_F(GpuWorkspace, TwoThreadsShareAPlanThatNeedsAWorkspace) {
  Context ctx = gpu_context();
  const GemmProblem problem = long_reduction();
  remember_plan(ctx, problem, plan_with_workspace(ctx, problem));
  const GpuStream one, two;
  run_from_two_threads(ctx, problem, {one, two});
  run_from_two_threads(ctx, problem, {one, one});
  run_from_two_threads(ctx, problem, {nullptr, two});
  EXPECT_EQ(ctx.plan_for(problem).source, Source::file);
  EXPECT_GT(ctx.plan_for(problem).workspace, 0u);
  EXPECT_EQ(ctx.stats().replaced, 0u);
}

TEST_F(GpuWorkspace, AnswersWithoutAnyWorkspace) {
  Context ctx = gpu_context();
  ctx.set_workspace_limit(0);
  for (const Problem& problem : fp32_problems()) {
    GpuCall call(problem);
    call.run(ctx);
    call.expect_right(ctx);
    EXPECT_EQ(ctx.plan_for(call.problem()).workspace, 0u);
    EXPECT_EQ(ctx.workspace_size(call.problem()), 0u);
  }
}

TEST_F(GpuWorkspace, AnswersWhenTheAllocatorDeniesEverything) {
  Hooks hooks;
  hooks.deny = true;
  Context ctx = gpu_context();
  ctx.set_allocator(hooks.get());
  for (const Problem& problem : fp32_problems())
    for (int i = 0; i < 2; ++i) {
      GpuCall call(problem);
      call.run(ctx);
      EXPECT_EQ(cudaGetLastError(), cudaSuccess);
      call.expect_right(ctx.impl().constraints_for(problem), Accumulation::transform);
    }
  EXPECT_GT(hooks.calls(), 0);
  EXPECT_EQ(ctx.stats().candidates_timed, 0u);
  // A captured call whose workspace is denied answers as well.
  const GemmProblem gemm = long_reduction();
  remember_plan(ctx, gemm, plan_with_workspace(ctx, gemm));
  const GpuStream stream;
  GpuCall call(gemm);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  call.run(ctx, stream);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  stream.wait();
  call.expect_right({}, Accumulation::tensor_core);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST_F(GpuWorkspace, TakesItFromTheAllocatorOnTheCallsStreamAndGivesItBack) {
  Hooks hooks;  // its end sees to it that every block came back
  const GpuStream stream;
  Context ctx = gpu_context();
  ctx.set_allocator(hooks.get());
  for (const Problem& problem : fp32_problems()) {
    GpuCall call(problem);
    call.run(ctx, stream);
    stream.wait();
    call.expect_right(ctx);
  }
  EXPECT_GT(hooks.calls(), 0) << "trials, too, take their memory from the caller's allocator";
  const GemmProblem problem = long_reduction();
  remember_plan(ctx, problem, plan_with_workspace(ctx, problem));
  GpuCall call(problem);
  call.run(ctx, stream);
  EXPECT_TRUE(hooks.saw(stream));
  const int before = hooks.calls();
  for (int i = 0; i < 3; ++i) call.run(ctx, stream);
  EXPECT_EQ(hooks.calls(), before) << "a block was taken anew for a later call of the same stream";
  stream.wait();
  call.expect_right(ctx);
  EXPECT_THROW(ctx.set_allocator({}), Error) << "too late";
}

TEST_F(GpuWorkspace, UsesTheCallersOwn) {
  Hooks hooks;
  const GpuStream stream;
  Context ctx = gpu_context();
  ctx.set_allocator(hooks.get());
  ctx.set_workspace_limit(32 * mebibyte);
  const GemmProblem problem = long_reduction();
  remember_plan(ctx, problem, plan_with_workspace(ctx, problem));
  const DeviceBuffer own(32 * mebibyte, 0xa5);
  ctx.set_workspace(own.get(), own.size());
  GpuCall call(problem);
  call.run(ctx, stream);
  stream.wait();
  call.expect_right(ctx);
  EXPECT_EQ(hooks.calls(), 0);
  const std::size_t used = ctx.workspace_size(problem);
  ASSERT_GT(used, 0u);
  const Bytes after = own.read();
  const auto fresh = [](std::byte b) { return b == std::byte{0xa5}; };
  const auto end = after.begin() + static_cast<std::ptrdiff_t>(used);
  EXPECT_FALSE(std::all_of(after.begin(), end, fresh)) << "the plan has not used its workspace";
  EXPECT_TRUE(std::all_of(end, after.end(), fresh)) << "more than the plan's workspace was written";

  ctx.set_workspace(nullptr, 0);
  call.reset();
  call.run(ctx, stream);
  stream.wait();
  call.expect_right(ctx);
  EXPECT_EQ(hooks.calls(), 1);
}

TEST_F(GpuWorkspace, NoPlanNeedsMoreThanTheCallersOwn) {
  Context ctx = gpu_context();
  const DeviceBuffer own(mebibyte, 0xa5);
  ctx.set_workspace(own.get(), own.size());
  for (const Problem& problem : fp32_problems()) {
    GpuCall call(problem);
    call.run(ctx);
    call.expect_right(ctx);
    EXPECT_LE(ctx.plan_for(call.problem()).workspace, mebibyte);
  }
}

}  // namespace
}  // namespace attune

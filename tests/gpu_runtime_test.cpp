// The CUDA runtime: workspaces, capture, scaling, errors.
#include "runtime/cuda_runtime.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <set>
#include <thread>

#include "runtime/cuda_retained.hpp"
#include "support/gpu.hpp"
#include "support/gpu_plans.hpp"

namespace attune {
namespace {

class GpuRuntime : public testing::Test {
 protected:
  void SetUp() override { ATTUNE_SKIP_WITHOUT_GPU(); }
  void TearDown() override {
    if (missing_gpu().empty()) {
      EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    }
  }
};

struct TestStream {
  TestStream() { cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~TestStream() { cudaStreamDestroy(stream); }
  cudaStream_t stream = nullptr;
};

/// The allocator of a test: counts, and forwards to cudaMalloc.
struct Counted {
  std::atomic<int> allocated{0}, freed{0};
  bool deny = false;
  Allocator hooks() {
    return {[](std::size_t bytes, Stream, void* user) -> void* {
              auto* self = static_cast<Counted*>(user);
              void* pointer = nullptr;
              if (self->deny || cudaMalloc(&pointer, bytes) != cudaSuccess) return nullptr;
              ++self->allocated;
              return pointer;
            },
            [](void* pointer, std::size_t, Stream, void* user) noexcept {
              cudaFree(pointer);
              ++static_cast<Counted*>(user)->freed;
            },
            this};
  }
};

Launch on(cudaStream_t stream) {
  Launch launch;
  launch.stream = stream;
  return launch;
}

TEST(CudaRuntime, NamesTheDeviceThatIsNotThere) {
  try {
    make_cuda_runtime(4711);
    FAIL() << "there is no device 4711";
  } catch (const Error& error) {
    EXPECT_TRUE(error.status() == Status::no_device || error.status() == Status::driver_too_old) << error.what();
    if (missing_gpu().empty()) {
      EXPECT_NE(std::string(error.what()).find("4711"), std::string::npos) << error.what();
    }
  }
}

TEST_F(GpuRuntime, DescribesTheDevice) {
  const DeviceInfo& info = gpu_runtime().info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_GE(info.cc_major, 8);
  EXPECT_GT(info.processors, 0);
  EXPECT_GT(info.l2_bytes, 1 << 20);
  EXPECT_GT(info.memory_bytes, std::int64_t{1} << 30);
}

TEST_F(GpuRuntime, GivesEachStreamItsOwnWorkspaceAndKeepsIt) {
  const auto runtime = make_cuda_runtime(0);
  TestStream one, two;
  auto plan = std::make_shared<FillingPlan>(std::size_t{3} << 20);
  std::set<void*> seen;
  for (int i = 0; i < 3; ++i)
    for (cudaStream_t stream : {one.stream, two.stream, cudaStream_t{nullptr}}) {
      ASSERT_EQ(runtime->run(plan, on(stream)), Status::ok);
      seen.insert(plan->last_workspace);
    }
  EXPECT_EQ(seen.size(), 3u);
  auto larger = std::make_shared<FillingPlan>(std::size_t{9} << 20);
  ASSERT_EQ(runtime->run(larger, on(one.stream)), Status::ok);
  ASSERT_EQ(runtime->run(plan, on(one.stream)), Status::ok);
  EXPECT_EQ(plan->last_workspace, larger->last_workspace);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(GpuRuntime, ServesMoreStreamsThanItRemembersAndManyThreads) {
  const auto runtime = make_cuda_runtime(0);
  auto plan = std::make_shared<FillingPlan>(std::size_t{1} << 16);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 40; ++i) {
        TestStream own;
        for (cudaStream_t stream : {own.stream, cudaStream_t{nullptr}})
          if (runtime->run(plan, on(stream)) != Status::ok) ++failures;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(GpuRuntime, GivesWhatGoneStreamsHadToNewOnes) {
  Counted counted;
  {
    const auto runtime = make_cuda_runtime(0);
    ASSERT_TRUE(runtime->set_allocator(counted.hooks()));
    auto plan = std::make_shared<FillingPlan>(std::size_t{1} << 20);
    for (int i = 0; i < 300; ++i) {  // a server that makes a stream for each request
      TestStream own;
      ASSERT_EQ(runtime->run(plan, on(own.stream)), Status::ok) << runtime->last_failure();
      ASSERT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
      EXPECT_EQ(read_device(plan->last_workspace, 1)[0], std::byte{0x5a});
    }
    EXPECT_EQ(counted.freed, 0);
    EXPECT_LE(counted.allocated, 16) << "the few that have slots for good, and those that take turns";
  }
  EXPECT_EQ(counted.allocated, counted.freed);
}

TEST_F(GpuRuntime, TakesNoBlockFromAStreamWhoseWorkIsNotDone) {
  const auto runtime = make_cuda_runtime(0);
  auto plan = std::make_shared<FillingPlan>(std::size_t{1} << 16);
  // Every stream is held up, so that nobody's work is done until the end.
  std::atomic<bool> go{false};
  constexpr std::size_t many = 40;
  std::vector<TestStream> streams(many);
  std::set<void*> blocks;
  for (TestStream& s : streams) {
    ASSERT_EQ(cudaLaunchHostFunc(
                  s.stream,
                  [](void* user) {
                    while (!static_cast<std::atomic<bool>*>(user)->load()) std::this_thread::yield();
                  },
                  &go),
              cudaSuccess);
    const Status status = runtime->run(plan, on(s.stream));
    if (status != Status::ok) go = true;
    ASSERT_EQ(status, Status::ok) << runtime->last_failure();
    blocks.insert(plan->last_workspace);
  }
  go = true;
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(blocks.size(), many);
}

TEST_F(GpuRuntime, UsesTheAllocatorAndReportsItsRefusal) {
  Counted counted;
  {
    const auto runtime = make_cuda_runtime(0);
    ASSERT_TRUE(runtime->set_allocator(counted.hooks()));
    TestStream stream;
    auto plan = std::make_shared<FillingPlan>(1000);
    EXPECT_EQ(runtime->run(plan, on(stream.stream)), Status::ok);
    EXPECT_EQ(runtime->run(plan, on(stream.stream)), Status::ok);
    EXPECT_EQ(counted.allocated, 1);
    EXPECT_FALSE(runtime->set_allocator({}));
    counted.deny = true;
    auto larger = std::make_shared<FillingPlan>(std::size_t{1} << 20);
    EXPECT_EQ(runtime->run(larger, on(stream.stream)), Status::no_memory);
    EXPECT_NE(runtime->last_failure().find("denied"), std::string::npos) << runtime->last_failure();
    counted.deny = false;
    EXPECT_EQ(runtime->run(larger, on(stream.stream)), Status::ok);
  }
  EXPECT_EQ(counted.allocated, counted.freed);
}

TEST_F(GpuRuntime, TellsACapturingStream) {
  TestStream stream, other;
  EXPECT_FALSE(gpu_runtime().capturing(stream.stream));
  ASSERT_EQ(cudaStreamBeginCapture(stream.stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_TRUE(gpu_runtime().capturing(stream.stream));
  EXPECT_FALSE(gpu_runtime().capturing(other.stream));
  EXPECT_FALSE(gpu_runtime().capturing(nullptr));
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream.stream, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
}

TEST_F(GpuRuntime, KeepsWorkspaceAndPlanAsLongAsTheGraph) {
  Counted counted;
  std::weak_ptr<const Plan> watched;
  TestStream stream;
  cudaGraphExec_t executable = nullptr;
  void* captured_workspace = nullptr;
  {
    const auto runtime = make_cuda_runtime(0);
    ASSERT_TRUE(runtime->set_allocator(counted.hooks()));
    auto plan = std::make_shared<FillingPlan>(1 << 16);
    watched = plan;
    ASSERT_EQ(cudaStreamBeginCapture(stream.stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    ASSERT_EQ(runtime->run(plan, on(stream.stream)), Status::ok) << runtime->last_failure();
    captured_workspace = plan->last_workspace;
    ASSERT_EQ(runtime->run(plan, on(stream.stream)), Status::ok) << runtime->last_failure();
    EXPECT_NE(plan->last_workspace, captured_workspace) << "each captured call has a block of its own";
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream.stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
  }
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(counted.allocated - counted.freed, 2);
  ASSERT_EQ(cudaGraphLaunch(executable, stream.stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream.stream), cudaSuccess);
  EXPECT_EQ(read_device(captured_workspace, 1)[0], std::byte{0x5a});
  ASSERT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  // CUDA drops user objects from a thread of its own, some time later.
  for (int i = 0; i < 200 && counted.allocated != counted.freed; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    free_retired();
  }
  EXPECT_EQ(counted.allocated, counted.freed);
  EXPECT_TRUE(watched.expired());
}

TEST_F(GpuRuntime, MakesRoomForATrialUnderAnotherThreadsCapture) {
  TestStream stream;
  ASSERT_EQ(cudaStreamBeginCapture(stream.stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  std::thread([] {
    const auto guard = gpu_runtime().guard();
    const Problem problem = resolve(GemmProblem(Op::N, Op::N, 64, 64, 64, DType::f32));
    const auto trial = gpu_runtime().trial(problem, {}, 1 << 20, 1);
    ASSERT_NE(trial, nullptr);
    const FillingPlan plan(1 << 20);
    EXPECT_EQ(trial->check(plan).outcome, Outcome::wrong);
    const auto timer = trial->timer(plan, TimingMethod::graph, 5);
    ASSERT_NE(timer, nullptr);
    EXPECT_GT(timer->sample(), 0);
  }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream.stream, &graph), cudaSuccess) << "the capture was disturbed";
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
}

/// Fills C with numbers, D with 0xff, scales, and compares every byte of D's span.
void expect_scaled(const Problem& given, double beta, bool in_place) {
  const Problem problem = resolve(given);
  SCOPED_TRACE(to_string(problem));
  bool zero = false, wide = false;
  visit_contraction(problem, [&](const auto& p) { zero = p.beta == Scalar::zero, wide = p.compute == Compute::f64; });
  const Span span = spans(problem).d;
  const Span c_span = zero ? span : spans(problem).c;
  std::vector<std::byte> c(c_span.bytes()), d(span.bytes(), std::byte{0xff});
  for (std::int64_t i = 0; i < c_span.elements; ++i)
    store_number(c.data(), c_span.type, i, zero ? NAN : std::sin(static_cast<double>(i)));
  if (in_place) d = c;
  std::vector<std::byte> expected = d;
  visit_contraction(problem, [&](const auto& p) {
    const auto v = view(p);
    for (std::int64_t z = 0; z < v.batches(); ++z)
      for (std::int64_t j = 0; j < v.cols(); ++j)
        for (std::int64_t i = 0; i < v.rows(); ++i) {
          // Where beta is zero, c is as large as d, and its layout means nothing.
          const double from = zero ? 0 : load_number(c.data(), c_span.type, v.c_offset(i, j, z));
          const double value = p.compute == Compute::f64 ? beta * from : static_cast<float>(beta) * static_cast<float>(from);
          store_number(expected.data(), span.type, v.d_offset(i, j, z), value);
        }
  });
  const DeviceBuffer on_device_c(c), on_device_d(d);
  const float narrow_beta = static_cast<float>(beta), narrow_alpha = 0;
  const double wide_alpha = 0;
  Launch launch;
  launch.d = on_device_d.get();
  launch.c = in_place ? launch.d : on_device_c.get();
  launch.alpha = wide ? static_cast<const void*>(&wide_alpha) : &narrow_alpha;
  launch.beta = wide ? static_cast<const void*>(&beta) : &narrow_beta;
  ASSERT_EQ(gpu_runtime().scale_plan(problem)->run(launch), Status::ok);
  EXPECT_EQ(on_device_d.read(), expected);
}

TEST_F(GpuRuntime, ScalesMatricesOfEveryType) {
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (Scalar beta : {Scalar::zero, Scalar::one, Scalar::other}) {
      const double value = beta == Scalar::zero ? 0 : beta == Scalar::one ? 1 : -0.75;
      GemmProblem p(Op::N, Op::N, 37, 19, 5, type);
      p.alpha = Scalar::zero, p.beta = beta, p.batch = 3, p.ldd = 41, p.ldc = 50;
      expect_scaled(p, value, false);
      p.ldc = p.ldd;
      if (beta != Scalar::zero) expect_scaled(p, value, true);
    }
}

TEST_F(GpuRuntime, ScalesManySmallMatrices) {
  GemmProblem p(Op::N, Op::N, 2, 1, 1, DType::f32);
  p.alpha = Scalar::zero, p.beta = Scalar::other, p.batch = 70001, p.stride_d = 3;
  expect_scaled(p, 2.5, false);
}

TEST_F(GpuRuntime, ScalesTensorsInPlace) {
  for (Direction direction : {Direction::fwd, Direction::dgrad, Direction::wgrad})
    for (Layout layout : {Layout::nchw, Layout::nhwc}) {
      ConvProblem p(direction, {2, 6, 5, 7}, {4, 3, 3, 2});
      p.set_dtype(DType::bf16), p.layout = layout, p.groups = 2, p.alpha = Scalar::zero, p.beta = Scalar::other;
      if (direction == Direction::fwd && layout == Layout::nchw)
        p.y_stride[0] = 200, p.y_stride[1] = 40, p.y_stride[2] = 8, p.y_stride[3] = 1;
      expect_scaled(p, -0.75, true);
    }
}

}  // namespace
}  // namespace attune

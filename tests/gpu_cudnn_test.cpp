// Conformance of the cuDNN provider: every variant that it lists, elementwise, in all directions, layouts and types.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/problem.hpp"
#include "providers/cudnn.hpp"
#include "providers/cudnn_engine.hpp"
#include "runtime/cuda_runtime.hpp"
#include "runtime/cuda_support.hpp"
#include "support/gpu.hpp"
#include "support/reference.hpp"

namespace attune {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int untouched = 0xFF;

struct TypeSet {
  DType type;
  MathMode math;
};
constexpr TypeSet type_sets[] = {{DType::f16, MathMode::transforms},
                                 {DType::bf16, MathMode::transforms},
                                 {DType::f32, MathMode::transforms},
                                 {DType::f32, MathMode::transforms | MathMode::tf32},
                                 {DType::f64, MathMode::transforms}};
constexpr Direction directions[] = {Direction::fwd, Direction::dgrad, Direction::wgrad};
constexpr Layout layouts[] = {Layout::nchw, Layout::nhwc};

/// Under `Constraints` with room enough that no engine is declined for its workspace.
Constraints with(MathMode math) {
  Constraints constraints;
  constraints.math = math;
  constraints.workspace_limit = 256 * mebibyte;
  return constraints;
}

ConvProblem conv(Direction direction, Dims x, Dims w, DType type, Layout layout) {
  ConvProblem p(direction, x, w);
  p.set_dtype(type);
  p.layout = layout;
  p.align_x = p.align_w = p.align_y = 16;
  return p;
}

/// One problem with operands on the GPU; the output lies between red zones and is checked with its gaps.
class ConvCase {
 public:
  explicit ConvCase(const ConvProblem& p)
      : host_(p, 1, p.beta == Scalar::zero ? 0 : 1, 7),
        launch_(host_.launch(0)),
        spans_(spans(host_.problem())),
        a_(bytes_of(spans_.a) + 16),
        b_(bytes_of(spans_.b) + 16),
        d_(around()) {
    const bool fwd = p.direction == Direction::fwd, dgrad = p.direction == Direction::dgrad;
    shift_a_ = shift(dgrad ? p.align_y : p.align_x), shift_b_ = shift(p.direction == Direction::wgrad ? p.align_y : p.align_w);
    shift_d_ = shift(fwd ? p.align_y : dgrad ? p.align_x : p.align_w);
    write_device(at(a_, shift_a_), launch_.a, bytes_of(spans_.a));
    write_device(at(b_, shift_b_), launch_.b, bytes_of(spans_.b));
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~ConvCase() { cudaStreamDestroy(stream_); }
  ConvCase(const ConvCase&) = delete;
  ConvCase& operator=(const ConvCase&) = delete;

  const Problem& problem() const { return host_.problem(); }
  cudaStream_t stream() const { return stream_; }

  /// The output made ready; then the plan's launch with a workspace of exactly its size before a red zone.
  Launch prepare(const Plan& plan) {
    launch_ = host_.launch(0);
    Bytes content(around(), std::byte{untouched});
    std::memcpy(content.data() + shift_d_, static_cast<std::byte*>(launch_.d) - zone, content.size() - 16);
    write_device(d_.get(), content.data(), content.size());
    workspace_ = std::make_unique<DeviceBuffer>(plan.traits().workspace + zone, untouched);
    Launch launch = launch_;
    launch.a = at(a_, shift_a_), launch.b = at(b_, shift_b_), launch.d = at(d_, zone + shift_d_), launch.c = launch.d;
    launch.workspace = workspace_->get();
    launch.stream = stream_;
    return launch;
  }

  /// Waits for what was launched; the output as it is then, brought to the host for check().
  Bytes finish(const Plan& plan) {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess) << plan.id();
    Bytes content = d_.read();
    std::memcpy(static_cast<std::byte*>(launch_.d) - zone, content.data() + shift_d_, content.size() - 16);
    const Bytes workspace = workspace_->read();
    EXPECT_TRUE(std::all_of(workspace.end() - zone, workspace.end(), [](std::byte b) { return b == std::byte{untouched}; }))
        << plan.id() << " wrote behind its workspace";
    return content;
  }

  Bytes run(const Plan& plan) {
    const Launch launch = prepare(plan);
    EXPECT_EQ(plan.run(launch), Status::ok) << plan.id() << ": " << noted_failure();
    return finish(plan);
  }

  /// The output that run() or finish() brought.
  void check(const Plan& plan, const Constraints& constraints) const {
    const test::Comparison found = host_.verify(constraints, plan.traits().accumulation);
    EXPECT_TRUE(found.ok) << plan.id() << ": " << found.message;
  }

 private:
  static constexpr std::size_t zone = 4096;
  static std::size_t bytes_of(const Span& span) { return span.bytes(); }
  static std::size_t shift(int alignment) { return static_cast<std::size_t>(alignment % 16); }
  static void* at(const DeviceBuffer& buffer, std::size_t offset) { return static_cast<std::byte*>(buffer.get()) + offset; }
  std::size_t around() const { return spans_.d.bytes() + 2 * zone + 16; }

  test::HostCase host_;
  Launch launch_;
  Spans spans_;
  DeviceBuffer a_, b_, d_;
  std::unique_ptr<DeviceBuffer> workspace_;
  std::size_t shift_a_ = 0, shift_b_ = 0, shift_d_ = 0;
  cudaStream_t stream_ = nullptr;
};

class Cudnn : public testing::Test {
 protected:
  void SetUp() override {
    ATTUNE_SKIP_WITHOUT_GPU();
    provider_ = make_cudnn_provider(0, {});
    runtime_ = make_cuda_runtime(0);
  }

  void TearDown() override {
    for (const std::string& id : rejected_) std::cout << "rejected by the check: " << id << "\n";
  }

  /// As the tuner does it: some of cuDNN's engines sum in fp16, ignore strides or write past the output without a note, and the
  /// check is what keeps them out. What it accepts must be right in every element.
  bool accepted(const Plan& plan, Trial& trial) {
    const Check check = trial.check(plan);
    EXPECT_NE(check.outcome, Outcome::failed) << plan.id() << ": " << check.why;
    if (check.outcome != Outcome::ok) rejected_.insert(plan.id().substr(0, plan.id().find('_')));
    return check.outcome == Outcome::ok;
  }
  std::unique_ptr<Trial> trial_of(const Problem& problem, const Constraints& constraints) {
    return runtime_->trial(problem, constraints, std::size_t{256} << 20, 17);
  }

  /// Runs the default and every variant that passes the check; returns how many did.
  int run_all(const ConvProblem& problem, const Constraints& allowed, Effort effort = Effort::standard) {
    SCOPED_TRACE(to_string(Problem(problem)));
    ConvCase conv_case(problem);
    const Constraints constraints = applied_to(problem, allowed);
    const std::unique_ptr<Trial> trial = trial_of(conv_case.problem(), constraints);
    const Prepared fallback = provider_->prepare_default(conv_case.problem(), constraints);
    EXPECT_EQ(fallback.outcome, Outcome::ok) << fallback.why;
    if (fallback.plan) {
      EXPECT_LE(fallback.plan->traits().workspace, 32 * mebibyte);
    }
    int ran = 0;
    if (fallback.plan && accepted(*fallback.plan, *trial)) {
      ++ran;
      conv_case.run(*fallback.plan);
      conv_case.check(*fallback.plan, constraints);
    }
    const std::vector<std::string> variants = provider_->variants(conv_case.problem(), constraints, effort);
    EXPECT_FALSE(variants.empty());
    EXPECT_EQ(std::set<std::string>(variants.begin(), variants.end()).size(), variants.size()) << "listed twice";
    for (const std::string& variant : variants) {
      const Prepared made = provider_->prepare(variant, conv_case.problem(), constraints);
      if (!made.plan) continue;
      EXPECT_EQ(made.plan->id(), "cudnn:" + variant);
      EXPECT_LE(made.plan->traits().workspace, constraints.workspace_limit);
      EXPECT_TRUE(made.plan->traits().deterministic || !constraints.deterministic);
      if (made.plan->traits().workspace > (std::size_t{256} << 20) || !accepted(*made.plan, *trial)) continue;
      conv_case.run(*made.plan);
      conv_case.check(*made.plan, constraints);
      ++ran;
      if (HasFailure()) break;
    }
    EXPECT_GT(ran, 0);
    return ran;
  }

  /// A 3x3 convolution in every direction, layout and type, changed by `change`.
  template <class Change>
  void run_everywhere(Change&& change) {
    for (const TypeSet& types : type_sets)
      for (Layout layout : layouts)
        for (Direction direction : directions) {
          ConvProblem p = conv(direction, {2, 16, 13, 11}, {24, 16, 3, 3}, types.type, layout);
          p.pad = 1;
          change(p);
          run_all(p, with(types.math));
        }
  }

  std::unique_ptr<Provider> provider_;
  std::unique_ptr<Runtime> runtime_;
  std::set<std::string> rejected_;
};

TEST(CudnnText, ReadsWhatItWrites) {
  for (std::int32_t type = 0; type < 70; ++type) {
    const cudnn::EngineConfig config{type * 3, {{type, type - 5}, {type + 1, 1 << 20}, {type + 9, 0}}};
    const std::string text = to_text(config);
    const std::optional<cudnn::EngineConfig> read = cudnn::parse_engine(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(*read, config) << text;
  }
  EXPECT_EQ(to_text(cudnn::EngineConfig{38, {{2, 3}, {14, 4}, {60, 1}}}), "eng38_tile=3_stages=4_knob60=1");
  EXPECT_TRUE(cudnn::parse_engine("eng0"));
}

TEST(CudnnText, RefusesWhatItDoesNotWrite) {
  for (const char* text : {"", "eng", "eng1_", "eng1_tile", "eng1_tile=", "eng1_tile=2_", "eng01", "eng1_tile=02", "eng1 ",
                           "Eng1", "eng1_stages=1_tile=1", "eng1_tile=1_tile=1", "eng1_knob2=1", "eng1_bogus=1", "eng1_tile=1x",
                           "eng99999999999999999999", "eng1_knob99999999999=1"})
    EXPECT_FALSE(cudnn::parse_engine(text)) << text;
}

TEST(CudnnNotes, ConstraintsForbid) {
  const ConvProblem f32(Direction::fwd, {1, 8, 8, 8}, {8, 8, 3, 3});
  ConvProblem f16 = f32;
  f16.set_dtype(DType::f16);
  const auto notes = [](auto note) { return cudnn::Notes{1u << note, 0}; };
  Constraints all;
  all.math = MathMode::transforms | MathMode::tf32 | MathMode::reduced_reduction;
  Constraints none;
  none.math = MathMode::strict;
  none.deterministic = true;
  for (auto note : {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
                    CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, CUDNN_NUMERICAL_NOTE_TENSOR_CORE}) {
    EXPECT_FALSE(cudnn::forbidden(notes(note), f32, all)) << note;
    EXPECT_TRUE(cudnn::forbidden(notes(note), f32, none)) << note;
  }
  EXPECT_FALSE(cudnn::forbidden(notes(CUDNN_NUMERICAL_NOTE_TENSOR_CORE), f16, none));
  EXPECT_TRUE(cudnn::forbidden(notes(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS), f32, all));
  EXPECT_FALSE(cudnn::forbidden({}, f32, none));
}

TEST(CudnnFaults, AnEngineThatBreaksTheProcessIsNeverTried) {
  ConvProblem p(Direction::wgrad, {2, 16, 13, 11}, {24, 16, 3, 3});
  EXPECT_EQ(cudnn::known_fault(67, p), nullptr);
  p.align_x = 4;
  EXPECT_NE(cudnn::known_fault(67, p), nullptr);
  EXPECT_EQ(cudnn::known_fault(62, p), nullptr);
}

TEST_F(Cudnn, EveryVariantIsRight) {
  run_everywhere([](ConvProblem&) {});
  run_everywhere([](ConvProblem& p) { p.x = {3, 32, 16, 16}, p.w = {32, 32, 1, 1}, p.pad = 0; });
  run_everywhere([](ConvProblem& p) { p.x = {1, 3, 17, 19}, p.w = {5, 3, 5, 3}; });
}

TEST_F(Cudnn, StridesAndDilation) {
  run_everywhere([](ConvProblem& p) { p.stride = 2; });
  run_everywhere([](ConvProblem& p) { p.dilation = Spatial(2, 3), p.pad = 2; });
  run_everywhere([](ConvProblem& p) { p.stride = Spatial(3, 2), p.dilation = Spatial(1, 2); });
}

TEST_F(Cudnn, PaddingDiffersBySide) {
  run_everywhere([](ConvProblem& p) { p.pad = Padding(Spatial(1, 0), Spatial(0, 2)); });
  run_everywhere([](ConvProblem& p) { p.pad = Padding(Spatial(0, 2), Spatial(2, 1)), p.stride = 2; });
}

TEST_F(Cudnn, Groups) {
  run_everywhere([](ConvProblem& p) { p.groups = 2, p.w = {24, 8, 3, 3}; });
  run_everywhere([](ConvProblem& p) { p.groups = 16, p.w = {16, 1, 3, 3}; });
  run_everywhere([](ConvProblem& p) { p.groups = 16, p.w = {32, 1, 3, 3}, p.stride = 2; });
}

TEST_F(Cudnn, OneAndThreeDimensions) {
  run_everywhere([](ConvProblem& p) { p.x = {2, 16, 50}, p.w = {24, 16, 3}; });
  run_everywhere([](ConvProblem& p) { p.x = {2, 16, 51}, p.w = {24, 16, 5}, p.stride = 2, p.pad = Padding(2, 1); });
  run_everywhere([](ConvProblem& p) { p.x = {1, 16, 5, 9, 7}, p.w = {8, 16, 3, 3, 3}; });
}

TEST_F(Cudnn, AddsToItsOutput) {
  run_everywhere([](ConvProblem& p) { p.beta = Scalar::one; });
}

TEST_F(Cudnn, StridesBeyondPacked) {
  run_everywhere([](ConvProblem& p) {
    p = std::get<ConvProblem>(resolve(p));
    const auto grow = [&](std::int64_t* stride, int least) {
      for (int i = 0; i < 4; ++i)
        if (stride[i] >= least) stride[i] += stride[i] / least * 8;
    };
    // Rows of the activations lie eight elements further apart, and what holds rows grows with them.
    grow(p.x_stride, static_cast<int>(p.layout == Layout::nhwc ? 11 * 16 : 11));
    grow(p.y_stride, static_cast<int>(p.layout == Layout::nhwc ? 11 * 24 : 11));
  });
}

TEST_F(Cudnn, MisalignedOperands) {
  for (int align : {2, 4, 8})
    run_everywhere(
        [align](ConvProblem& p) { p.align_x = p.align_w = p.align_y = std::max(align, static_cast<int>(size_of(p.x_type))); });
}

TEST_F(Cudnn, ExhaustiveListsAllAndAllIsRight) {
  for (const TypeSet& types : type_sets)
    for (Direction direction : directions) {
      ConvProblem p = conv(direction, {4, 64, 14, 14}, {64, 64, 3, 3}, types.type, Layout::nhwc);
      p.pad = 1;
      run_all(p, with(types.math), Effort::exhaustive);
    }
}

TEST_F(Cudnn, ConstraintsHold) {
  for (const TypeSet& types : type_sets)
    for (Direction direction : directions) {
      ConvProblem p = conv(direction, {4, 32, 14, 14}, {32, 32, 3, 3}, types.type, Layout::nhwc);
      p.pad = 1;
      Constraints constraints = with(types.math);
      constraints.deterministic = true;
      run_all(p, constraints);
      for (std::size_t limit : {std::size_t{0}, mebibyte}) {
        constraints.workspace_limit = limit;
        run_all(p, constraints);
      }
      constraints = with(MathMode::strict);
      run_all(p, constraints);
    }
}

// The reference grants strict fp32 only what fp32 arithmetic needs: a tf32 engine that slipped through fails here.
TEST_F(Cudnn, StrictStaysStrict) {
  for (Layout layout : layouts)
    for (Direction direction : directions) {
      ConvProblem p = conv(direction, {2, 64, 12, 12}, {64, 64, 3, 3}, DType::f32, layout);
      p.pad = 1;
      const Problem resolved = resolve(p);
      const Constraints strict = with(MathMode::strict), loose = with(MathMode::tf32);
      run_all(p, strict, Effort::exhaustive);
      for (const std::string& variant : provider_->variants(resolved, loose, Effort::exhaustive)) {
        const Prepared made = provider_->prepare(variant, resolved, strict);
        if (made.plan) {
          EXPECT_EQ(made.plan->traits().accumulation, Accumulation::plain) << variant;
        }
      }
    }
}

TEST_F(Cudnn, DeterministicPlansRepeatTheirBits) {
  for (const TypeSet& types : type_sets)
    for (Direction direction : directions) {
      ConvProblem p = conv(direction, {8, 32, 20, 20}, {32, 32, 3, 3}, types.type, Layout::nhwc);
      p.pad = 1;
      Constraints constraints = with(types.math);
      constraints.deterministic = true;
      ConvCase conv_case(p);
      for (const std::string& variant : provider_->variants(conv_case.problem(), constraints, Effort::standard)) {
        const Prepared made = provider_->prepare(variant, conv_case.problem(), constraints);
        if (!made.plan) continue;
        const Bytes first = conv_case.run(*made.plan);
        for (int i = 0; i < 4; ++i) EXPECT_EQ(conv_case.run(*made.plan), first) << variant;
        // The same text makes the same plan again, by another provider too.
        const Prepared again = make_cudnn_provider(0, {})->prepare(variant, conv_case.problem(), constraints);
        ASSERT_TRUE(again.plan) << again.why;
        EXPECT_EQ(again.plan->id(), made.plan->id());
        EXPECT_EQ(conv_case.run(*again.plan), first) << variant;
      }
    }
}

TEST_F(Cudnn, CapturedPlansReplay) {
  for (const TypeSet& types : type_sets)
    for (Direction direction : directions) {
      ConvProblem p = conv(direction, {4, 32, 14, 14}, {32, 32, 3, 3}, types.type, Layout::nchw);
      p.pad = 1;
      const Constraints constraints = with(types.math);
      ConvCase conv_case(p);
      const std::unique_ptr<Trial> trial = trial_of(conv_case.problem(), constraints);
      for (const std::string& variant : provider_->variants(conv_case.problem(), constraints, Effort::standard)) {
        const Prepared made = provider_->prepare(variant, conv_case.problem(), constraints);
        if (!made.plan || !made.plan->traits().capturable || !accepted(*made.plan, *trial)) continue;
        SCOPED_TRACE(variant);
        const Launch launch = conv_case.prepare(*made.plan);
        ASSERT_EQ(cudaStreamBeginCapture(conv_case.stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
        EXPECT_EQ(made.plan->run(launch), Status::ok) << noted_failure();
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t replay = nullptr;
        ASSERT_EQ(cudaStreamEndCapture(conv_case.stream(), &graph), cudaSuccess);
        ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
        EXPECT_EQ(cudaGraphLaunch(replay, conv_case.stream()), cudaSuccess);
        conv_case.finish(*made.plan);
        conv_case.check(*made.plan, constraints);
        cudaGraphExecDestroy(replay);
        cudaGraphDestroy(graph);
      }
    }
}

TEST_F(Cudnn, ThreadsShareAPlan) {
  ConvProblem p = conv(Direction::fwd, {2, 32, 14, 14}, {32, 32, 3, 3}, DType::f16, Layout::nhwc);
  p.pad = 1;
  const Prepared made = provider_->prepare_default(resolve(p), with(MathMode::transforms));
  ASSERT_TRUE(made.plan) << made.why;
  provider_.reset();  // plans outlive their provider
  std::vector<std::unique_ptr<ConvCase>> cases;
  for (int i = 0; i < 8; ++i) cases.push_back(std::make_unique<ConvCase>(p));
  std::vector<Launch> launches;
  for (auto& conv_case : cases) launches.push_back(conv_case->prepare(*made.plan));
  std::vector<Status> status(cases.size(), Status::ok);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < cases.size(); ++i)
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 200; ++turn)
        if (const Status now = made.plan->run(launches[i]); now != Status::ok) status[i] = now;
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(status[i], Status::ok);
    cases[i]->finish(*made.plan);
    cases[i]->check(*made.plan, with(MathMode::transforms));
  }
}

TEST_F(Cudnn, DeclinesWhatItCannotServe) {
  ConvProblem p = conv(Direction::fwd, {1, 16, 8, 8}, {16, 16, 3, 3}, DType::f16, Layout::nhwc);
  const Problem good = resolve(p);
  for (const char* text : {"nonsense", "eng99999", "eng0_tile=999999", "eng0_tile=1_tile=1"})
    EXPECT_EQ(provider_->prepare(text, good, {}).outcome, Outcome::declined) << text;
  for (auto change : {+[](ConvProblem& q) { q.alpha = Scalar::other; }, +[](ConvProblem& q) { q.beta = Scalar::other; },
                      +[](ConvProblem& q) { q.set_dtype(DType::f8_e4m3); }}) {
    ConvProblem q = p;
    change(q);
    const Problem resolved = resolve(q);
    EXPECT_TRUE(provider_->variants(resolved, {}, Effort::standard).empty());
    EXPECT_EQ(provider_->prepare_default(resolved, {}).outcome, Outcome::declined);
    EXPECT_EQ(provider_->prepare("eng0", resolved, {}).outcome, Outcome::declined);
  }
  const Problem gemm = resolve(GemmProblem(Op::N, Op::N, 64, 64, 64, DType::f32));
  EXPECT_TRUE(provider_->variants(gemm, {}, Effort::standard).empty());
  EXPECT_EQ(provider_->prepare_default(gemm, {}).outcome, Outcome::declined);
  p.beta = Scalar::one;
  ConvCase conv_case(p);
  const Prepared made = provider_->prepare_default(conv_case.problem(), {});
  ASSERT_TRUE(made.plan) << made.why;
  Launch apart = conv_case.prepare(*made.plan);
  apart.c = apart.a;
  EXPECT_EQ(made.plan->run(apart), Status::unsupported);
}

}  // namespace
}  // namespace attune

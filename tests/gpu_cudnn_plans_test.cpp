// The cuDNN provider's plans: their names, what constraints do to them, exhaustive search, repetition, capture, threads.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "providers/cudnn_engine.hpp"
#include "providers/cudnn_search.hpp"
#include "support/cudnn_fixture.hpp"

namespace attune {
namespace {

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

TEST(CudnnKnobs, NeighboursDifferInOneKnob) {
  const cudnn::EngineConfig config{7, {{2, 100}, {14, 4}}};
  const cudnn::Knob knobs[] = {{2, 0, 300, 1}, {14, 2, 8, 2}, {24, 0, 1, 1}, {25, 5, 4, 1}, {26, 0, 9, 0}};
  std::set<std::string> texts;
  for (const cudnn::EngineConfig& next : cudnn::neighbours(config, knobs)) {
    EXPECT_TRUE(texts.insert(to_text(next)).second) << to_text(next) << " twice";
    EXPECT_EQ(cudnn::parse_engine(to_text(next)), next);
    EXPECT_NE(next, config);
  }
  for (const char* near : {"eng7_tile=101_stages=4", "eng7_tile=98_stages=4", "eng7_tile=0_stages=4", "eng7_tile=300_stages=4",
                           "eng7_tile=100_stages=2", "eng7_tile=100_stages=8", "eng7_tile=100_stages=4_kernel=0",
                           "eng7_tile=100_stages=4_kernel=1"})
    EXPECT_EQ(texts.count(near), 1u) << near;
  EXPECT_EQ(texts.count("eng7_tile=100_stages=3"), 0u) << "between the steps";
  EXPECT_LT(texts.size(), 24u);
}

TEST(CudnnFaults, AnEngineThatBreaksTheProcessIsNeverTried) {
  ConvProblem p(Direction::wgrad, {2, 16, 13, 11}, {24, 16, 3, 3});
  EXPECT_EQ(cudnn::known_fault(67, p), nullptr);
  p.align_x = 4;
  EXPECT_NE(cudnn::known_fault(67, p), nullptr);
  EXPECT_EQ(cudnn::known_fault(62, p), nullptr);
}

TEST_F(Cudnn, ExhaustiveListsAllAndAllIsRight) {
  for (const TypeSet& types : type_sets)
    for (Direction direction : directions) {
      ConvProblem p = conv(direction, {4, 64, 14, 14}, {64, 64, 3, 3}, types.type, Layout::nhwc);
      p.pad = 1;
      run_all(p, with(types.math), Effort::exhaustive);
    }
}

TEST_F(Cudnn, ExhaustiveNamesEveryEngineAndTheirKnobs) {
  ConvProblem p = conv(Direction::fwd, {4, 64, 14, 14}, {64, 64, 3, 3}, DType::f16, Layout::nhwc);
  p.pad = 1;
  const Problem resolved = resolve(p);
  const Constraints constraints = with(MathMode::transforms);
  const std::vector<std::string> some = provider_->variants(resolved, constraints, Effort::standard);
  const std::vector<std::string> all = provider_->variants(resolved, constraints, Effort::exhaustive);
  std::set<std::string> engines;
  for (const std::string& variant : all)
    if (variant.find('_') == std::string::npos) engines.insert(variant);
  for (const std::string& variant : some) EXPECT_EQ(engines.count(variant.substr(0, variant.find('_'))), 1u) << variant;
  EXPECT_GT(all.size(), some.size() + engines.size()) << "the knobs of the first";
}

TEST_F(Cudnn, RefiningVariesOneKnobAndWhatIsAcceptedIsRight) {
  for (const TypeSet& types : type_sets)
    for (Direction direction : directions) {
      ConvProblem p = conv(direction, {4, 64, 14, 14}, {64, 64, 3, 3}, types.type, Layout::nhwc);
      p.pad = 1;
      const Constraints constraints = applied_to(p, with(types.math));
      ConvCase conv_case(p);
      SCOPED_TRACE(to_string(conv_case.problem()));
      const std::unique_ptr<Trial> trial = trial_of(conv_case.problem(), constraints);
      std::vector<std::string> best = provider_->variants(conv_case.problem(), constraints, Effort::quick);
      if (best.size() > 2) best.resize(2);
      const std::vector<std::string> named = provider_->refine(conv_case.problem(), constraints, best);
      std::set<std::string> once(named.begin(), named.end());
      EXPECT_EQ(once.size(), named.size()) << "named twice";
      for (const std::string& variant : named) {
        const Prepared made = provider_->prepare(variant, conv_case.problem(), constraints);
        if (!made.plan || made.plan->traits().workspace > (std::size_t{256} << 20)) continue;
        if (!accepted(*made.plan, *trial, /*offered=*/false)) continue;
        EXPECT_EQ(made.plan->id(), "cudnn:" + variant);
        conv_case.run(*made.plan);
        conv_case.check(*made.plan, constraints);
        if (HasFailure()) return;
      }
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
  for (auto change : {+[](ConvProblem& q) { q.direction = Direction::dgrad, q.alpha = Scalar::other; },
                      +[](ConvProblem& q) { q.direction = Direction::wgrad, q.beta = Scalar::other; },
                      +[](ConvProblem& q) { q.set_dtype(DType::f64).alpha = Scalar::other; },
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
}

}  // namespace
}  // namespace attune

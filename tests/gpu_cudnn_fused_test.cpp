// Conformance of the cuDNN provider's forward convolutions with scalars, a residual, a bias and an activation in their graph.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "core/names.hpp"
#include "providers/cudnn_graph.hpp"
#include "providers/cudnn_tail.hpp"
#include "providers/cudnn_tensor.hpp"
#include "support/cudnn_fixture.hpp"

namespace attune {
namespace {

constexpr Epilogue epilogues[] = {Epilogue::bias,           Epilogue::relu,          Epilogue::bias_relu,
                                  Epilogue::gelu_erf,       Epilogue::bias_gelu_erf, Epilogue::gelu_tanh,
                                  Epilogue::bias_gelu_tanh, Epilogue::silu,          Epilogue::bias_silu};

ConvProblem fused(DType type, Layout layout, Epilogue epilogue) {
  ConvProblem p = conv(Direction::fwd, {2, 16, 13, 11}, {24, 16, 3, 3}, type, layout);
  p.pad = 1;
  p.epilogue = epilogue;
  return p;
}

class CudnnFused : public Cudnn {
 protected:
  /// The pattern that cuDNN has had from the first in 16 bits is always served; the rest as far as its runtime compiler goes.
  static Served served(const ConvProblem& p) {
    const bool narrow = p.x_type == DType::f16 || p.x_type == DType::bf16;
    const bool plain = p.epilogue == Epilogue::bias || p.epilogue == Epilogue::bias_relu;
    return narrow && plain && p.alpha == Scalar::one && p.beta != Scalar::other ? Served::always : Served::perhaps;
  }

  /// One epilogue of cuDNN's oldest pattern and two that it compiles when asked, in a 16-bit type and in tf32; compiling takes
  /// long, so only the heuristics' first answers are run.
  template <class Change>
  void run_some(Change&& change, bool c_apart = false) {
    int ran = 0;
    for (const TypeSet& types : {type_sets[0], type_sets[3]})
      for (Epilogue epilogue : {Epilogue::bias_relu, Epilogue::bias_gelu_erf, Epilogue::silu}) {
        ConvProblem p = fused(types.type, Layout::nhwc, epilogue);
        change(p);
        ran += run_all(p, with(types.math), Effort::quick, served(p), c_apart);
      }
    EXPECT_GT(ran, 0);
  }
};

TEST(CudnnGraphs, EveryTailCanBeSaid) {
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (Layout layout : layouts)
      for (Epilogue epilogue : epilogues)
        for (Scalar alpha : {Scalar::one, Scalar::other})
          for (Scalar beta : {Scalar::zero, Scalar::one, Scalar::other})
            for (const auto& [x, w] :
                 {std::pair(Dims{2, 16, 9}, Dims{8, 16, 3}), std::pair(Dims{2, 16, 9, 9}, Dims{8, 16, 3, 3}),
                  std::pair(Dims{2, 16, 9, 9, 9}, Dims{8, 16, 3, 3, 3})}) {
              ConvProblem q(Direction::fwd, x, w);
              q.set_dtype(type).layout = layout;
              q.epilogue = epilogue, q.alpha = alpha, q.beta = beta;
              const auto p = std::get<ConvProblem>(resolve(q));
              if (cudnn::unsupported(p) != nullptr) continue;
              ASSERT_TRUE(cudnn::has_tail(p));
              const cudnn::Descriptor sums = cudnn::make_sums(p);
              const cudnn::Descriptor y = cudnn::make_tensor(cudnn::uid_y, p.y(), p.y_stride, p.y_type, p.align_y);
              const std::size_t scalars = (alpha == Scalar::other) + (beta == Scalar::other);
              const std::size_t sum = (beta != Scalar::zero) + has_bias(epilogue);
              const std::vector<cudnn::Descriptor> tail = cudnn::make_tail(p, sums, y);
              EXPECT_EQ(tail.size(), scalars + sum + (activation(epilogue) != Activation::none)) << to_string(Problem(p));
              for (const cudnn::Descriptor& operation : tail)
                EXPECT_TRUE(operation.ok()) << to_string(Problem(p)) << ": " << cudnn::describe(operation.status());
            }
}

TEST(CudnnGraphs, AConvolutionAloneHasNoTail) {
  ConvProblem p(Direction::fwd, {2, 16, 9, 9}, {8, 16, 3, 3});
  EXPECT_FALSE(cudnn::has_tail(p));
  p.beta = Scalar::one;
  EXPECT_FALSE(cudnn::has_tail(p)) << "it adds to its output";
}

TEST_F(CudnnFused, EveryEpilogueIsRight) {
  int ran = 0;
  for (const TypeSet& types : type_sets)
    for (Layout layout : layouts)
      for (Epilogue epilogue : epilogues) {
        if (types.type == DType::f64) continue;
        const ConvProblem p = fused(types.type, layout, epilogue);
        ran += run_all(p, with(types.math), Effort::quick, served(p));
      }
  EXPECT_GT(ran, 0);
  RecordProperty("plans", ran);
}

TEST_F(CudnnFused, OddChannelsStridesAndGroups) {
  run_some([](ConvProblem& p) { p.x = {1, 3, 17, 19}, p.w = {5, 3, 5, 3}, p.stride = 2; });
  run_some([](ConvProblem& p) { p.groups = 2, p.w = {24, 8, 3, 3}; });
}

TEST_F(CudnnFused, OneAndThreeDimensions) {
  run_some([](ConvProblem& p) { p.x = {2, 16, 50}, p.w = {24, 16, 3}; });
  run_some([](ConvProblem& p) { p.x = {1, 16, 5, 9, 7}, p.w = {8, 16, 3, 3, 3}; });
}

TEST_F(CudnnFused, DeclinesWhatItWouldMisread) {
  ConvProblem p(Direction::fwd, {2, 16, 13, 11}, {24, 16, 3, 3});
  p.set_dtype(DType::f16).layout = Layout::nhwc;
  p.epilogue = Epilogue::bias_relu;
  // Each was seen to lose the device's context.
  ConvProblem misaligned = p, scaled = p, added = p;
  misaligned.align_bias = 2, scaled.alpha = Scalar::other, added.beta = Scalar::other;
  for (const ConvProblem& q : {misaligned, scaled, added}) {
    EXPECT_TRUE(provider_->variants(resolve(q), {}, Effort::exhaustive).empty());
    EXPECT_EQ(provider_->prepare_default(resolve(q), {}).outcome, Outcome::declined);
  }
}

TEST_F(CudnnFused, ResidualInPlaceAndApart) {
  for (bool apart : {false, true}) run_some([](ConvProblem& p) { p.beta = Scalar::one; }, apart);
}

TEST_F(CudnnFused, Scalars) {
  for (bool apart : {false, true}) {
    run_some([](ConvProblem& p) { p.alpha = Scalar::other; }, apart);
    run_some([](ConvProblem& p) { p.alpha = p.beta = Scalar::other; }, apart);
  }
  for (Scalar alpha : {Scalar::one, Scalar::other})
    for (Layout layout : layouts) {
      ConvProblem p = fused(DType::f16, layout, Epilogue::none);
      p.alpha = alpha, p.beta = Scalar::other;
      run_all(p, with(MathMode::transforms), Effort::quick, served(p));
    }
}

TEST_F(CudnnFused, CIsNotReadWithBetaZero) {
  for (Layout layout : layouts) {
    const ConvProblem p = fused(DType::f16, layout, Epilogue::bias_relu);
    ConvCase conv_case(p);
    const Constraints constraints = with(MathMode::transforms);
    const Prepared made = provider_->prepare_default(conv_case.problem(), constraints);
    ASSERT_TRUE(made.plan) << made.why;
    Launch launch = conv_case.prepare(*made.plan);
    launch.c = nullptr;
    EXPECT_EQ(made.plan->run(launch), Status::ok) << noted_failure();
    conv_case.finish(*made.plan);
    conv_case.check(*made.plan, constraints);
  }
}

TEST_F(CudnnFused, StrictStaysStrict) {
  for (Layout layout : layouts)
    for (Epilogue epilogue : epilogues)
      run_all(fused(DType::f32, layout, epilogue), with(MathMode::strict), Effort::quick, Served::perhaps);
}

TEST_F(CudnnFused, ExhaustiveListsAllAndAllIsRight) {
  for (Epilogue epilogue : {Epilogue::bias_relu, Epilogue::bias_silu}) {
    const ConvProblem p = fused(DType::f16, Layout::nhwc, epilogue);
    run_all(p, with(MathMode::transforms), Effort::exhaustive, served(p));
  }
}

TEST_F(CudnnFused, CapturedPlansReplay) {
  for (const TypeSet& types : type_sets)
    for (Epilogue epilogue : {Epilogue::bias_relu, Epilogue::bias_silu}) {
      if (types.type == DType::f64) continue;
      ConvProblem p = fused(types.type, Layout::nhwc, epilogue);
      p.beta = Scalar::one;
      SCOPED_TRACE(to_string(Problem(p)));
      const Constraints constraints = applied_to(p, with(types.math));
      ConvCase conv_case(p);
      const std::unique_ptr<Trial> trial = trial_of(conv_case.problem(), constraints);
      const Prepared made = provider_->prepare_default(conv_case.problem(), constraints);
      if (!made.plan || !made.plan->traits().capturable || !accepted(*made.plan, *trial)) continue;
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

}  // namespace
}  // namespace attune

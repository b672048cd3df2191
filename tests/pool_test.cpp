// Pooling: what is refused, the text and the key, every host variant against a reference, and a call from its first tuning on.
#include <gtest/gtest.h>
#include <attune/attune.hpp>

#include <cmath>
#include <cstring>
#include <set>

#include "context_impl.hpp"
#include "core/problem.hpp"
#include "kernels/common/number.hpp"
#include "kernels/host_tiles.hpp"
#include "providers/host.hpp"
#include "runtime/host_runtime.hpp"
#include "support/pool_case.hpp"
#include "tune/key.hpp"

namespace attune {
namespace {

using test::PoolCase;

std::string why_refused(const PoolProblem& problem) {
  try {
    validate(problem);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

PoolProblem resnet() { return PoolProblem(PoolMode::max, {2, 16, 12, 10}, 3, 2, 1); }

TEST(Pool, SaysWhatIsWrongWithAProblem) {
  EXPECT_EQ(why_refused(resnet()), "");
  const auto refused = [](auto change, const char* part) {
    PoolProblem p = resnet();
    change(p);
    EXPECT_NE(why_refused(p).find(part), std::string::npos) << part << " is not in: " << why_refused(p);
  };
  refused([](auto& p) { p.window = 0; }, "window[0] = 0: must be at least 1");
  refused([](auto& p) { p.stride = Spatial(1, 0); }, "stride[1] = 0: must be at least 1");
  refused([](auto& p) { p.pad = 3; }, "pad.before[0] = 3: must be smaller than the window, 3");
  refused([](auto& p) { p.pad = Padding(0, 4); }, "pad.after[0] = 4");
  refused([](auto& p) { p.window = Spatial(3, 20); }, "window[1] = 20: larger than the padded input, 12");
  refused([](auto& p) { p.x = {2, 16}; }, "x has 2 extents");
  refused([](auto& p) { p.x.size[2] = 0; }, "x[2] = 0: must be at least 1");
  refused([](auto& p) { p.x.size[0] = -1; }, "x[0] = -1");
  refused([](auto& p) { p.type = DType::i8; }, "type = i8");
  refused([](auto& p) { p.align_x = 3; }, "align_x = 3");
  refused([](auto& p) { p.type = DType::f64, p.align_y = 4; }, "align_y = 4");
  refused([](auto& p) { p.y_stride[3] = 0; }, "y strides");
  refused([](auto& p) { p.mode = static_cast<PoolMode>(7); }, "mode = 7");
  PoolProblem none = resnet();
  none.x.size[0] = 0;
  EXPECT_EQ(why_refused(none), "");
  EXPECT_TRUE(empty_output(none));
}

TEST(Pool, SizesOfTheOutput) {
  PoolProblem p(PoolMode::average, {8, 3, 112, 7, 9}, Spatial(3, 7, 2), Spatial(2, 1, 3),
                Padding(Spatial(1, 0, 0), Spatial(1, 0, 1)));
  const Dims y = p.y();
  EXPECT_EQ(y.count, 5);
  const std::int64_t expected[] = {8, 3, 56, 1, 3};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(y.size[i], expected[i]) << i;
}

TEST(Pool, TextAndKeyTellProblemsApart) {
  EXPECT_EQ(to_string(Problem(resnet())), "pool x=2,16,12,10 window=3,3 stride=2,2 pad=1,1");
  const std::vector<void (*)(PoolProblem&)> changes = {
      [](PoolProblem&) {},
      [](PoolProblem& p) { p.direction = PoolDirection::bwd; },
      [](PoolProblem& p) { p.mode = PoolMode::average; },
      [](PoolProblem& p) { p.mode = PoolMode::average_padded; },
      [](PoolProblem& p) { p.x.size[1] = 17; },
      [](PoolProblem& p) { p.window = Spatial(3, 4); },
      [](PoolProblem& p) { p.stride = Spatial(2, 1); },
      [](PoolProblem& p) { p.pad = Padding(1, 0); },
      [](PoolProblem& p) { p.type = DType::bf16; },
      [](PoolProblem& p) { p.layout = Layout::nhwc; },
      [](PoolProblem& p) { p.x_stride[0] = 16 * 120 + 8; },
      [](PoolProblem& p) { p.y_stride[0] = 16 * 30 + 8; },
      [](PoolProblem& p) { p.align_x = 4; },
      [](PoolProblem& p) { p.align_y = 8; },
  };
  std::set<std::string> texts;
  std::set<std::uint64_t> hashes;
  for (const auto change : changes) {
    PoolProblem p = resnet();
    change(p);
    const std::string text = to_string(Problem(p));
    const Problem parsed = parse_problem(text);
    ASSERT_TRUE(std::holds_alternative<PoolProblem>(parsed));
    EXPECT_EQ(to_string(parsed), text);
    Key key, again;
    make_key(p, 0, key);
    make_key(std::get<PoolProblem>(parsed), 0, again);
    EXPECT_TRUE(key == again) << text;
    texts.insert(text), hashes.insert(key.hash);
  }
  EXPECT_EQ(texts.size(), changes.size());
  EXPECT_EQ(hashes.size(), changes.size());
}

TEST(Pool, TheLongestKeyFits) {
  PoolProblem p(PoolMode::max, {2, 3, 5, 7, 9}, Spatial(2, 3, 4), Spatial(1, 2, 3),
                Padding(Spatial(1, 0, 2), Spatial(0, 1, 3)));
  for (int i = 0; i < 5; ++i) p.x_stride[i] = p.y_stride[i] = std::int64_t{1} << (30 - 6 * i);
  Key key;
  make_key(p, 0, key);
  EXPECT_LE(key.count, Key::max_words);
}

struct Geometry {
  const char* name;
  Dims x;
  Spatial window, stride;
  Padding pad = 0;
};
const Geometry geometries[] = {
    {"overlapping", {2, 5, 13, 11}, 3, 2, 1},
    {"unit_stride", {2, 33, 9, 8}, 3, 1, 1},
    {"global", {3, 17, 7, 7}, 7, 1},
    {"gaps", {2, 4, 11, 12}, 2, 3},
    {"padding_differs", {2, 3, 10, 9}, Spatial(3, 4), Spatial(2, 1), Padding(Spatial(0, 3), Spatial(2, 1))},
    {"one_tap", {2, 7, 5, 4}, 1, 1},
    {"line", {2, 9, 31}, 4, 3, 2},
    {"volume", {2, 3, 6, 5, 7}, Spatial(2, 3, 2), Spatial(2, 1, 2), Padding(Spatial(1, 1, 0), Spatial(0, 1, 1))},
    {"many_channels", {1, 300, 4, 4}, 2, 2},
    {"window_covers_all", {2, 2, 3, 2}, Spatial(5, 4), 1, 2},
};

class PoolRows : public testing::TestWithParam<std::size_t> {
 protected:
  /// Whether the row takes the problem; if so, its result must be right.
  bool conform(const PoolProblem& problem, bool ties, int shift = 0) {
    validate(problem);
    SCOPED_TRACE(to_string(Problem(problem)));
    const PoolCase c(problem, 7, ties, shift);
    const HostRow& row = host_rows[GetParam()];
    const std::unique_ptr<Provider> provider = make_host_provider(make_host_runtime()->info());
    const Prepared prepared = provider->prepare(row.name, c.problem(), {});
    if (!prepared.plan) {
      EXPECT_NE(row.family, HostFamily::reference) << prepared.why;
      return false;
    }
    std::vector<std::byte> out(2 * PoolCase::zone + c.output_bytes(), PoolCase::untouched);
    std::vector<std::byte> workspace(prepared.plan->traits().workspace, PoolCase::untouched);
    void* const more[] = {const_cast<std::byte*>(c.y().data())};
    Launch launch;
    const bool fwd = problem.direction == PoolDirection::fwd;
    launch.a = fwd ? c.x().data() : c.dy().data();
    launch.b = fwd ? nullptr : c.x().data();
    launch.d = out.data() + PoolCase::zone;
    launch.more = more;
    launch.workspace = workspace.data();
    EXPECT_EQ(prepared.plan->run(launch), Status::ok);
    EXPECT_EQ(c.complaint(out.data()), "") << row.name;
    return true;
  }
};

TEST_P(PoolRows, AreRight) {
  int taken = 0;
  for (const Geometry& g : geometries)
    for (PoolDirection direction : {PoolDirection::fwd, PoolDirection::bwd})
      for (PoolMode mode : {PoolMode::max, PoolMode::average, PoolMode::average_padded})
        for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64})
          for (Layout layout : {Layout::nchw, Layout::nhwc}) {
            SCOPED_TRACE(g.name);
            PoolProblem p(mode, g.x, g.window, g.stride, g.pad);
            p.direction = direction, p.type = type, p.layout = layout;
            taken += conform(p, false);
            if (mode == PoolMode::max) taken += conform(p, true);
          }
  EXPECT_GT(taken, 100);
}

TEST_P(PoolRows, TakeStridesWithGaps) {
  for (PoolDirection direction : {PoolDirection::fwd, PoolDirection::bwd})
    for (bool channels_last : {false, true}) {
      PoolProblem p = resnet();
      p.direction = direction;
      const std::int64_t x[2][4] = {{16 * 160, 12 * 13 + 1, 13, 1}, {12 * 10 * 19 + 7, 1, 10 * 19, 19}};
      const std::int64_t y[2][4] = {{16 * 6 * 7 + 3, 6 * 7, 7, 1}, {6 * 5 * 18, 1, 5 * 18, 18}};
      for (int i = 0; i < 4; ++i) p.x_stride[i] = x[channels_last][i], p.y_stride[i] = y[channels_last][i];
      conform(p, true);
    }
}

std::vector<std::size_t> pool_rows() {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < host_row_count; ++i)
    if (host_rows[i].op == HostOp::pool) rows.push_back(i);
  return rows;
}
INSTANTIATE_TEST_SUITE_P(Host, PoolRows, testing::ValuesIn(pool_rows()),
                         [](const auto& row) { return std::string(host_rows[row.param].name); });

Context host_context() {
  return Context::Impl::wrap(
      std::make_unique<Context::Impl>(make_backend(Device::host()), [](const char*) -> const char* { return nullptr; }));
}

TEST(Pool, AMaximumIsNaNWhereItsWindowHoldsOne) {
  const std::unique_ptr<Provider> provider = make_host_provider(make_host_runtime()->info());
  PoolProblem p(PoolMode::max, {1, 2, 4, 4}, 2, 2);
  for (Layout layout : {Layout::nchw, Layout::nhwc}) {
    p.layout = layout;
    const Problem problem = resolve(p);
    const auto& strided = std::get<PoolProblem>(problem);
    float x[32], y[8], dy[8], dx[32];
    for (int i = 0; i < 32; ++i) x[i] = static_cast<float>(i);
    for (float& v : dy) v = 1;
    const auto nan_at = static_cast<std::size_t>(strided.x_stride[1]);  // channel 1, position (0, 0)
    x[nan_at] = x[nan_at + static_cast<std::size_t>(strided.x_stride[3])] = std::nanf("");
    for (const std::string& variant : provider->variants(problem, {}, Effort::exhaustive)) {
      SCOPED_TRACE(variant);
      Launch launch;
      std::vector<float> workspace(256);
      launch.a = x, launch.d = y, launch.workspace = workspace.data();
      ASSERT_EQ(provider->prepare(variant, problem, {}).plan->run(launch), Status::ok);
      int nans = 0;
      for (float v : y) nans += std::isnan(v);
      EXPECT_EQ(nans, 1);
      EXPECT_TRUE(std::isnan(y[strided.y_stride[1]]));
      PoolProblem b = p;
      b.direction = PoolDirection::bwd;
      const Prepared backward = provider->prepare(variant, resolve(b), {});
      ASSERT_TRUE(backward.plan);
      void* const more[] = {y};
      launch.a = dy, launch.b = x, launch.d = dx, launch.more = more;
      ASSERT_EQ(backward.plan->run(launch), Status::ok);
      EXPECT_EQ(dx[nan_at], 1);  // the first NaN takes it all
      EXPECT_EQ(dx[nan_at + static_cast<std::size_t>(strided.x_stride[3])], 0);
    }
  }
}

TEST(Pool, ACallTunesAndIsRemembered) {
  Context ctx = host_context();
  ctx.set_effort(Effort::quick);
  for (PoolDirection direction : {PoolDirection::fwd, PoolDirection::bwd})
    for (PoolMode mode : {PoolMode::max, PoolMode::average}) {
      PoolProblem p(mode, {2, 24, 20, 20}, 3, 2, 1);
      p.direction = direction, p.layout = Layout::nhwc;
      SCOPED_TRACE(to_string(Problem(p)));
      const PoolCase c(p, 3);
      std::vector<std::byte> out(2 * PoolCase::zone + c.output_bytes(), PoolCase::untouched);
      PoolArgs args{c.x().data(), c.y().data(), c.dy().data(), out.data() + PoolCase::zone};
      for (int call = 0; call < 2; ++call) {
        std::fill(out.begin(), out.end(), PoolCase::untouched);
        tuned_pool(ctx, p, args);
        EXPECT_EQ(c.complaint(out.data()), "");
      }
      const Stats before = ctx.stats();
      EXPECT_EQ(tuned_pool(ctx, p, args, nullptr, std::nothrow), Status::ok);
      EXPECT_EQ(ctx.stats().hits, before.hits + 1);
    }
  EXPECT_EQ(ctx.stats().tuned, 4u);
  EXPECT_GT(ctx.stats().candidates_timed, 7u);
}

TEST(Pool, BadOperandsAreNamed) {
  Context ctx = host_context();
  ctx.set_benchmark(false);
  PoolProblem p(PoolMode::max, {1, 4, 6, 6}, 3, 1, 1);
  p.direction = PoolDirection::bwd;
  std::vector<float> x(144), y(144), dy(144), dx(144);
  const auto refusal = [&](const void* x_at, const void* y_at, const void* dy_at, void* dx_at) {
    EXPECT_EQ(tuned_pool(ctx, p, PoolArgs::bwd(x_at, y_at, dy_at, dx_at), nullptr, std::nothrow), Status::invalid_argument);
    return std::string(last_error_message());
  };
  for (int round = 0; round < 2; ++round) {  // the second time the plan is in the cache
    EXPECT_EQ(refusal(nullptr, y.data(), dy.data(), dx.data()), "x: is null");
    EXPECT_EQ(refusal(x.data(), nullptr, dy.data(), dx.data()), "y: is null");
    EXPECT_EQ(refusal(x.data(), y.data(), nullptr, dx.data()), "dy: is null");
    EXPECT_EQ(refusal(x.data(), y.data(), dy.data(), nullptr), "out: is null");
    EXPECT_NE(refusal(x.data(), y.data(), dy.data(), y.data()).find("overlaps y"), std::string::npos);
    EXPECT_NE(refusal(x.data(), y.data(), dy.data(), x.data()).find("overlaps x"), std::string::npos);
    tuned_pool(ctx, p, PoolArgs::bwd(x.data(), y.data(), dy.data(), dx.data()));
  }
}

TEST(Pool, ThePlanFileKeepsItsPlans) {
  const std::string path = testing::TempDir() + "attune_pool_plans";
  std::remove(path.c_str());
  const PoolProblem p(PoolMode::average, {2, 8, 9, 9}, 3, 2);
  std::string plan;
  {
    Context ctx = host_context();
    plan = ctx.tune(p).plan;
    ctx.save(path);
  }
  Context ctx = host_context();
  EXPECT_EQ(ctx.load(path), 1u);
  const PlanInfo info = ctx.plan_for(p);
  EXPECT_EQ(info.plan, plan);
  EXPECT_EQ(info.source, Source::file);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace attune

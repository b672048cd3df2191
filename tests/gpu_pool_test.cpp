// Conformance of pooling on the GPU: every variant that own kernels and cuDNN name, over every type and layout.
#include <gtest/gtest.h>
#include <attune/attune.hpp>

#include <set>

#include "context_impl.hpp"
#include "kernels/tiles.hpp"
#include "providers/cudnn.hpp"
#include "providers/tile.hpp"
#include "support/gpu.hpp"
#include "support/gpu_call.hpp"
#include "support/pool_case.hpp"

namespace attune {
namespace {

using test::PoolCase;

/// A case's operands on the device, `shift` bytes behind full alignment.
class OnDevice {
 public:
  OnDevice(const PoolCase& c, std::size_t shift)
      : case_(c),
        shift_(shift),
        x_(put(c.x())),
        y_(put(c.y())),
        dy_(put(c.dy())),
        out_(2 * PoolCase::zone + c.output_bytes() + shift, 0xff) {}

  Launch launch() {
    const bool fwd = case_.problem().direction == PoolDirection::fwd;
    more_[0] = at(*y_);
    Launch launch;
    launch.a = fwd ? at(*x_) : at(*dy_);
    launch.b = fwd ? nullptr : at(*x_);
    launch.d = at(out_) + PoolCase::zone;
    launch.more = more_;
    return launch;
  }
  PoolArgs args() { return {at(*x_), at(*y_), at(*dy_), at(out_) + PoolCase::zone}; }
  void reset() {
    const std::vector<std::byte> poison(out_.size(), PoolCase::untouched);
    write_device(out_.get(), poison.data(), poison.size());
  }
  std::string complaint() const { return case_.complaint(read_device(at(out_), out_.size() - shift_).data()); }

 private:
  std::byte* at(const DeviceBuffer& buffer) const { return static_cast<std::byte*>(buffer.get()) + shift_; }
  std::unique_ptr<DeviceBuffer> put(const std::vector<std::byte>& content) const {
    auto buffer = std::make_unique<DeviceBuffer>(content.size() + shift_ + 1, 0xff);
    write_device(at(*buffer), content.data(), content.size());
    return buffer;
  }
  const PoolCase& case_;
  std::size_t shift_;
  std::unique_ptr<DeviceBuffer> x_, y_, dy_;
  DeviceBuffer out_;
  void* more_[1] = {};
};

class GpuPool : public testing::Test {
 protected:
  void SetUp() override { ATTUNE_SKIP_WITHOUT_GPU(); }

  /// Runs every variant of the provider; returns how many there were.
  int conform(const Provider& provider, const PoolProblem& problem, bool ties = false, int shift = 0) {
    validate(problem);
    const PoolCase c(problem, 5, ties, shift);
    OnDevice device(c, static_cast<std::size_t>(shift));
    SCOPED_TRACE(to_string(Problem(c.problem())));
    int count = 0;
    for (const std::string& variant : provider.variants(c.problem(), {}, Effort::exhaustive)) {
      SCOPED_TRACE(variant);
      const Prepared prepared = provider.prepare(variant, c.problem(), {});
      EXPECT_TRUE(prepared.plan) << prepared.why;
      if (!prepared.plan) continue;
      EXPECT_EQ(prepared.plan->id(), std::string(provider.name()) + ":" + variant);
      EXPECT_NE(provider.version(variant), "");
      device.reset();
      EXPECT_EQ(prepared.plan->run(device.launch()), Status::ok);
      EXPECT_EQ(device.complaint(), "");
      seen_.insert(variant);
      ++count;
      if (HasFailure()) break;
    }
    return count;
  }
  std::set<std::string> seen_;
};

struct Geometry {
  const char* name;
  Dims x;
  Spatial window, stride;
  Padding pad = 0;
};
const Geometry geometries[] = {
    {"resnet", {3, 16, 14, 13}, 3, 2, 1},
    {"unit_stride", {2, 24, 9, 11}, 3, 1, 1},
    {"halves", {2, 32, 11, 12}, 2, 2},
    {"global", {3, 264, 7, 7}, 7, 1},
    {"gaps", {2, 8, 11, 12}, 2, 3},
    {"large_window", {1, 16, 19, 17}, Spatial(9, 5), Spatial(2, 3), 2},
    {"odd_channels", {2, 7, 10, 9}, 3, 2, 1},
    {"padding_differs", {2, 8, 10, 9}, Spatial(3, 4), Spatial(2, 1), Padding(Spatial(0, 3), Spatial(2, 1))},
    {"line", {2, 16, 31}, 4, 3, 2},
    {"volume", {2, 8, 6, 5, 7}, Spatial(2, 3, 2), Spatial(2, 1, 2), Padding(Spatial(1, 1, 0), Spatial(0, 1, 1))},
    {"volume_of_planes", {2, 8, 5, 9, 9}, Spatial(2, 3, 3), Spatial(1, 2, 2), Padding(Spatial(0, 1, 1), Spatial(0, 1, 1))},
    {"one_place", {1, 8, 1, 1}, 1, 1},
    {"one_channel", {2, 1, 40, 300}, 3, 2, 1},
};

template <class Use>
void for_each_problem(Use use) {
  for (const Geometry& g : geometries)
    for (PoolDirection direction : {PoolDirection::fwd, PoolDirection::bwd})
      for (PoolMode mode : {PoolMode::max, PoolMode::average, PoolMode::average_padded})
        for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64})
          for (Layout layout : {Layout::nchw, Layout::nhwc}) {
            PoolProblem p(mode, g.x, g.window, g.stride, g.pad);
            p.direction = direction, p.type = type, p.layout = layout;
            use(g, p);
            if (testing::Test::HasFailure()) return;
          }
}

TEST_F(GpuPool, EveryRowIsRight) {
  const auto provider = make_tile_provider(0, gpu_runtime().info());
  for_each_problem([&](const Geometry& g, const PoolProblem& p) {
    SCOPED_TRACE(g.name);
    EXPECT_GE(conform(*provider, p), 2);
    if (p.mode == PoolMode::max) conform(*provider, p, true);
  });
  EXPECT_EQ(seen_.size(), pool_rows.size());
}

TEST_F(GpuPool, RowsTakeOddAddressesAndGaps) {
  const auto provider = make_tile_provider(0, gpu_runtime().info());
  for (PoolDirection direction : {PoolDirection::fwd, PoolDirection::bwd})
    for (Layout layout : {Layout::nchw, Layout::nhwc}) {
      PoolProblem p(PoolMode::max, {2, 16, 12, 10}, 3, 2, 1);
      p.direction = direction, p.layout = layout, p.type = DType::f16;
      EXPECT_GE(conform(*provider, p, true, 2), 2);
      const std::int64_t x[2][4] = {{16 * 160, 12 * 13 + 1, 13, 1}, {12 * 10 * 24 + 8, 1, 10 * 24, 24}};
      const std::int64_t y[2][4] = {{16 * 6 * 7 + 3, 6 * 7, 7, 1}, {6 * 5 * 16, 1, 5 * 16, 16}};
      for (int i = 0; i < 4; ++i) {
        p.x_stride[i] = x[layout == Layout::nhwc][i];
        p.y_stride[i] = y[layout == Layout::nhwc][i];
      }
      EXPECT_GE(conform(*provider, p, true), 2);
    }
}

TEST_F(GpuPool, CudnnIsRight) {
  const auto provider = make_cudnn_provider(0, gpu_runtime().info());
  int count = 0;
  for_each_problem([&](const Geometry& g, const PoolProblem& p) {
    SCOPED_TRACE(g.name);
    // Random numbers of 16 bits are sometimes equal, and cuDNN's gradient may then go to another of them.
    const bool may_tie = p.type == DType::f16 && p.mode == PoolMode::max && p.direction == PoolDirection::bwd;
    if (p.type != DType::bf16 && !may_tie) count += conform(*provider, p);
  });
  EXPECT_GT(count, 100);
}

TEST_F(GpuPool, ACallTunesAndIsRemembered) {
  Context ctx = gpu_context();
  for (PoolDirection direction : {PoolDirection::fwd, PoolDirection::bwd})
    for (PoolMode mode : {PoolMode::max, PoolMode::average}) {
      PoolProblem p(mode, {8, 64, 30, 30}, 3, 2, 1);
      p.direction = direction, p.layout = Layout::nhwc, p.type = DType::f16;
      SCOPED_TRACE(to_string(Problem(p)));
      const PoolCase c(p, 3);
      OnDevice device(c, 0);
      for (int call = 0; call < 2; ++call) {
        device.reset();
        tuned_pool(ctx, p, device.args());
        EXPECT_EQ(device.complaint(), "");
      }
    }
  EXPECT_EQ(ctx.stats().tuned, 4u);
  EXPECT_EQ(ctx.stats().hits, 4u);
}

}  // namespace
}  // namespace attune

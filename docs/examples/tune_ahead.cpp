// Tuning ahead of any data, with a plan file: the second run of this program times nothing.
//   tune_ahead [PLAN_FILE]
#include <attune/attune.hpp>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  // A 3 x 3 convolution of 64 channels over 8 images of 28 x 28, channels last, and its gradient by the filter.
  attune::ConvProblem forward(attune::Direction::fwd, /*x*/ {8, 64, 28, 28}, /*w*/ {64, 64, 3, 3});
  forward.layout = attune::Layout::nhwc;
  forward.pad = 1;
  attune::ConvProblem filter_gradient = forward;  // the sizes stay those of the forward problem
  filter_gradient.direction = attune::Direction::wgrad;

  try {
    attune::Context ctx(attune::Device::host());
    ctx.set_plan_file(argc > 1 ? argv[1] : "tune_ahead.plans.jsonl");
    for (const attune::ConvProblem& problem : {forward, filter_gradient}) {
      const attune::PlanInfo info = ctx.tune(problem);
      std::printf("%s\n  %s, %.1f us (default %.1f us), from %s, %d candidates timed\n", attune::to_string(problem).c_str(),
                  info.plan.c_str(), info.time_us, info.default_us, attune::to_string(info.source), info.timed);
    }

    ctx.set_benchmark(false);  // from here on nothing is timed: remembered plans and defaults only
    std::vector<float> x(8 * 64 * 28 * 28, 1.0f), w(64 * 64 * 3 * 3, 0.5f), y(8 * 64 * 28 * 28);
    attune::tuned_conv(ctx, forward, attune::ConvArgs::fwd(x.data(), w.data(), y.data()));
    std::printf("y at a corner: %g\n", y[0]);
    return y[0] == 4 * 64 * 0.5f ? 0 : 1;  // four of the nine taps lie inside
  } catch (const attune::Error& e) {
    std::fprintf(stderr, "%s: %s\n", attune::to_string(e.status()), e.what());
    return 1;
  }
}

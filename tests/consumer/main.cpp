// Multiplies two small matrices on the host device and checks the product.
#include <attune/attune.hpp>
#include <cmath>
#include <cstdio>

int main() {
  attune::Context ctx(attune::Device::host());
  ctx.set_effort(attune::Effort::quick);
  const float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, expected[4] = {23, 34, 31, 46};
  float d[4] = {};
  attune::tuned_gemm(ctx, attune::GemmProblem(attune::Op::N, attune::Op::N, 2, 2, 2, attune::DType::f32), {a, b, d});
  for (int i = 0; i < 4; ++i)
    if (std::abs(d[i] - expected[i]) > 1e-5f) {
      std::printf("element %d is %g, not %g\n", i, d[i], expected[i]);
      return 1;
    }
  std::printf("attune %s: right\n", attune::version());
  return 0;
}

// A linear layer y = x * w^T in row-major order, on the host engine: the call that takes the place of a BLAS call.
#include <attune/attune.hpp>
#include <cstdio>
#include <vector>

int main() {
  const std::int64_t rows = 64, outputs = 512, inputs = 256;
  std::vector<float> x(rows * inputs, 0.5f), w(outputs * inputs, 0.25f), y(rows * outputs);

  try {
    attune::Context ctx(attune::Device::host());
    ctx.set_log(attune::LogLevel::info);  // says on stderr when a problem is tuned, and what won

    // The first call tunes the problem, on operands that Attune generates; the second finds the plan in memory.
    const float alpha = 1, beta = 0;
    for (int call = 0; call < 2; ++call)
      attune::tuned_gemm_row_major(ctx, attune::Op::N, attune::Op::T, rows, outputs, inputs, &alpha, x.data(),
                                   attune::DType::f32, inputs, w.data(), attune::DType::f32, inputs, &beta, y.data(),
                                   attune::DType::f32, outputs, attune::Compute::f32);

    const attune::Stats stats = ctx.stats();
    std::printf("y[0] = %g; tuned %llu problem, %llu candidates timed, %llu hits\n", y[0],
                static_cast<unsigned long long>(stats.tuned), static_cast<unsigned long long>(stats.candidates_timed),
                static_cast<unsigned long long>(stats.hits));
    return y[0] == 0.5f * 0.25f * inputs ? 0 : 1;
  } catch (const attune::Error& e) {
    std::fprintf(stderr, "%s: %s\n", attune::to_string(e.status()), e.what());
    return 1;
  }
}

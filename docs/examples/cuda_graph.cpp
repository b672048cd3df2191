// A bf16 GEMM on a GPU, tuned ahead and then captured in a CUDA graph.
#include <cuda_runtime.h>

#include <attune/attune.hpp>
#include <attune/cuda.hpp>
#include <cstdint>
#include <cstdio>

namespace {

bool good(cudaError_t error) {
  if (error != cudaSuccess) std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  return error == cudaSuccess;
}

}  // namespace

int main() {
  const std::int64_t m = 4096, n = 256, k = 4096;
  const std::size_t element = 2;
  void *a = nullptr, *b = nullptr, *d = nullptr;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;

  try {
    attune::Context ctx(attune::Device::cuda(0));
    if (!good(cudaMalloc(&a, m * k * element)) || !good(cudaMalloc(&b, k * n * element)) ||
        !good(cudaMalloc(&d, m * n * element)) || !good(cudaMemset(a, 0, m * k * element)) ||
        !good(cudaMemset(b, 0, k * n * element)) || !good(cudaStreamCreate(&stream)))
      return 1;

    const attune::GemmProblem problem(attune::op(CUBLAS_OP_T), attune::op(CUBLAS_OP_N), m, n, k, attune::dtype(CUDA_R_16BF));
    const attune::PlanInfo info = ctx.tune(problem);  // never while capturing: there, an untuned problem runs its default plan
    std::printf("%s\n  %s, %.1f us (default %.1f us)\n", attune::to_string(problem).c_str(), info.plan.c_str(), info.time_us,
                info.default_us);

    if (!good(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal))) return 1;
    attune::tuned_gemm(ctx, problem, attune::GemmArgs(a, b, d), stream);
    if (!good(cudaStreamEndCapture(stream, &graph)) || !good(cudaGraphInstantiate(&replay, graph, 0))) return 1;
    for (int i = 0; i < 10; ++i)
      if (!good(cudaGraphLaunch(replay, stream))) return 1;
    if (!good(cudaStreamSynchronize(stream))) return 1;

    std::uint16_t first = 1;
    if (!good(cudaMemcpy(&first, d, sizeof first, cudaMemcpyDeviceToHost))) return 1;
    std::printf("replayed 10 times; d[0] = %s\n", first == 0 ? "0, as expected" : "wrong");
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    for (void* pointer : {a, b, d}) cudaFree(pointer);
    return first == 0 ? 0 : 1;
  } catch (const attune::Error& e) {
    std::fprintf(stderr, "%s: %s\n", attune::to_string(e.status()), e.what());
    return 1;
  }
}

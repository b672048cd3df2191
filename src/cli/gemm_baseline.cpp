#include "cli/gemm_baseline.hpp"

#include <cublas_v2.h>

#include <atomic>
#include <string>
#include <utility>

#include "core/problem.hpp"
#include "providers/cublaslt_matmul.hpp"
#include "runtime/cuda_support.hpp"

namespace attune {
namespace {

constexpr std::size_t workspace_bytes = 32 * mebibyte;

#if CUBLAS_VERSION >= 130000
constexpr bool has_autotune = true;
constexpr cublasGemmAlgo_t autotune_algo = CUBLAS_GEMM_AUTOTUNE;
#else
constexpr bool has_autotune = false;
constexpr cublasGemmAlgo_t autotune_algo = CUBLAS_GEMM_DEFAULT;
#endif

cublasMath_t math_mode(const GemmProblem& problem, const Constraints& constraints) noexcept {
  const bool narrow = problem.c_type == DType::f16 || problem.c_type == DType::bf16;
  return narrow && !allows(constraints, MathMode::reduced_reduction) ? CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
                                                                     : CUBLAS_DEFAULT_MATH;
}

PlanTraits traits_of(const LtTypes& types) noexcept {
  PlanTraits traits;
  const bool wide_inputs = types.a == CUDA_R_32F || types.a == CUDA_R_64F;
  const bool plain = wide_inputs && types.compute != CUBLAS_COMPUTE_32F_FAST_TF32;
  traits.accumulation = plain ? Accumulation::plain : Accumulation::tensor_core;
  traits.deterministic = false;   // an algorithm of the library's choice
  traits.retain_in_graph = true;  // the workspace is the plan's
  return traits;
}

class GemmExPlan final : public Plan {
 public:
  GemmExPlan(const GemmProblem& problem, const LtTypes& types, int ordinal, bool autotune)
      : Plan(autotune ? "cublas:autotune" : "cublas:default", traits_of(types)),
        problem_(problem),
        types_(types),
        ordinal_(ordinal),
        autotune_(autotune),
        primed_(!autotune) {}

  ~GemmExPlan() override {
    const DeviceScope device(ordinal_);
    if (handle_ != nullptr) cublasDestroy(handle_);
    if (workspace_ != nullptr) cudaFree(workspace_);
  }

  bool open(const Constraints& constraints) noexcept {
    const DeviceScope device(ordinal_);
    if (cuda_status(cudaMalloc(&workspace_, workspace_bytes), "cudaMalloc of a cuBLAS workspace") != Status::ok) return false;
    cublasStatus_t status = cublasCreate(&handle_);
    if (status == CUBLAS_STATUS_SUCCESS) status = cublasSetWorkspace(handle_, workspace_, workspace_bytes);
    if (status == CUBLAS_STATUS_SUCCESS) status = cublasSetMathMode(handle_, math_mode(problem_, constraints));
    if (status == CUBLAS_STATUS_SUCCESS && constraints.sm_count > 0)
      status = cublasSetSmCountTarget(handle_, constraints.sm_count);
    return status == CUBLAS_STATUS_SUCCESS || failed(status) == Status::ok;
  }

  Status run(const Launch& launch) const noexcept override {
    if (problem_.beta != Scalar::zero && launch.c != launch.d) {
      note_failure("%s works in place: c must be d", id().c_str());
      return Status::unsupported;
    }
    const DeviceScope device(ordinal_);
    // Setting the stream gives the handle back its own workspace.
    cublasStatus_t status = cublasSetStream(handle_, static_cast<cudaStream_t>(launch.stream));
    if (status == CUBLAS_STATUS_SUCCESS) status = cublasSetWorkspace(handle_, workspace_, workspace_bytes);
    // The run that tunes need not leave the product in D: with beta 0 it is computed again.
    if (status == CUBLAS_STATUS_SUCCESS && !primed_.load(std::memory_order_relaxed)) {
      status = multiply(launch);
      if (status == CUBLAS_STATUS_SUCCESS) primed_.store(true, std::memory_order_relaxed);
      if (problem_.beta != Scalar::zero) return status == CUBLAS_STATUS_SUCCESS ? Status::ok : failed(status);
    }
    if (status == CUBLAS_STATUS_SUCCESS) status = multiply(launch);
    return status == CUBLAS_STATUS_SUCCESS ? Status::ok : failed(status);
  }

 private:
  cublasStatus_t multiply(const Launch& launch) const noexcept {
    const GemmProblem& p = problem_;
    const cublasOperation_t op_a = p.op_a == Op::N ? CUBLAS_OP_N : CUBLAS_OP_T;
    const cublasOperation_t op_b = p.op_b == Op::N ? CUBLAS_OP_N : CUBLAS_OP_T;
    const cublasGemmAlgo_t algo = autotune_ ? autotune_algo : CUBLAS_GEMM_DEFAULT;
    if (p.batch == 1)
      return cublasGemmEx_64(handle_, op_a, op_b, p.m, p.n, p.k, launch.alpha, launch.a, types_.a, p.lda, launch.b, types_.b,
                             p.ldb, launch.beta, launch.d, types_.c, p.ldd, types_.compute, algo);
    return cublasGemmStridedBatchedEx_64(handle_, op_a, op_b, p.m, p.n, p.k, launch.alpha, launch.a, types_.a, p.lda,
                                         p.stride_a, launch.b, types_.b, p.ldb, p.stride_b, launch.beta, launch.d, types_.c,
                                         p.ldd, p.stride_d, p.batch, types_.compute, algo);
  }

  Status failed(cublasStatus_t status) const noexcept {
    note_failure("%s: %s (%s)", id().c_str(), cublasGetStatusName(status), cudaGetErrorString(cudaGetLastError()));
    return status == CUBLAS_STATUS_ALLOC_FAILED ? Status::no_memory : Status::device_error;
  }

  GemmProblem problem_;
  LtTypes types_;
  int ordinal_;
  bool autotune_;
  mutable std::atomic<bool> primed_;
  cublasHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
};

}  // namespace

std::unique_ptr<Plan> make_gemm_ex_plan(const GemmProblem& problem, const Constraints& constraints, int ordinal,
                                        bool autotune) {
  std::string why = lt_declines(problem);
  if (is_fp8(problem.a_type)) why = "fp8 operands";
  if (problem.epilogue != Epilogue::none) why = "an epilogue";
  if (!why.empty()) {
    note_failure("cublasGemmEx does not take %s", why.c_str());
    return nullptr;
  }
  if (autotune && !has_autotune) {
    note_failure("CUBLAS_GEMM_AUTOTUNE needs cuBLAS 13");
    return nullptr;
  }
  LtMatmul matmul;
  if (make_matmul(problem, lt_compute(problem, constraints), constraints, matmul) != CUBLAS_STATUS_SUCCESS) {
    note_failure("cublasLt cannot describe the problem");
    return nullptr;
  }
  auto plan = std::make_unique<GemmExPlan>(problem, matmul.types, ordinal, autotune);
  if (!plan->open(constraints)) return nullptr;
  return plan;
}

}  // namespace attune

#include "providers/cublaslt.hpp"

#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/problem.hpp"
#include "providers/cublaslt_config.hpp"
#include "providers/cublaslt_heuristic.hpp"
#include "providers/cublaslt_matmul.hpp"
#include "providers/cublaslt_neighbours.hpp"
#include "runtime/cuda_support.hpp"

namespace attune {
namespace {

constexpr std::string_view provider_name = "cublaslt";
constexpr std::size_t default_workspace = 32 * mebibyte;  // what cuBLAS gives itself on the GPUs with the largest default
constexpr std::size_t scale_bytes = 256;  // of the workspace, for scales that are not aligned as the library wants them
constexpr std::size_t most_workspace = 1024 * mebibyte;   // told to the heuristic in the place of no limit

/// Shared by the provider and its plans: a plan may outlive its provider. The library lets any number of threads use one
/// handle.
class Handle {
 public:
  explicit Handle(int ordinal) noexcept : ordinal_(ordinal) {
    const DeviceScope device(ordinal);
    const RelaxedCapture relaxed;
    status_ = cublasLtCreate(&handle_);
    constexpr float one = 1;
    if (status_ == CUBLAS_STATUS_SUCCESS && (cudaMalloc(&one_, sizeof one) != cudaSuccess ||
                                             cudaMemcpy(one_, &one, sizeof one, cudaMemcpyHostToDevice) != cudaSuccess)) {
      cublasLtDestroy(handle_);
      status_ = CUBLAS_STATUS_ALLOC_FAILED;
    }
    if (status_ != CUBLAS_STATUS_SUCCESS) cudaGetLastError();
  }
  ~Handle() {
    const DeviceScope device(ordinal_);
    if (one_ != nullptr && cudaFree(one_) != cudaSuccess) cudaGetLastError();
    if (status_ == CUBLAS_STATUS_SUCCESS) cublasLtDestroy(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  int ordinal() const noexcept { return ordinal_; }
  cublasStatus_t status() const noexcept { return status_; }
  cublasLtHandle_t get() const noexcept { return handle_; }
  /// 1.0f on the device: the scale of fp8 operands that have none.
  const void* one() const noexcept { return one_; }

 private:
  int ordinal_;
  cublasLtHandle_t handle_ = nullptr;
  void* one_ = nullptr;
  cublasStatus_t status_ = CUBLAS_STATUS_NOT_INITIALIZED;
};

template <class T>
T* shifted(T* pointer, std::int64_t bytes) noexcept {
  if (bytes == 0) return pointer;
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return static_cast<Byte*>(pointer) + bytes;
}

class LtPlan final : public Plan {
 public:
  LtPlan(std::string id, PlanTraits traits, std::shared_ptr<const Handle> handle, const LtMatmul& matmul,
         const cublasLtMatmulAlgo_t& algo, bool reads_c)
      : Plan(std::move(id), traits), handle_(std::move(handle)), matmul_(matmul), algo_(algo), reads_c_(reads_c) {}

  Status run(const Launch& launch) const noexcept override {
    const DeviceScope device(handle_->ordinal());
    if (!matmul_.has_bias && !matmul_.scaled) return run_all(matmul_.desc, launch);
    cublasLtMatmulDescOpaque_t desc = matmul_.desc;
    Launch bound = launch;
    if (matmul_.scaled)
      for (const void** scale : {&bound.scale_a, &bound.scale_b})
        if (const Status status = place_scale(*scale, scale == &bound.scale_a ? 0 : 1, launch); status != Status::ok) return status;
    const cublasStatus_t status = bind_operands(matmul_, bound, desc);
    return status == CUBLAS_STATUS_SUCCESS ? run_all(desc, launch) : failed("cublasLtMatmulDescSetAttribute", status);
  }

 private:
  /// The library wants scales, and wants them aligned to 16 bytes: others are copied behind its workspace.
  Status place_scale(const void*& scale, int operand, const Launch& launch) const noexcept {
    if (scale == nullptr) scale = handle_->one();
    if (alignment_of(scale) >= 16) return Status::ok;
    void* const copy = static_cast<std::byte*>(launch.workspace) + traits().workspace - scale_bytes + operand * 16;
    const cudaError_t error =
        cudaMemcpyAsync(copy, scale, sizeof(float), cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(launch.stream));
    scale = copy;
    return cuda_status(error, "copying a scale");
  }

  // The library takes its descriptors without const and only reads them.
  static cublasLtMatrixLayoutOpaque_t* mutable_of(const cublasLtMatrixLayoutOpaque_t& layout) noexcept {
    return const_cast<cublasLtMatrixLayoutOpaque_t*>(&layout);
  }

  Status run_all(const cublasLtMatmulDescOpaque_t& desc, const Launch& launch) const noexcept {
    for (std::int64_t i = 0; i < matmul_.launches; ++i) {
      const Status status = run_part(desc, matmul_.body, launch, i);
      if (status != Status::ok) return status;
    }
    return matmul_.tail.batch == 0 ? Status::ok : run_part(desc, matmul_.tail, launch, matmul_.launches);
  }

  Status run_part(const cublasLtMatmulDescOpaque_t& desc, const LtLayouts& part, const Launch& launch,
                  std::int64_t i) const noexcept {
    void* d = shifted(launch.d, i * matmul_.step_d);
    const void* c = reads_c_ ? shifted(launch.c, i * matmul_.step_c) : d;
    const cublasStatus_t status = cublasLtMatmul(
        handle_->get(), const_cast<cublasLtMatmulDescOpaque_t*>(&desc), launch.alpha, shifted(launch.a, i * matmul_.step_a),
        mutable_of(part.a), shifted(launch.b, i * matmul_.step_b), mutable_of(part.b), launch.beta, c, mutable_of(part.c), d,
        mutable_of(part.d), &algo_, launch.workspace, traits().workspace - (matmul_.scaled ? scale_bytes : 0),
        static_cast<cudaStream_t>(launch.stream));
    return status == CUBLAS_STATUS_SUCCESS ? Status::ok : failed("cublasLtMatmul", status);
  }

  Status failed(const char* what, cublasStatus_t status) const noexcept {
    note_failure("%s of %s: %s (%s)", what, id().c_str(), cublasLtGetStatusName(status),
                 cudaGetErrorString(cudaGetLastError()));
    return status == CUBLAS_STATUS_ALLOC_FAILED ? Status::no_memory : Status::device_error;
  }

  std::shared_ptr<const Handle> handle_;
  LtMatmul matmul_;
  cublasLtMatmulAlgo_t algo_;
  bool reads_c_;
};

class CublasLtProvider final : public Provider {
 public:
  CublasLtProvider(int ordinal, int cc_major) : handle_(std::make_shared<const Handle>(ordinal)), cc_major_(cc_major) {}

  std::string_view name() const noexcept override { return provider_name; }

  std::string version(std::string_view) const override {
    const std::size_t number = cublasLtGetVersion();
    return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  }

  std::vector<std::string> variants(const Problem& problem, const Constraints& constraints, Effort effort) const override {
    const auto* gemm = std::get_if<GemmProblem>(&problem);
    std::vector<std::string> texts;
    if (gemm == nullptr || !why_not(*gemm).empty()) return texts;
    const DeviceScope device(handle_->ordinal());
    std::unordered_set<std::string> seen;
    const cublasComputeType_t compute = lt_compute(*gemm, constraints);
    list(*gemm, compute, constraints, effort, seen, texts);
    // A small or thin problem may be faster in plain fp32 than in tf32.
    if (compute == CUBLAS_COMPUTE_32F_FAST_TF32 && effort != Effort::quick)
      list(*gemm, CUBLAS_COMPUTE_32F, constraints, Effort::quick, seen, texts);
    return texts;
  }

  std::vector<std::string> refine(const Problem& problem, const Constraints& constraints,
                                  std::span<const std::string> best) const override {
    const auto* gemm = std::get_if<GemmProblem>(&problem);
    std::vector<std::string> texts;
    if (gemm == nullptr || !why_not(*gemm).empty()) return texts;
    const DeviceScope device(handle_->ordinal());
    const std::uint32_t reductions = lt_reductions(*gemm, constraints);
    std::unordered_set<std::string> seen(best.begin(), best.end());
    for (const std::string& text : best) {
      const std::optional<LtVariant> variant = parse_variant(text);
      LtMatmul matmul;
      cublasLtMatmulAlgo_t algo;
      if (!variant || !lt_allows(variant->compute, *gemm, constraints) ||
          make_matmul(*gemm, variant->compute, constraints, matmul) != CUBLAS_STATUS_SUCCESS ||
          make_algo(handle_->get(), matmul.types, variant->config, algo) != CUBLAS_STATUS_SUCCESS)
        continue;
      add_runnable(neighbours(variant->config, algo, reductions), matmul, *gemm, constraints, seen, texts);
    }
    return texts;
  }

  Prepared prepare(std::string_view variant, const Problem& problem, const Constraints& constraints) const override {
    const auto* gemm = std::get_if<GemmProblem>(&problem);
    if (gemm == nullptr) return declined("not a GEMM");
    if (std::string why = why_not(*gemm); !why.empty()) return declined(std::move(why));
    const std::optional<LtVariant> parsed = parse_variant(variant);
    if (!parsed || to_text(parsed->compute, parsed->config) != variant) return declined("not a variant of cublasLt's");
    if (!lt_allows(parsed->compute, *gemm, constraints)) return declined("its compute type is not allowed");

    const DeviceScope device(handle_->ordinal());
    LtMatmul matmul;
    cublasLtMatmulAlgo_t algo;
    cublasStatus_t status = make_matmul(*gemm, parsed->compute, constraints, matmul);
    if (status == CUBLAS_STATUS_SUCCESS) status = make_algo(handle_->get(), matmul.types, parsed->config, algo);
    if (status != CUBLAS_STATUS_SUCCESS) return declined(cublasLtGetStatusName(status));
    return make_plan(*gemm, constraints, matmul, algo, parsed->config, constraints.workspace_limit);
  }

  Prepared prepare_default(const Problem& problem, const Constraints& constraints) const override {
    const auto* gemm = std::get_if<GemmProblem>(&problem);
    if (gemm == nullptr) return declined("not a GEMM");
    if (std::string why = why_not(*gemm); !why.empty()) return declined(std::move(why));
    const DeviceScope device(handle_->ordinal());
    LtMatmul matmul;
    const cublasStatus_t status = make_matmul(*gemm, lt_compute(*gemm, constraints), constraints, matmul);
    if (status != CUBLAS_STATUS_SUCCESS) return declined(cublasLtGetStatusName(status));

    const std::size_t limit = std::min(constraints.workspace_limit, default_workspace);
    const std::uint32_t reductions = lt_reductions(*gemm, constraints);
    Prepared none = declined("the heuristic has no answer");
    for (const cublasLtMatmulAlgo_t& algo :
         ask_heuristic(handle_->get(), matmul, lt_alignment(*gemm), {limit, reductions, quick_count})) {
      const std::optional<LtConfig> config = read_config(algo);
      if (!config) continue;
      Prepared made = make_plan(*gemm, constraints, matmul, algo, *config, limit);
      if (made.plan != nullptr) return made;
      none = std::move(made);
    }
    return none;
  }

 private:
  static constexpr int quick_count = 8;
  static constexpr int standard_count = 200;

  std::string why_not(const GemmProblem& problem) const {
    if (handle_->status() != CUBLAS_STATUS_SUCCESS)
      return fmt::format("cublasLtCreate: {}", cublasLtGetStatusName(handle_->status()));
    return lt_declines(problem, cc_major_);
  }

  static bool may_use(const LtConfig& config, const LtMatmul& matmul, const cublasLtMatmulAlgo_t& algo,
                      std::uint32_t reductions) noexcept {
    return (config.reduction & ~reductions) == 0 && keeps_precision(matmul, algo);
  }

  /// Adds what the heuristic offers for one compute type, under several questions: its answers depend on them.
  void list(const GemmProblem& problem, cublasComputeType_t compute, const Constraints& constraints, Effort effort,
            std::unordered_set<std::string>& seen, std::vector<std::string>& texts) const {
    LtMatmul matmul;
    if (make_matmul(problem, compute, constraints, matmul) != CUBLAS_STATUS_SUCCESS) return;
    const LtAlignment alignment = lt_alignment(problem);
    const std::uint32_t reductions = lt_reductions(problem, constraints);
    const std::size_t limit = std::min(constraints.workspace_limit, most_workspace);
    const std::size_t first = std::min(limit, default_workspace);

    std::vector<LtQuery> queries = {{first, reductions, effort == Effort::quick ? quick_count : standard_count}};
    if (effort != Effort::quick) {
      for (std::size_t workspace : {limit, 4 * mebibyte, mebibyte, std::size_t{0}})
        if (workspace <= limit && workspace != first) queries.push_back({workspace, reductions, standard_count});
      for (std::uint32_t scheme : {CUBLASLT_REDUCTION_SCHEME_NONE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
                                   CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, CUBLASLT_REDUCTION_SCHEME_INPLACE})
        if ((scheme & ~reductions) == 0) queries.push_back({limit, scheme, standard_count});
    }
    for (const LtQuery& query : queries) {
      for (const cublasLtMatmulAlgo_t& algo : ask_heuristic(handle_->get(), matmul, alignment, query)) {
        const std::optional<LtConfig> config = read_config(algo);
        if (!config || !may_use(*config, matmul, algo, reductions)) continue;
        std::string text = to_text(compute, *config);
        if (seen.insert(text).second) texts.push_back(std::move(text));
      }
    }
    if (effort == Effort::exhaustive)
      add_runnable(seeds(handle_->get(), matmul.types), matmul, problem, constraints, seen, texts);
  }

  /// Of configurations that nobody vouches for, those that can run.
  void add_runnable(const std::vector<LtConfig>& configs, const LtMatmul& matmul, const GemmProblem& problem,
                    const Constraints& constraints, std::unordered_set<std::string>& seen,
                    std::vector<std::string>& texts) const {
    const LtAlignment alignment = lt_alignment(problem);
    const std::uint32_t reductions = lt_reductions(problem, constraints);
    for (const LtConfig& config : configs) {
      cublasLtMatmulAlgo_t algo;
      std::size_t workspace = 0;
      if (make_algo(handle_->get(), matmul.types, config, algo) != CUBLAS_STATUS_SUCCESS ||
          !may_use(config, matmul, algo, reductions) || !takes_alignment(algo, alignment) ||
          check_algo(handle_->get(), matmul, algo, workspace) != CUBLAS_STATUS_SUCCESS ||
          workspace > constraints.workspace_limit)
        continue;
      std::string text = to_text(matmul.types.compute, config);
      if (seen.insert(text).second) texts.push_back(std::move(text));
    }
  }

  Prepared make_plan(const GemmProblem& problem, const Constraints& constraints, const LtMatmul& matmul,
                     const cublasLtMatmulAlgo_t& algo, const LtConfig& config, std::size_t limit) const {
    if (!may_use(config, matmul, algo, lt_reductions(problem, constraints)))
      return declined("less precise or less repeatable than asked for");
    PlanTraits traits;
    const cublasStatus_t status = check_algo(handle_->get(), matmul, algo, traits.workspace);
    if (status != CUBLAS_STATUS_SUCCESS) return declined(cublasLtGetStatusName(status));
    if (matmul.scaled) traits.workspace = (traits.workspace + 15) / 16 * 16 + scale_bytes;
    if (traits.workspace > limit) return declined(fmt::format("needs {} bytes of workspace", traits.workspace));
    traits.restartable = matmul.launches + (matmul.tail.batch != 0) == 1 || problem.beta == Scalar::zero;
    traits.deterministic = (config.reduction & CUBLASLT_REDUCTION_SCHEME_INPLACE) == 0;
    traits.accumulation = accumulation(matmul);
    std::string id = fmt::format("{}:{}", provider_name, to_text(matmul.types.compute, config));
    return {
        std::make_unique<LtPlan>(std::move(id), traits, handle_, matmul, algo, problem.beta != Scalar::zero), Outcome::ok, {}};
  }

  std::shared_ptr<const Handle> handle_;
  int cc_major_;
};

}  // namespace

std::unique_ptr<Provider> make_cublaslt_provider(int ordinal, const DeviceInfo& info) {
  return std::make_unique<CublasLtProvider>(ordinal, info.cc_major);
}

}  // namespace attune

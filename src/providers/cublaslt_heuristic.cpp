#include "providers/cublaslt_heuristic.hpp"

#include <algorithm>
#include <cstdlib>

#include "core/problem.hpp"

namespace attune {
namespace {

template <class T>
void prefer(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) noexcept {
  cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value);
}

std::uint32_t capability(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoCapAttributes_t attribute) noexcept {
  std::uint32_t value = 0;
  std::size_t written = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : 0;
}

std::vector<std::uint32_t> capability_list(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoCapAttributes_t attribute) {
  std::size_t bytes = 0;
  if (cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, nullptr, 0, &bytes) != CUBLAS_STATUS_SUCCESS || bytes == 0) return {};
  std::vector<std::uint32_t> values(bytes / sizeof(std::uint32_t));
  if (cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, values.data(), values.size() * sizeof(std::uint32_t), &bytes) !=
      CUBLAS_STATUS_SUCCESS)
    return {};
  return values;
}

}  // namespace

std::vector<cublasLtMatmulAlgo_t> ask_heuristic(cublasLtHandle_t handle, const LtMatmul& matmul, const LtAlignment& alignment,
                                                const LtQuery& query) {
  cublasLtMatmulPreferenceOpaque_t preference{};
  if (cublasLtMatmulPreferenceInit(&preference) != CUBLAS_STATUS_SUCCESS) return {};
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{query.workspace});
  prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, query.reductions);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment.a);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment.b);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment.c);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment.d);

  LtMatmul m = matmul;  // the library takes its descriptors without const
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(query.count));
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, &m.desc, &m.body.a, &m.body.b, &m.body.c, &m.body.d,
                                                               &preference, query.count, results.data(), &found);
  std::vector<cublasLtMatmulAlgo_t> algos;
  if (status != CUBLAS_STATUS_SUCCESS) return algos;
  for (int i = 0; i < found; ++i)
    if (results[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
      algos.push_back(results[static_cast<std::size_t>(i)].algo);
  return algos;
}

std::vector<LtConfig> neighbours(const LtConfig& config, const cublasLtMatmulAlgo_t& algo, std::uint32_t reductions) {
  std::vector<LtConfig> found;
  const auto add = [&](LtConfig next) {
    if (next != config && std::find(found.begin(), found.end(), next) == found.end()) found.push_back(next);
  };
  const std::uint32_t schemes = capability(algo, CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK) & reductions;
  const bool splits = capability(algo, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) != 0;
  const bool swizzles = capability(algo, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT) != 0;

  LtConfig next = config;
  next.split_k = 1, next.reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
  add(next);
  for (std::uint32_t scheme :
       {CUBLASLT_REDUCTION_SCHEME_INPLACE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE}) {
    if (!splits || (schemes & scheme) == 0) continue;
    for (std::int32_t split : {2, 3, 4, 5, 6, 8, 12, 16, 24, 32}) {
      next = config;
      next.split_k = split, next.reduction = scheme;
      add(next);
    }
  }
  if (swizzles) {
    next = config;
    next.swizzle = config.swizzle == 0 ? 1 : 0;
    add(next);
  }
  for (std::uint32_t stages : capability_list(algo, CUBLASLT_ALGO_CAP_STAGES_IDS)) {
    next = config;
    next.stages = stages;
    add(next);
  }
  return found;
}

}  // namespace attune

#include "providers/cublaslt_heuristic.hpp"

namespace attune {
namespace {

template <class T>
void prefer(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) noexcept {
  cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value);
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

}  // namespace attune

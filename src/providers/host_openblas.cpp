#include <cblas.h>

#include <cstring>
#include <limits>

#include "core/problem.hpp"
#include "kernels/common/contraction.hpp"
#include "providers/host_libraries.hpp"

namespace attune {
namespace {

class OpenblasPlan final : public Plan {
 public:
  explicit OpenblasPlan(const GemmProblem& problem) : Plan("host:openblas", {.deterministic = false}), p_(problem) {}

  Status run(const Launch& launch) const noexcept override {
    if (p_.c_type == DType::f64)
      run_as<double>(launch, cblas_dgemm);
    else
      run_as<float>(launch, cblas_sgemm);
    return Status::ok;
  }

 private:
  template <class T, class Gemm>
  void run_as(const Launch& launch, Gemm gemm) const noexcept {
    const T alpha = *static_cast<const T*>(launch.alpha);
    const T beta = p_.beta == Scalar::zero ? T(0) : *static_cast<const T*>(launch.beta);
    const auto transpose = [](Op op) { return op == Op::N ? CblasNoTrans : CblasTrans; };
    const auto as_int = [](std::int64_t v) { return static_cast<blasint>(v); };
    for (std::int64_t z = 0; z < p_.batch; ++z) {
      T* d = static_cast<T*>(launch.d) + z * p_.stride_d;
      if (p_.beta != Scalar::zero && launch.c != launch.d) {
        const T* c = static_cast<const T*>(launch.c) + z * p_.stride_c;
        for (std::int64_t j = 0; j < p_.n; ++j)
          std::memcpy(d + j * p_.ldd, c + j * p_.ldc, static_cast<std::size_t>(p_.m) * sizeof(T));
      }
      gemm(CblasColMajor, transpose(p_.op_a), transpose(p_.op_b), as_int(p_.m), as_int(p_.n), as_int(p_.k), alpha,
           static_cast<const T*>(launch.a) + z * p_.stride_a, as_int(p_.lda), static_cast<const T*>(launch.b) + z * p_.stride_b,
           as_int(p_.ldb), beta, d, as_int(p_.ldd));
    }
  }
  GemmProblem p_;
};

}  // namespace

Prepared prepare_openblas(const Problem& problem, const Constraints& constraints) {
  const auto* p = std::get_if<GemmProblem>(&problem);
  if (p == nullptr) return declined("not a GEMM");
  if (p->epilogue != Epilogue::none) return declined("an epilogue");
  if (constraints.deterministic) return declined("not deterministic");
  const bool wide = p->compute == Compute::f64;
  const DType type = wide ? DType::f64 : DType::f32;
  if (p->a_type != type || p->b_type != type || p->c_type != type) return declined("types");
  constexpr std::int64_t most = std::numeric_limits<blasint>::max();
  for (std::int64_t size : {p->m, p->n, p->k, p->lda, p->ldb, p->ldd})
    if (size > most) return declined("a size beyond the library's integers");
  // C and D are one buffer when called so; the columns must then lie alike, or the copy above would tread on them.
  if (p->beta != Scalar::zero && (p->ldc != p->ldd || p->stride_c != p->stride_d)) return declined("C and D lie differently");
  return {std::make_unique<OpenblasPlan>(*p), Outcome::ok, {}};
}

std::string openblas_version() { return openblas_get_config(); }

}  // namespace attune

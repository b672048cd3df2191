// Packed contractions: what a plan holds, and the entry points compiled for each instruction set.
#pragma once

#include <attune/types.hpp>
#include <cstddef>
#include <cstdint>

#include "kernels/common/activation.hpp"
#include "kernels/common/contraction.hpp"
#include "kernels/common/image.hpp"
#include "kernels/host_threads.hpp"
#include "kernels/host_tiles.hpp"

namespace attune {

/// What one call of a host kernel brings. c is null where beta is zero, bias where there is none; it has the output's type. alpha
/// has the scales of fp8 operands in it.
struct HostCall {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  double alpha = 1;
  double beta = 0;
  const void* bias = nullptr;
  Activation activation = Activation::none;
  void* workspace = nullptr;
  HostPool* pool = nullptr;
};

/// D_z(i, j) = alpha * sum over l of A_z(i, l) * B_z(l, j) + beta * C_z(i, j), every operand with a step for each index;
/// z is a pair of indices.
struct StridedContraction {
  DType a_type = DType::f32, b_type = DType::f32, c_type = DType::f32;
  std::int64_t m = 0, n = 0, k = 0, batch[2] = {1, 1};
  std::int64_t a_i = 0, a_l = 0, a_z[2] = {};
  std::int64_t b_l = 0, b_j = 0, b_z[2] = {};
  std::int64_t c_i = 0, c_j = 0, c_z[2] = {};
  std::int64_t d_i = 0, d_j = 0, d_z[2] = {};
  std::int64_t bias_i = 0, bias_j = 0, bias_z[2] = {};
  bool swapped = false;  ///< A here is the call's b
};
StridedContraction strided(const GemmProblem& problem) noexcept;
/// Whether the convolution has one tap that touches every position once, and its strides collapse to those of a GEMM. The rows
/// of D are then whichever of positions and channels lie closer together.
bool pointwise(const ConvProblem& problem, StridedContraction& out) noexcept;

/// The cache blocks of one plan, balanced for its sizes.
struct PackedShape {
  int row = 0;  ///< index into host_rows
  int mr = 0, nr = 0;
  std::int64_t mc = 0, nc = 0, kc = 0;
  std::int64_t m_blocks = 0, n_blocks = 0;
  bool threaded = true;
  bool wide = false;  ///< double, not float
  std::size_t a_bytes = 0, b_bytes = 0, acc_bytes = 0;
  std::size_t worker_bytes() const noexcept { return a_bytes + b_bytes + acc_bytes; }
};
PackedShape packed_shape(int row, bool wide, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch,
                         int threads) noexcept;

struct PackedEntries {
  void (*strided)(const StridedContraction&, const PackedShape&, const HostCall&);
  void (*image)(const ImageContraction&, const PackedShape&, const HostCall&);
};
PackedEntries packed_base() noexcept;
PackedEntries packed_avx2() noexcept;
PackedEntries packed_avx512() noexcept;

bool host_supports(HostIsa isa) noexcept;
/// Of an instruction set that is supported.
PackedEntries packed_entries(HostIsa isa) noexcept;

}  // namespace attune

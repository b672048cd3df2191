// Hopper's GEMM (sm_90a): what a launch takes. The variants are the rows of hopper_gemm_rows.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cstdint>

#include "kernels/common/activation.hpp"
#include "kernels/tiles.hpp"

namespace attune {

/// D(x, y) = finish(sum over l of X(x, l) * Y(l, y)). X is op(A) and Y op(B), or, `swapped`, X is op(B)^T and Y op(A)^T: then the
/// lines of D lie along the tile's rows.
struct HopperGemmShape {
  std::int64_t rows = 0, columns = 0, k = 0, batch = 1;
  bool x_batched = true, y_batched = true;  ///< false: one matrix for the whole batch
  std::int64_t d_line = 0, d_batch = 0, c_line = 0, c_batch = 0;
  bool swapped = false;
  bool vectors = false;  ///< D and C may be accessed 16 bytes at a time
  bool plain = false;    ///< D has 16-bit elements and nothing but alpha to apply
  bool boxes = false;    ///< such a D is stored by tensor copies: its lines are aligned and whole vectors long
  bool direct = false;   ///< such a D without boxes is stored by those who multiplied; else by others, under the next tile
  int splits = 1;        ///< of k; more than one: sums go to `partial`, [split][batch][line][place] in fp32
  int group = 8;         ///< tiles (of clusters) of rows that share a column of tiles in the L2
};

struct HopperGemmCall {
  const void* c = nullptr;
  const void* bias = nullptr;
  void* d = nullptr;
  float* partial = nullptr;
  float alpha = 1, beta = 0;
  DType out_type = DType::f32;
  Activation activation = Activation::none;
};

/// Tensor maps of three dimensions, the innermost first: along the lines in memory, the lines, the batch. Boxes: 128 bytes along a
/// line, by the tile's rows or columns (k-major) or by the stage's k (else); 128 bytes by 64 lines of D. 128-byte swizzle.
struct HopperGemmMaps {
  CUtensorMap x, y, d;
};

/// `row` is an index into hopper_gemm_rows. False where this build has no code for it.
bool has_hopper_gemm() noexcept;
/// Before a row's first launch on the current device. `blocks`: how many can be on it at once.
cudaError_t allow_hopper_gemm(int row, int& blocks) noexcept;
cudaError_t launch_hopper_gemm(int row, const HopperGemmMaps& maps, const HopperGemmShape& shape, const HopperGemmCall& call,
                               int blocks, cudaStream_t stream) noexcept;

}  // namespace attune

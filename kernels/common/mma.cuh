// Tensor-core building blocks for sm_80 and up: swizzled shared tiles, fragments from ldmatrix, and the multiplication of one
// staged pair of tiles by all warps of a block.
//
// A tile holds X (rows of the result) or Y (its columns). `KMajor`: each line of shared memory is one row (or column) with BK
// elements along k; else each line is one k with all rows (or columns) along it. Sixteen-byte chunks of a line are permuted so
// that neither the copies into a tile nor the fragment loads out of it meet in a bank.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>
#include <cstdint>
#include <type_traits>

namespace attune {

/// fp32 in memory, rounded to tf32 in the fragments.
struct Tf32 {
  float value;
};

template <typename T>
inline constexpr int chunk_elements = 16 / static_cast<int>(sizeof(T));

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ inline void load_matrices_transposed(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

/// d += x * y over two chunks of k: 16 elements of 16 bits or 8 of tf32.
template <typename T>
__device__ inline void multiply(float (&d)[4], const std::uint32_t (&x)[4], std::uint32_t y0, std::uint32_t y1) {
  if constexpr (std::is_same_v<T, __half>)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1));
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1));
  else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1));
}

__device__ inline std::uint32_t rounded_to_tf32(std::uint32_t bits) {
  std::uint32_t out;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(__uint_as_float(bits)));
  return out;
}

/// Where the chunks of a tile lie. `Extent`: rows (or columns) of the result that it covers.
template <typename T, bool KMajor, int Extent, int BK>
struct SharedTile {
  static constexpr int lines = KMajor ? Extent : BK;
  static constexpr int chunks = (KMajor ? BK : Extent) / chunk_elements<T>;  ///< of one line
  static constexpr int bytes = Extent * BK * static_cast<int>(sizeof(T));
  static_assert(chunks >= 4 && (chunks & (chunks - 1)) == 0);

  /// Byte offset of a chunk.
  __device__ static int at(int line, int chunk) {
    int mask;
    if constexpr (sizeof(T) == 4 && !KMajor)
      mask = (line & 3) << 1;  // four lines are read together, eight elements of each
    else if constexpr (chunks == 4)
      mask = line >> 1 & 3;
    else
      mask = line & 7;
    return (line * chunks + (chunk ^ mask)) * 16;
  }
};

/// Fragments of 16 lines of X for two chunks of k, the first of which is `k_chunk` (K-major) or starts at element k (else).
template <typename T, bool KMajor, int Extent, int BK>
__device__ inline void load_x(std::uint32_t (&r)[4], std::uint32_t tile, int row, int step) {
  using Tile = SharedTile<T, KMajor, Extent, BK>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (KMajor) {
    load_matrices(r, tile + Tile::at(row + lane % 16, step * 2 + lane / 16));
  } else if constexpr (sizeof(T) == 2) {
    const int k = step * 16 + lane / 16 * 8 + lane % 8;
    load_matrices_transposed(r, tile + Tile::at(k, row / 8 + lane / 8 % 2));
  } else {
    const int group = lane / 4, k = step * 8 + lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int m = row + group + i % 2 * 8;
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r[i]) : "r"(tile + Tile::at(k + i / 2 * 4, m / 4) + m % 4 * 4));
    }
  }
  if constexpr (sizeof(T) == 4)
    for (int i = 0; i < 4; ++i) r[i] = rounded_to_tf32(r[i]);
}

/// Fragments of 16 columns of Y: r[0], r[1] of the first eight, r[2], r[3] of the others.
template <typename T, bool KMajor, int Extent, int BK>
__device__ inline void load_y(std::uint32_t (&r)[4], std::uint32_t tile, int column, int step) {
  using Tile = SharedTile<T, KMajor, Extent, BK>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (KMajor) {
    load_matrices(r, tile + Tile::at(column + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
  } else if constexpr (sizeof(T) == 2) {
    load_matrices_transposed(r, tile + Tile::at(step * 16 + lane % 16, column / 8 + lane / 16));
  } else {
    const int group = lane / 4, k = step * 8 + lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int n = column + group + i / 2 * 8;
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r[i]) : "r"(tile + Tile::at(k + i % 2 * 4, n / 4) + n % 4 * 4));
    }
  }
  if constexpr (sizeof(T) == 4)
    for (int i = 0; i < 4; ++i) r[i] = rounded_to_tf32(r[i]);
}

/// The part of a block's result that one warp accumulates: WM x WN of BM x BN.
template <typename T, bool KMajorX, bool KMajorY, int BM, int BN, int BK, int WM, int WN>
struct WarpTile {
  static_assert(BM % WM == 0 && BN % WN == 0 && WM % 16 == 0 && WN % 16 == 0);
  static constexpr int warps_m = BM / WM, warps_n = BN / WN, threads = warps_m * warps_n * 32;
  static constexpr int fragments_m = WM / 16, fragments_n = WN / 8;
  static constexpr int steps = BK / (2 * chunk_elements<T>);
  using X = SharedTile<T, KMajorX, BM, BK>;
  using Y = SharedTile<T, KMajorY, BN, BK>;

  float sum[fragments_m][fragments_n][4] = {};

  __device__ static int row() { return static_cast<int>(threadIdx.x) / 32 % warps_m * WM; }
  __device__ static int column() { return static_cast<int>(threadIdx.x) / 32 / warps_m * WN; }

  __device__ void accumulate(std::uint32_t x_tile, std::uint32_t y_tile) {
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      std::uint32_t x[fragments_m][4], y[fragments_n / 2][4];
#pragma unroll
      for (int i = 0; i < fragments_m; ++i) load_x<T, KMajorX, BM, BK>(x[i], x_tile, row() + i * 16, step);
#pragma unroll
      for (int j = 0; j < fragments_n / 2; ++j) load_y<T, KMajorY, BN, BK>(y[j], y_tile, column() + j * 16, step);
#pragma unroll
      for (int i = 0; i < fragments_m; ++i)
#pragma unroll
        for (int j = 0; j < fragments_n; ++j) multiply<T>(sum[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
    }
  }

  /// Writes the sums to shared memory: element (row, column) at row + column * pitch, or at row * pitch + column where
  /// `rows_apart`. Pitches of the tile's extent plus 4, or plus 8, keep the banks apart.
  __device__ void stage(float* to, bool rows_apart) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row_step = rows_apart ? BN + 8 : 1, column_step = rows_apart ? 1 : BM + 4;
#pragma unroll
    for (int i = 0; i < fragments_m; ++i)
#pragma unroll
      for (int j = 0; j < fragments_n; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          to[(row() + i * 16 + lane / 4 + e / 2 * 8) * row_step + (column() + j * 8 + lane % 4 * 2 + e % 2) * column_step] =
              sum[i][j][e];
  }
  static constexpr int staged_bytes = (BM * (BN + 8) > BN * (BM + 4) ? BM * (BN + 8) : BN * (BM + 4)) * 4;
};

}  // namespace attune

// Products of two staged tiles without tensor cores: [term][row] by [term][column], a small tile of sums for each thread.
#pragma once

#include <cstdint>

namespace attune {

/// Each thread sums TM x TN elements of BM x BN, in packets of 16 bytes that are apart by as many packets as threads stand side
/// by side, so that a warp reads whole lines of shared memory.
template <typename T, int BM, int BN, int TM, int TN>
struct ThreadTile {
  static constexpr int width = 16 / static_cast<int>(sizeof(T));
  static constexpr int across = BM / TM, down = BN / TN, threads = across * down;
  static constexpr int groups_m = TM / width, groups_n = TN / width;
  static constexpr int pitch_x = BM + width, pitch_y = BN + width;  ///< from term to term
  static_assert(TM % width == 0 && TN % width == 0);

  struct alignas(16) Packet {
    T value[width];
  };
  T sum[TM][TN] = {};

  __device__ static int row(int i) {
    return static_cast<int>(threadIdx.x) % across * width + i / width * (BM / groups_m) + i % width;
  }
  __device__ static int column(int j) {
    return static_cast<int>(threadIdx.x) / across * width + j / width * (BN / groups_n) + j % width;
  }

  template <int Terms>
  __device__ void accumulate(const T* x, const T* y) {
#pragma unroll
    for (int l = 0; l < Terms; ++l) {
      Packet px[groups_m], py[groups_n];
#pragma unroll
      for (int g = 0; g < groups_m; ++g) px[g] = *reinterpret_cast<const Packet*>(x + l * pitch_x + row(g * width));
#pragma unroll
      for (int g = 0; g < groups_n; ++g) py[g] = *reinterpret_cast<const Packet*>(y + l * pitch_y + column(g * width));
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) sum[i][j] += px[i / width].value[i % width] * py[j / width].value[j % width];
    }
  }
  /// Element (row, column) goes to row * row_step + column * column_step.
  __device__ void stage(T* to, int row_step, int column_step) const {
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
      for (int j = 0; j < TN; ++j) to[row(i) * row_step + column(j) * column_step] = sum[i][j];
  }
};

}  // namespace attune

// What a row of Hopper's GEMM comes to, and the walk of a block over tiles.
#pragma once

#include <cstdint>

#include "kernels/gemm_hopper.hpp"

namespace attune {

template <typename T, int Index>
struct HopperGemm {
  static constexpr HopperGemmRow row = hopper_gemm_rows[Index];
  static constexpr int bm = row.bm, bn = row.bn, bk = 128 / static_cast<int>(sizeof(T)), stages = row.stages;
  static constexpr int group_rows = bm / row.groups, blocks = group_rows / 64;  ///< a warpgroup's rows, in blocks of 64
  static constexpr int consumers = row.groups * 128, threads = consumers + 128;
  static constexpr int below = row.share_k ? 1 : row.cluster;  ///< blocks of a cluster one below the other
  static constexpr int x_bytes = bm * 128, bytes = stage_bytes(row), y_part = bn / below;
  static_assert(group_rows % 64 == 0 && (bk / 64 == 1 || (row.x_k_major && row.y_k_major)));
  static_assert(below == 1 || y_part % 64 == 0);
  static constexpr int staging = staging_bytes(row);  ///< of a warpgroup
  static_assert(staging % 1024 == 0);
  static constexpr bool has_boxes = bn % 64 == 0 && sizeof(T) == 2 && !row.share_k;
  static_assert(!row.share_k || (blocks == 1 && bn % row.cluster == 0));
};

/// Where a block is in its walk over tiles, batch and splits, of which there are less than 2^31.
struct HopperWork {
  int row, column, split, z, k0, steps;

  template <typename Gemm>
  __device__ static int count(const HopperGemmShape& s) {
    return tiles_m<Gemm>(s) * tiles_n<Gemm>(s) * static_cast<int>(s.batch) * (Gemm::row.share_k ? 1 : s.splits);
  }
  template <typename Gemm>
  __device__ static int tiles_m(const HopperGemmShape& s) {
    constexpr int rows = Gemm::bm * Gemm::below;
    return (static_cast<int>(s.rows) + rows - 1) / rows;
  }
  template <typename Gemm>
  __device__ static int tiles_n(const HopperGemmShape& s) {
    return (static_cast<int>(s.columns) + Gemm::bn - 1) / Gemm::bn;
  }
  template <typename Gemm>
  __device__ static HopperWork at(const HopperGemmShape& s, int index, int rank) {
    const int m = tiles_m<Gemm>(s), n = tiles_n<Gemm>(s), tiles = m * n, rest = index / tiles, tile = index - rest * tiles;
    const int in_group = s.group * n, first = tile / in_group * s.group, height = m - first < s.group ? m - first : s.group;
    HopperWork w;
    w.row = ((first + tile % in_group % height) * Gemm::below + (Gemm::row.share_k ? 0 : rank)) * Gemm::bm;
    w.column = tile % in_group / height * Gemm::bn;
    const int splits = Gemm::row.share_k ? Gemm::row.cluster : s.splits;
    w.split = Gemm::row.share_k ? rank : rest % splits;
    w.z = Gemm::row.share_k ? rest : rest / splits;
    const int all = (static_cast<int>(s.k) + Gemm::bk - 1) / Gemm::bk, each = (all + splits - 1) / splits;
    const int begin = w.split * each < all ? w.split * each : all, end = begin + each < all ? begin + each : all;
    w.k0 = begin * Gemm::bk, w.steps = end - begin;
    return w;
  }
};

}  // namespace attune

// Hopper's GEMM: one warpgroup gives its registers away and feeds a ring of tiles by tensor copies; the others multiply out of it
// and stage their results, which tensor copies, or other warps of the first, store. Blocks stay and walk over tiles, so that the
// next tile is loaded and multiplied while the present one is stored.
// Included by one source for each element type.
#pragma once

#include "kernels/common/finish.cuh"
#include "kernels/common/hopper.cuh"
#include "kernels/common/overlap.cuh"
#include "kernels/common/wgmma.cuh"
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

/// One thread `issues` every copy; others only come along to meetings of a cluster.
template <typename Gemm>
__device__ void hopper_produce(const HopperGemmMaps& maps, const HopperGemmShape& s, std::uint32_t ring, std::uint32_t full,
                               std::uint32_t empty, int rank, int first, int stride, bool issues) {
  constexpr HopperGemmRow row = Gemm::row;
  constexpr std::uint16_t everyone = (1 << Gemm::below) - 1;
  int stage = 0, phase = 0;
  const int total = HopperWork::count<Gemm>(s);
  for (int index = first; index < total; index += stride) {
    const HopperWork w = HopperWork::at<Gemm>(s, index, rank);
    const int zx = s.x_batched ? w.z : 0, zy = s.y_batched ? w.z : 0;
    for (int step = 0; issues && step < w.steps; ++step) {
      const int k = w.k0 + step * Gemm::bk;
      const std::uint32_t x = ring + stage * Gemm::bytes, y = x + Gemm::x_bytes, ready = full + stage * 8;
      hopper::wait_barrier(empty + stage * 8, phase ^ 1);
      hopper::expect_bytes(ready, Gemm::bytes);
      if constexpr (row.x_k_major) {
        hopper::load_box(x, maps.x, k, w.row, zx, ready);
      } else {
#pragma unroll
        for (int b = 0; b < Gemm::bm / 64; ++b) hopper::load_box(x + b * 8192, maps.x, w.row + b * 64, k, zx, ready);
      }
      // Each block of a cluster loads its part of Y for all of them.
      const int part_of = Gemm::below > 1 ? rank : 0, column = w.column + part_of * Gemm::y_part;
      const std::uint32_t part = y + part_of * Gemm::y_part * 128;
      if constexpr (row.y_k_major) {
        if constexpr (Gemm::below > 1)
          hopper::load_box_to(part, maps.y, k, column, zy, ready, everyone);
        else
          hopper::load_box(part, maps.y, k, column, zy, ready);
      } else {
#pragma unroll
        for (int b = 0; b < Gemm::y_part / 64; ++b) {
          if constexpr (Gemm::below > 1)
            hopper::load_box_to(part + b * 8192, maps.y, column + b * 64, k, zy, ready, everyone);
          else
            hopper::load_box(part + b * 8192, maps.y, column + b * 64, k, zy, ready);
        }
      }
      if (++stage == Gemm::stages) stage = 0, phase ^= 1;
    }
    if constexpr (row.share_k) {
      __syncwarp();
      hopper::sync_cluster();  // sums are staged
      hopper::sync_cluster();  // and were read
    }
  }
}

/// Sums of 64 x bn, as a warpgroup's threads hold them, to boxes of 64 lines of 64 elements.
template <typename Gemm, typename Out>
__device__ void stage_boxes(const float (&sum)[Gemm::bn / 2], std::uint32_t to, float alpha, bool swapped, int thread) {
  const int warp = thread / 32, lane = thread % 32;
#pragma unroll
  for (int box = 0; box < Gemm::bn / 64; ++box)
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      std::uint32_t r[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = (box * 8 + pair * 2) * 4 + i * 2;
        const float low = alpha * sum[at], high = alpha * sum[at + 1];
        if constexpr (std::is_same_v<Out, __half>) {
          const __half2 both = __floats2half2_rn(low, high);
          r[i] = *reinterpret_cast<const std::uint32_t*>(&both);
        } else {
          const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
          r[i] = *reinterpret_cast<const std::uint32_t*>(&both);
        }
      }
      // Four 8 x 8 matrices: rows 0-7 and 8-15 of the warp's sixteen, for two neighbouring groups of eight columns.
      if (swapped) {
        const int line = warp * 16 + lane % 16, chunk = pair * 2 + lane / 16;
        hopper::store_matrices(to + box * 8192 + line * 128 + (chunk ^ line % 8) * 16, r);
      } else {
        const int line = (pair * 2 + lane / 16) * 8 + lane % 8, chunk = warp * 2 + lane / 8 % 2;
        hopper::store_matrices_transposed(to + box * 8192 + line * 128 + (chunk ^ line % 8) * 16, r);
      }
    }
}

/// Sixteen bytes, eight elements, of which the first `skip` are left out and made up for by the next sixteen bytes.
__device__ inline uint4 shifted(const uint4& low, const uint4& high, int skip) {
  std::uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  if (skip & 4)
#pragma unroll
    for (int j = 0; j < 6; ++j) w[j] = w[j + 2];
  if (skip & 2)
#pragma unroll
    for (int j = 0; j < 5; ++j) w[j] = w[j + 1];
  const int bits = (skip & 1) * 16;
  return {__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits), __funnelshift_r(w[2], w[3], bits),
          __funnelshift_r(w[3], w[4], bits)};
}

/// A staged tile, in boxes along the tile's columns (`swapped`) or its rows, to lines of any alignment: aligned vectors of 16 bytes,
/// and single elements before the first and behind the last. Of every eighth line the alignment is the same, and so is the swizzle:
/// a warp takes those together, with as many lanes for a line as it has vectors.
template <typename Gemm>
__device__ void store_staged(std::uint32_t staging, bool swapped, std::uint16_t* d, std::int64_t d_line, int lines, int places, int warp,
                             int warps, int lane) {
  constexpr int at_once = 4, boxes = Gemm::bn / 64;
  const int most = swapped ? Gemm::bn : Gemm::bm, lanes = most > 128 ? 32 : 16, abreast = 32 / lanes, at = lane % lanes;
  const int segments = swapped ? Gemm::bm / 64 : 1, segment_lines = swapped ? 64 : Gemm::bn;
#pragma unroll 1
  for (int item = warp; item < 8 * segments; item += warps) {
    const int residue = item % 8, block = item / 8, line0 = block * 64 + residue;
    if (line0 >= lines) continue;
    // Where a chunk of this lane's lies in the first line; eight lines on it lies 1,024 bytes on.
    const auto chunk_at = [&](int chunk) {
      const int b = swapped ? block : chunk / 8, box = swapped ? chunk / 8 : 0;
      return staging + b / Gemm::blocks * Gemm::staging + (b % Gemm::blocks * boxes + box) * 8192 + residue * 128 + (chunk % 8 ^ residue) * 16;
    };
    std::uint16_t* const first = d + line0 * d_line;
    const int before = static_cast<int>((16 - reinterpret_cast<std::uintptr_t>(first) % 16) % 16 / 2);
    const int head = before < places ? before : places, whole = (places - head) / 8;
    const bool has_vector = at < whole, has_single = at < places - whole * 8;
    const int single = at < head ? at : at + whole * 8;
    const int last_chunk = most / 8 - 1;
    std::uint32_t low_from = chunk_at(at < last_chunk ? at : last_chunk), high_from = chunk_at(at + 1 < last_chunk ? at + 1 : last_chunk);
    std::uint32_t single_from = chunk_at(has_single ? single / 8 : 0) + single % 8 * 2;
    const int left = lines - line0 < segment_lines - residue ? lines - line0 : segment_lines - residue;
    const int count = (left + 7) / 8;  // of lines
#pragma unroll 1
    for (int j0 = lane / lanes; j0 < count; j0 += at_once * abreast) {
      uint4 low[at_once], high[at_once];
      std::uint16_t one[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const int j = j0 + i * abreast;
        const std::uint32_t on = static_cast<std::uint32_t>(j < count ? j : 0) * 1024;
        low[i] = hopper::load_shared(low_from + on), high[i] = hopper::load_shared(high_from + on);
        one[i] = hopper::load_shared_half(single_from + on);
      }
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const int j = j0 + i * abreast;
        if (j >= count) break;
        std::uint16_t* const to = first + j * 8 * d_line;
        if (has_vector) *reinterpret_cast<uint4*>(to + head + at * 8) = shifted(low[i], high[i], head);
        if (has_single) to[single] = one[i];
      }
    }
  }
}

/// One tile that lies staged, by `warps` warps.
template <typename Gemm>
__device__ void store_tile(const HopperGemmShape& s, void* d, std::uint32_t staging, const HopperWork& w, int warp, int warps, int lane) {
  const int line = s.swapped ? w.row : w.column, place = s.swapped ? w.column : w.row;
  const std::int64_t lines = (s.swapped ? s.rows : s.columns) - line, places = (s.swapped ? s.columns : s.rows) - place;
  const int most_lines = s.swapped ? Gemm::bm : Gemm::bn, most_places = s.swapped ? Gemm::bn : Gemm::bm;
  if (lines > 0 && places > 0)
    store_staged<Gemm>(staging, s.swapped, static_cast<std::uint16_t*>(d) + w.z * s.d_batch + line * s.d_line + place, s.d_line,
                       static_cast<int>(lines < most_lines ? lines : most_lines),
                       static_cast<int>(places < most_places ? places : most_places), warp, warps, lane);
}

/// Warps beside the one that feeds the ring: they store what the others staged and no tensor copy could.
template <typename Gemm>
__device__ void hopper_store(const HopperGemmShape& s, void* d, std::uint32_t staging, std::uint32_t staged, std::uint32_t drained,
                             int rank, int first, int stride) {
  const int warp = static_cast<int>(threadIdx.x) / 32 - 1, lane = static_cast<int>(threadIdx.x) % 32;
  const int total = HopperWork::count<Gemm>(s);
  int phase = 0;
  for (int index = first; index < total; index += stride, phase ^= 1) {
    const HopperWork w = HopperWork::at<Gemm>(s, index, rank);
    hopper::wait_barrier(staged, phase);
    store_tile<Gemm>(s, d, staging, w, warp, 3, lane);
    __syncwarp();
    if (lane == 0) hopper::arrive(drained);
  }
}

static __device__ __noinline__ void finish_sums(const Output<float>& out, const float* staged, int pitch, int length, int lines, int places,
                                         int thread) {
  finish_tile<float>(out, staged, pitch, length, lines, places, thread, 128);
}

/// The same with everything that can follow a sum: 32 columns at a time through shared memory in fp32.
template <typename Gemm>
__device__ void store_sums(const float (&sum)[Gemm::bn / 2], const HopperGemmShape& s, const HopperGemmCall& call, float* staging,
                           int row, int column, int split, int z, int thread, int barrier) {
  constexpr int width = Gemm::bn < 32 ? Gemm::bn : 32;
  const int warp = thread / 32, lane = thread % 32;
  const std::int64_t all_lines = s.swapped ? s.rows : s.columns, all_places = s.swapped ? s.columns : s.rows;
  Output<float> out;
  if (call.partial != nullptr) {
    out.d = call.partial + (split * s.batch + z) * all_lines * all_places;
    out.d_line = all_places, out.vectors = all_places % 4 == 0;
  } else {
    out.d = advanced(call.d, call.out_type, z * s.d_batch), out.d_line = s.d_line;
    out.c = advanced(call.c, call.out_type, z * s.c_batch), out.c_line = s.c_line;
    out.bias = call.bias, out.alpha = call.alpha, out.beta = call.beta;
    out.type = call.out_type, out.activation = call.activation, out.vectors = s.vectors;
  }
  const int row_step = s.swapped ? width + 8 : 1, column_step = s.swapped ? 1 : 64 + 4;
#pragma unroll
  for (int part = 0; part < Gemm::bn / width; ++part) {
    hopper::sync_threads(barrier, 128);
#pragma unroll
    for (int i = 0; i < width / 2; ++i) {
      const int r = warp * 16 + lane / 4 + i / 2 % 2 * 8, c = i / 4 * 8 + lane % 4 * 2 + i % 2;
      staging[r * row_step + c * column_step] = sum[part * (width / 2) + i];
    }
    hopper::sync_threads(barrier, 128);
    const int y = column + part * width;
    const std::int64_t line = s.swapped ? row : y, place = s.swapped ? y : row;
    const int length = s.swapped ? width : 64, most = s.swapped ? 64 : width;
    const std::int64_t lines = all_lines - line, places = all_places - place;
    if (lines > 0 && places > 0)
      finish_sums(at_tile(out, line, place), staging, s.swapped ? width + 8 : 64 + 4, length,
                  static_cast<int>(lines < most ? lines : most), static_cast<int>(places < length ? places : length), thread);
  }
}

/// The blocks of a cluster have a part of k each: every one stages its sums, then adds up its share of the lines in the order of the
/// blocks, and finishes them.
template <typename Gemm>
__device__ void add_up(const float (&sum)[Gemm::bn / 2], const HopperGemmShape& s, const HopperGemmCall& call, float* staging, int group,
                       const HopperWork& w, int rank, int thread) {
  constexpr int bm = Gemm::bm, bn = Gemm::bn, cluster = Gemm::row.cluster;
  const int warp = thread / 32, lane = thread % 32;
  const int row_step = s.swapped ? bn : 1, column_step = s.swapped ? 1 : bm;
#pragma unroll
  for (int i = 0; i < bn / 2; ++i) {
    const int r = group * 64 + warp * 16 + lane / 4 + i / 2 % 2 * 8, c = i / 4 * 8 + lane % 4 * 2 + i % 2;
    staging[r * row_step + c * column_step] = sum[i];
  }
  hopper::sync_cluster();
  const int length = s.swapped ? bn : bm, each = (s.swapped ? bm : bn) / cluster;
  const std::int64_t line0 = s.swapped ? w.row : w.column, place0 = s.swapped ? w.column : w.row;
  const std::int64_t lines = (s.swapped ? s.rows : s.columns) - line0, places = (s.swapped ? s.columns : s.rows) - place0;
  Output<float> out;
  out.d = advanced(call.d, call.out_type, w.z * s.d_batch), out.d_line = s.d_line;
  out.c = advanced(call.c, call.out_type, w.z * s.c_batch), out.c_line = s.c_line;
  out.bias = call.bias, out.alpha = call.alpha, out.beta = call.beta;
  out.type = call.out_type, out.activation = call.activation;
  out = at_tile(out, line0, place0);
  const std::uint32_t base = shared_address(staging);
#pragma unroll 1
  for (int e = group * 128 + thread; e < each * length; e += Gemm::consumers) {
    const int line = rank * each + e / length, place = e % length;
    if (line >= lines || place >= places) continue;
    float all = 0;
#pragma unroll
    for (int block = 0; block < cluster; ++block)
      all += hopper::load_from(base + static_cast<std::uint32_t>(line * length + place) * 4, block);
    store_as(out.d, out.type, line * out.d_line + place, finished(out, all, line * out.c_line + place, std::int64_t{place}));
  }
  hopper::sync_cluster();
}

template <typename T, typename Gemm>
__device__ void hopper_consume(const HopperGemmMaps& maps, const HopperGemmShape& s, const HopperGemmCall& call, std::uint32_t ring,
                               std::uint32_t full, std::uint32_t empty, char* staging, std::uint32_t staged, std::uint32_t drained,
                               int rank, int first, int stride) {
  constexpr HopperGemmRow row = Gemm::row;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1, thread = static_cast<int>(threadIdx.x) % 128;
  const int barrier = 1 + group;
  constexpr int all_barrier = 3;  // of all who multiply
  char* const own_staging = staging + group * Gemm::staging;
  int stage = 0, phase = 0, tile_phase = 0;
  const int total = HopperWork::count<Gemm>(s);
  // A stage is free when both blocks of a cluster have read it: each may have been filled by the other.
  const auto release = [&](int done) {
    if constexpr (Gemm::below > 1) {
      if (thread < Gemm::below) hopper::arrive_at(empty + done * 8, thread);
    } else {
      if (thread == 0) hopper::arrive(empty + done * 8);
    }
  };
  for (int index = first; index < total; index += stride) {
    const HopperWork w = HopperWork::at<Gemm>(s, index, rank);
    float sum[Gemm::blocks][Gemm::bn / 2];
#pragma unroll
    for (int b = 0; b < Gemm::blocks; ++b)
#pragma unroll
      for (int i = 0; i < Gemm::bn / 2; ++i) sum[b][i] = 0;
    int before = -1;
    for (int step = 0; step < w.steps; ++step) {
      hopper::wait_barrier(full + stage * 8, phase);
      const std::uint32_t x = ring + stage * Gemm::bytes + group * Gemm::group_rows * 128, y = ring + stage * Gemm::bytes + Gemm::x_bytes;
      hopper::begin();
#pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
        const std::uint64_t dy = hopper::describe<row.y_k_major>(y + kk * (row.y_k_major ? 32 : 2048), 8192);
#pragma unroll
        for (int b = 0; b < Gemm::blocks; ++b) {
          const std::uint64_t dx = hopper::describe<row.x_k_major>(x + b * 8192 + kk * (row.x_k_major ? 32 : 2048), 8192);
          hopper::multiply<T, Gemm::bn, row.x_k_major, row.y_k_major>(sum[b], dx, dy, true);
        }
      }
      hopper::commit();
      if (before >= 0) {
        hopper::wait<1>();
        release(before);
      }
      before = stage;
      if (++stage == Gemm::stages) stage = 0, phase ^= 1;
    }
    hopper::wait<0>();
    if (before >= 0) release(before);
    if constexpr (row.share_k) {
      add_up<Gemm>(sum[0], s, call, reinterpret_cast<float*>(staging), group, w, rank, thread);
    } else {
if constexpr (Gemm::has_boxes) {
        if (s.plain) {
          // What was staged before must have been read: by the copies that this thread began, or by the warps that store.
          if (s.boxes) {
            if (thread == 0) hopper::wait_stores_read<0>();
            hopper::sync_threads(barrier, 128);
          } else if (s.direct) {
            hopper::sync_threads(all_barrier, Gemm::consumers);
          } else {
            hopper::wait_barrier(drained, tile_phase ^ 1);
            tile_phase ^= 1;
          }
          const std::uint32_t to = shared_address(own_staging);
#pragma unroll
          for (int b = 0; b < Gemm::blocks; ++b) stage_boxes<Gemm, T>(sum[b], to + b * Gemm::bn * 128, call.alpha, s.swapped, thread);
          if (s.boxes) hopper::fence_for_copies();
          if (!s.boxes && s.direct) {
            hopper::sync_threads(all_barrier, Gemm::consumers);
            store_tile<Gemm>(s, call.d, shared_address(staging), w, static_cast<int>(threadIdx.x) / 32 - 4, Gemm::consumers / 32, thread % 32);
            continue;
          }
          hopper::sync_threads(barrier, 128);
          if (thread == 0 && !s.boxes) hopper::arrive(staged);
          if (thread == 0 && s.boxes) {
#pragma unroll 1
            for (int i = 0; i < Gemm::blocks * (Gemm::bn / 64); ++i) {
              const int x = w.row + group * Gemm::group_rows + i / (Gemm::bn / 64) * 64, y = w.column + i % (Gemm::bn / 64) * 64;
              hopper::store_box(maps.d, to + i * 8192, s.swapped ? y : x, s.swapped ? x : y, w.z);
            }
            hopper::commit_stores();
          }
          continue;
        }
      }
#pragma unroll
      for (int b = 0; b < Gemm::blocks; ++b)
        store_sums<Gemm>(sum[b], s, call, reinterpret_cast<float*>(own_staging), w.row + group * Gemm::group_rows + b * 64, w.column,
                         w.split, w.z, thread, barrier);
    }
  }
  if (s.boxes && thread == 0) hopper::wait_stores();
}

template <typename T, int Index>
__global__ void __launch_bounds__(HopperGemm<T, Index>::threads, HopperGemm<T, Index>::row.resident)
    hopper_gemm(const __grid_constant__ HopperGemmMaps maps, HopperGemmShape shape, HopperGemmCall call) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Gemm = HopperGemm<T, Index>;
  constexpr HopperGemmRow row = Gemm::row;
  // The swizzle counts from addresses that are multiples of 1,024; blocks of a cluster must agree on them.
  extern __shared__ __align__(1024) char memory[];
  const std::uint32_t ring = shared_address(memory);
  if (ring % 1024 != 0) __trap();
  const std::uint32_t barriers = ring + Gemm::stages * Gemm::bytes + row.groups * Gemm::staging;
  const std::uint32_t full = barriers, empty = barriers + Gemm::stages * 8;
  const std::uint32_t staged = empty + Gemm::stages * 8, drained = staged + 8;
  char* const staging = memory + Gemm::stages * Gemm::bytes;
  const int rank = row.cluster > 1 ? hopper::block_in_cluster() : 0;
  if (threadIdx.x == 0) {
    hopper::prefetch_map(maps.x);
    hopper::prefetch_map(maps.y);
    for (int i = 0; i < Gemm::stages; ++i) {
      hopper::init_barrier(full + i * 8, 1);
      hopper::init_barrier(empty + i * 8, row.groups * Gemm::below);
    }
    hopper::init_barrier(staged, row.groups);
    hopper::init_barrier(drained, 3);
    hopper::fence_barrier_init();
  }
  if constexpr (row.cluster > 1)
    hopper::sync_cluster();
  else
    __syncthreads();
  wait_for_previous();
  let_next_begin();
  const int first = static_cast<int>(blockIdx.x) / row.cluster, stride = static_cast<int>(gridDim.x) / row.cluster;
  if (threadIdx.x < 128) {
    hopper::give_registers_up<Gemm::has_boxes ? 88 : 40>();
    if constexpr (row.share_k) {
      // The whole warpgroup keeps pace with the others' meetings.
      hopper_produce<Gemm>(maps, shape, ring, full, empty, rank, first, stride, threadIdx.x == 0);
    } else {
      if (threadIdx.x == 0) hopper_produce<Gemm>(maps, shape, ring, full, empty, rank, first, stride, true);
      if constexpr (Gemm::has_boxes) {
        if (threadIdx.x >= 32 && shape.plain && !shape.boxes && !shape.direct)
          hopper_store<Gemm>(shape, call.d, shared_address(staging), staged, drained, rank, first, stride);
      }
    }
  } else {
    if constexpr (row.groups == 2) hopper::take_registers<Gemm::has_boxes ? 208 : 232>();
    if constexpr (row.groups == 1 && row.resident == 2) hopper::take_registers<Gemm::has_boxes ? 168 : 208>();
    hopper_consume<T, Gemm>(maps, shape, call, ring, full, empty, staging, staged, drained, rank, first, stride);
  }
  // No block may end while another can still arrive at its barriers.
  __syncwarp();
  if constexpr (row.cluster > 1) hopper::sync_cluster();
#endif
}

/// Calls use(constant index) for a row of this type; the others' sources have the rest.
template <DType Type, int Index = 0, typename Use>
cudaError_t with_hopper_gemm(int row, Use&& use) {
  if constexpr (Index < static_cast<int>(hopper_gemm_rows.size())) {
    if constexpr (hopper_gemm_rows[Index].type == Type) {
      if (row == Index) return use(std::integral_constant<int, Index>{});
    }
    return with_hopper_gemm<Type, Index + 1>(row, use);
  } else {
    return cudaErrorNotSupported;
  }
}

template <typename Gemm>
cudaLaunchConfig_t hopper_config(cudaLaunchAttribute (&attributes)[2], std::int64_t blocks, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(Gemm::threads);
  config.dynamicSmemBytes = shared_bytes(Gemm::row);
  config.stream = stream;
  // What a block sets up, it sets up while the kernel before this one ends.
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = Gemm::row.cluster, attributes[1].val.clusterDim.y = 1, attributes[1].val.clusterDim.z = 1;
  config.attrs = attributes, config.numAttrs = Gemm::row.cluster > 1 ? 2 : 1;
  return config;
}

template <typename T, DType Type>
cudaError_t allow_hopper_gemm_of(int row, int& blocks) {
  return with_hopper_gemm<Type>(row, [&](auto index) {
    using Gemm = HopperGemm<T, index()>;
    const auto kernel = hopper_gemm<T, index()>;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes(Gemm::row));
    if (error != cudaSuccess) return error;
    // Blocks walk over tiles together: one that had to wait for another to end would double the time.
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = hopper_config<Gemm>(attributes, Gemm::row.cluster, nullptr);
    if constexpr (Gemm::row.cluster > 1) {
      int clusters = 0;
      error = cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
      blocks = clusters * Gemm::row.cluster;
    } else {
      int device = 0, processors = 0, each = 0;
      error = cudaGetDevice(&device);
      if (error == cudaSuccess) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
      if (error == cudaSuccess)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, Gemm::threads, shared_bytes(Gemm::row));
      blocks = processors * each;
    }
    return error != cudaSuccess ? error : blocks == 0 ? cudaErrorLaunchOutOfResources : cudaSuccess;
  });
}

template <typename T, DType Type>
cudaError_t launch_hopper_gemm_of(int row, const HopperGemmMaps& maps, const HopperGemmShape& shape, const HopperGemmCall& call,
                                  int blocks, cudaStream_t stream) {
  return with_hopper_gemm<Type>(row, [&](auto index) {
    using Gemm = HopperGemm<T, index()>;
    constexpr int cluster = Gemm::row.cluster;
    constexpr int height = Gemm::bm * Gemm::below;
    const std::int64_t tiles = (shape.rows + height - 1) / height * ((shape.columns + Gemm::bn - 1) / Gemm::bn) * shape.batch * shape.splits;
    const std::int64_t most = blocks / cluster;
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = hopper_config<Gemm>(attributes, (tiles < most ? tiles : most) * cluster, stream);
    return cudaLaunchKernelEx(&config, hopper_gemm<T, index()>, maps, shape, call);
  });
}

}  // namespace attune

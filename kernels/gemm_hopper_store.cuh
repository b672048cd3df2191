// The results of Hopper's GEMM: from the registers of those who multiplied through shared memory to D, by tensor copies where its
// lines allow, by warps where they do not, behind everything that can follow a sum, or added up across a cluster.
#pragma once

#include <type_traits>

#include "kernels/common/finish.cuh"
#include "kernels/common/granule.cuh"
#include "kernels/common/hopper.cuh"
#include "kernels/gemm_hopper_tile.cuh"

namespace attune {

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
        if (has_vector) *reinterpret_cast<uint4*>(to + head + at * 8) = joined(low[i], high[i], head * 2);
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

}  // namespace attune

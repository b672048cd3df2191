// Tensor-core GEMM for sm_80 and up: a ring of tiles filled by cp.async, or two tiles filled through registers where operands
// are not aligned; warps that read fragments with ldmatrix; the result staged through shared memory. Included by one source for
// each element type.
#pragma once

#include "kernels/common/copy.cuh"
#include "kernels/common/finish.cuh"
#include "kernels/common/overlap.cuh"
#include "kernels/gemm_mma.hpp"

namespace attune {

/// The tile of a linear index: `group` tiles of rows go down before the next column of tiles.
struct TilePosition {
  int row, column;
  __device__ TilePosition(int index, int rows, int columns, int group) {
    const int in_group = group * columns, first = index / in_group * group;
    const int height = rows - first < group ? rows - first : group;
    row = first + index % in_group % height, column = index % in_group / height;
  }
};

template <typename T, int Index>
struct MmaGemm {
  static constexpr MmaGemmRow Row = mma_gemm_rows[Index];
  static constexpr int bm = Row.bm, bn = Row.bn, bk = Row.bk;
  using Warp = WarpTile<T, Row.x_k_major, Row.y_k_major, bm, bn, bk, Row.wm, Row.wn>;
  static constexpr int threads = Warp::threads;
  static constexpr int x_bytes = Warp::X::bytes, stage_bytes = Warp::X::bytes + Warp::Y::bytes;
  static constexpr int ring_bytes = Row.stages * stage_bytes;
  static constexpr int shared_bytes = attune::shared_bytes(Row);
  static_assert(shared_bytes >= ring_bytes && shared_bytes >= Warp::staged_bytes);

  /// Sums over [k0, k_end) of the tile.
  __device__ static void accumulate(Warp& warp, char* shared, const LinedMatrix<T>& x, const LinedMatrix<T>& y, int k0, int k_end) {
    const std::uint32_t base = shared_address(shared);
    const int steps = (k_end - k0 + bk - 1) / bk;
    if constexpr (Row.shifted) {
      ShiftedCopy<T, Row.x_k_major, bm, bk, threads> copy_x(x, k0);
      ShiftedCopy<T, Row.y_k_major, bn, bk, threads> copy_y(y, k0);
      copy_x.load(k0, k_end), copy_y.load(k0, k_end);
      copy_x.store(shared, k0, k_end), copy_y.store(shared + x_bytes, k0, k_end);
      __syncthreads();
      for (int step = 0; step < steps; ++step) {
        const int now = step % 2 * stage_bytes, next = stage_bytes - now, k = k0 + (step + 1) * bk;
        if (step + 1 < steps) copy_x.load(k, k_end), copy_y.load(k, k_end);
        warp.accumulate(base + now, base + now + x_bytes);
        if (step + 1 < steps) copy_x.store(shared + next, k, k_end), copy_y.store(shared + next + x_bytes, k, k_end);
        __syncthreads();
      }
    } else {
      AlignedCopy<T, Row.x_k_major, bm, bk, threads> copy_x(x, k0);
      AlignedCopy<T, Row.y_k_major, bn, bk, threads> copy_y(y, k0);
      int filled = 0;
      const auto fill = [&] {
        if (filled < steps) {
          const std::uint32_t tile = base + filled % Row.stages * stage_bytes;
          copy_x.start(tile, k0 + filled * bk, k_end), copy_y.start(tile + x_bytes, k0 + filled * bk, k_end);
        }
        __pipeline_commit();
        ++filled;
      };
#pragma unroll
      for (int i = 0; i < Row.stages - 1; ++i) fill();
      for (int step = 0; step < steps; ++step) {
        __pipeline_wait_prior(Row.stages - 2);
        __syncthreads();
        fill();
        const std::uint32_t tile = base + step % Row.stages * stage_bytes;
        warp.accumulate(tile, tile + x_bytes);
      }
      __pipeline_wait_prior(0);
      __syncthreads();
    }
  }
};

template <typename T, int Index>
__global__ void __launch_bounds__(MmaGemm<T, Index>::threads) mma_gemm(MmaGemmShape shape, MmaGemmCall call) {
  using Gemm = MmaGemm<T, Index>;
  extern __shared__ __align__(128) char shared[];
  const int tiles_m = static_cast<int>((shape.rows + Gemm::bm - 1) / Gemm::bm);
  const int tiles_n = static_cast<int>((shape.columns + Gemm::bn - 1) / Gemm::bn);
  const std::int64_t tiles = static_cast<std::int64_t>(tiles_m) * tiles_n, total = tiles * shape.batch * shape.splits;
  const int k_each = static_cast<int>((shape.k + shape.splits - 1) / shape.splits + Gemm::bk - 1) / Gemm::bk * Gemm::bk;
  wait_for_previous();
  let_next_begin();
  for (std::int64_t work = blockIdx.x; work < total; work += gridDim.x) {
    const TilePosition tile(static_cast<int>(work % tiles), tiles_m, tiles_n, shape.group);
    const int split = static_cast<int>(work / tiles % shape.splits);
    const std::int64_t z = work / tiles / shape.splits;
    const int row0 = tile.row * Gemm::bm, column0 = tile.column * Gemm::bn;
    const T* x = static_cast<const T*>(call.x);
    const T* y = static_cast<const T*>(call.y);
    const LinedMatrix<T> x_matrix{x + z * shape.x_batch, x, x + shape.x_elements, shape.x_ld, row0, static_cast<int>(shape.rows)};
    const LinedMatrix<T> y_matrix{y + z * shape.y_batch, y, y + shape.y_elements, shape.y_ld, column0, static_cast<int>(shape.columns)};
    const std::int64_t from = static_cast<std::int64_t>(split) * k_each;
    const int k0 = static_cast<int>(from < shape.k ? from : shape.k);
    const int k_end = static_cast<int>(from + k_each < shape.k ? from + k_each : shape.k);

    typename Gemm::Warp warp;
    Gemm::accumulate(warp, shared, x_matrix, y_matrix, k0, k_end);
    float* staged = reinterpret_cast<float*>(shared);
    warp.stage(staged, shape.swapped);
    __syncthreads();

    // Lines of D are the columns of the tile, or its rows where the operands were swapped.
    const std::int64_t line0 = shape.swapped ? row0 : column0, place0 = shape.swapped ? column0 : row0;
    const std::int64_t all_lines = shape.swapped ? shape.rows : shape.columns, all_places = shape.swapped ? shape.columns : shape.rows;
    Output<float> out;
    if (call.partial != nullptr) {
      out.d = call.partial + (split * shape.batch + z) * all_lines * all_places;
      out.d_line = all_places;
      out.vectors = all_places % 4 == 0;
    } else {
      out.d = advanced(call.d, call.out_type, z * shape.d_batch), out.d_line = shape.d_line;
      out.c = advanced(call.c, call.out_type, z * shape.c_batch), out.c_line = shape.c_line;
      out.bias = call.bias;
      out.alpha = call.alpha, out.beta = call.beta;
      out.type = call.out_type, out.activation = call.activation;
      out.vectors = shape.vectors;
    }
    const int length = shape.swapped ? Gemm::bn : Gemm::bm, pitch = shape.swapped ? Gemm::bn + 8 : Gemm::bm + 4;
    const std::int64_t lines = all_lines - line0, places = all_places - place0;
    const int most_lines = shape.swapped ? Gemm::bm : Gemm::bn;
    finish_tile(at_tile(out, line0, place0), staged, pitch, length, static_cast<int>(lines < most_lines ? lines : most_lines),
                static_cast<int>(places < length ? places : length), static_cast<int>(threadIdx.x), Gemm::threads);
    __syncthreads();
  }
}

/// Launches rows of one element type; the others' sources have the rest.
template <typename T, DType Type, int Index = 0>
cudaError_t launch_mma_gemm_of(int row, const MmaGemmShape& shape, const MmaGemmCall& call, cudaStream_t stream) {
  if constexpr (Index < static_cast<int>(mma_gemm_rows.size())) {
    if constexpr (mma_gemm_rows[Index].type == Type) {
      if (row == Index) {
        using Gemm = MmaGemm<T, Index>;
        const std::int64_t tiles = (shape.rows + Gemm::bm - 1) / Gemm::bm * ((shape.columns + Gemm::bn - 1) / Gemm::bn);
        const std::int64_t blocks = tiles * shape.batch * shape.splits;
        const unsigned grid = static_cast<unsigned>(blocks < INT32_MAX ? blocks : INT32_MAX);
        return launch_overlapped(mma_gemm<T, Index>, grid, Gemm::threads, Gemm::shared_bytes, stream, shape, call);
      }
    }
    return launch_mma_gemm_of<T, Type, Index + 1>(row, shape, call, stream);
  } else {
    return cudaErrorNotSupported;
  }
}

/// Lets the kernels of one type use the shared memory that their rows state.
template <typename T, DType Type, int Index = 0>
cudaError_t allow_mma_gemm_of(int row) {
  if constexpr (Index < static_cast<int>(mma_gemm_rows.size())) {
    if constexpr (mma_gemm_rows[Index].type == Type) {
      if (row == Index)
        return cudaFuncSetAttribute(mma_gemm<T, Index>, cudaFuncAttributeMaxDynamicSharedMemorySize, MmaGemm<T, Index>::shared_bytes);
    }
    return allow_mma_gemm_of<T, Type, Index + 1>(row);
  } else {
    return cudaErrorNotSupported;
  }
}

}  // namespace attune

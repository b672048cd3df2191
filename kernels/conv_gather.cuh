// Implicit GEMM whose operands are gathered element by element through registers, under the multiplication of the slice before.
// Tables in shared memory hold where each row and each term of the next slice lies; an element is where its row's and its
// term's offsets meet, if their bits do not.
#pragma once

#include "kernels/common/conv_tile.cuh"
#include "kernels/common/fma.cuh"
#include "kernels/common/mma.cuh"
#include "kernels/conv_gather.hpp"

namespace attune {

/// Tiles for tensor cores: both along the terms, in chunks of 16 bytes.
template <typename Element, int Index>
struct GatherMma {
  static constexpr ConvGatherRow Row = conv_gather_rows[Index];
  using T = Element;
  using Sum = float;
  using Warp = WarpTile<T, true, true, Row.bm, Row.bn, Row.bk, Row.wm, Row.wn>;
  static constexpr int threads = Warp::threads, together = chunk_elements<T>;
  static constexpr int x_bytes = Warp::X::bytes, stage_bytes = Warp::X::bytes + Warp::Y::bytes;
  static constexpr int pitch_rows = Row.bn + 8, pitch_columns = Row.bm + 4, staged_bytes = Warp::staged_bytes;

  Warp warp;
  __device__ void accumulate(const char* tile) {
    const std::uint32_t at = shared_address(tile);
    warp.accumulate(at, at + x_bytes);
  }
  __device__ void stage(float* to, bool rows_apart) const { warp.stage(to, rows_apart); }
  template <bool OfX>
  __device__ static void store(char* tile, int line, int chunk, const T (&value)[together]) {
    using Tile = std::conditional_t<OfX, typename Warp::X, typename Warp::Y>;
    *reinterpret_cast<uint4*>(tile + (OfX ? 0 : x_bytes) + Tile::at(line, chunk)) = *reinterpret_cast<const uint4*>(value);
  }
};

/// Tiles for threads: both with their rows (or columns) next to each other.
template <typename Element, int Index>
struct GatherSimt {
  static constexpr ConvGatherRow Row = conv_gather_rows[Index];
  using T = Element;
  using Sum = Element;
  using Tile = ThreadTile<T, Row.bm, Row.bn, Row.wm, Row.wn>;
  static constexpr int threads = Tile::threads, together = 1;
  static constexpr int x_bytes = Row.bk * Tile::pitch_x * static_cast<int>(sizeof(T));
  static constexpr int stage_bytes = x_bytes + Row.bk * Tile::pitch_y * static_cast<int>(sizeof(T));
  static constexpr int pitch_rows = Row.bn + Tile::width, pitch_columns = Row.bm + Tile::width;
  static constexpr int most_staged = Row.bm * pitch_rows > Row.bn* pitch_columns ? Row.bm* pitch_rows : Row.bn* pitch_columns;
  static constexpr int staged_bytes = most_staged * static_cast<int>(sizeof(T));

  Tile tile;
  __device__ void accumulate(const char* at) {
    tile.template accumulate<Row.bk>(reinterpret_cast<const T*>(at), reinterpret_cast<const T*>(at + x_bytes));
  }
  __device__ void stage(T* to, bool rows_apart) const {
    tile.stage(to, rows_apart ? pitch_rows : 1, rows_apart ? 1 : pitch_columns);
  }
  template <bool OfX>
  __device__ static void store(char* at, int line, int term, const T (&value)[1]) {
    reinterpret_cast<T*>(at + (OfX ? 0 : x_bytes))[term * (OfX ? Tile::pitch_x : Tile::pitch_y) + line] = value[0];
  }
};

template <typename Math>
inline constexpr int conv_gather_bytes =
    2 * Math::stage_bytes > Math::staged_bytes ? 2 * Math::stage_bytes : Math::staged_bytes;

template <int BM, int BK>
struct GatherTables {
  int2 row[BM];  // offset in the image, bits
  int out[BM];   // offset in the output
  int2 term[2][BK];
  int other[2][BK];  // offset in the other operand; negative for a term that does not exist
};

/// One operand's elements on their way: `together` neighbouring terms of a line at a time, `Lines` lines.
template <typename Math, bool OfX, int Lines>
struct GatherFeed {
  using T = typename Math::T;
  static constexpr int together = Math::together, chunks = Math::Row.bk / together;
  static constexpr int count = (Lines * chunks + Math::threads - 1) / Math::threads;
  static constexpr bool even = Lines * chunks % Math::threads == 0;
  struct alignas(together * sizeof(T)) Chunk {
    T value[together];
  };
  Chunk held[count];

  /// Neighbouring threads take neighbouring terms, or neighbouring lines: as memory lies.
  __device__ static bool place(int i, bool by_term, int& line, int& chunk) {
    const int id = static_cast<int>(threadIdx.x) + i * Math::threads;
    line = by_term ? id / chunks : id % Lines, chunk = by_term ? id % chunks : id / Lines;
    return even || id < Lines * chunks;
  }
  template <typename Load>
  __device__ void load(bool by_term, Load&& load) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      int line, chunk;
      if (!place(i, by_term, line, chunk)) continue;
      load(line, chunk * together, held[i].value);
    }
  }
  __device__ void store(bool by_term, char* tile) const {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      int line, chunk;
      if (place(i, by_term, line, chunk)) Math::template store<OfX>(tile, line, chunk, held[i].value);
    }
  }
};

/// Results whose columns are not next to each other in memory: element by element, neighbouring threads along the rows.
template <typename Math>
__device__ void finish_apart(const Output<typename Math::Sum>& out, const typename Math::Sum* staged, const int* row_at,
                             int column0, int column_step, int rows, int columns) {
  constexpr int bm = Math::Row.bm;
#pragma unroll 1
  for (int e = static_cast<int>(threadIdx.x); e < bm * columns; e += Math::threads) {
    const int row = e % bm, column = e / bm;
    if (row >= rows) continue;
    const std::int64_t at = row_at[row] + static_cast<std::int64_t>(column0 + column) * column_step;
    store_as(out.d, out.type, at, finished(out, staged[column * Math::pitch_columns + row], at, column0 + column));
  }
}

template <typename Math>
__global__ void __launch_bounds__(Math::threads, 1) conv_gather_kernel(const __grid_constant__ ConvShape shape, ConvCall call,
                                                                       int row_tiles, int column_tiles, std::int64_t total) {
  using T = typename Math::T;
  using Sum = typename Math::Sum;
  constexpr int bm = Math::Row.bm, bn = Math::Row.bn, bk = Math::Row.bk;
  extern __shared__ __align__(128) char shared[];
  __shared__ GatherTables<bm, bk> tables;
  const int t = static_cast<int>(threadIdx.x);
  const bool x_by_term = shape.image_inner == 1 && shape.inner_first;
  const bool y_by_term = shape.other_column != 1;
  const bool columns_together = shape.out_column == 1 || shape.columns == 1;
  for (std::int64_t index = blockIdx.x; index < total; index += gridDim.x) {
    const ConvWork work(shape, index, row_tiles, column_tiles);
    const ConvPart part(shape, work.phase);
    const int rows = part.rows(), terms = part.terms(), row0 = work.row_tile * bm, column0 = work.column_tile * bn;
    if (row0 >= rows) continue;
    const int all_steps = (terms + bk - 1) / bk, steps_each = (all_steps + shape.splits - 1) / shape.splits;
    const int first = work.split * steps_each, steps = min(steps_each, all_steps - first);
    const T* image = static_cast<const T*>(call.image) + work.group * shape.image_group;
    const T* other = static_cast<const T*>(call.other) + work.group * shape.other_group;

    const auto look_up = [&](int step) {
      if (t >= bk || step >= steps) return;
      const ConvIndex term = part.term((first + step) * bk + t, terms);
      tables.term[step % 2][t] = make_int2(term.image, static_cast<int>(term.bits));
      tables.other[step % 2][t] = (first + step) * bk + t < terms ? term.linear : -1;
    };
    GatherFeed<Math, true, bm> feed_x;
    GatherFeed<Math, false, bn> feed_y;
    const auto load = [&](int step) {
      const int2* term = tables.term[step % 2];
      const int* other_at = tables.other[step % 2];
      feed_x.load(x_by_term, [&](int line, int l, auto& value) {
        const int2 row = tables.row[line];
#pragma unroll
        for (int e = 0; e < Math::together; ++e) {
          const int2 now = term[l + e];
          value[e] = (row.y & now.y) == 0 ? image[row.x + now.x] : T{};
        }
      });
      feed_y.load(y_by_term, [&](int line, int l, auto& value) {
        const int column = column0 + line;
        const T* from = other + column * shape.other_column;
#pragma unroll
        for (int e = 0; e < Math::together; ++e)
          value[e] = column < shape.columns && other_at[l + e] >= 0 ? from[other_at[l + e]] : T{};
      });
    };
    const auto store = [&](int step) {
      feed_x.store(x_by_term, shared + step % 2 * Math::stage_bytes);
      feed_y.store(y_by_term, shared + step % 2 * Math::stage_bytes);
    };

    for (int line = t; line < bm; line += Math::threads) {
      const ConvIndex row = part.row(row0 + line, rows);
      tables.row[line] = make_int2(row.image, static_cast<int>(row.bits)), tables.out[line] = row.linear;
    }
    Math math;
    look_up(0), look_up(1);
    __syncthreads();
    if (steps > 0) load(0), store(0);
    __syncthreads();
    for (int step = 0; step < steps; ++step) {
      const bool more = step + 1 < steps;
      if (more) load(step + 1);
      math.accumulate(shared + step % 2 * Math::stage_bytes);
      if (more) store(step + 1);
      look_up(step + 2);
      __syncthreads();
    }
    Sum* staged = reinterpret_cast<Sum*>(shared);
    math.stage(staged, columns_together);
    __syncthreads();

    Output<Sum> out = conv_output<Sum>(shape, call, work.split, work.group);
    const int lines = min(rows - row0, bm), places = min(shape.columns - column0, bn);
    if (columns_together) {
      out.d = advanced(out.d, out.type, column0), out.c = advanced(out.c, out.type, column0);
      out.bias = advanced(out.bias, out.type, column0);
      out.line_at = tables.out;
      finish_tile(out, staged, Math::pitch_rows, bn, lines, places, t, Math::threads);
    } else {
      finish_apart<Math>(out, staged, tables.out, column0, shape.out_column, lines, places);
    }
    __syncthreads();
  }
}

/// Launches the row whose arithmetic `Math` is, or lets it use its shared memory.
template <typename Math>
cudaError_t launch_conv_gather_as(const ConvShape* shape, const ConvCall* call, cudaStream_t stream) {
  constexpr int bytes = conv_gather_bytes<Math>;
  static_assert(bytes == shared_bytes(Math::Row));
  const auto kernel = conv_gather_kernel<Math>;
  if (call == nullptr) return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  const ConvTiles tiles(*shape, Math::Row.bm, Math::Row.bn);
  const unsigned grid = static_cast<unsigned>(tiles.total < INT32_MAX ? tiles.total : INT32_MAX);
  kernel<<<grid, Math::threads, bytes, stream>>>(*shape, *call, tiles.rows, tiles.columns, tiles.total);
  return cudaGetLastError();
}

}  // namespace attune

// Implicit GEMM on tensor cores for channels-last convolutions: a ring of tiles filled by cp.async from addresses that are put
// together of a row's part and a term's part. fwd and dgrad: positions by channels, one filter tap and a slice of channels a
// step. wgrad: channels by (tap, channel), a slice of positions a step. Included by one source for each element type.
#pragma once

#include "kernels/common/conv_tile.cuh"
#include "kernels/common/mma.cuh"
#include "kernels/conv_mma.hpp"

namespace attune {

template <typename T, int Index>
struct ConvMma {
  static constexpr ConvMmaRow Row = conv_mma_rows[Index];
  static constexpr bool wgrad = Row.direction == Direction::wgrad, dgrad = Row.direction == Direction::dgrad;
  static constexpr int bm = Row.bm, bn = Row.bn, bk = Row.bk;
  using Warp = WarpTile<T, !wgrad, Row.direction == Direction::fwd, bm, bn, bk, Row.wm, Row.wn>;
  static constexpr int threads = Warp::threads, elements = chunk_elements<T>;
  static constexpr int x_bytes = Warp::X::bytes, stage_bytes = Warp::X::bytes + Warp::Y::bytes;
  static constexpr int shared_bytes = attune::shared_bytes(Row);
  static_assert(shared_bytes >= Row.stages * stage_bytes && shared_bytes >= bm * (bn + 8) * 4);
  /// In the rows of the shape and its columns, whichever of them the tile's rows are.
  static constexpr int shape_rows = wgrad ? bn : bm, shape_columns = wgrad ? bm : bn;
};

template <typename T>
__device__ inline void copy_chunk(std::uint32_t to, const T* from, const T* anywhere, bool exists) {
  const T* source = exists ? from : anywhere;
  const int bytes = exists ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(source), "r"(bytes));
}

/// This thread's chunks of a tile: chunk `chunk` of lines `line`, + apart, + 2 apart, ...
template <typename Tile, int Threads>
struct ChunkMap {
  static constexpr int apart = Threads / Tile::chunks, count = (Tile::lines + apart - 1) / apart;
  static_assert(Threads % Tile::chunks == 0 && (Tile::lines % apart == 0 || count == 1));
  __device__ static int chunk() { return static_cast<int>(threadIdx.x) % Tile::chunks; }
  __device__ static int line(int i) { return static_cast<int>(threadIdx.x) / Tile::chunks + i * apart; }
  __device__ static bool has(int i) { return Tile::lines % apart == 0 || line(i) < Tile::lines; }
};

/// fwd and dgrad: steps go through the channels of one tap, then to the next tap.
template <typename T, int Index>
struct TapFeed {
  using Conv = ConvMma<T, Index>;
  using X = typename Conv::Warp::X;
  using Y = typename Conv::Warp::Y;
  using MapX = ChunkMap<X, Conv::threads>;
  using MapY = ChunkMap<Y, Conv::threads>;

  const ConvPart& part;
  const T *image, *other;
  int column0;
  int at[MapX::count];  // of this thread's rows in the image
  unsigned bits[MapX::count];
  int channel, tap;  // of the next step
  ConvIndex now;     // of the tap

  __device__ TapFeed(const ConvPart& p, const T* image_, const T* other_, int row0, int column0_, int step, int slices)
      : part(p), image(image_), other(other_), column0(column0_), channel(step % slices * Conv::bk), tap(step / slices) {
    const int rows = p.rows();
#pragma unroll
    for (int i = 0; i < MapX::count; ++i) {
      const ConvIndex row = p.row(row0 + MapX::line(i), rows);
      at[i] = row.image + MapX::chunk() * Conv::elements, bits[i] = row.bits;
    }
    go_to_tap();
  }
  __device__ void go_to_tap() {
    now = {};
    int index = tap;
    part.take_tap(index, now);
  }
  __device__ void start(std::uint32_t tile, int, int) {
    const ConvShape& s = part.shape;
    const bool chunk_x = channel + MapX::chunk() * Conv::elements < s.inner;
    const T* x = image + now.image + channel;
#pragma unroll
    for (int i = 0; i < MapX::count; ++i)
      if (MapX::has(i))
        copy_chunk(tile + X::at(MapX::line(i), MapX::chunk()), x + at[i], image, chunk_x && (now.bits & bits[i]) == 0);
    if constexpr (Conv::dgrad) {
      const int column = column0 + MapY::chunk() * Conv::elements;
      const T* y = other + now.linear + channel * s.other_inner + column;
#pragma unroll
      for (int i = 0; i < MapY::count; ++i)
        if (MapY::has(i))
          copy_chunk(tile + Conv::x_bytes + Y::at(MapY::line(i), MapY::chunk()), y + MapY::line(i) * s.other_inner, other,
                     column < s.columns && channel + MapY::line(i) < s.inner);
    } else {
      const bool chunk_y = channel + MapY::chunk() * Conv::elements < s.inner;
      const T* y = other + now.linear + channel + MapY::chunk() * Conv::elements;
#pragma unroll
      for (int i = 0; i < MapY::count; ++i) {
        const int column = column0 + MapY::line(i);
        if (MapY::has(i))
          copy_chunk(tile + Conv::x_bytes + Y::at(MapY::line(i), MapY::chunk()), y + column * s.other_column, other,
                     chunk_y && column < s.columns);
      }
    }
    channel += Conv::bk;
    if (channel >= s.inner) {
      channel = 0, ++tap;
      go_to_tap();
    }
  }
};

/// wgrad: the block's threads look up the positions of the next step while the present one is multiplied.
template <typename T, int Index>
struct PositionFeed {
  using Conv = ConvMma<T, Index>;
  using X = typename Conv::Warp::X;
  using Y = typename Conv::Warp::Y;
  using MapX = ChunkMap<X, Conv::threads>;
  using MapY = ChunkMap<Y, Conv::threads>;

  const ConvPart& part;
  const T *image, *other;
  ConvIndex (*table)[Conv::bk];  // of two steps, in shared memory
  int channel;                   // of this thread's chunk of dy
  ConvIndex column;              // of its chunk of the image: tap and channel

  __device__ PositionFeed(const ConvPart& p, const T* image_, const T* other_, ConvIndex (*table_)[Conv::bk], int row0,
                          int column0)
      : part(p),
        image(image_),
        other(other_),
        table(table_),
        channel(row0 + MapX::chunk() * Conv::elements),
        column(p.row(column0 + MapY::chunk() * Conv::elements, p.rows())) {}

  __device__ void look_up(int buffer, int step, int end) {
    const int t = static_cast<int>(threadIdx.x);
    if (t < Conv::bk) table[buffer][t] = part.term(step * Conv::bk + t, end);
  }
  __device__ void start(std::uint32_t tile, int buffer) {
    const ConvShape& s = part.shape;
#pragma unroll
    for (int i = 0; i < MapX::count; ++i)
      if (MapX::has(i)) {
        const ConvIndex& position = table[buffer][MapX::line(i)];
        copy_chunk(tile + X::at(MapX::line(i), MapX::chunk()), other + position.linear + channel, other,
                   channel < s.columns && position.bits != ~0u);
      }
#pragma unroll
    for (int i = 0; i < MapY::count; ++i)
      if (MapY::has(i)) {
        const ConvIndex& position = table[buffer][MapY::line(i)];
        copy_chunk(tile + Conv::x_bytes + Y::at(MapY::line(i), MapY::chunk()), image + position.image + column.image, image,
                   (position.bits & column.bits) == 0);
      }
  }
};

template <typename T, int Index>
__global__ void __launch_bounds__(ConvMma<T, Index>::threads, 1)
    conv_mma_kernel(const __grid_constant__ ConvShape shape, ConvCall call, int row_tiles, int column_tiles,
                    std::int64_t total) {
  using Conv = ConvMma<T, Index>;
  constexpr int stages = Conv::Row.stages;
  extern __shared__ __align__(128) char shared[];
  __shared__ int line_at[Conv::wgrad ? 1 : Conv::bm];
  __shared__ ConvIndex table[Conv::wgrad ? 2 : 1][Conv::bk];
  const std::uint32_t base = shared_address(shared);
  for (std::int64_t index = blockIdx.x; index < total; index += gridDim.x) {
    const ConvWork work(shape, index, row_tiles, column_tiles);
    const ConvPart part(shape, work.phase);
    // Where the shape's rows are the tile's columns, so are their numbers.
    const int row0 = (Conv::wgrad ? work.column_tile : work.row_tile) * Conv::bm;
    const int column0 = (Conv::wgrad ? work.row_tile : work.column_tile) * Conv::bn;
    const int rows = part.rows();
    if (!Conv::wgrad && row0 >= rows) continue;
    const int slices = (shape.inner + Conv::bk - 1) / Conv::bk;
    const int all_steps = Conv::wgrad ? (part.terms() + Conv::bk - 1) / Conv::bk : part.taps() * slices;
    const int steps_each = (all_steps + shape.splits - 1) / shape.splits, first = work.split * steps_each;
    const int steps = min(steps_each, all_steps - first);  // none, or less, where the splits before have all
    const T* image = static_cast<const T*>(call.image) + work.group * shape.image_group;
    const T* other = static_cast<const T*>(call.other) + work.group * shape.other_group;

    typename Conv::Warp warp;
    const auto run = [&](auto& feed, auto&& prepare, auto&& start) {
      int filled = 0;
      const auto fill = [&] {
        if (filled < steps) start(feed, base + filled % stages * Conv::stage_bytes, filled);
        __pipeline_commit();
        ++filled;
      };
#pragma unroll
      for (int i = 0; i < stages - 1; ++i) {
        prepare(feed, i);
        fill();
      }
      prepare(feed, stages - 1);
      for (int step = 0; step < steps; ++step) {
        __pipeline_wait_prior(stages - 2);
        __syncthreads();
        fill();
        prepare(feed, -filled);
        const std::uint32_t tile = base + step % stages * Conv::stage_bytes;
        warp.accumulate(tile, tile + Conv::x_bytes);
      }
    };
    if constexpr (Conv::wgrad) {
      PositionFeed<T, Index> feed(part, image, other, table, row0, column0);
      const int terms = part.terms();
      // A step's table is written a barrier before it is read: in the loop by the loop's own, before it by one more.
      const auto prepare = [&](auto& f, int step) {
        const bool in_loop = step < 0;
        const int ahead = in_loop ? -step : step;
        if (ahead < steps) f.look_up(ahead % 2, first + ahead, terms);
        if (!in_loop) __syncthreads();
      };
      run(feed, prepare, [](auto& f, std::uint32_t tile, int step) { f.start(tile, step % 2); });
    } else {
      for (int line = static_cast<int>(threadIdx.x); line < Conv::bm; line += Conv::threads)
        line_at[line] = part.row(row0 + line, rows).linear + column0 * shape.out_column;
      TapFeed<T, Index> feed(part, image, other, row0, column0, first, slices);
      run(
          feed, [](auto&, int) {}, [](auto& f, std::uint32_t tile, int) { f.start(tile, 0, 0); });
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    float* staged = reinterpret_cast<float*>(shared);
    warp.stage(staged, true);
    __syncthreads();

    Output<float> out = conv_output<float>(shape, call, work.split, work.group);
    int lines = 0, places = 0;
    if constexpr (Conv::wgrad) {
      out.d_line = out.c_line = shape.out_column;
      out = at_tile(out, row0, column0);
      lines = min(shape.columns - row0, Conv::bm), places = min(rows - column0, Conv::bn);
    } else {
      out.line_at = line_at;
      out.bias = advanced(out.bias, shape.out_type, column0);
      lines = min(rows - row0, Conv::bm), places = min(shape.columns - column0, Conv::bn);
    }
    finish_tile(out, staged, Conv::bn + 8, Conv::bn, lines, places, static_cast<int>(threadIdx.x), Conv::threads);
    __syncthreads();
  }
}

/// Launches rows of one element type; the others' sources have the rest.
template <typename T, DType Type, int Index = 0>
cudaError_t launch_conv_mma_of(int row, const ConvShape* shape, const ConvCall* call, cudaStream_t stream) {
  if constexpr (Index < static_cast<int>(conv_mma_rows.size())) {
    if constexpr (conv_mma_rows[Index].type == Type) {
      if (row == Index) {
        using Conv = ConvMma<T, Index>;
        const auto kernel = conv_mma_kernel<T, Index>;
        if (call == nullptr)
          return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Conv::shared_bytes);
        const ConvTiles tiles(*shape, Conv::shape_rows, Conv::shape_columns);
        const unsigned grid = static_cast<unsigned>(tiles.total < INT32_MAX ? tiles.total : INT32_MAX);
        kernel<<<grid, Conv::threads, Conv::shared_bytes, stream>>>(*shape, *call, tiles.rows, tiles.columns, tiles.total);
        return cudaGetLastError();
      }
    }
    return launch_conv_mma_of<T, Type, Index + 1>(row, shape, call, stream);
  } else {
    return cudaErrorNotSupported;
  }
}

}  // namespace attune

// The tables of Attune's own GPU kernels: launch tables, candidate lists, tests and benchmark read them. A row's name is its
// configuration (see the `tile` provider); everything else about a launch is a run-time argument.
#pragma once

#include <attune/types.hpp>
#include <array>
#include <cstddef>

namespace attune {

/// Tensor-core GEMM, sm_80 and up. X gives the rows of the tile and Y its columns; each lies along k in memory (k-major) or not.
struct MmaGemmRow {
  DType type = DType::f16;  ///< of X and Y; f32 is multiplied as tf32
  bool x_k_major = true, y_k_major = true;
  int bm = 0, bn = 0, bk = 0;  ///< the block's tile
  int wm = 0, wn = 0;          ///< a warp's part of it
  int stages = 0;
  bool shifted = false;  ///< takes operands of any alignment
  int revision = 1;      ///< raised with every change that may alter speed or bits
};

/// Bytes of shared memory: the ring of tiles, or the sums that are staged in its place.
constexpr int shared_bytes(const MmaGemmRow& r) noexcept {
  const int ring = r.stages * (r.bm + r.bn) * r.bk * (r.type == DType::f32 ? 4 : 2);
  const int by_rows = r.bm * (r.bn + 8) * 4, by_columns = r.bn * (r.bm + 4) * 4;
  return ring > by_rows && ring > by_columns ? ring : by_rows > by_columns ? by_rows : by_columns;
}

namespace tiles {

struct MmaGemmTile {
  int bm, bn, bk, wm, wn, stages;
  bool shifted;
};
/// bk for 16-bit elements; half of it for tf32.
inline constexpr MmaGemmTile mma_gemm_tiles[] = {
    {128, 128, 64, 64, 64, 3, false}, {256, 128, 64, 64, 64, 3, false}, {128, 64, 64, 64, 32, 3, false},
    {64, 64, 64, 32, 32, 4, false},   {128, 128, 32, 64, 32, 2, true},  {128, 64, 32, 64, 32, 2, true},
    {64, 64, 32, 32, 32, 2, true},    {128, 32, 32, 32, 32, 2, true},
};
inline constexpr DType mma_gemm_types[] = {DType::f16, DType::bf16, DType::f32};
/// (not k-major, k-major) is the second of these with X and Y exchanged.
inline constexpr bool mma_gemm_majors[][2] = {{true, true}, {true, false}, {false, false}};

consteval auto make_mma_gemm_rows() {
  std::array<MmaGemmRow, std::size(mma_gemm_tiles) * std::size(mma_gemm_types) * std::size(mma_gemm_majors)> rows;
  std::size_t at = 0;
  for (DType type : mma_gemm_types)
    for (const auto& major : mma_gemm_majors)
      for (const MmaGemmTile& t : mma_gemm_tiles)
        rows[at++] = {type, major[0], major[1], t.bm, t.bn, type == DType::f32 ? t.bk / 2 : t.bk, t.wm, t.wn, t.stages, t.shifted};
  return rows;
}

}  // namespace tiles

inline constexpr auto mma_gemm_rows = tiles::make_mma_gemm_rows();

/// Hopper's GEMM: tensor copies into a ring of tiles, warpgroups that multiply out of it. The block's tile is shared by `groups`
/// warpgroups, 64 rows at a time each. The blocks of a cluster lie one below the other and share what they load of Y; or, where they
/// `share_k`, they have one tile and each a part of k, and add up through each other's shared memory.
struct HopperGemmRow {
  DType type = DType::f16;  ///< of X and Y; f32 is multiplied as tf32
  bool x_k_major = true, y_k_major = true;
  int bm = 0, bn = 0;  ///< a stage holds 128 bytes along k
  int groups = 2;
  int stages = 0;
  int cluster = 1;
  bool share_k = false;
  int resident = 1;  ///< blocks on a processor at once
  int revision = 1;
};

namespace hopper {

inline constexpr int barrier_bytes = 1024;  ///< the ring before it must begin at a multiple of 1,024, and so must a next block's

}  // namespace hopper

constexpr int stage_bytes(const HopperGemmRow& r) noexcept { return (r.bm + r.bn) * 128; }
/// What a warpgroup stages of its result: all of it in 16-bit boxes of 64 lines of 128 bytes, or 64 x 32 sums with room between, or
/// all its sums where a cluster shares k.
constexpr int staging_bytes(const HopperGemmRow& r) noexcept {
  const int boxes = r.bn % 64 == 0 ? r.bm / r.groups * r.bn * 2 : 0, sums = r.share_k ? 64 * r.bn * 4 : 64 * (32 + 8) * 4;
  return boxes > sums ? boxes : sums;
}
constexpr int shared_bytes(const HopperGemmRow& r) noexcept {
  return r.stages * stage_bytes(r) + r.groups * staging_bytes(r) + hopper::barrier_bytes;
}

namespace tiles {

struct HopperGemmTile {
  int bm, bn, groups, stages, cluster = 1;
  bool share_k = false;
  int resident = 1;
};
inline constexpr HopperGemmTile hopper_gemm_tiles[] = {
    {128, 256, 2, 3},    {128, 256, 2, 3, 2},           {256, 128, 2, 3},
    {256, 128, 2, 3, 2}, {128, 192, 2, 4},              {128, 128, 2, 6},
    {128, 128, 2, 6, 2}, {64, 256, 1, 4},               {64, 128, 1, 4, 1, false, 2},
    {128, 64, 2, 8},     {64, 64, 1, 5, 1, false, 2},   {128, 32, 2, 9},
    {128, 16, 2, 10},    {64, 16, 1, 9, 1, false, 2},   {64, 16, 1, 9, 2, true, 2},
    {64, 16, 1, 9, 4, true, 2}, {64, 16, 1, 9, 8, true, 2}, {64, 32, 1, 7, 2, true, 2},
    {64, 32, 1, 7, 4, true, 2}, {64, 32, 1, 7, 8, true, 2}, {64, 64, 1, 5, 2, true, 2},
    {64, 64, 1, 5, 4, true, 2}, {64, 64, 1, 5, 8, true, 2},
};

/// Whether the tile exists for the type and the majors. Only 16-bit types may lie along the tile, in blocks of 64; X along the tile
/// with Y along k is the opposite case with X and Y exchanged, which only thin tiles cannot be.
constexpr bool hopper_takes(DType type, bool x_k, bool y_k, const HopperGemmTile& t) noexcept {
  if (type == DType::f32) return x_k && y_k;
  return x_k || !y_k ? y_k || t.bn % 64 == 0 : t.bn < 64 || t.share_k;
}

consteval std::size_t count_hopper_gemm_rows() {
  std::size_t count = 0;
  for (DType type : mma_gemm_types)
    for (bool x_k : {true, false})
      for (bool y_k : {true, false})
        for (const HopperGemmTile& t : hopper_gemm_tiles) count += hopper_takes(type, x_k, y_k, t);
  return count;
}

consteval auto make_hopper_gemm_rows() {
  std::array<HopperGemmRow, count_hopper_gemm_rows()> rows;
  std::size_t at = 0;
  for (DType type : mma_gemm_types)
    for (bool x_k : {true, false})
      for (bool y_k : {true, false})
        for (const HopperGemmTile& t : hopper_gemm_tiles)
          if (hopper_takes(type, x_k, y_k, t)) rows[at++] = {type, x_k, y_k, t.bm, t.bn, t.groups, t.stages, t.cluster, t.share_k, t.resident};
  return rows;
}

}  // namespace tiles

inline constexpr auto hopper_gemm_rows = tiles::make_hopper_gemm_rows();

/// GEMM that fills no ring of tiles: without tensor cores, or of whole small matrices. `any_types`: sums of `type`, operands of
/// whatever type; slow, and there for every problem.
struct SimtGemmRow {
  DType type = DType::f32;
  bool any_types = false;
  int bm = 0, bn = 0, bk = 0;
  int tm = 0, tn = 0;    ///< elements of a thread
  int problems = 0;      ///< whole ones of a batch that a block takes at a time, each at most bm x bn x bk
  bool tensor_cores = false;  ///< of whole problems, a warp for each
  int revision = 1;
};

inline constexpr SimtGemmRow simt_gemm_rows[] = {
    {DType::f32, false, 128, 128, 16, 8, 8}, {DType::f32, false, 128, 64, 16, 8, 4}, {DType::f32, false, 64, 64, 16, 4, 4},
    {DType::f32, false, 32, 32, 32, 4, 4},   {DType::f64, false, 64, 64, 16, 4, 4},  {DType::f64, false, 32, 32, 16, 4, 2},
    {DType::f32, true},                      {DType::f64, true},                     {DType::i32, true},
    {DType::f32, false, 8, 8, 8, 4, 2, 32},  {DType::f32, false, 16, 16, 16, 4, 4, 8}, {DType::f32, false, 32, 32, 32, 4, 4, 4},
    {DType::f32, false, 64, 64, 64, 4, 4, 1}, {DType::f64, false, 8, 8, 8, 2, 2, 8}, {DType::f64, false, 16, 16, 16, 2, 4, 8},
    {DType::f64, false, 32, 32, 32, 2, 4, 2}, {DType::f16, false, 16, 16, 16, 0, 0, 8, true}, {DType::f16, false, 32, 32, 32, 0, 0, 4, true},
    {DType::f16, false, 64, 64, 64, 0, 0, 2, true}, {DType::bf16, false, 16, 16, 16, 0, 0, 8, true},
    {DType::bf16, false, 32, 32, 32, 0, 0, 4, true}, {DType::bf16, false, 64, 64, 64, 0, 0, 2, true},
};

/// A matrix times up to `vectors` vectors.
struct GemvRow {
  DType type = DType::f16;  ///< of the matrix and the vectors
  bool k_major = true;      ///< the matrix lies along k, else along its rows
  bool vector_loads = true; ///< 16 bytes of the matrix at a time; its lines must be aligned so
  int vectors = 1;
  int revision = 1;
};

namespace tiles {

consteval auto make_gemv_rows() {
  constexpr DType types[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
  constexpr int vectors[] = {1, 4, 8};
  std::array<GemvRow, std::size(types) * std::size(vectors) * 4> rows;
  std::size_t at = 0;
  for (DType type : types)
    for (bool k_major : {true, false})
      for (bool vector_loads : {true, false})
        for (int count : vectors) rows[at++] = {type, k_major, vector_loads, count};
  return rows;
}

}  // namespace tiles

inline constexpr auto gemv_rows = tiles::make_gemv_rows();

/// A convolution of any kind: `rows` channels of the output by `columns` of its other indices a block, `depth` terms at a time.
struct ConvAnyTile {
  int rows = 0, columns = 0, depth = 0;
};
inline constexpr int conv_any_outputs = 1024;  ///< rows * columns; depth * columns is half of it
inline constexpr ConvAnyTile conv_any_tiles[] = {{32, 32, 16}, {8, 128, 4}, {2, 512, 1}};

struct ConvAnyRow {
  DType type = DType::f32;  ///< of the sums
  ConvAnyTile tile;
  int revision = 1;
};

namespace tiles {

consteval auto make_conv_any_rows() {
  std::array<ConvAnyRow, 2 * std::size(conv_any_tiles)> rows;
  std::size_t at = 0;
  for (DType type : {DType::f32, DType::f64})
    for (const ConvAnyTile& tile : conv_any_tiles) rows[at++] = {type, tile};
  return rows;
}

}  // namespace tiles

inline constexpr auto conv_any_rows = tiles::make_conv_any_rows();

/// Tensor-core convolution of channels-last tensors, sm_80 and up. fwd and dgrad: bm positions by bn channels, bk channels of one
/// tap at a time. wgrad: bm channels by bn (tap, channel), bk positions at a time.
struct ConvMmaRow {
  DType type = DType::f16;  ///< of both inputs; f32 is multiplied as tf32
  Direction direction = Direction::fwd;
  int bm = 0, bn = 0, bk = 0;
  int wm = 0, wn = 0;
  int stages = 0;
  int revision = 1;
};

constexpr int shared_bytes(const ConvMmaRow& r) noexcept {
  const int ring = r.stages * (r.bm + r.bn) * r.bk * (r.type == DType::f32 ? 4 : 2), staged = r.bm * (r.bn + 8) * 4;
  return ring > staged ? ring : staged;
}

namespace tiles {

struct ConvMmaTile {
  int bm, bn, bk, wm, wn, stages;
};
/// bk for 16-bit elements; half of it for tf32, which has the last three.
inline constexpr ConvMmaTile conv_mma_tiles[] = {
    {256, 128, 64, 64, 64, 3}, {128, 64, 32, 64, 32, 4}, {128, 64, 64, 64, 32, 3},
    {128, 128, 64, 64, 64, 3}, {64, 64, 64, 32, 32, 4},  {128, 32, 32, 32, 32, 4},
};
inline constexpr std::size_t conv_mma_tf32_tiles = 3;

consteval auto make_conv_mma_rows() {
  constexpr std::size_t count = std::size(conv_mma_tiles);
  std::array<ConvMmaRow, 3 * (2 * count + conv_mma_tf32_tiles)> rows;
  std::size_t at = 0;
  for (DType type : {DType::f16, DType::bf16, DType::f32})
    for (Direction direction : {Direction::fwd, Direction::dgrad, Direction::wgrad})
      for (std::size_t i = type == DType::f32 ? count - conv_mma_tf32_tiles : 0; i < count; ++i) {
        const ConvMmaTile& t = conv_mma_tiles[i];
        rows[at++] = {type, direction, t.bm, t.bn, type == DType::f32 ? t.bk / 2 : t.bk, t.wm, t.wn, t.stages};
      }
  return rows;
}

}  // namespace tiles

inline constexpr auto conv_mma_rows = tiles::make_conv_mma_rows();

/// A convolution of any layout and channel counts, gathered: bm rows (see ConvShape) by bn channels, bk terms at a time.
struct ConvGatherRow {
  DType type = DType::f16;  ///< of both inputs; f32 on tensor cores is multiplied as tf32
  bool tensor_cores = true; ///< else the sums have the type, too
  int bm = 0, bn = 0, bk = 0;
  int wm = 0, wn = 0;       ///< a warp's part of the tile; without tensor cores a thread's
  int revision = 1;
};

/// Two pairs of tiles, or the sums that are staged in their place.
constexpr int shared_bytes(const ConvGatherRow& r) noexcept {
  const int size = r.type == DType::f64 ? 8 : r.type == DType::f32 ? 4 : 2, width = r.tensor_cores ? 0 : 16 / size;
  const int ring = 2 * (r.bm + width + r.bn + width) * r.bk * size;
  const int by_rows = r.bm * (r.bn + (r.tensor_cores ? 8 : width)), by_columns = r.bn * (r.bm + (r.tensor_cores ? 4 : width));
  const int staged = (by_rows > by_columns ? by_rows : by_columns) * (r.tensor_cores ? 4 : size);
  return ring > staged ? ring : staged;
}

inline constexpr ConvGatherRow conv_gather_rows[] = {
    {DType::f16, true, 128, 128, 32, 64, 32},  {DType::f16, true, 128, 64, 32, 64, 32},  {DType::f16, true, 64, 64, 32, 32, 32},
    {DType::f16, true, 128, 32, 32, 32, 32},   {DType::bf16, true, 128, 128, 32, 64, 32}, {DType::bf16, true, 128, 64, 32, 64, 32},
    {DType::bf16, true, 64, 64, 32, 32, 32},   {DType::bf16, true, 128, 32, 32, 32, 32}, {DType::f32, true, 128, 128, 16, 64, 32},
    {DType::f32, true, 128, 64, 16, 64, 32},   {DType::f32, true, 64, 64, 16, 32, 32},   {DType::f32, false, 128, 128, 16, 8, 8},
    {DType::f32, false, 128, 64, 16, 8, 4},    {DType::f32, false, 64, 64, 16, 4, 4},    {DType::f32, false, 128, 32, 16, 4, 4},
    {DType::f64, false, 64, 64, 16, 4, 4},     {DType::f64, false, 32, 32, 16, 4, 2},
};

/// How a depthwise kernel goes about it: `last` walks down channels-last images, `tile` stages tiles of them, `first` stages planes
/// of channels-first ones, `toeplitz` takes large filters to the tensor cores; any layout, stride and dilation otherwise.
enum class DepthwiseWay : unsigned char { last, tile, wgrad_tile, first, toeplitz, any, wgrad_any };

struct ConvDepthwiseRow {
  DType type = DType::f16;  ///< of both inputs
  DepthwiseWay way = DepthwiseWay::any;
  int filter = 0;  ///< both extents of it; 0: any
  int stride = 0;  ///< both; 0: any
  int revision = 1;
};

namespace tiles {

consteval auto make_conv_depthwise_rows() {
  constexpr DType types[] = {DType::f16, DType::bf16, DType::f32};
  constexpr ConvDepthwiseRow rows_each[] = {
      {{}, DepthwiseWay::last, 3, 1},       {{}, DepthwiseWay::last, 3, 2},       {{}, DepthwiseWay::tile, 3, 1},
      {{}, DepthwiseWay::tile, 5, 1},       {{}, DepthwiseWay::tile, 7, 1},       {{}, DepthwiseWay::tile, 3, 2},
      {{}, DepthwiseWay::tile, 5, 2},       {{}, DepthwiseWay::wgrad_tile, 3, 1}, {{}, DepthwiseWay::wgrad_tile, 5, 1},
      {{}, DepthwiseWay::wgrad_tile, 7, 1}, {{}, DepthwiseWay::wgrad_tile, 3, 2}, {{}, DepthwiseWay::wgrad_tile, 5, 2},
      {{}, DepthwiseWay::first, 3, 1},      {{}, DepthwiseWay::first, 5, 1},      {{}, DepthwiseWay::first, 0, 1},
      {{}, DepthwiseWay::first, 3, 2},      {{}, DepthwiseWay::first, 5, 2},      {{}, DepthwiseWay::any},
      {{}, DepthwiseWay::wgrad_any},
  };
  std::array<ConvDepthwiseRow, std::size(types) * std::size(rows_each) + 2> rows;
  std::size_t at = 0;
  for (DType type : types)
    for (ConvDepthwiseRow row : rows_each) row.type = type, rows[at++] = row;
  for (DType type : {DType::f16, DType::bf16}) rows[at++] = {type, DepthwiseWay::toeplitz, 0, 1};
  return rows;
}

}  // namespace tiles

inline constexpr auto conv_depthwise_rows = tiles::make_conv_depthwise_rows();

/// Pooling. `direct`: a thread forms a packet of channels, or one element, at a few places along a row. `split`: a whole window
/// is shared out among the threads that form one packet.
enum class PoolWay : unsigned char { direct, split };

struct PoolRow {
  DType type = DType::f16;
  bool forward = true;
  bool max = true;  ///< or averages, of both kinds
  PoolWay way = PoolWay::direct;
  int width = 1;              ///< elements of a packet: 16 bytes of channels side by side, or 1
  bool channels_fast = true;  ///< neighbouring threads take neighbouring channels, or neighbouring columns
  int window = 0;             ///< every extent of it in a plane; 0: any, and any number of dimensions
  int stride = 0;             ///< both; 0: any
  int outs = 1;               ///< places of a thread
  int revision = 1;
};

namespace tiles {

consteval auto make_pool_rows() {
  constexpr DType types[] = {DType::f16, DType::bf16, DType::f32, DType::f64};
  constexpr bool packed = true, single = false;
  struct Form {
    bool forward;
    PoolWay way;
    bool wide, channels_fast;
    int window, stride, outs;
  };
  constexpr Form forms[] = {
      {true, PoolWay::direct, packed, true, 3, 2, 2},   {true, PoolWay::direct, packed, true, 3, 1, 4},
      {true, PoolWay::direct, packed, true, 3, 2, 1},   {true, PoolWay::direct, packed, true, 2, 2, 2},
      {true, PoolWay::direct, packed, true, 0, 0, 1},   {true, PoolWay::split, packed, true, 0, 0, 1},
      {true, PoolWay::direct, single, false, 3, 2, 1},  {true, PoolWay::direct, single, false, 3, 1, 2},
      {true, PoolWay::direct, single, false, 0, 0, 1},  {true, PoolWay::direct, single, true, 0, 0, 1},
      {true, PoolWay::split, single, false, 0, 0, 1},   {false, PoolWay::direct, packed, true, 0, 0, 1},
      {false, PoolWay::direct, single, false, 0, 0, 1}, {false, PoolWay::direct, single, true, 0, 0, 1},
  };
  std::array<PoolRow, std::size(types) * 2 * std::size(forms)> rows;
  std::size_t at = 0;
  for (DType type : types)
    for (bool max : {true, false})
      for (const Form& f : forms) {
        const int bytes = type == DType::f64 ? 8 : type == DType::f32 ? 4 : 2;
        rows[at++] = {type, f.forward, max, f.way, f.wide ? 16 / bytes : 1, f.channels_fast, f.window, f.stride, f.outs};
      }
  return rows;
}

}  // namespace tiles

inline constexpr auto pool_rows = tiles::make_pool_rows();

}  // namespace attune

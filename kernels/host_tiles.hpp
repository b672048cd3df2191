// The one table of the host engine's variants: candidate list, launch tables, tests and benchmark read it.
#pragma once

#include <cstddef>
#include <string_view>

namespace attune {

enum class HostOp : unsigned char { gemm, conv, pool };
enum class HostIsa : unsigned char { base, avx2, avx512 };

/// reference: one element after the other, any types. dot, axpy, blocked: unpacked loops, inputs of one type.
/// packed: panels packed into the accumulation type, a register tile over them, any types.
/// direct: rows of the output kept in cache. depthwise: one channel a group, channels contiguous.
/// pointwise: a filter of one tap as a packed GEMM. image_n, image_m: a packed GEMM that gathers the image while it packs, the
/// image on the tile's columns or on its vectors. Of pooling: channels: vectors of channels that lie side by side. planes: one
/// plane of one channel after the other, its rows contiguous.
enum class HostFamily : unsigned char {
  reference,
  dot,
  axpy,
  blocked,
  packed,
  direct,
  depthwise,
  pointwise,
  image_n,
  image_m,
  channels,
  planes,
};

struct HostRow {
  std::string_view name;
  HostOp op;
  HostFamily family;
  HostIsa isa = HostIsa::base;
  bool threaded = true;  ///< on all threads of the pool, or on the caller's alone
  int vectors = 0;       ///< the register tile: vectors of the instruction set x columns
  int columns = 0;
  int mc = 0, nc = 0, kc = 0;  ///< the cache block, in elements
  int revision = 1;            ///< raised with every change that may alter speed or bits
};

/// The most promising first.
inline constexpr HostRow host_rows[] = {
    {"packed_avx512_2x14_c512x512x256", HostOp::gemm, HostFamily::packed, HostIsa::avx512, true, 2, 14, 512, 512, 256},
    {"packed_avx512_3x8_c384x768x256", HostOp::gemm, HostFamily::packed, HostIsa::avx512, true, 3, 8, 384, 768, 256},
    {"packed_avx512_1x14_c256x256x384", HostOp::gemm, HostFamily::packed, HostIsa::avx512, true, 1, 14, 256, 256, 384},
    {"packed_avx2_2x6_c512x512x256", HostOp::gemm, HostFamily::packed, HostIsa::avx2, true, 2, 6, 512, 512, 256},
    {"packed_avx2_3x4_c384x512x256", HostOp::gemm, HostFamily::packed, HostIsa::avx2, true, 3, 4, 384, 512, 256},
    {"packed_avx512_2x14_c256x256x256_st", HostOp::gemm, HostFamily::packed, HostIsa::avx512, false, 2, 14, 256, 256, 256},
    {"packed_avx512_1x8_c64x64x256_st", HostOp::gemm, HostFamily::packed, HostIsa::avx512, false, 1, 8, 64, 64, 256},
    {"packed_avx2_2x6_c256x256x256_st", HostOp::gemm, HostFamily::packed, HostIsa::avx2, false, 2, 6, 256, 256, 256},
    {"packed_base_2x4_c256x256x256", HostOp::gemm, HostFamily::packed, HostIsa::base, true, 2, 4, 256, 256, 256},
    {"packed_base_2x4_c64x64x128_st", HostOp::gemm, HostFamily::packed, HostIsa::base, false, 2, 4, 64, 64, 128},
    {"blocked_4x4", HostOp::gemm, HostFamily::blocked, HostIsa::base, true, 4, 4},
    {"axpy", HostOp::gemm, HostFamily::axpy, HostIsa::base, true},
    {"dot", HostOp::gemm, HostFamily::dot, HostIsa::base, true},
    {"axpy_st", HostOp::gemm, HostFamily::axpy, HostIsa::base, false},
    {"dot_st", HostOp::gemm, HostFamily::dot, HostIsa::base, false},
    {"reference", HostOp::gemm, HostFamily::reference, HostIsa::base, true},

    {"depthwise", HostOp::conv, HostFamily::depthwise, HostIsa::base, true},
    {"pointwise_avx512_2x14", HostOp::conv, HostFamily::pointwise, HostIsa::avx512, true, 2, 14, 256, 512, 256},
    {"pointwise_avx2_2x6", HostOp::conv, HostFamily::pointwise, HostIsa::avx2, true, 2, 6, 256, 512, 256},
    {"image_m_avx512_2x14", HostOp::conv, HostFamily::image_m, HostIsa::avx512, true, 2, 14, 512, 256, 256},
    {"image_n_avx512_2x14", HostOp::conv, HostFamily::image_n, HostIsa::avx512, true, 2, 14, 256, 512, 256},
    {"image_m_avx512_3x8", HostOp::conv, HostFamily::image_m, HostIsa::avx512, true, 3, 8, 384, 128, 256},
    {"image_n_avx512_1x8_st", HostOp::conv, HostFamily::image_n, HostIsa::avx512, false, 1, 8, 64, 128, 256},
    {"image_m_avx2_2x6", HostOp::conv, HostFamily::image_m, HostIsa::avx2, true, 2, 6, 512, 256, 256},
    {"image_n_avx2_2x6", HostOp::conv, HostFamily::image_n, HostIsa::avx2, true, 2, 6, 256, 512, 256},
    {"direct", HostOp::conv, HostFamily::direct, HostIsa::base, true},
    {"pointwise_base_2x4", HostOp::conv, HostFamily::pointwise, HostIsa::base, true, 2, 4, 128, 128, 256},
    {"image_m_base_2x4", HostOp::conv, HostFamily::image_m, HostIsa::base, true, 2, 4, 128, 128, 256},
    {"image_n_base_2x4_st", HostOp::conv, HostFamily::image_n, HostIsa::base, false, 2, 4, 128, 128, 128},
    {"direct_st", HostOp::conv, HostFamily::direct, HostIsa::base, false},
    {"reference", HostOp::conv, HostFamily::reference, HostIsa::base, true},

    {"channels", HostOp::pool, HostFamily::channels, HostIsa::base, true},
    {"planes", HostOp::pool, HostFamily::planes, HostIsa::base, true},
    {"channels_st", HostOp::pool, HostFamily::channels, HostIsa::base, false},
    {"planes_st", HostOp::pool, HostFamily::planes, HostIsa::base, false},
    {"reference", HostOp::pool, HostFamily::reference, HostIsa::base, true},
    {"reference_st", HostOp::pool, HostFamily::reference, HostIsa::base, false},
};
inline constexpr std::size_t host_row_count = sizeof(host_rows) / sizeof(host_rows[0]);

constexpr int vector_bytes(HostIsa isa) noexcept { return isa == HostIsa::avx512 ? 64 : isa == HostIsa::avx2 ? 32 : 16; }
constexpr bool packs(HostFamily f) noexcept {
  return f == HostFamily::packed || f == HostFamily::pointwise || f == HostFamily::image_n || f == HostFamily::image_m;
}

/// Vector registers hold the tile, one column of inputs and one broadcast value.
constexpr bool fits_registers(const HostRow& row) noexcept {
  return row.vectors * row.columns + row.vectors <= (row.isa == HostIsa::avx512 ? 31 : 15);
}
inline constexpr int max_tile_rows = 64;
inline constexpr int max_tile_columns = 16;
inline constexpr int max_kc = 512;

constexpr bool legal(const HostRow& row) noexcept {
  if (!packs(row.family)) return row.mc == 0;
  const int widest = row.vectors * vector_bytes(row.isa) / 4;
  return fits_registers(row) && widest <= max_tile_rows && row.columns <= max_tile_columns && row.kc <= max_kc && row.mc > 0 &&
         row.nc > 0 && row.kc > 0;
}
constexpr bool all_legal() noexcept {
  for (std::size_t i = 0; i < host_row_count; ++i) {
    if (!legal(host_rows[i])) return false;
    for (std::size_t j = 0; j < i; ++j)
      if (host_rows[i].op == host_rows[j].op && host_rows[i].name == host_rows[j].name) return false;
  }
  return true;
}
static_assert(all_legal(), "a row does not fit its registers or its bounds, or repeats a name");

}  // namespace attune

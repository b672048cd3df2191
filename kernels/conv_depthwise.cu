#include "kernels/conv_depthwise.hpp"

#include <algorithm>
#include <limits>

#include "kernels/conv_depthwise_first.cuh"
#include "kernels/conv_depthwise_last.cuh"
#include "kernels/conv_depthwise_tile.cuh"
#include "kernels/conv_depthwise_toeplitz.cuh"

namespace attune {
namespace {

template <DType Type>
using Element = std::conditional_t<Type == DType::f16, __half, std::conditional_t<Type == DType::bf16, __nv_bfloat16, float>>;

template <int Index = 0, typename Use>
cudaError_t with_row(int row, Use&& use) {
  if constexpr (Index < static_cast<int>(conv_depthwise_rows.size())) {
    if (row != Index) return with_row<Index + 1>(row, use);
    return use(std::integral_constant<int, Index>{});
  } else {
    return cudaErrorNotSupported;
  }
}

/// Taps that a row of `first` takes together.
constexpr int chunk_of(const ConvDepthwiseRow& r) { return r.filter == 0 ? 8 : r.filter; }

/// Channels, or pairs of them, side by side in a block of wgrad.
int group_of(int members) {
  int group = 32;
  while (group > 1 && group / 2 >= members) group /= 2;
  return group;
}

unsigned blocks(std::int64_t threads) { return static_cast<unsigned>((threads + depthwise_threads - 1) / depthwise_threads); }

}  // namespace

int conv_depthwise_shared(int row, const DepthwiseShape& shape) noexcept {
  int bytes = 0;
  with_row(row, [&](auto index) {
    constexpr ConvDepthwiseRow r = conv_depthwise_rows[index()];
    if constexpr (r.way == DepthwiseWay::first) bytes = PlaneTile<chunk_of(r), r.stride>(shape).bytes(shape);
    if constexpr (r.way == DepthwiseWay::tile || r.way == DepthwiseWay::wgrad_tile) bytes = shape.tiling.bytes;
    if constexpr (r.way == DepthwiseWay::toeplitz)
      bytes = static_cast<int>(std::min<std::int64_t>(ToeplitzTile::bytes(shape), std::numeric_limits<int>::max()));
    return cudaSuccess;
  });
  return bytes;
}

cudaError_t allow_conv_depthwise(int row) noexcept {
  return with_row(row, [&](auto index) {
    constexpr ConvDepthwiseRow r = conv_depthwise_rows[index()];
    // The limit is the kernel's, and its plans need different amounts: all that a block may have, or the next plan that is prepared
    // would take from one that is there.
    const auto allow = [](auto kernel) {
      int device = 0, most = 0;
      cudaFuncAttributes attributes{};
      cudaError_t error = cudaGetDevice(&device);
      if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
      if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
      if (error != cudaSuccess) return error;
      return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most - static_cast<int>(attributes.sharedSizeBytes));
    };
    if constexpr (r.way == DepthwiseWay::first)
      return allow(depthwise_first<Element<r.type>, chunk_of(r), r.stride>);
    else if constexpr (r.way == DepthwiseWay::toeplitz)
      return allow(depthwise_toeplitz<Element<r.type>>);
    else if constexpr (r.way == DepthwiseWay::tile)
      return allow(depthwise_tile<Element<r.type>, r.filter, r.stride>);
    else if constexpr (r.way == DepthwiseWay::wgrad_tile)
      return allow(depthwise_wgrad_tile<Element<r.type>, r.filter, r.stride>);
    else
      return cudaSuccess;
  });
}

cudaError_t launch_conv_depthwise(int row, const DepthwiseShape& s, const ConvCall& call, cudaStream_t stream) noexcept {
  return with_row(row, [&](auto index) {
    constexpr ConvDepthwiseRow r = conv_depthwise_rows[index()];
    using T = Element<r.type>;
    const std::int64_t bands = (s.out[0] + s.rows_each - 1) / s.rows_each, strips = (s.out[1] + strip - 1) / strip;
    if constexpr (r.way == DepthwiseWay::last) {
      depthwise_last<T, r.filter, r.stride>
          <<<blocks(bands * strips * s.images * (s.channels / 2)), depthwise_threads, 0, stream>>>(s, call);
    } else if constexpr (r.way == DepthwiseWay::tile) {
      const DepthwiseTiling& t = s.tiling;
      const int items = static_cast<int>(t.by_lanes.by) * t.patches;
      const int threads = items < depthwise_threads ? (items + 31) / 32 * 32 : depthwise_threads;
      depthwise_tile<T, r.filter, r.stride><<<t.tiles * t.by_groups.by, threads, t.bytes, stream>>>(s, call);
    } else if constexpr (r.way == DepthwiseWay::toeplitz) {
      using Tile = ToeplitzTile;
      const std::int64_t across = (s.out[1] + Tile::side - 1) / Tile::side, down = (s.out[0] + Tile::side - 1) / Tile::side;
      const std::int64_t grid = across * down * s.channels * ((s.images + Tile::warps - 1) / Tile::warps);
      depthwise_toeplitz<T><<<static_cast<unsigned>(grid), Tile::warps * 32, Tile::bytes(s), stream>>>(s, call);
    } else if constexpr (r.way == DepthwiseWay::wgrad_tile) {
      const DepthwiseTiling& t = s.tiling;
      depthwise_wgrad_tile<T, r.filter, r.stride>
          <<<t.by_groups.by * s.splits, depthwise_wgrad_threads(r.filter), t.bytes, stream>>>(s, call);
    } else if constexpr (r.way == DepthwiseWay::first) {
      const std::int64_t planes = std::int64_t{s.images} * s.channels;
      const unsigned grid = static_cast<unsigned>((planes + s.planes_each - 1) / s.planes_each * bands);
      const int bytes = PlaneTile<chunk_of(r), r.stride>(s).bytes(s);
      depthwise_first<T, chunk_of(r), r.stride><<<grid, depthwise_threads, bytes, stream>>>(s, call);
    } else if constexpr (r.way == DepthwiseWay::any) {
      const std::int64_t outputs = std::int64_t{s.images} * s.channels * s.out[0] * s.out[1];
      depthwise_any<T><<<blocks(outputs), depthwise_threads, 0, stream>>>(s, call);
    } else {
      const int group = s.image_c == 1 ? group_of(s.channels) : 1;
      const int chunks = (s.filter[1] + 7) / 8;
      const unsigned grid = static_cast<unsigned>((s.channels + group - 1) / group * chunks * s.filter[0] * s.splits);
      depthwise_wgrad_any<T><<<grid, depthwise_threads, 0, stream>>>(s, call, group);
    }
    return cudaGetLastError();
  });
}

}  // namespace attune

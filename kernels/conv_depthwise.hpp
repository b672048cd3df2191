// Depthwise convolution, one output channel for each input channel, one or two spatial dimensions: bound by memory, so every
// element is meant to be read once. What a launch takes; the variants are the rows of conv_depthwise_rows.
#pragma once

#include <cuda_runtime_api.h>
#include <cstdint>

#include "kernels/conv_call.hpp"
#include "kernels/conv_shape.hpp"
#include "kernels/tiles.hpp"

namespace attune {

inline constexpr int depthwise_depth = 64;         ///< channels of a tile, at most, and the pitch of its positions
inline constexpr int depthwise_filter_pitch = 66;  ///< floats from tap to tap: neighbouring taps fall into different banks

inline constexpr int depthwise_widest = 33;  ///< columns of a filter that `toeplitz` takes

/// Outputs that a thread of `tile` forms for a pair of channels.
struct DepthwisePatch {
  int rows, columns;
};
ATTUNE_HD constexpr DepthwisePatch depthwise_patch(int filter, int stride) {
  return stride > 1 ? DepthwisePatch{2, 4} : filter == 3 ? DepthwisePatch{4, 4} : DepthwisePatch{2, 7};
}
/// Positions along a row that a thread of `wgrad_tile` takes together, and threads of its blocks: warps for each of the
/// filter's rows.
ATTUNE_HD constexpr int depthwise_strip(int stride) { return stride > 1 ? 4 : 7; }
ATTUNE_HD constexpr int depthwise_wgrad_threads(int filter) { return 32 * filter * (filter == 3 ? 4 : filter == 5 ? 3 : 2); }

/// How the rows "tile" and "wgrad_tile" share an image out. Blocks (of wgrad: steps of a block) have `rows` by `columns`
/// outputs, multiples of the patch, and 2 * lanes channels.
struct DepthwiseTiling {
  int rows = 0, columns = 0, lanes = 0;
  int packet = 16;      ///< bytes that are copied at once
  int image_bytes = 0;  ///< of the image's tile in shared memory; the filter or the gradient's tile lies behind it
  int bytes = 0;        ///< of shared memory in all
  int patches = 0;      ///< of a tile
  int tiles = 0;        ///< of all images, for each group of channels
  Divider by_packets, by_in_columns, by_columns, by_lanes, by_patch_columns, by_groups, by_column_tiles, by_bands;

  /// Fills in everything else from rows, columns, lanes and packet, the size of an element and what the shape says.
  DepthwiseTiling(int rows, int columns, int lanes, int packet, int size, const struct DepthwiseShape& shape, bool wgrad);
  DepthwiseTiling() = default;
};

/// Rows, then columns. All products of steps and extents fit 32 bits.
///
/// fwd, and dgrad of stride 1, whose filter is then turned around: out(p) = sum over r of image(p * stride - pad + r *
/// dilation) * filter(r). dgrad of another stride (`transposed`): out(p) = sum of image((p + pad - r * dilation) / stride) *
/// filter(r), where that is whole. wgrad: filter(r) = sum over p of image(p * stride - pad + r * dilation) * out(p), `out`
/// being the gradient, an input.
struct DepthwiseShape {
  int images = 0, channels = 0;
  int image[2] = {}, out[2] = {}, filter[2] = {};
  int stride[2] = {1, 1}, pad[2] = {}, dilation[2] = {1, 1};
  int image_step[2] = {}, image_n = 0, image_c = 0;
  int out_step[2] = {}, out_n = 0, out_c = 0;
  int filter_step[2] = {}, filter_c = 0;
  bool flipped = false;  ///< the filter is read from its end
  bool transposed = false;
  DType out_type = DType::f32;  ///< of what is written
  int rows_each = 1;    ///< rows of the output that a thread walks down (rows "last"); rows of a block's tile (rows "first")
  int planes_each = 1;  ///< planes of a block (rows "first")
  DepthwiseTiling tiling;
  int splits = 1;  ///< wgrad: parts of the sum, [split][channel][tap] in the workspace
};

inline DepthwiseTiling::DepthwiseTiling(int tile_rows, int tile_columns, int pairs, int packet_bytes, int size,
                                        const DepthwiseShape& s, bool wgrad)
    : rows(tile_rows), columns(tile_columns), lanes(pairs), packet(packet_bytes) {
  const int filter = s.filter[0], stride = s.stride[0], taps = filter * filter;
  const DepthwisePatch patch = wgrad ? DepthwisePatch{1, depthwise_strip(stride)} : depthwise_patch(filter, stride);
  const int in_rows = (rows - 1) * stride + filter, in_columns = (columns - 1) * stride + filter;
  const int bands = (s.out[0] + rows - 1) / rows, column_tiles = (s.out[1] + columns - 1) / columns;
  const int filters = taps * depthwise_filter_pitch * 4, sums = filters * (depthwise_wgrad_threads(filter) / 32 / filter);
  // Far more than any block has counts as a quarter of the most there is: two of these and a filter still fit.
  const auto bytes_of = [size](std::int64_t h, std::int64_t w) {
    constexpr std::int64_t most = INT32_MAX / 4;
    const std::int64_t places = h * w < most ? h * w : most, n = places * depthwise_depth * size;
    return static_cast<int>(n < most ? n : most);
  };
  image_bytes = bytes_of(in_rows, in_columns);
  bytes = image_bytes + (wgrad ? bytes_of(rows, columns) : filters);
  if (wgrad && bytes < sums) bytes = sums;
  patches = rows / patch.rows * (columns / patch.columns);
  tiles = bands * column_tiles * s.images;
  by_packets = Divider(lanes * 2 * size / packet), by_in_columns = Divider(in_columns), by_columns = Divider(columns);
  by_lanes = Divider(lanes), by_patch_columns = Divider(columns / patch.columns);
  by_groups = Divider((s.channels / 2 + lanes - 1) / lanes), by_column_tiles = Divider(column_tiles), by_bands = Divider(bands);
}

/// wgrad writes its parts to `call.partial`, whatever their count. `image` and `other` are those of ConvCall.
cudaError_t launch_conv_depthwise(int row, const DepthwiseShape& shape, const ConvCall& call, cudaStream_t stream) noexcept;

/// Shared memory of a block of a row that stages planes; 0 for the others.
int conv_depthwise_shared(int row, const DepthwiseShape& shape) noexcept;
/// Before a row's first launch on the current device.
cudaError_t allow_conv_depthwise(int row) noexcept;

}  // namespace attune

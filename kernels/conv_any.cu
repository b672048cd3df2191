#include "kernels/conv_any.hpp"

#include "kernels/common/finish.cuh"

namespace attune {
namespace {

constexpr int threads = 256, each = conv_any_outputs / threads;
constexpr int most_columns = 512, most_depth = 16, slice = 512;
/// Added to a coordinate it keeps the coordinate outside of every image.
constexpr std::int64_t outside = INT64_MIN / 4;

struct Column {
  std::int64_t offset;
  std::int64_t at[3];
};
struct Term {
  std::int64_t image, other;
  std::int64_t at[3];
};

__device__ Column column_of(const ImageContraction& s, std::int64_t col, std::int64_t group) {
  Column c{0, {outside, 0, 0}};
  if (col >= s.cols()) return c;
  const std::int64_t positions = ConvView::volume(s.position);
  std::int64_t position[3];
  ConvView::split(col % positions, s.position, position);
  c.offset = col / positions * s.image_outer + group * s.image_group;
  for (int i = 0; i < 3; ++i) c.at[i] = position[i] * s.position_step[i] + s.shift[i];
  return c;
}

__device__ Term term_of(const ImageContraction& s, std::int64_t l, std::int64_t end) {
  Term t{0, 0, {outside, 0, 0}};
  if (l >= end) return t;
  const std::int64_t inner = l % s.inner;
  std::int64_t tap[3];
  ConvView::split(l / s.inner, s.tap, tap);
  t.image = inner * s.image_inner, t.other = inner * s.other_inner;
  for (int i = 0; i < 3; ++i) t.at[i] = tap[i] * s.tap_step[i], t.other += tap[i] * s.other_tap[i];
  return t;
}

/// Whether the product exists; its offset in the image.
__device__ bool image_offset(const ImageContraction& s, const Column& column, const Term& term, std::int64_t& offset) {
  offset = column.offset + term.image;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    std::int64_t at = column.at[i] + term.at[i];
    if (at < 0) return false;
    if (s.divisor[i] != 1) {
      if (at % s.divisor[i] != 0) return false;
      at /= s.divisor[i];
    }
    if (at >= s.image_extent[i]) return false;
    offset += at * s.image_step[i];
  }
  return true;
}

__device__ std::int64_t out_offset(const ImageContraction& s, std::int64_t row, std::int64_t col, std::int64_t group) {
  const std::int64_t positions = ConvView::volume(s.position);
  std::int64_t position[3];
  ConvView::split(col % positions, s.position, position);
  std::int64_t at = group * s.out_group + row * s.out_row + col / positions * s.out_outer;
  for (int i = 0; i < 3; ++i) at += position[i] * s.out_position[i];
  return at;
}

template <typename Sum>
__device__ void finish_output(const ImageContraction& s, const ConvCall& call, Sum sum, std::int64_t row, std::int64_t col,
                              std::int64_t group) {
  Output<Sum> out;
  out.c = call.c, out.bias = call.bias, out.type = s.out_type, out.activation = call.activation;
  out.alpha = static_cast<Sum>(call.alpha), out.beta = static_cast<Sum>(call.beta);
  const std::int64_t at = out_offset(s, row, col, group);
  store_as(call.d, s.out_type, at, finished(out, sum, at, group * s.rows + row));
}

template <typename Sum>
__global__ void __launch_bounds__(threads) conv_any(ConvAnyShape shape, ConvCall call) {
  __shared__ Column column[most_columns];
  __shared__ Term term[most_depth];
  __shared__ Sum image[slice], other[slice];
  const ImageContraction& s = shape.image;
  const int rows = shape.tile.rows, columns = shape.tile.columns, depth = shape.tile.depth;
  const int t = static_cast<int>(threadIdx.x);
  const bool image_by_term = s.image_inner == 1, other_by_term = s.other_row != 1;
  const std::int64_t tiles_r = (s.rows + rows - 1) / rows, tiles_c = (s.cols() + columns - 1) / columns, terms = s.terms();
  const std::int64_t terms_each = (terms + shape.splits - 1) / shape.splits;
  for (std::int64_t work = blockIdx.x; work < tiles_r * tiles_c * s.groups * shape.splits; work += gridDim.x) {
    const std::int64_t row0 = work % tiles_r * rows, col0 = work / tiles_r % tiles_c * columns;
    const std::int64_t z = work / tiles_r / tiles_c, group = z % s.groups, split = z / s.groups;
    const std::int64_t begin = split * terms_each, end = begin + terms_each < terms ? begin + terms_each : terms;
    for (int j = t; j < columns; j += threads) column[j] = column_of(s, col0 + j, group);
    Sum sum[each] = {};
    for (std::int64_t l0 = begin; l0 < end; l0 += depth) {
      if (t < depth) term[t] = term_of(s, l0 + t, end);
      __syncthreads();
      for (int e = t; e < depth * columns; e += threads) {
        const int l = image_by_term ? e % depth : e / columns, j = image_by_term ? e / depth : e % columns;
        std::int64_t at;
        image[l * columns + j] = image_offset(s, column[j], term[l], at) ? load_as<Sum>(call.image, s.image_type, at) : Sum(0);
      }
      for (int e = t; e < depth * rows; e += threads) {
        const int l = other_by_term ? e % depth : e / rows, i = other_by_term ? e / depth : e % rows;
        const std::int64_t at = group * s.other_group + (row0 + i) * s.other_row + term[l].other;
        other[l * rows + i] = row0 + i < s.rows && l0 + l < end ? load_as<Sum>(call.other, s.other_type, at) : Sum(0);
      }
      __syncthreads();
      for (int l = 0; l < depth; ++l)
#pragma unroll
        for (int e = 0; e < each; ++e) {
          const int id = t + e * threads;
          sum[e] += image[l * columns + id % columns] * other[l * rows + id / columns];
        }
      __syncthreads();
    }
#pragma unroll 1
    for (int e = 0; e < each; ++e) {
      const std::int64_t row = row0 + (t + e * threads) / columns, col = col0 + (t + e * threads) % columns;
      if (row >= s.rows || col >= s.cols()) continue;
      if (call.partial != nullptr)
        static_cast<Sum*>(call.partial)[(z * s.rows + row) * s.cols() + col] = sum[e];
      else
        finish_output(s, call, sum[e], row, col, group);
    }
    __syncthreads();
  }
}

/// Adds the parts up in the order of the splits.
template <typename Sum>
__global__ void __launch_bounds__(threads) conv_any_reduce(ConvAnyShape shape, ConvCall call) {
  const ImageContraction& s = shape.image;
  const std::int64_t matrix = s.rows * s.cols(), part = matrix * s.groups;
  for (std::int64_t at = grid_index(); at < part; at += grid_size()) {
    Sum sum = 0;
    for (int split = 0; split < shape.splits; ++split) sum += static_cast<const Sum*>(call.partial)[split * part + at];
    finish_output(s, call, sum, at % matrix / s.cols(), at % s.cols(), at / matrix);
  }
}

template <typename Sum>
cudaError_t launch(const ConvAnyShape& shape, const ConvCall& call, cudaStream_t stream) {
  const ImageContraction& s = shape.image;
  const std::int64_t tiles = (s.rows + shape.tile.rows - 1) / shape.tile.rows *
                             ((s.cols() + shape.tile.columns - 1) / shape.tile.columns) * s.groups * shape.splits;
  conv_any<Sum><<<static_cast<unsigned>(tiles < INT32_MAX ? tiles : INT32_MAX), threads, 0, stream>>>(shape, call);
  if (call.partial != nullptr)
    conv_any_reduce<Sum><<<blocks_for(s.rows * s.cols() * s.groups, threads), threads, 0, stream>>>(shape, call);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_conv_any(bool wide, const ConvAnyShape& shape, const ConvCall& call, cudaStream_t stream) noexcept {
  return wide ? launch<double>(shape, call, stream) : launch<float>(shape, call, stream);
}

}  // namespace attune

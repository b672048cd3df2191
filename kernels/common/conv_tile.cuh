// The index arithmetic of tiled convolutions: where rows and terms of a ConvShape lie, and which products of them exist.
#pragma once

#include "kernels/common/finish.cuh"
#include "kernels/conv_call.hpp"
#include "kernels/conv_shape.hpp"

namespace attune {

/// A row or a term. Of the two, a product exists where their bits have none in common.
struct ConvIndex {
  int image = 0;   ///< elements to add to the image's offset
  int linear = 0;  ///< the same of the output (rows) or the other operand (terms)
  unsigned bits = 0;
};

/// One phase of the shape.
struct ConvPart {
  const ConvShape& shape;
  const ConvPhase* phase[3];

  __device__ ConvPart(const ConvShape& s, int index) : shape(s) {
#pragma unroll
    for (int d = 0; d < 3; ++d) phase[d] = &s.axis[d].phase[index % s.axis[d].phases], index /= s.axis[d].phases;
  }
  __device__ int positions() const { return phase[0]->positions * phase[1]->positions * phase[2]->positions; }
  __device__ int taps() const { return phase[0]->taps * phase[1]->taps * phase[2]->taps; }
  __device__ int rows() const { return shape.outer * (shape.wgrad ? taps() : positions()); }
  __device__ int terms() const { return shape.inner * (shape.wgrad ? positions() : taps()); }

  /// Takes the position's digits off the index.
  __device__ void take_position(int& index, ConvIndex& to) const {
    unsigned inside = present_bit;
#pragma unroll
    for (int d = 2; d >= 0; --d) {
      const ConvAxis& a = shape.axis[d];
      const int position = phase[d]->by_positions.split(index), at = position * a.position_step + phase[d]->shift;
      to.image += at * a.image_step;
      to.linear += (phase[d]->first + position * a.positions_apart) * (shape.wgrad ? a.other_step : a.out_step);
      if (a.bounded) {
        unsigned bit = 1u << a.bit;
#pragma unroll 1
        for (int tap = 0, x = at; tap < phase[d]->taps; ++tap, x += a.tap_step, bit <<= 1)
          if (static_cast<unsigned>(x) < static_cast<unsigned>(a.extent)) inside |= bit;
      }
    }
    to.bits = ~inside;
  }
  __device__ void take_tap(int& index, ConvIndex& to) const {
    unsigned needed = present_bit;
#pragma unroll
    for (int d = 2; d >= 0; --d) {
      const ConvAxis& a = shape.axis[d];
      const int tap = phase[d]->by_taps.split(index);
      to.image += tap * a.tap_step * a.image_step;
      to.linear += (phase[d]->first_tap + tap * a.taps_apart) * (shape.wgrad ? a.out_step : a.other_step);
      if (a.bounded) needed |= 1u << (a.bit + tap);
    }
    to.bits = needed;
  }
  /// `index` is below `end`, or the row does not exist.
  __device__ ConvIndex row(int index, int end) const {
    ConvIndex to;
    to.bits = shape.wgrad ? absent_bit : ~0u;
    if (index >= end) return to;
    int outer = 0;
    if (shape.wgrad) {
      if (shape.outer_first) outer = shape.by_outer.split(index);
      take_tap(index, to);
      if (!shape.outer_first) outer = index;
    } else {
      take_position(index, to);
      outer = index;
    }
    to.image += outer * shape.image_outer, to.linear += outer * shape.out_outer;
    return to;
  }
  __device__ ConvIndex term(int index, int end) const {
    ConvIndex to;
    to.bits = shape.wgrad ? ~0u : absent_bit;
    if (index >= end) return to;
    int inner = 0;
    if (shape.inner_first) inner = shape.by_inner.split(index);
    if (shape.wgrad)
      take_position(index, to);
    else
      take_tap(index, to);
    if (!shape.inner_first) inner = index;
    to.image += inner * shape.image_inner, to.linear += inner * shape.other_inner;
    return to;
  }
};

/// One tile of work: the phases' tiles are numbered as if each had the first one's rows, which no other exceeds.
struct ConvWork {
  int phase, row_tile, column_tile, split, group;
  __device__ ConvWork(const ConvShape& s, std::int64_t work, int row_tiles, int column_tiles) {
    const int phases = s.axis[0].phases * s.axis[1].phases * s.axis[2].phases;
    column_tile = static_cast<int>(work % column_tiles), work /= column_tiles;
    row_tile = static_cast<int>(work % row_tiles), work /= row_tiles;
    phase = static_cast<int>(work % phases), work /= phases;
    split = static_cast<int>(work % s.splits);
    group = static_cast<int>(work / s.splits);
  }
};

/// The output of a group, or the place of this split's sums.
template <typename Sum>
__device__ inline Output<Sum> conv_output(const ConvShape& s, const ConvCall& call, int split, int group) {
  Output<Sum> out;
  if (call.partial != nullptr) {
    out.d = static_cast<Sum*>(call.partial) + split * s.part + group * s.out_group;
    out.type = std::is_same_v<Sum, double> ? DType::f64 : DType::f32;
    out.vectors = s.vectors;
    return out;
  }
  out.d = advanced(call.d, s.out_type, group * s.out_group);
  out.c = advanced(call.c, s.out_type, group * s.out_group);
  out.bias = advanced(call.bias, s.out_type, std::int64_t{group} * s.columns);
  out.alpha = static_cast<Sum>(call.alpha), out.beta = static_cast<Sum>(call.beta);
  out.type = s.out_type, out.activation = call.activation, out.vectors = s.vectors;
  return out;
}

}  // namespace attune

// The end of every contraction: scalars, C, bias and activation around sums staged in shared memory, rounded once, written so
// that neighbouring threads write neighbouring elements. One rolled loop, the activation called, not inlined: that keeps a
// kernel's machine code, and its compile time, small.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/common/activation.hpp"
#include "kernels/common/element.cuh"

namespace attune {

/// Where one tile of results goes. Elements of a line lie next to each other in D and in C.
template <typename Sum>
struct Output {
  void* d = nullptr;
  const void* c = nullptr;     ///< null where beta is zero
  const void* bias = nullptr;  ///< null where there is none
  std::int64_t d_line = 0, c_line = 0;  ///< elements from line to line
  const int* line_at = nullptr;  ///< instead of both where lines are not evenly apart: where each lies, in D and in C
  Sum alpha = 1, beta = 0;
  DType type = DType::f32;
  Activation activation = Activation::none;
  bool bias_by_line = false;  ///< one bias for a line, else one for each place in it
  bool vectors = false;       ///< sixteen bytes at a time: D and C are aligned so, lines and all
};

__host__ __device__ inline int element_bytes(DType type) {
  switch (type) {
    case DType::f16:
    case DType::bf16: return 2;
    case DType::f64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    default: return 1;
  }
}
template <typename Pointer>
__host__ __device__ inline Pointer advanced(Pointer pointer, DType type, std::int64_t elements) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const char, char>;
  return pointer == nullptr ? pointer : static_cast<Pointer>(static_cast<Byte*>(pointer) + elements * element_bytes(type));
}

/// The output of the tile that begins at this line and place.
template <typename Sum>
__device__ inline Output<Sum> at_tile(Output<Sum> out, std::int64_t line, std::int64_t place) {
  out.d = advanced(out.d, out.type, line * out.d_line + place);
  out.c = advanced(out.c, out.type, line * out.c_line + place);
  out.bias = advanced(out.bias, out.type, out.bias_by_line ? line : place);
  return out;
}

template <typename Sum>
__device__ __noinline__ Sum activate(Activation activation, Sum value) {
  return activated(activation, value);
}

template <typename Sum>
__device__ inline Sum load_as(const void* base, DType type, std::int64_t at) {
  if constexpr (std::is_same_v<Sum, double>) return load_as_double(base, type, at);
  switch (type) {
    case DType::f16: return static_cast<Sum>(__half2float(static_cast<const __half*>(base)[at]));
    case DType::bf16: return static_cast<Sum>(__bfloat162float(static_cast<const __nv_bfloat16*>(base)[at]));
    default: return static_cast<Sum>(static_cast<const float*>(base)[at]);
  }
}

template <typename Sum>
__device__ inline void store_as(void* base, DType type, std::int64_t at, Sum value) {
  switch (type) {
    case DType::f16: static_cast<__half*>(base)[at] = from_double<__half>(value); break;
    case DType::bf16: static_cast<__nv_bfloat16*>(base)[at] = from_double<__nv_bfloat16>(value); break;
    case DType::f64: static_cast<double*>(base)[at] = static_cast<double>(value); break;
    default: static_cast<float*>(base)[at] = static_cast<float>(value); break;
  }
}
template <>
__device__ inline void store_as<float>(void* base, DType type, std::int64_t at, float value) {
  switch (type) {
    case DType::f16: static_cast<__half*>(base)[at] = __float2half_rn(value); break;
    case DType::bf16: static_cast<__nv_bfloat16*>(base)[at] = __float2bfloat16_rn(value); break;
    default: static_cast<float*>(base)[at] = value; break;
  }
}

/// One element behind its sum.
template <typename Sum>
__device__ inline Sum finished(const Output<Sum>& out, Sum sum, std::int64_t c_at, std::int64_t bias_at) {
  Sum value = out.alpha * sum;
  if (out.c != nullptr) value += out.beta * load_as<Sum>(out.c, out.type, c_at);
  if (out.bias != nullptr) value += load_as<Sum>(out.bias, out.type, bias_at);
  return out.activation == Activation::none ? value : activate(out.activation, value);
}

namespace finishing {

/// Elements that are stored together, of type T.
template <typename T, int Count>
struct alignas(Count * sizeof(T)) Pack {
  T value[Count];
};

template <typename T, typename Sum>
__device__ inline T rounded(Sum value) {
  if constexpr (std::is_same_v<T, __half> && std::is_same_v<Sum, float>)
    return __float2half_rn(value);
  else if constexpr (std::is_same_v<T, __nv_bfloat16> && std::is_same_v<Sum, float>)
    return __float2bfloat16_rn(value);
  else
    return from_double<T>(value);
}

template <typename Sum, typename T>
__device__ inline Sum widened(T value) {
  if constexpr (sizeof(T) == 2)
    return static_cast<Sum>(static_cast<float>(value));
  else
    return static_cast<Sum>(value);
}

/// `Count` elements from `place` on, the first and the last of which may not exist.
template <typename T, int Count, typename Sum>
__device__ inline void store_pack(const Output<Sum>& out, const Sum* sums, T* d, const T* c, const T* bias, int place, int places) {
  const bool whole = place >= 0 && place + Count <= places;
  Pack<T, Count> pack;
#pragma unroll
  for (int e = 0; e < Count; ++e) {
    const int at = place + e;
    if (!whole && (at < 0 || at >= places)) continue;
    Sum value = out.alpha * sums[at];
    if (c != nullptr) value += out.beta * widened<Sum>(c[at]);
    if (bias != nullptr) value += widened<Sum>(bias[out.bias_by_line ? 0 : at]);
    if (out.activation != Activation::none) value = activate(out.activation, value);
    pack.value[e] = rounded<T>(value);
    if (!whole) d[at] = pack.value[e];
  }
  if (whole) *reinterpret_cast<Pack<T, Count>*>(d + place) = pack;
}

/// A warp, or an equal part of one, takes a line; its lanes take packs of `Count` elements, aligned in memory.
template <typename T, int Count, typename Sum>
__device__ void finish_lines(const Output<Sum>& out, const Sum* staged, int pitch, int length, int lines, int places, int thread,
                             int threads) {
  const int packs = length / Count, lanes = packs < 32 ? packs : 32;  // powers of two
  const int shift = __ffs(lanes) - 1, lane = thread & (lanes - 1);
#pragma unroll 1
  for (int line = thread >> shift; line < lines; line += threads >> shift) {
    const bool even = out.line_at == nullptr;
    T* d = static_cast<T*>(out.d) + (even ? line * out.d_line : out.line_at[line]);
    const T* c = out.c == nullptr ? nullptr : static_cast<const T*>(out.c) + (even ? line * out.c_line : out.line_at[line]);
    const T* bias = out.bias == nullptr ? nullptr : static_cast<const T*>(out.bias) + (out.bias_by_line ? line : 0);
    // Lines may begin between two aligned packs.
    const int ahead = static_cast<int>(reinterpret_cast<std::uintptr_t>(d) / sizeof(T)) & (Count - 1);
#pragma unroll 1
    for (int place = lane * Count - ahead; place < places; place += lanes * Count)
      store_pack<T, Count>(out, staged + line * pitch, d, c, bias, place, places);
  }
}

template <typename T, typename Sum>
__device__ void finish_as(const Output<Sum>& out, const Sum* staged, int pitch, int length, int lines, int places, int thread,
                             int threads) {
  constexpr int wide = 16 / static_cast<int>(sizeof(T)), narrow = sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1;
  if (out.vectors)
    finish_lines<T, wide>(out, staged, pitch, length, lines, places, thread, threads);
  else
    finish_lines<T, narrow>(out, staged, pitch, length, lines, places, thread, threads);
}

}  // namespace finishing

/// Writes the first `lines` lines and `places` places of a staged tile whose lines have `length` places (a power of two), `pitch`
/// apart in shared memory. `threads` threads, whole warps, of which this is `thread`, take part, behind a barrier.
template <typename Sum>
__device__ void finish_tile(const Output<Sum>& out, const Sum* staged, int pitch, int length, int lines, int places, int thread,
                             int threads) {
  switch (out.type) {
    case DType::f16: return finishing::finish_as<__half>(out, staged, pitch, length, lines, places, thread, threads);
    case DType::bf16: return finishing::finish_as<__nv_bfloat16>(out, staged, pitch, length, lines, places, thread, threads);
    case DType::f32: return finishing::finish_as<float>(out, staged, pitch, length, lines, places, thread, threads);
    default:
      if constexpr (std::is_same_v<Sum, double>) finishing::finish_as<double>(out, staged, pitch, length, lines, places, thread, threads);
  }
}

}  // namespace attune

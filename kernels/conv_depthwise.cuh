// What the depthwise kernels share: pairs of channels, and the end of a strip of outputs.
#pragma once

#include "kernels/common/finish.cuh"
#include "kernels/conv_depthwise.hpp"

namespace attune {

inline constexpr int depthwise_threads = 256, strip = 4;  ///< strip: neighbouring outputs of a row that a thread sums

__device__ inline float2 load_pair(const float* p) { return *reinterpret_cast<const float2*>(p); }
__device__ inline float2 load_pair(const __half* p) { return __half22float2(*reinterpret_cast<const __half2*>(p)); }
__device__ inline float2 load_pair(const __nv_bfloat16* p) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(p));
}

template <typename T, int Count>
struct alignas(Count * sizeof(T)) DepthwisePack {
  T value[Count];
};
template <typename T, int Count>
__device__ inline void store_pack(T* p, const float (&value)[Count]) {
  DepthwisePack<T, Count> pack;
#pragma unroll
  for (int e = 0; e < Count; ++e) pack.value[e] = finishing::rounded<T>(value[e]);
  *reinterpret_cast<DepthwisePack<T, Count>*>(p) = pack;
}

__device__ inline Output<float> depthwise_output(const DepthwiseShape& s, const ConvCall& call) {
  Output<float> out;
  out.d = call.d, out.c = call.c, out.bias = call.bias, out.type = s.out_type, out.activation = call.activation;
  out.alpha = static_cast<float>(call.alpha), out.beta = static_cast<float>(call.beta);
  return out;
}
/// Nothing but alpha and rounding is left to do.
template <typename T>
__device__ inline bool is_plain(const Output<float>& out) {
  const DType type = std::is_same_v<T, __half> ? DType::f16 : std::is_same_v<T, __nv_bfloat16> ? DType::bf16 : DType::f32;
  return out.c == nullptr && out.bias == nullptr && out.activation == Activation::none && out.type == type;
}

/// Outputs of whatever type, `across` next to each other at each of `count` places; the first belongs to `channel`, and so do
/// its neighbours but where `pairs` of channels lie side by side. Called, not inlined: it keeps the kernels small.
__device__ __noinline__ void finish_strip(const Output<float>& out, float4 low, float4 high, int at, int step, int count,
                                          int channel, bool pairs) {
  const float value[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll 1
  for (int i = 0; i < count; ++i)
#pragma unroll 1
    for (int v = 0; v < (pairs ? 2 : 1); ++v) {
      const int place = at + i * step + v;
      store_as(out.d, out.type, place, finished(out, value[pairs ? 2 * i + v : i], place, channel + v));
    }
}

/// Adds up what the block's workers hold, `Count` numbers each, in the order of the workers. A thread is worker t / group for
/// the group's member t % group; result e of member m goes to `to(m, e, sum)`. `shared` holds Count * depthwise_threads floats.
template <int Count, typename To>
__device__ inline void reduce_workers(const float (&value)[Count], float* shared, int group, To&& to) {
  const int t = static_cast<int>(threadIdx.x), workers = depthwise_threads / group;
#pragma unroll
  for (int e = 0; e < Count; ++e) shared[e * depthwise_threads + t] = value[e];
  __syncthreads();
  for (int i = t; i < Count * group; i += depthwise_threads) {
    const int e = i / group, member = i % group;
    float sum = 0;
    for (int worker = 0; worker < workers; ++worker) sum += shared[e * depthwise_threads + worker * group + member];
    to(member, e, sum);
  }
  __syncthreads();
}

/// Items of a split: [first, end).
struct DepthwiseRange {
  int first, end;
  __device__ DepthwiseRange(int items, int splits, int split) {
    const int each = (items + splits - 1) / splits;
    first = min(split * each, items), end = min(first + each, items);
  }
};

}  // namespace attune

// A few elements that lie side by side, moved as one.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <type_traits>

namespace attune {

template <typename T, int Width>
struct alignas(Width * sizeof(T)) Packet {
  T value[Width];
};

template <typename T, int Width>
__device__ Packet<T, Width> load_packet(const T* from) {
  Packet<T, Width> packet;
  if constexpr (sizeof(packet) == 16)
    *reinterpret_cast<uint4*>(packet.value) = *reinterpret_cast<const uint4*>(from);
  else
    packet = *reinterpret_cast<const Packet<T, Width>*>(from);
  return packet;
}

/// Past the caches: what nobody reads soon.
template <typename T, int Width>
__device__ void store_packet(T* to, const Packet<T, Width>& packet) {
  if constexpr (sizeof(packet) == 16)
    __stcs(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(packet.value));
  else
    *reinterpret_cast<Packet<T, Width>*>(to) = packet;
}

/// The type in which sums of T are formed.
template <typename T>
using SumType = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
__device__ SumType<T> widened(T value) {
  return static_cast<SumType<T>>(value);
}

/// Rounds to nearest, once.
template <typename T>
__device__ T rounded(SumType<T> value) {
  if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(value);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(value);
  else
    return value;
}

}  // namespace attune

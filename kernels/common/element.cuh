// Elements of any type in memory, read and written as double or float; grid-stride loops.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>
#include <attune/types.hpp>
#include <cstdint>
#include <type_traits>

namespace attune {

template <typename T>
__device__ double to_double(T value) {
  if constexpr (sizeof(T) == 2 || std::is_same_v<T, __nv_fp8_e4m3> || std::is_same_v<T, __nv_fp8_e5m2>)
    return static_cast<double>(static_cast<float>(value));
  else
    return static_cast<double>(value);
}

/// Rounds to nearest, once.
template <typename T>
__device__ T from_double(double value) {
  if constexpr (std::is_same_v<T, __half>)
    return __double2half(value);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __double2bfloat16(value);
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return static_cast<T>(__double2int_rn(value));
  else if constexpr (std::is_same_v<T, std::int32_t>)  // wraps around at 32 bits
    return static_cast<T>(static_cast<std::uint32_t>(static_cast<std::int64_t>(value)));
  else
    return static_cast<T>(value);
}

/// The element at an index, whatever its type; for kernels where memory or arithmetic decides, not this switch.
__device__ inline double load_as_double(const void* base, DType type, std::int64_t at) {
  switch (type) {
    case DType::f16: return to_double(static_cast<const __half*>(base)[at]);
    case DType::bf16: return to_double(static_cast<const __nv_bfloat16*>(base)[at]);
    case DType::f32: return static_cast<const float*>(base)[at];
    case DType::f8_e4m3: return to_double(static_cast<const __nv_fp8_e4m3*>(base)[at]);
    case DType::f8_e5m2: return to_double(static_cast<const __nv_fp8_e5m2*>(base)[at]);
    case DType::i8: return static_cast<const std::int8_t*>(base)[at];
    case DType::i32: return static_cast<const std::int32_t*>(base)[at];
    default: return static_cast<const double*>(base)[at];
  }
}

__device__ inline std::int64_t grid_index() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t grid_size() { return std::int64_t{gridDim.x} * blockDim.x; }

/// Blocks for a grid-stride loop over `count` items.
inline unsigned blocks_for(std::int64_t count, int threads) {
  const std::int64_t blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > 4096 ? 4096 : blocks);
}

/// Calls `use(T{})` with the element type of an output.
template <typename Use>
cudaError_t dispatch_type(DType type, Use use) {
  switch (type) {
    case DType::f16: return use(__half{});
    case DType::bf16: return use(__nv_bfloat16{});
    case DType::f32: return use(float{});
    case DType::f64: return use(double{});
    case DType::i32: return use(std::int32_t{});
    default: return cudaErrorNotSupported;
  }
}
/// The same for any operand.
template <typename Use>
cudaError_t dispatch_any_type(DType type, Use use) {
  switch (type) {
    case DType::f8_e4m3: return use(__nv_fp8_e4m3{});
    case DType::f8_e5m2: return use(__nv_fp8_e5m2{});
    case DType::i8: return use(std::int8_t{});
    default: return dispatch_type(type, use);
  }
}

}  // namespace attune

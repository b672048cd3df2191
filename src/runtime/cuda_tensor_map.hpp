// Tensor maps for Hopper's tensor copies. The driver's functions come through the runtime, so that nothing links libcuda.
#pragma once

#include <cuda.h>
#include <cstdint>
#include <string>

#include <attune/types.hpp>

namespace attune {

/// A tensor of three dimensions, the innermost first, under the 128-byte swizzle. Steps count bytes; reads outside give zeros.
struct TensorMapShape {
  DType type = DType::f16;  ///< f32 is rounded to tf32 on the way where `as_tf32`
  bool as_tf32 = false;
  std::int64_t extent[3] = {1, 1, 1};
  std::int64_t step[2] = {0, 0};  ///< of the second and third dimension; multiples of 16
  int box[3] = {1, 1, 1};
};

/// Empty, or why the map cannot be made. The address is filled in by `with_address`.
std::string make_tensor_map(const TensorMapShape& shape, CUtensorMap& map);
/// Puts an operand's address, aligned to 16 bytes, into a map. False when the driver refuses it.
bool with_address(CUtensorMap& map, const void* address) noexcept;

}  // namespace attune

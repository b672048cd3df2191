#include "runtime/cuda_tensor_map.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "core/problem.hpp"

namespace attune {
namespace {

template <class Function>
Function* entry_point(const char* name) noexcept {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  return reinterpret_cast<Function*>(function);
}

struct Driver {
  decltype(&cuTensorMapEncodeTiled) encode = entry_point<std::remove_pointer_t<decltype(&cuTensorMapEncodeTiled)>>("cuTensorMapEncodeTiled");
  decltype(&cuTensorMapReplaceAddress) replace =
      entry_point<std::remove_pointer_t<decltype(&cuTensorMapReplaceAddress)>>("cuTensorMapReplaceAddress");
};

const Driver& driver() noexcept {
  static const Driver found;
  return found;
}

CUtensorMapDataType element_of(const TensorMapShape& shape) noexcept {
  switch (shape.type) {
    case DType::f16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::f64: return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case DType::f32: return shape.as_tf32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::i32: return CU_TENSOR_MAP_DATA_TYPE_INT32;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

}  // namespace

std::string make_tensor_map(const TensorMapShape& shape, CUtensorMap& map) {
  if (driver().encode == nullptr || driver().replace == nullptr) return "the driver has no tensor maps";
  cuuint64_t extent[3], step[2];
  cuuint32_t box[3], each[3] = {1, 1, 1};
  for (int i = 0; i < 3; ++i) {
    if (shape.extent[i] < 1 || shape.extent[i] > (std::int64_t{1} << 32)) return fmt::format("an extent of {}", shape.extent[i]);
    extent[i] = static_cast<cuuint64_t>(shape.extent[i]);
    box[i] = static_cast<cuuint32_t>(shape.box[i]);
  }
  for (int i = 0; i < 2; ++i) {
    // A dimension of one element has no step, but the driver wants one.
    step[i] = static_cast<cuuint64_t>(shape.extent[i + 1] == 1 && shape.step[i] % 16 != 0 ? 16 : shape.step[i]);
    if (step[i] == 0) step[i] = 16;
    if (step[i] % 16 != 0 || step[i] >= (cuuint64_t{1} << 40)) return fmt::format("a step of {} bytes", shape.step[i]);
  }
  alignas(256) static char somewhere[256];
  const CUresult result = driver().encode(&map, element_of(shape), 3, somewhere, extent, step, box, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                          CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? std::string() : fmt::format("cuTensorMapEncodeTiled: error {}", static_cast<int>(result));
}

bool with_address(CUtensorMap& map, const void* address) noexcept {
  return driver().replace != nullptr && driver().replace(&map, const_cast<void*>(address)) == CUDA_SUCCESS;
}

}  // namespace attune

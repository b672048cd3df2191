// Optional: conversions from the types of CUDA, cuBLAS and cuDNN. Needs their headers; nothing else of Attune does.
#pragma once

#include <attune/error.hpp>
#include <attune/types.hpp>
#include <cublas_v2.h>
#include <library_types.h>
#include <string>

namespace attune {
inline namespace v0 {

/// Throws Error(unsupported) for a type that Attune does not know.
inline DType dtype(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_16F: return DType::f16;
    case CUDA_R_16BF: return DType::bf16;
    case CUDA_R_32F: return DType::f32;
    case CUDA_R_64F: return DType::f64;
    case CUDA_R_8F_E4M3: return DType::f8_e4m3;
    case CUDA_R_8F_E5M2: return DType::f8_e5m2;
    case CUDA_R_8I: return DType::i8;
    case CUDA_R_32I: return DType::i32;
    default: throw Error(Status::unsupported, "cudaDataType_t " + std::to_string(static_cast<int>(type)));
  }
}

inline Op op(cublasOperation_t operation) {
  switch (operation) {
    case CUBLAS_OP_N: return Op::N;
    case CUBLAS_OP_T: return Op::T;
    case CUBLAS_OP_C: return Op::C;
    default: throw Error(Status::unsupported, "cublasOperation_t " + std::to_string(static_cast<int>(operation)));
  }
}

/// CUBLAS_COMPUTE_32F_PEDANTIC and _64F_PEDANTIC are refused: Attune makes no promise of their order of operations.
inline Compute compute(cublasComputeType_t type) {
  switch (type) {
    case CUBLAS_COMPUTE_32F: return Compute::f32;
    case CUBLAS_COMPUTE_32F_FAST_TF32: return Compute::f32_tf32;
    case CUBLAS_COMPUTE_64F: return Compute::f64;
    case CUBLAS_COMPUTE_32I: return Compute::i32;
    default: throw Error(Status::unsupported, "cublasComputeType_t " + std::to_string(static_cast<int>(type)));
  }
}

}  // namespace v0
}  // namespace attune

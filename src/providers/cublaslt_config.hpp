// A cublasLt algorithm as text that names its public attributes, and back.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace attune {

/// The public configuration of an algorithm; together with the types it determines the algorithm.
struct LtConfig {
  std::int32_t id = 0;
  std::uint32_t tile = 0;    ///< cublasLtMatmulTile_t
  std::uint32_t stages = 0;  ///< cublasLtMatmulStages_t
  std::int32_t split_k = 1;
  std::uint32_t reduction = 0;  ///< cublasLtReductionScheme_t
  std::uint32_t swizzle = 0;
  std::uint32_t custom = 0;
  std::uint16_t inner = 0;    ///< cublasLtMatmulInnerShape_t
  std::uint16_t cluster = 0;  ///< cublasLtClusterShape_t

  friend bool operator==(const LtConfig&, const LtConfig&) = default;
};

/// The types for which an algorithm is made.
struct LtTypes {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cudaDataType_t a = CUDA_R_32F;
  cudaDataType_t b = CUDA_R_32F;
  cudaDataType_t c = CUDA_R_32F;  ///< of C and D
};

/// "f32", "tf32", "f64" or "i32".
std::string_view compute_name(cublasComputeType_t compute) noexcept;

/// "f32_a66_t128x256_s64xauto_k1_rnone_w0_c0_i0_g2x1x1". A value that has no name stands as "#" and its number.
std::string to_text(cublasComputeType_t compute, const LtConfig& config);

struct LtVariant {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  LtConfig config;
};
/// The inverse of to_text; nothing for any other text.
std::optional<LtVariant> parse_variant(std::string_view text) noexcept;

/// Nothing when the library does not report an attribute.
std::optional<LtConfig> read_config(const cublasLtMatmulAlgo_t& algo) noexcept;

/// The algorithm with this configuration; the status tells why there is none.
cublasStatus_t make_algo(cublasLtHandle_t handle, const LtTypes& types, const LtConfig& config,
                         cublasLtMatmulAlgo_t& algo) noexcept;

}  // namespace attune

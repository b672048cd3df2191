#include "providers/cublaslt_config.hpp"

#include <fmt/format.h>

#include <charconv>
#include <iterator>

#include "providers/cublaslt_names.hpp"

namespace attune {
namespace {

struct ComputeName {
  cublasComputeType_t compute;
  std::string_view name;
};
constexpr ComputeName compute_names[] = {{CUBLAS_COMPUTE_32F, "f32"},
                                         {CUBLAS_COMPUTE_32F_FAST_TF32, "tf32"},
                                         {CUBLAS_COMPUTE_64F, "f64"},
                                         {CUBLAS_COMPUTE_32I, "i32"}};

struct ReductionName {
  std::uint32_t scheme;
  std::string_view name;
};
constexpr ReductionName reduction_names[] = {{CUBLASLT_REDUCTION_SCHEME_NONE, "none"},
                                             {CUBLASLT_REDUCTION_SCHEME_INPLACE, "inplace"},
                                             {CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, "compute"},
                                             {CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, "output"}};

template <class T>
bool read_number(std::string_view text, T& value) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool read_named(LtNames kind, std::string_view text, std::uint32_t& value) noexcept {
  const std::optional<std::uint32_t> number = lt_number(kind, text);
  if (number) value = *number;
  return number.has_value();
}

bool read_reduction(std::string_view text, std::uint32_t& value) noexcept {
  for (const ReductionName& r : reduction_names)
    if (r.name == text) {
      value = r.scheme;
      return true;
    }
  return text.starts_with('#') && read_number(text.substr(1), value);
}

std::string reduction_name(std::uint32_t scheme) {
  for (const ReductionName& r : reduction_names)
    if (r.scheme == scheme) return std::string(r.name);
  return fmt::format("#{}", scheme);
}

/// Calls visit(attribute, member) for each attribute but the id, until one call fails.
template <class Config, class Visit>
cublasStatus_t visit_attributes(Config& config, Visit&& visit) noexcept {
  cublasStatus_t status = visit(CUBLASLT_ALGO_CONFIG_TILE_ID, config.tile);
  if (status == CUBLAS_STATUS_SUCCESS) status = visit(CUBLASLT_ALGO_CONFIG_STAGES_ID, config.stages);
  if (status == CUBLAS_STATUS_SUCCESS) status = visit(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, config.split_k);
  if (status == CUBLAS_STATUS_SUCCESS) status = visit(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, config.reduction);
  if (status == CUBLAS_STATUS_SUCCESS) status = visit(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, config.swizzle);
  if (status == CUBLAS_STATUS_SUCCESS) status = visit(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, config.custom);
  if (status == CUBLAS_STATUS_SUCCESS) status = visit(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, config.inner);
  if (status == CUBLAS_STATUS_SUCCESS) status = visit(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, config.cluster);
  return status;
}

template <class T>
cublasStatus_t get(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t attribute, T& value) noexcept {
  std::size_t written = 0;
  return cublasLtMatmulAlgoConfigGetAttribute(&algo, attribute, &value, sizeof value, &written);
}

}  // namespace

std::string_view compute_name(cublasComputeType_t compute) noexcept {
  for (const ComputeName& c : compute_names)
    if (c.compute == compute) return c.name;
  return "?";
}

std::string to_text(cublasComputeType_t compute, const LtConfig& config) {
  return fmt::format("{}_a{}_t{}_s{}_k{}_r{}_w{}_c{}_i{}_g{}", compute_name(compute), config.id,
                     lt_name(LtNames::tile, config.tile), lt_name(LtNames::stages, config.stages), config.split_k,
                     reduction_name(config.reduction), config.swizzle, config.custom, config.inner,
                     config.cluster == 0 ? "auto" : lt_name(LtNames::cluster, config.cluster));
}

std::optional<LtVariant> parse_variant(std::string_view text) noexcept {
  std::string_view field[10];
  std::size_t count = 0;
  for (;;) {
    const std::size_t end = text.find('_');
    field[count++] = text.substr(0, end);
    if (end == std::string_view::npos) break;
    if (count == std::size(field)) return std::nullopt;
    text.remove_prefix(end + 1);
  }
  if (count != std::size(field)) return std::nullopt;
  constexpr std::string_view letters = "atskrwcig";
  for (std::size_t i = 1; i < count; ++i) {
    if (field[i].empty() || field[i].front() != letters[i - 1]) return std::nullopt;
    field[i].remove_prefix(1);
  }

  LtVariant v;
  bool known = false;
  for (const ComputeName& c : compute_names)
    if (c.name == field[0]) v.compute = c.compute, known = true;
  LtConfig& config = v.config;
  std::uint32_t cluster = 0;
  const bool read = known && read_number(field[1], config.id) && read_named(LtNames::tile, field[2], config.tile) &&
                    read_named(LtNames::stages, field[3], config.stages) && read_number(field[4], config.split_k) &&
                    read_reduction(field[5], config.reduction) && read_number(field[6], config.swizzle) &&
                    read_number(field[7], config.custom) && read_number(field[8], config.inner) &&
                    (field[9] == "auto" || read_named(LtNames::cluster, field[9], cluster)) && cluster <= UINT16_MAX;
  if (!read) return std::nullopt;
  config.cluster = static_cast<std::uint16_t>(cluster);
  return v;
}

std::optional<LtConfig> read_config(const cublasLtMatmulAlgo_t& algo) noexcept {
  LtConfig config;
  cublasStatus_t status = get(algo, CUBLASLT_ALGO_CONFIG_ID, config.id);
  if (status == CUBLAS_STATUS_SUCCESS)
    status = visit_attributes(config, [&](auto attribute, auto& value) { return get(algo, attribute, value); });
  return status == CUBLAS_STATUS_SUCCESS ? std::optional(config) : std::nullopt;
}

cublasStatus_t make_algo(cublasLtHandle_t handle, const LtTypes& types, const LtConfig& config,
                         cublasLtMatmulAlgo_t& algo) noexcept {
  algo = {};
  const cublasStatus_t status =
      cublasLtMatmulAlgoInit(handle, types.compute, types.scale, types.a, types.b, types.c, types.c, config.id, &algo);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  // An attribute that an algorithm lacks reads as its default and refuses to be set: only what differs is set.
  return visit_attributes(config, [&](auto attribute, const auto& value) {
    auto current = value;
    if (get(algo, attribute, current) == CUBLAS_STATUS_SUCCESS && current == value) return CUBLAS_STATUS_SUCCESS;
    return cublasLtMatmulAlgoConfigSetAttribute(&algo, attribute, &value, sizeof value);
  });
}

}  // namespace attune

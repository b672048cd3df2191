#include "providers/cublaslt_neighbours.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "providers/cublaslt_names.hpp"

namespace attune {
namespace {

constexpr std::size_t most_tiles = 24;
constexpr std::uint32_t most_custom_options = 16;
constexpr int most_algorithms = 256;
constexpr std::size_t tiles_of_a_seed = 6;

std::uint32_t capability(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoCapAttributes_t attribute) noexcept {
  std::uint32_t value = 0;
  std::size_t written = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : 0;
}

std::vector<std::uint32_t> capability_list(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoCapAttributes_t attribute) {
  std::size_t bytes = 0;
  if (cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, nullptr, 0, &bytes) != CUBLAS_STATUS_SUCCESS || bytes == 0) return {};
  std::vector<std::uint32_t> values(bytes / sizeof(std::uint32_t));
  if (cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, values.data(), values.size() * sizeof(std::uint32_t), &bytes) !=
      CUBLAS_STATUS_SUCCESS)
    return {};
  return values;
}

double area(std::uint32_t tile) noexcept {
  const auto [m, n] = lt_extents(LtNames::tile, tile);
  return static_cast<double>(m) * n;
}

/// In doublings of a side; a tile without a name is far from all.
double distance(std::uint32_t a, std::uint32_t b) noexcept {
  const auto [am, an] = lt_extents(LtNames::tile, a);
  const auto [bm, bn] = lt_extents(LtNames::tile, b);
  if (am == 0 || bm == 0) return 1e3;
  return std::abs(std::log2(static_cast<double>(am) / bm)) + std::abs(std::log2(static_cast<double>(an) / bn));
}

std::vector<std::uint32_t> nearest_tiles(std::uint32_t tile, const cublasLtMatmulAlgo_t& algo) {
  std::vector<std::uint32_t> tiles = capability_list(algo, CUBLASLT_ALGO_CAP_TILE_IDS);
  std::stable_sort(tiles.begin(), tiles.end(), [tile](auto a, auto b) { return distance(a, tile) < distance(b, tile); });
  if (tiles.size() > most_tiles) tiles.resize(most_tiles);
  return tiles;
}

/// Neighbours of one configuration, each once.
class Neighbours {
 public:
  explicit Neighbours(const LtConfig& config) : config_(config) {}

  template <class T>
  void vary(T LtConfig::*member, T value) {
    LtConfig next = config_;
    next.*member = value;
    add(next);
  }
  void split(std::int32_t splits, std::uint32_t scheme) {
    LtConfig next = config_;
    next.split_k = splits, next.reduction = scheme;
    add(next);
  }
  std::vector<LtConfig> take() && { return std::move(found_); }

 private:
  void add(const LtConfig& next) {
    if (next != config_ && std::find(found_.begin(), found_.end(), next) == found_.end()) found_.push_back(next);
  }

  const LtConfig& config_;
  std::vector<LtConfig> found_;
};

}  // namespace

std::vector<LtConfig> neighbours(const LtConfig& config, const cublasLtMatmulAlgo_t& algo, std::uint32_t reductions) {
  Neighbours found(config);
  found.split(1, CUBLASLT_REDUCTION_SCHEME_NONE);
  const std::uint32_t schemes = capability(algo, CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK) & reductions;
  if (capability(algo, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) != 0) {
    const std::int32_t now = std::max(config.split_k, 1);
    for (std::uint32_t scheme :
         {CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_INPLACE, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE}) {
      if ((schemes & scheme) == 0) continue;
      for (std::int32_t splits : {now, now - 1, now + 1, now / 2, now * 2, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32})
        if (splits > 1) found.split(splits, scheme);
    }
  }
  if (capability(algo, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT) != 0)
    found.vary(&LtConfig::swizzle, config.swizzle == 0 ? 1u : 0u);
  // An algorithm without clusters has none in its configuration. Up to 16 blocks in sides that are powers of two.
  if (config.cluster != CUBLASLT_CLUSTER_SHAPE_AUTO)
    for (std::uint32_t shape = CUBLASLT_CLUSTER_SHAPE_1x1x1; shape <= CUBLASLT_CLUSTER_SHAPE_1x8x1; ++shape)
      found.vary(&LtConfig::cluster, static_cast<std::uint16_t>(shape));
  for (std::uint32_t stages : capability_list(algo, CUBLASLT_ALGO_CAP_STAGES_IDS)) found.vary(&LtConfig::stages, stages);
  const std::uint32_t options = std::min(capability(algo, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX), most_custom_options);
  for (std::uint32_t option = 0; options > 0 && option <= options; ++option) found.vary(&LtConfig::custom, option);
  for (std::uint32_t tile : nearest_tiles(config.tile, algo)) found.vary(&LtConfig::tile, tile);
  return std::move(found).take();
}

std::vector<LtConfig> seeds(cublasLtHandle_t handle, const LtTypes& types) {
  std::vector<int> ids(most_algorithms);
  int count = 0;
  if (cublasLtMatmulAlgoGetIds(handle, types.compute, types.scale, types.a, types.b, types.c, types.c, most_algorithms,
                               ids.data(), &count) != CUBLAS_STATUS_SUCCESS)
    return {};
  ids.resize(static_cast<std::size_t>(std::clamp(count, 0, most_algorithms)));
  std::vector<LtConfig> found;
  for (const int id : ids) {
    LtConfig config;
    config.id = id;
    cublasLtMatmulAlgo_t algo;
    if (make_algo(handle, types, config, algo) != CUBLAS_STATUS_SUCCESS) continue;
    std::vector<std::uint32_t> tiles = capability_list(algo, CUBLASLT_ALGO_CAP_TILE_IDS);
    const std::vector<std::uint32_t> stages = capability_list(algo, CUBLASLT_ALGO_CAP_STAGES_IDS);
    std::sort(tiles.begin(), tiles.end(), [](auto a, auto b) { return area(a) < area(b); });
    // The most stages: the middle ones are found from there.
    if (!stages.empty()) config.stages = stages.back();
    const std::size_t wanted = std::min(tiles.size(), tiles_of_a_seed);
    if (wanted == 0) found.push_back(config);
    for (std::size_t i = 0; i < wanted; ++i) {
      config.tile = tiles[(2 * i + 1) * tiles.size() / (2 * wanted)];
      found.push_back(config);
    }
  }
  return found;
}

bool takes_alignment(const cublasLtMatmulAlgo_t& algo, const LtAlignment& alignment) noexcept {
  return capability(algo, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES) <= alignment.a &&
         capability(algo, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES) <= alignment.b &&
         capability(algo, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES) <= alignment.c &&
         capability(algo, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES) <= alignment.d;
}

}  // namespace attune

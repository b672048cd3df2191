#include "providers/tile.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "providers/tile_family.hpp"

namespace attune {
namespace {

const tile::Family* const families[] = {
    &tile::gemv,            //
    &tile::hopper_gemm,     //
    &tile::mma_gemm,        //
    &tile::simt_gemm,       //
    &tile::conv_depthwise,  //
    &tile::conv_mma,        //
    &tile::conv_gather,     //
    &tile::conv_simt,       //
    &tile::conv_any,        //
    &tile::pool,            //
};

const tile::Family* family_of(std::string_view variant) noexcept {
  for (const tile::Family* family : families)
    if (variant.starts_with(family->prefix) && variant.substr(family->prefix.size()).starts_with("_")) return family;
  return nullptr;
}

class TileProvider final : public Provider {
 public:
  TileProvider(int ordinal, const DeviceInfo& info) {
    device_.ordinal = ordinal;
    device_.processors = std::max(info.processors, 1);
    device_.compute_capability = info.cc_major * 10 + info.cc_minor;
    int bytes = 0;
    if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal) == cudaSuccess)
      device_.shared_bytes = static_cast<std::size_t>(bytes);
    else
      cudaGetLastError();
  }

  std::string_view name() const noexcept override { return "tile"; }

  std::string version(std::string_view variant) const override {
    const tile::Family* family = family_of(variant);
    const int revision = family == nullptr ? 0 : family->revision(variant);
    return revision == 0 ? std::string() : fmt::format("r{}", revision);
  }

  std::vector<std::string> variants(const Problem& problem, const Constraints& constraints, Effort effort) const override {
    if (constraints.sm_count != 0) return {};
    std::vector<tile::Candidate> candidates;
    for (const tile::Family* family : families) family->list(device_, problem, constraints, effort, candidates);
    std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.cost < b.cost; });
    constexpr std::size_t quick_count = 4, standard_count = 16;
    const std::size_t most = effort == Effort::quick      ? quick_count
                             : effort == Effort::standard ? standard_count
                                                          : candidates.size();
    if (candidates.size() > most) candidates.resize(most);
    std::vector<std::string> names;
    for (tile::Candidate& candidate : candidates) names.push_back(std::move(candidate.variant));
    return names;
  }

  Prepared prepare(std::string_view variant, const Problem& problem, const Constraints& constraints) const override {
    const tile::Family* family = family_of(variant);
    if (family == nullptr) return declined("no such family of kernels");
    if (constraints.sm_count != 0) return declined("a limit on the SMs");
    const DeviceScope scope(device_.ordinal);
    return family->prepare(device_, variant, problem, constraints);
  }

  Prepared prepare_default(const Problem&, const Constraints&) const override {
    return declined("own kernels are nobody's default");
  }

 private:
  tile::Device device_;
};

}  // namespace

std::unique_ptr<Provider> make_tile_provider(int ordinal, const DeviceInfo& info) {
  return std::make_unique<TileProvider>(ordinal, info);
}

}  // namespace attune

#include "kernels/host_engine.hpp"

namespace attune {
namespace {
struct Avx512 {
  static constexpr HostIsa isa = HostIsa::avx512;
};
}  // namespace

PackedEntries packed_avx512() noexcept { return {packing::run_strided<Avx512>, packing::run_image<Avx512>}; }

}  // namespace attune

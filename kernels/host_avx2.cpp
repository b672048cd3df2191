#include "kernels/host_engine.hpp"

namespace attune {
namespace {
struct Avx2 {
  static constexpr HostIsa isa = HostIsa::avx2;
};
}  // namespace

PackedEntries packed_avx2() noexcept { return {packing::run_strided<Avx2>, packing::run_image<Avx2>}; }

}  // namespace attune

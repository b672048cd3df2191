#include "kernels/host_engine.hpp"

namespace attune {
namespace {
struct Base {
  static constexpr HostIsa isa = HostIsa::base;
};
}  // namespace

PackedEntries packed_base() noexcept { return {packing::run_strided<Base>, packing::run_image<Base>}; }

}  // namespace attune

// For tests that bring their own backend: the build's providers are not linked.
#include "providers/builtin.hpp"

namespace attune {

Backend make_backend(Device) { throw Error(Status::no_device, "this test has no devices"); }

}  // namespace attune

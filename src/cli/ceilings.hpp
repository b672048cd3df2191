// What a device can do at best, measured at the start of a benchmark: the floor under every row's time.
#pragma once

#include <map>
#include <string>

#include "cli/device_context.hpp"
#include "cli/workload.hpp"

namespace attune::cli {

struct Ceilings {
  double copy_bytes_per_us = 0;                ///< bytes read plus bytes written
  double launch_us = 0;                        ///< of a kernel that does nothing (host: of a call)
  std::map<std::string, double> flops_per_us;  ///< of each dtype of the workload: the best plan of a large square GEMM
};

Ceilings measure_ceilings(DeviceContext& device_context, const Workload& workload);

/// No plan can be faster, to measuring accuracy: max(flops / peak, bytes / copy bandwidth, one launch).
double floor_us(const Ceilings& ceilings, const Row& row);

/// "copy 4123 GB/s, launch 1.9 us, bf16 741 TFLOP/s, ..."
std::string to_text(const Ceilings& ceilings);

}  // namespace attune::cli

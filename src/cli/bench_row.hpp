// One row of a benchmark: tuned, then compared in one run.
#pragma once

#include <string>

#include "cli/ceilings.hpp"
#include "cli/device_context.hpp"
#include "cli/workload.hpp"

namespace attune::cli {

struct BenchResult {
  const Row* row = nullptr;
  std::string wrong;  ///< why there are no times; empty for a good row
  double floor_us = 0;
  double default_us = 0, vendor_best_us = 0, winner_us = 0, own_best_us = 0;  ///< 0: none
  double gemm_ex_us = 0, gemm_ex_autotune_us = 0;                             ///< the better known calls of cuBLAS; 0: none
  std::string vendor_best, winner, own_best;
  int timed = 0, rejected = 0;  ///< by the tuner
  int dropped = 0;              ///< wrong in the comparison
  int not_reached = 0;          ///< vendor candidates that the time for preparing did not suffice for
  double max_error = 0;         ///< of the winner
  double tune_seconds = 0;
  int slower = 0;  ///< how many times out of three the winner was slower than the default by more than 2 percent and 0.1 us
};

inline constexpr int slower_repeats = 3;

/// Never throws but bad_alloc: what goes wrong stands in the result.
BenchResult bench_row(DeviceContext& device_context, const Ceilings& ceilings, const Row& row);

}  // namespace attune::cli

// The ceilings that only CUDA can tell; built with the CUDA part alone.
#pragma once

namespace attune::cli {

/// Bytes read plus bytes written by a large copy on the device, a microsecond; 0 where CUDA reports a fault.
double cuda_copy_bytes_per_us(int ordinal) noexcept;
/// One launch of an empty kernel, as replayed from a captured graph; 0 where CUDA reports a fault.
double cuda_launch_us(int ordinal) noexcept;

}  // namespace attune::cli

// Copies of operands into another layout: aligned lines, padding with zeros, lines and places exchanged. Steps of composed plans.
#pragma once

#include <cuda_runtime_api.h>
#include <cstddef>
#include <cstdint>

namespace attune {

/// To [matrix][line][place] with neighbouring places next to each other, from anywhere. Steps count elements. Places from `places`
/// up to `padded_places`, and lines from `lines` up to `padded_lines`, become zero.
struct Relayout {
  std::int64_t matrices = 1, lines = 0, places = 0;
  std::int64_t padded_lines = 0, padded_places = 0;
  std::int64_t from_matrix = 0, from_line = 0, from_place = 1;
  std::int64_t to_matrix = 0, to_line = 0;
  std::int64_t from_elements = 0;  ///< that the source spans: nothing outside is read
  int element_bytes = 2;           ///< 1, 2, 4 or 8
};

struct RelayoutCall {
  const void* from = nullptr;
  void* to = nullptr;  ///< aligned to 16 bytes, as are its lines and matrices
};

/// Up to two copies in one launch.
cudaError_t launch_relayout(const Relayout* shapes, const RelayoutCall* calls, int count, cudaStream_t stream) noexcept;

}  // namespace attune

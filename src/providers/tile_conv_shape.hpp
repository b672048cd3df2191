// From a convolution problem to the shape that the tiled kernels take.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "kernels/conv_shape.hpp"
#include "kernels/finish.hpp"
#include "providers/tile_conv.hpp"

namespace attune::tile {

/// Fills in the shape of a whole reduction. Returns why it cannot, empty where it can.
std::string fill_conv_shape(const ConvProblem& problem, ConvShape& shape);

/// Lets the sums of `splits` parts go to the workspace, and tells the last step how to bring them home. False, and nothing
/// done, where the output's strides do not allow that.
bool split_conv(const ConvProblem& problem, DType sum_type, int splits, ConvShape& shape, FinishShape& finish);

/// Bytes of workspace for so many splits; none for one.
std::size_t split_conv_bytes(const ConvProblem& problem, DType sum_type, int splits) noexcept;

/// Whether a tensor's channels lie next to each other in whole packets of 16 bytes, group by group, that begin at multiples
/// of 16.
bool channels_in_vectors(const Dims& size, const std::int64_t* stride, std::int64_t group_channels, DType type,
                         int align) noexcept;

/// Splits worth trying: none, and as many as fill the processors a few times when the tiles alone do not, each with at least
/// `least` of the `steps` of the reduction.
std::vector<int> conv_splits(std::int64_t tiles, std::int64_t steps, std::int64_t least, int processors, Effort effort);

/// Terms of the longest reduction among the phases, without the inner index.
std::int64_t longest_across(const ConvShape& shape) noexcept;

/// Runs a row of some family of tiled kernels, and the last step where the reduction is split.
class TiledConvPlan final : public Plan {
 public:
  using LaunchRow = cudaError_t (*)(int row, const ConvShape&, const ConvCall&, cudaStream_t) noexcept;

  /// `shape` and `finish` as `split_conv` left them, where there are splits.
  TiledConvPlan(const Device& device, std::string_view variant, const ConvProblem& problem, LaunchRow launch_row, int row,
                const ConvShape& shape, const FinishShape& finish, Accumulation accumulation);
  Status run(const Launch& launch) const noexcept override;

 private:
  int device_;
  LaunchRow launch_row_;
  int row_;
  ConvShape shape_;
  FinishShape finish_;
  ConvCalls calls_;
};

}  // namespace attune::tile

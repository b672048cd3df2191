// The operands of a pooling in host memory, its reference formed window by window, and the comparison with it.
#pragma once

#include <attune/pool.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.hpp"

namespace attune::test {

class PoolCase {
 public:
  /// Operands lie `shift` bytes behind an address of full alignment. With `ties` the elements of x are few different numbers.
  PoolCase(const PoolProblem& problem, std::uint64_t seed, bool ties = false, int shift = 0);

  const PoolProblem& problem() const noexcept { return problem_; }  ///< resolved
  const std::vector<std::byte>& x() const noexcept { return x_; }
  const std::vector<std::byte>& y() const noexcept { return y_; }
  const std::vector<std::byte>& dy() const noexcept { return dy_; }
  /// The output as it should be left: `untouched` bytes where no element is, red zones of `zone` bytes around.
  std::size_t output_bytes() const noexcept { return output_bytes_; }
  static constexpr std::size_t zone = 4096;
  static constexpr std::byte untouched{0xff};

  /// What is wrong with an output between its red zones, `zone` bytes before and behind; empty when nothing is.
  std::string complaint(const std::byte* with_zones) const;

 private:
  void form_y();
  void form_dx();

  PoolProblem problem_;
  std::vector<std::byte> x_, y_, dy_;
  std::size_t output_bytes_ = 0;
  std::vector<std::int64_t> at_;  ///< of each element of the output
  std::vector<double> value_, magnitude_;
};

}  // namespace attune::test

// What a family of own kernels gives the `tile` provider, and what the families share.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/problem.hpp"
#include "core/provider.hpp"
#include "runtime/cuda_support.hpp"

namespace attune::tile {

/// Of the device that plans are made for.
struct Device {
  int ordinal = 0;
  int processors = 1;
  int compute_capability = 0;    ///< 90 for 9.0
  std::size_t shared_bytes = 0;  ///< that a block may use
};

struct Candidate {
  std::string variant;
  double cost = 0;  ///< estimated time in any unit; orders the candidates of a problem
};

struct Family {
  std::string_view prefix;  ///< variants begin with it and an underscore
  /// Adds the variants that may serve the problem. Never empties the list.
  void (*list)(const Device&, const Problem&, const Constraints&, Effort, std::vector<Candidate>&);
  Prepared (*prepare)(const Device&, std::string_view variant, const Problem&, const Constraints&);
  /// The revision of the variant's row; 0 when there is no such row.
  int (*revision)(std::string_view variant);
};

extern const Family conv_any;
extern const Family conv_depthwise;
extern const Family conv_gather;
extern const Family conv_mma;
extern const Family conv_simt;
extern const Family gemv;
extern const Family hopper_gemm;
extern const Family mma_gemm;
extern const Family pool;
extern const Family simt_gemm;

/// A number behind a word at the beginning of the text: takes "_k16" for "_k". Nothing is taken unless both are there.
inline std::optional<int> take_number(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return std::nullopt;
  int value = 0;
  const char* const begin = text.data() + word.size();
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || end == begin || *begin == '0' || value < 1) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}
inline bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

/// Whether an operand can be accessed 16 bytes at a time, by lines.
inline bool in_vectors(int align, DType type, std::int64_t lines, std::int64_t ld, std::int64_t batch,
                       std::int64_t stride) noexcept {
  const auto whole = [&](std::int64_t elements) { return elements * static_cast<std::int64_t>(size_of(type)) % 16 == 0; };
  return align >= 16 && (lines <= 1 || whole(ld)) && (batch <= 1 || whole(stride));
}

/// The same of D, and of C where it is read.
inline bool output_in_vectors(const GemmProblem& p) noexcept {
  return in_vectors(p.align_d, p.c_type, p.n, p.ldd, p.batch, p.stride_d) &&
         (p.beta == Scalar::zero || in_vectors(p.align_c, p.c_type, p.n, p.ldc, p.batch, p.stride_c));
}

/// Splits of a reduction worth trying: none, and as many as fill the processors once or twice when the tiles alone do not.
inline std::vector<int> splits_of(std::int64_t tiles, std::int64_t k, std::int64_t least_k, int processors, Effort effort) {
  std::vector<int> splits = {1};
  const auto most = static_cast<int>(std::min<std::int64_t>(k / std::max<std::int64_t>(least_k, 1), 64));
  for (const int waves : {1, 2, 4}) {
    if (tiles >= processors * waves || (waves == 4 && effort != Effort::exhaustive)) continue;
    const int count = std::min(static_cast<int>(processors * waves / tiles), most);
    if (count > splits.back()) splits.push_back(count);
  }
  return splits;
}

}  // namespace attune::tile

// Any problem that Attune solves, and its text form.
#pragma once

#include <attune/conv.hpp>
#include <attune/gemm.hpp>
#include <attune/pool.hpp>
#include <string>
#include <string_view>
#include <variant>

namespace attune {
inline namespace v0 {

/// One alternative for each op.
using Problem = std::variant<GemmProblem, ConvProblem, PoolProblem>;

/// One line, as "gemm op_a=T m=4096 n=16 k=4096 a=bf16 ...": fields at their default are omitted.
ATTUNE_EXPORT std::string to_string(const Problem& problem);
/// The inverse of to_string. Throws Error(invalid_argument) that names the word that cannot be read.
ATTUNE_EXPORT Problem parse_problem(std::string_view text);
/// Throws Error: invalid_argument or unsupported, naming the argument and its value. A size of 0 is valid.
ATTUNE_EXPORT void validate(const Problem& problem);

}  // namespace v0
}  // namespace attune

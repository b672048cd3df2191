// Refuses what is not a problem: every message names the argument and its value.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/names.hpp"
#include "core/problem.hpp"
#include "core/problem_fields.hpp"

namespace attune {
namespace {

template <class... Args>
[[noreturn]] void refuse(Status status, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(status, fmt::format(format, std::forward<Args>(args)...));
}

constexpr std::int64_t saturated = std::numeric_limits<std::int64_t>::max();

void at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least) refuse(Status::invalid_argument, "{} = {}: must be at least {}", name, value, least);
}

void check_type(const char* name, DType type) {
  if (!is_known(type)) refuse(Status::invalid_argument, "{} = {}: unknown data type", name, static_cast<int>(type));
}

constexpr bool is_float(DType type) noexcept { return !is_fp8(type) && type != DType::i8 && type != DType::i32; }

/// fp8 and integers have their own pairs of inputs and output; f64 stays among itself.
void check_types(const GemmProblem& p, const GemmNames& name) {
  const auto refuse_output = [&](const char* accepted) {
    refuse(Status::unsupported, "c_type = {}: {} inputs take {}", name_of(p.c_type), name_of(p.a_type), accepted);
  };
  if (is_float(p.a_type) && is_float(p.b_type)) {
    if (!is_float(p.c_type)) refuse_output("f16, bf16, f32 or f64");
    return;
  }
  if (p.a_type == DType::i32 || p.b_type == DType::i32)
    refuse(Status::unsupported, "{} = i32: an output type only", p.a_type == DType::i32 ? name.a_type : name.b_type);
  if (is_fp8(p.a_type) != is_fp8(p.b_type) || is_float(p.a_type) != is_float(p.b_type))
    refuse(Status::unsupported, "{} = {}: beside {} = {} goes {}", name.b_type, name_of(p.b_type), name.a_type,
           name_of(p.a_type),
           is_fp8(p.a_type)        ? "f8_e4m3 or f8_e5m2"
           : p.a_type == DType::i8 ? "i8"
                                   : "f16, bf16, f32 or f64");
  if (is_fp8(p.a_type) && p.c_type != DType::f16 && p.c_type != DType::bf16 && p.c_type != DType::f32)
    refuse_output("f16, bf16 or f32");
  if (p.a_type == DType::i8) {
    if (p.c_type != DType::i32) refuse_output("i32");
    if (p.epilogue != Epilogue::none)
      refuse(Status::unsupported, "epilogue = {}: an i32 output has none", name_of(p.epilogue));
  }
}

void check_types(const ConvProblem& p) {
  for (const auto& [name, type] : {std::pair("x_type", p.x_type), std::pair("w_type", p.w_type), std::pair("y_type", p.y_type)})
    if (!is_float(type)) refuse(Status::unsupported, "{} = {}: convolutions take f16, bf16, f32 and f64", name, name_of(type));
}

void check_epilogue(Epilogue epilogue, int align_bias) {
  if (!is_known(epilogue)) refuse(Status::invalid_argument, "epilogue = {}: unknown", static_cast<int>(epilogue));
  if (!has_bias(epilogue) && align_bias != 16)
    refuse(Status::invalid_argument, "align_bias = {}: the epilogue {} has no bias", align_bias, name_of(epilogue));
}

struct NamedType {
  const char* name;
  DType type;
};

void check_compute(Compute compute, const NamedType& out, const NamedType& in0, const NamedType& in1) {
  if (!is_known(compute)) refuse(Status::invalid_argument, "compute = {}: unknown", static_cast<int>(compute));
  const bool doubles = out.type == DType::f64;
  if ((in0.type == DType::f64) != doubles || (in1.type == DType::f64) != doubles)
    refuse(Status::unsupported, "{} = {}, {} = {}, {} = {}: f64 mixed with another type is reserved", in0.name,
           name_of(in0.type), in1.name, name_of(in1.type), out.name, name_of(out.type));
  const bool integers = out.type == DType::i32;
  if (doubles != (compute == Compute::f64) || integers != (compute == Compute::i32))
    refuse(Status::invalid_argument, "compute = {}: f64 operands need f64, i8 ones i32, all others f32 or f32_tf32", name_of(compute));
}

void check_scalar(const char* name, Scalar scalar) {
  if (!is_known(scalar)) refuse(Status::invalid_argument, "{} = {}: unknown scalar case", name, static_cast<int>(scalar));
}

void check_alignment(const char* name, int align, DType type) {
  const bool power = align == 1 || align == 2 || align == 4 || align == 8 || align == 16;
  if (!power) refuse(Status::invalid_argument, "{} = {}: must be 1, 2, 4, 8 or 16", name, align);
  if (static_cast<std::size_t>(align) < size_of(type))
    refuse(Status::invalid_argument, "{} = {}: the address is not aligned to its {} elements", name, align, name_of(type));
}

/// The last element's byte offset must be representable.
void check_span(const char* name, const std::int64_t* size, const std::int64_t* stride, int count, DType type) {
  std::int64_t last = 0;
  for (int i = 0; i < count; ++i) {
    if (size[i] == 0) return;
    const std::int64_t reach = saturating_mul(size[i] - 1, stride[i]);
    if (reach == saturated || __builtin_add_overflow(last, reach, &last)) last = saturated;
    if (last == saturated) break;
  }
  if (last == saturated || saturating_mul(last + 1, static_cast<std::int64_t>(size_of(type))) == saturated)
    refuse(Status::invalid_argument, "{} of {} elements with steps of {}: its extent overflows 64 bits", name, fmt::join(size, size + count, " x "),
             fmt::join(stride, stride + count, ", "));
}

struct Matrix {
  const char* name;
  const char* ld_name;
  const char* stride_name;
  const char* lines;
  std::int64_t rows, cols, ld, stride;
  DType type;
};

void check_matrix(const Matrix& x, std::int64_t batch) {
  if (x.ld < std::max<std::int64_t>(1, x.rows))
    refuse(Status::invalid_argument, "{} = {}: must be at least {}, the {} of {}", x.ld_name, x.ld,
           std::max<std::int64_t>(1, x.rows), x.lines, x.name);
  if (x.stride < 0) refuse(Status::invalid_argument, "{} = {}: must not be negative", x.stride_name, x.stride);
  const std::int64_t size[3] = {x.rows, x.cols, batch}, stride[3] = {1, x.ld, x.stride};
  check_span(x.name, size, stride, 3, x.type);
}

void check(const GemmProblem& given, const GemmNames& names) {
  for (const auto& [name, op] : {std::pair(names.op_a, given.op_a), std::pair(names.op_b, given.op_b)}) {
    if (!is_known(op)) refuse(Status::invalid_argument, "{} = {}: unknown operation", name, static_cast<int>(op));
    if (op == Op::C) refuse(Status::unsupported, "{} = C: the conjugate transpose is reserved", name);
  }
  at_least(names.m, given.m, 0);
  at_least(names.n, given.n, 0);
  at_least("k", given.k, 0);
  at_least("batch", given.batch, 0);
  check_type(names.a_type, given.a_type);
  check_type(names.b_type, given.b_type);
  check_type("c_type", given.c_type);
  check_types(given, names);
  check_compute(given.compute, {"c_type", given.c_type}, {names.a_type, given.a_type}, {names.b_type, given.b_type});
  check_scalar("alpha", given.alpha);
  check_scalar("beta", given.beta);
  check_epilogue(given.epilogue, given.align_bias);
  check_alignment(names.align_a, given.align_a, given.a_type);
  check_alignment(names.align_b, given.align_b, given.b_type);
  check_alignment("align_c", given.align_c, given.c_type);
  check_alignment(names.align_d, given.align_d, given.c_type);
  check_alignment("align_bias", given.align_bias, given.c_type);

  const Problem filled = resolve(given);
  const GemmProblem& p = std::get<GemmProblem>(filled);
  const bool na = p.op_a == Op::N, nb = p.op_b == Op::N;
  check_matrix({names.a, names.lda, names.stride_a, names.lines, na ? p.m : p.k, na ? p.k : p.m, p.lda, p.stride_a, p.a_type},
               p.batch);
  check_matrix({names.b, names.ldb, names.stride_b, names.lines, nb ? p.k : p.n, nb ? p.n : p.k, p.ldb, p.stride_b, p.b_type},
               p.batch);
  check_matrix({"C", "ldc", "stride_c", names.lines, p.m, p.n, p.ldc, p.stride_c, p.c_type}, p.batch);
  check_matrix({names.d, names.ldd, names.stride_d, names.lines, p.m, p.n, p.ldd, p.stride_d, p.c_type}, p.batch);
  // Matrices that overlap would be written by several problems at once, in no order.
  if (p.batch > 1 && p.m > 0 && p.n > 0 && p.stride_d < p.m + (p.n - 1) * p.ldd &&
      !(p.stride_d >= p.m && saturating_mul(p.batch - 1, p.stride_d) + p.m <= p.ldd))
    refuse(Status::invalid_argument, "{} = {}: the {} output matrices overlap", names.stride_d, p.stride_d, p.batch);
}

/// Distinct elements of an output must have distinct addresses: sorted by stride, each must step past all smaller ones.
void check_no_overlap(const char* name, const Dims& dims, const std::int64_t* stride) {
  std::array<int, 5> order = {0, 1, 2, 3, 4};
  for (int o = 1; o < dims.count; ++o)
    for (int at = o; at > 0 && stride[order[at]] < stride[order[at - 1]]; --at) std::swap(order[at], order[at - 1]);
  std::int64_t reach = 0;
  for (int o = 0; o < dims.count; ++o) {
    const int i = order[o];
    if (dims.size[i] <= 1) continue;
    if (stride[i] <= reach)
      refuse(Status::invalid_argument, "{} strides: stride {} of dimension {} makes elements overlap", name, stride[i], i);
    reach += (dims.size[i] - 1) * stride[i];
  }
}

void check_tensor(const char* name, const Dims& dims, const std::int64_t* stride, DType type) {
  for (int i = 0; i < dims.count; ++i)
    if (stride[i] < 0) refuse(Status::invalid_argument, "{}_stride[{}] = {}: must not be negative", name, i, stride[i]);
  check_span(name, dims.size, stride, dims.count, type);
}

constexpr std::int64_t most_extent = std::numeric_limits<std::int32_t>::max();

/// One value of a list of spatial ones.
void bounded(const char* name, int i, std::int64_t value, std::int64_t least) {
  at_least(fmt::format("{}[{}]", name, i).c_str(), value, least);
  if (value > most_extent) refuse(Status::invalid_argument, "{}[{}] = {}: must be below 2^31", name, i, value);
}

/// N and C may be 0; the spatial extents, of which a result is made, may not.
void check_extents(const Dims& x) {
  if (x.count < 3 || x.count > 5)
    refuse(Status::invalid_argument, "x has {} extents: must be 3 to 5 (N, C, then 1 to 3 spatial ones)", x.count);
  for (int i = 0; i < x.count; ++i) bounded("x", i, x.size[i], i < 2 ? 0 : 1);
}

void check(const ConvProblem& given) {
  if (!is_known(given.direction))
    refuse(Status::invalid_argument, "direction = {}: unknown", static_cast<int>(given.direction));
  if (!is_known(given.layout)) refuse(Status::invalid_argument, "layout = {}: unknown", static_cast<int>(given.layout));
  if (given.x.count < 3 || given.x.count > 5)
    refuse(Status::invalid_argument, "x has {} extents: must be 3 to 5 (N, C, then 1 to 3 spatial ones)", given.x.count);
  if (given.w.count != given.x.count)
    refuse(Status::invalid_argument, "w has {} extents: must be {}, as x has", given.w.count, given.x.count);
  for (int i = 0; i < given.x.count; ++i) {
    at_least(fmt::format("x[{}]", i).c_str(), given.x.size[i], 0);
    at_least(fmt::format("w[{}]", i).c_str(), given.w.size[i], i < 2 ? 0 : 1);
    if (given.x.size[i] > most_extent) refuse(Status::invalid_argument, "x[{}] = {}: must be below 2^31", i, given.x.size[i]);
    if (given.w.size[i] > most_extent) refuse(Status::invalid_argument, "w[{}] = {}: must be below 2^31", i, given.w.size[i]);
  }
  at_least("groups", given.groups, 1);
  if (given.x.size[1] % given.groups != 0)
    refuse(Status::invalid_argument, "groups = {}: does not divide C = {}", given.groups, given.x.size[1]);
  if (given.w.size[0] % given.groups != 0)
    refuse(Status::invalid_argument, "groups = {}: does not divide K = {}", given.groups, given.w.size[0]);
  if (given.w.size[1] != given.x.size[1] / given.groups)
    refuse(Status::invalid_argument, "w[1] = {}: must be C / groups = {}", given.w.size[1], given.x.size[1] / given.groups);
  for (int i = 0; i < given.spatial(); ++i) {
    bounded("pad.before", i, given.pad.before[i], 0);
    bounded("pad.after", i, given.pad.after[i], 0);
    bounded("stride", i, given.stride[i], 1);
    bounded("dilation", i, given.dilation[i], 1);
    const std::int64_t reach = given.dilation[i] * (given.w.size[i + 2] - 1) + 1;
    const std::int64_t padded = given.x.size[i + 2] + given.pad.before[i] + given.pad.after[i];
    if (reach > padded)
      refuse(Status::invalid_argument, "w[{}] = {}: the dilated filter, {}, is larger than the padded input, {}", i + 2,
             given.w.size[i + 2], reach, padded);
  }
  check_type("x_type", given.x_type);
  check_type("w_type", given.w_type);
  check_type("y_type", given.y_type);
  check_types(given);
  check_compute(given.compute, {"y_type", given.y_type}, {"x_type", given.x_type}, {"w_type", given.w_type});
  check_scalar("alpha", given.alpha);
  check_scalar("beta", given.beta);
  check_epilogue(given.epilogue, given.align_bias);
  if (given.epilogue != Epilogue::none && given.direction != Direction::fwd)
    refuse(Status::unsupported, "epilogue = {}: {} has none, only fwd", name_of(given.epilogue), name_of(given.direction));
  check_alignment("align_x", given.align_x, given.x_type);
  check_alignment("align_w", given.align_w, given.w_type);
  check_alignment("align_y", given.align_y, given.y_type);
  check_alignment("align_bias", given.align_bias, given.y_type);

  const Problem filled = resolve(given);
  const ConvProblem& p = std::get<ConvProblem>(filled);
  check_tensor("x", p.x, p.x_stride, p.x_type);
  check_tensor("w", p.w, p.w_stride, p.w_type);
  check_tensor("y", p.y(), p.y_stride, p.y_type);
  switch (p.direction) {
    case Direction::fwd: check_no_overlap("y", p.y(), p.y_stride); break;
    case Direction::dgrad: check_no_overlap("x", p.x, p.x_stride); break;
    case Direction::wgrad: check_no_overlap("w", p.w, p.w_stride); break;
  }
}

void check(const PoolProblem& given) {
  if (!is_known(given.direction))
    refuse(Status::invalid_argument, "direction = {}: unknown", static_cast<int>(given.direction));
  if (!is_known(given.mode)) refuse(Status::invalid_argument, "mode = {}: unknown", static_cast<int>(given.mode));
  if (!is_known(given.layout)) refuse(Status::invalid_argument, "layout = {}: unknown", static_cast<int>(given.layout));
  check_type("type", given.type);
  if (!is_float(given.type))
    refuse(Status::unsupported, "type = {}: pooling takes f16, bf16, f32 and f64", name_of(given.type));
  check_extents(given.x);
  for (int i = 0; i < given.spatial(); ++i) {
    bounded("window", i, given.window[i], 1);
    bounded("stride", i, given.stride[i], 1);
    bounded("pad.before", i, given.pad.before[i], 0);
    bounded("pad.after", i, given.pad.after[i], 0);
    for (const auto& [name, pad] : {std::pair("pad.before", given.pad.before[i]), std::pair("pad.after", given.pad.after[i])})
      if (pad >= given.window[i])
        refuse(Status::invalid_argument, "{}[{}] = {}: must be smaller than the window, {}, so that each reaches into x", name,
               i, pad, given.window[i]);
    const std::int64_t padded = given.x.size[i + 2] + given.pad.before[i] + given.pad.after[i];
    if (given.window[i] > padded)
      refuse(Status::invalid_argument, "window[{}] = {}: larger than the padded input, {}", i, given.window[i], padded);
  }
  check_alignment("align_x", given.align_x, given.type);
  check_alignment("align_y", given.align_y, given.type);

  const Problem filled = resolve(given);
  const PoolProblem& p = std::get<PoolProblem>(filled);
  check_tensor("x", p.x, p.x_stride, p.type);
  check_tensor("y", p.y(), p.y_stride, p.type);
  if (p.direction == PoolDirection::fwd)
    check_no_overlap("y", p.y(), p.y_stride);
  else
    check_no_overlap("x", p.x, p.x_stride);
}

}  // namespace

void validate(const Problem& problem, const GemmNames& names) {
  std::visit(
      [&](const auto& p) {
        if constexpr (std::is_same_v<std::decay_t<decltype(p)>, GemmProblem>)
          check(p, names);
        else
          check(p);
      },
      problem);
}

inline namespace v0 {

void validate(const Problem& problem) { validate(problem, problem_names); }

}  // namespace v0
}  // namespace attune

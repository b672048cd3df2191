#include "cli/workload.hpp"

#include <fmt/format.h>
#include <attune/context.hpp>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <span>
#include <system_error>

#include "core/names.hpp"
#include "tune/problem_counts.hpp"

namespace attune::cli {
namespace {

constexpr std::size_t max_row_bytes = 4096;
constexpr std::size_t max_workload_bytes = std::size_t{64} << 20;

struct TypeName {
  std::string_view name;
  DType in, out;
  Compute compute;
};
constexpr TypeName type_names[] = {
    {"bf16", DType::bf16, DType::bf16, Compute::f32},   {"fp16", DType::f16, DType::f16, Compute::f32},
    {"fp8", DType::f8_e4m3, DType::bf16, Compute::f32}, {"tf32", DType::f32, DType::f32, Compute::f32_tf32},
    {"fp32", DType::f32, DType::f32, Compute::f32},     {"fp64", DType::f64, DType::f64, Compute::f64},
    {"int8", DType::i8, DType::i32, Compute::i32},
};

[[noreturn]] void refuse(const std::string& why) { throw Error(Status::invalid_argument, why); }

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(by);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

/// The fields of one line, each with the name that the format gives it.
class Fields {
 public:
  Fields(std::span<const std::string_view> names, std::vector<std::string_view> values)
      : names_(names), values_(std::move(values)) {
    if (values_.size() != names_.size())
      refuse(fmt::format("{} fields where {} has {}: {}", values_.size(), values_[0], names_.size(), fmt::join(names_, ",")));
  }
  std::string_view text(std::string_view name) const {
    return values_[static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin())];
  }
  std::int64_t number(std::string_view name, std::int64_t least) const {
    const std::string_view value = text(name);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc::result_out_of_range) refuse(fmt::format("{} = '{}': does not fit in 64 bits", name, value));
    if (error != std::errc() || end != value.data() + value.size()) refuse(fmt::format("{} = '{}': not a number", name, value));
    if (number < least) refuse(fmt::format("{} = {}: must be at least {}", name, number, least));
    return number;
  }
  const TypeName& type() const {
    const std::string_view value = text("dtype");
    for (const TypeName& type : type_names)
      if (type.name == value) return type;
    refuse(fmt::format("dtype = '{}': accepted are bf16, fp16, fp8, tf32, fp32, fp64, int8", value));
  }
  template <class E>
  E choice(std::string_view name, std::initializer_list<std::pair<std::string_view, E>> choices) const {
    std::string known;
    for (const auto& [word, value] : choices) {
      if (word == text(name)) return value;
      known += (known.empty() ? "" : ", ") + std::string(word);
    }
    refuse(fmt::format("{} = '{}': accepted are {}", name, text(name), known));
  }

 private:
  std::span<const std::string_view> names_;
  std::vector<std::string_view> values_;
};

constexpr std::string_view gemm_fields[] = {"gemm", "name", "dtype", "transA", "transB", "M", "N", "K", "batch"};
constexpr std::string_view conv_fields[] = {"conv", "name", "dtype", "layout", "dir", "N",      "C",   "H",
                                            "W",    "K",    "R",     "S",      "pad", "stride", "dil", "groups"};
constexpr std::string_view conv3d_fields[] = {"conv3d", "name", "dtype", "layout", "dir", "N",     "C",    "D",
                                              "H",      "W",    "K",     "T",      "R",   "S",     "padD", "padH",
                                              "padW",   "strD", "strH",  "strW",   "dil", "groups"};

Problem gemm_problem(const Fields& f) {
  const TypeName& type = f.type();
  const Op op_a = f.choice<Op>("transA", {{"N", Op::N}, {"T", Op::T}});
  const Op op_b = f.choice<Op>("transB", {{"N", Op::N}, {"T", Op::T}});
  GemmProblem p = GemmProblem::row_major(op_a, op_b, f.number("M", 0), f.number("N", 0), f.number("K", 0), type.in);
  p.c_type = type.out;
  p.compute = type.compute;
  p.batch = f.number("batch", 0);
  return p;
}

ConvProblem conv_base(const Fields& f, Dims x, Dims w) {
  const TypeName& type = f.type();
  ConvProblem p(f.choice<Direction>("dir", {{"fwd", Direction::fwd}, {"dgrad", Direction::dgrad}, {"wgrad", Direction::wgrad}}),
                x, w);
  p.groups = f.number("groups", 1);
  const std::int64_t channels = f.number("C", 0);
  if (channels % p.groups != 0) refuse(fmt::format("groups = {}: does not divide C = {}", p.groups, channels));
  p.w.size[1] = channels / p.groups;
  p.x_type = p.w_type = type.in;
  p.y_type = type.out;
  p.compute = type.compute;
  p.dilation = f.number("dil", 1);
  return p;
}

Problem conv_problem(const Fields& f) {
  ConvProblem p = conv_base(f, {f.number("N", 0), f.number("C", 0), f.number("H", 0), f.number("W", 0)},
                            {f.number("K", 0), 0, f.number("R", 1), f.number("S", 1)});
  p.layout = f.choice<Layout>("layout", {{"NCHW", Layout::nchw}, {"NHWC", Layout::nhwc}});
  p.pad = f.number("pad", 0);
  p.stride = f.number("stride", 1);
  return p;
}

Problem conv3d_problem(const Fields& f) {
  ConvProblem p = conv_base(f, {f.number("N", 0), f.number("C", 0), f.number("D", 0), f.number("H", 0), f.number("W", 0)},
                            {f.number("K", 0), 0, f.number("T", 1), f.number("R", 1), f.number("S", 1)});
  p.layout = f.choice<Layout>("layout", {{"NCDHW", Layout::nchw}, {"NDHWC", Layout::nhwc}});
  p.pad = Spatial(f.number("padD", 0), f.number("padH", 0), f.number("padW", 0));
  p.stride = Spatial(f.number("strD", 1), f.number("strH", 1), f.number("strW", 1));
  return p;
}

constexpr std::string_view pool_fields[] = {"pool", "name", "dtype", "layout", "dir", "mode", "N",
                                            "C",    "H",    "W",     "R",      "S",   "pad",  "stride"};

Problem pool_problem(const Fields& f) {
  PoolProblem p;
  const TypeName& type = f.type();
  if (type.in != type.out) refuse(fmt::format("dtype = '{}': pooling takes bf16, fp16, fp32 and fp64", type.name));
  p.type = type.in;
  p.layout = f.choice<Layout>("layout", {{"NCHW", Layout::nchw}, {"NHWC", Layout::nhwc}});
  p.direction = f.choice<PoolDirection>("dir", {{"fwd", PoolDirection::fwd}, {"bwd", PoolDirection::bwd}});
  p.mode = f.choice<PoolMode>(
      "mode", {{"max", PoolMode::max}, {"average", PoolMode::average}, {"average_padded", PoolMode::average_padded}});
  p.x = {f.number("N", 0), f.number("C", 0), f.number("H", 1), f.number("W", 1)};
  p.window = Spatial(f.number("R", 1), f.number("S", 1));
  p.pad = f.number("pad", 0);
  p.stride = f.number("stride", 1);
  return p;
}

struct Kind {
  std::string_view name;
  std::span<const std::string_view> fields;
  Problem (*make)(const Fields&);
};
constexpr Kind kinds[] = {{"gemm", gemm_fields, gemm_problem},
                          {"conv", conv_fields, conv_problem},
                          {"conv3d", conv3d_fields, conv3d_problem},
                          {"pool", pool_fields, pool_problem}};

/// The name that the workload format has for the types of a problem.
std::string type_name(const Problem& problem) {
  const auto find = [](DType in, Compute compute) {
    for (const TypeName& type : type_names)
      if (type.in == in && (in != DType::f32 || type.compute == compute)) return std::string(type.name);
    return std::string(to_string(in));
  };
  if (const auto* gemm = std::get_if<GemmProblem>(&problem)) return find(gemm->a_type, gemm->compute);
  if (const auto* pool = std::get_if<PoolProblem>(&problem)) return find(pool->type, Compute::f32);
  const auto& conv = std::get<ConvProblem>(problem);
  return find(conv.x_type, conv.compute);
}

void parse_into(Row& row, std::string_view text) {
  if (text.size() > max_row_bytes) refuse(fmt::format("longer than {} characters", max_row_bytes));
  ProblemCount count;
  if (parse_count(text, count)) row.calls = count.calls, text = count.problem;
  const std::string_view word = text.substr(0, text.find_first_of(", \t"));
  const bool own_text = word.size() == text.size() || text[word.size()] != ',';
  if (row.calls > 0 && !own_text) refuse("a count stands only before a problem in Attune's own text form");
  if (own_text && (word == "gemm" || word == "conv" || word == "pool")) {
    row.name = text;
    Called called = parse_called(text);
    row.problem = std::move(called.problem);
    row.constraints = called.constraints;
    const auto* conv = std::get_if<ConvProblem>(&*row.problem);
    row.kind = conv && conv->spatial() == 3 ? "conv3d" : word;
    row.dtype = type_name(*row.problem);
    return;
  }
  for (const Kind& kind : kinds) {
    if (kind.name != word) continue;
    std::vector<std::string_view> values = split(text, ',');
    row.kind = kind.name;
    if (values.size() > 2) row.name = values[1], row.dtype = values[2];
    row.problem = kind.make(Fields(kind.fields, std::move(values)));
    return;
  }
  refuse(fmt::format("'{}': unknown kind; accepted are gemm, conv, conv3d, pool", word.substr(0, 64)));
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(Status::file_error, fmt::format("{}: {}", path, std::generic_category().message(errno)));
  std::string text;
  char block[65536];
  while (in.read(block, sizeof block), in.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    if (text.size() > max_workload_bytes) throw Error(Status::file_error, path + ": larger than 64 MiB");
  }
  if (in.bad()) throw Error(Status::file_error, path + ": cannot be read");
  return text;
}

template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') continue;
    const std::size_t end = line.find_last_not_of(" \t\r") + 1;
    visit(line.substr(begin, end - begin), number);
  }
}

/// name,class of each line; empty where there is no such file.
std::map<std::string, std::string, std::less<>> read_classes(const std::string& workload_path) {
  std::map<std::string, std::string, std::less<>> classes;
  const std::size_t slash = workload_path.rfind('/');
  const std::string path = (slash == std::string::npos ? std::string() : workload_path.substr(0, slash + 1)) + "classes.csv";
  if (!std::ifstream(path)) return classes;
  for_each_line(read_file(path), [&](std::string_view line, int) {
    const std::vector<std::string_view> parts = split(line, ',');
    if (parts.size() == 2) classes.emplace(parts[0], parts[1]);
  });
  return classes;
}

}  // namespace

Row parse_row(std::string_view text, int line) {
  Row row;
  row.line = line;
  try {
    parse_into(row, text);
    validate(*row.problem);
  } catch (const Error& e) {
    row.wrong = e.what();
    if (e.status() != Status::unsupported) row.problem.reset();
  }
  return row;
}

Workload parse_workload(std::string_view text, const std::string& path, const std::string& filter) {
  Workload workload{path, {}};
  const std::regex wanted(filter);
  for_each_line(text, [&](std::string_view line, int number) {
    Row row = parse_row(line, number);
    if (filter.empty() || row.name.empty() || std::regex_search(row.name, wanted)) workload.rows.push_back(std::move(row));
  });
  return workload;
}

Workload read_workload(const std::string& path, const std::string& filter) {
  Workload workload = parse_workload(read_file(path), path, filter);
  const auto classes = read_classes(path);
  for (Row& row : workload.rows)
    if (const auto found = classes.find(row.name); found != classes.end()) row.class_name = found->second;
  return workload;
}

std::string complaint(const Workload& workload, const Row& row, std::string_view what) {
  std::string text = fmt::format("{}:{}: ", workload.path, row.line);
  if (!row.name.empty() && row.name.size() <= 64) text += row.name + ": ";
  return text += what;
}

}  // namespace attune::cli

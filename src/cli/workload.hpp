// A file of problems, in the format of benchmarks/workloads.csv or in Attune's own text form.
#pragma once

#include <attune/problem.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/constraints.hpp"

namespace attune::cli {

struct Row {
  int line = 0;
  std::string kind;        ///< gemm, conv, conv3d or pool
  std::string name;        ///< the text itself for a line in Attune's text form; may be empty where the line cannot be read
  std::string class_name;  ///< from classes.csv beside the file; may be empty
  std::string dtype;       ///< bf16, fp16, fp8, tf32, fp32 or fp64
  std::optional<Problem> problem;          ///< none where the line cannot be read
  std::optional<Constraints> constraints;  ///< that it is called under; none: those of the command's settings
  std::string wrong;                       ///< why the row cannot be run; empty for a good row
  std::uint64_t calls = 0;                 ///< how often the problem was recorded; 0 where the line does not say
};

struct Workload {
  std::string path;
  std::vector<Row> rows;  ///< in the order of the file, bad ones included
};

/// One line that is neither empty nor a comment. Never throws but bad_alloc: what is wrong stands in the row.
Row parse_row(std::string_view text, int line);

/// Rows whose name matches `filter` (empty: all), and those too bad to have a name. Throws Error(file_error).
Workload read_workload(const std::string& path, const std::string& filter);
Workload parse_workload(std::string_view text, const std::string& path, const std::string& filter);

/// "FILE:LINE: what is wrong", with the row's name where it has one.
std::string complaint(const Workload& workload, const Row& row, std::string_view what);

}  // namespace attune::cli

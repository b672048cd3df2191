// A benchmark's results as a table, a summary and a file.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "cli/bench_row.hpp"
#include "cli/table.hpp"

namespace attune::cli {

class BenchTable {
 public:
  BenchTable();
  void header() const { table_.header(); }
  void row(const BenchResult& result) const;

 private:
  Table table_;
};

/// Geometric means by class and in all, rows slower than the default, tuning time.
void print_summary(const std::vector<BenchResult>& results, std::FILE* to);

/// One row as a line of JSON on stdout, with the columns of the file; null for what was not measured, "wrong" for a bad row.
void print_json(const BenchResult& result);

/// Written as the rows come, so that an interrupted benchmark keeps what it has.
class BenchCsv {
 public:
  /// An empty path writes nothing. Throws Error(file_error).
  BenchCsv(const std::string& path, const std::vector<std::string>& head);
  ~BenchCsv();
  BenchCsv(const BenchCsv&) = delete;
  BenchCsv& operator=(const BenchCsv&) = delete;
  void row(const BenchResult& result);
  /// Throws Error(file_error) when anything could not be written.
  void close();

 private:
  void write(const std::string& line);
  std::string path_;
  std::FILE* file_ = nullptr;
  bool failed_ = false;
};

}  // namespace attune::cli

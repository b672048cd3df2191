// Tables, printed row by row as results come in.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace attune::cli {

struct Column {
  const char* title;
  int width;          ///< at least; a longer cell pushes the rest of its row
  bool left = false;  ///< text; numbers stand to the right
};

class Table {
 public:
  explicit Table(std::vector<Column> columns, std::FILE* to = stdout) : columns_(std::move(columns)), to_(to) {}
  void header() const;
  void row(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
  std::FILE* to_;
};

/// Four figures or so; "-" for what was never measured.
std::string format_us(double us);
std::string format_ratio(double numerator, double denominator);
std::string format_error(double error);
std::string format_bytes(double bytes);
/// "1 min 20 s"
std::string format_seconds(double seconds);

/// The geometric mean of positive numbers, gathered one by one.
class GeometricMean {
 public:
  void add(double numerator, double denominator);
  int count() const noexcept { return count_; }
  double value() const;

 private:
  double sum_ = 0;
  int count_ = 0;
};

}  // namespace attune::cli

#include "cli/table.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

namespace attune::cli {

void Table::header() const {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title);
  row(titles);
}

void Table::row(const std::vector<std::string>& cells) const {
  std::string line;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::string cell = i < cells.size() ? cells[i] : std::string();
    if (i > 0) line += "  ";
    line += columns_[i].left ? fmt::format("{:<{}}", cell, columns_[i].width) : fmt::format("{:>{}}", cell, columns_[i].width);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  fmt::print(to_, "{}\n", line);
  std::fflush(to_);
}

std::string format_us(double us) {
  if (!(us > 0)) return "-";
  return us < 10 ? fmt::format("{:.3f}", us) : us < 1000 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

std::string format_ratio(double numerator, double denominator) {
  if (!(numerator > 0) || !(denominator > 0)) return "-";
  return fmt::format("{:.3f}", numerator / denominator);
}

std::string format_error(double error) { return fmt::format("{:.3f}", error); }

std::string format_bytes(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) bytes /= 1024, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string format_seconds(double seconds) {
  const long whole = std::lround(std::max(0.0, seconds));
  return whole < 60 ? fmt::format("{} s", whole) : fmt::format("{} min {} s", whole / 60, whole % 60);
}

void GeometricMean::add(double numerator, double denominator) {
  if (!(numerator > 0) || !(denominator > 0)) return;
  sum_ += std::log(numerator / denominator);
  ++count_;
}

double GeometricMean::value() const { return count_ == 0 ? 0 : std::exp(sum_ / count_); }

}  // namespace attune::cli

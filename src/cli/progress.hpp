// How far a long command is: one line that is redrawn on a terminal, plain lines where stderr is piped.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace attune::cli {

class Progress {
 public:
  explicit Progress(int total);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The next of the rows begins.
  void next(std::string_view what);
  /// Takes the line off the terminal, so that something else may be printed.
  void clear();
  /// A line on stderr that stays.
  void note(std::string_view text);

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int total_;
  int begun_ = 0;
  bool terminal_;
  bool drawn_ = false;
};

}  // namespace attune::cli

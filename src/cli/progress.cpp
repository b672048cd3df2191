#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/table.hpp"

namespace attune::cli {

Progress::Progress(int total) : total_(total), terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::next(std::string_view what) {
  const int done = begun_++;
  const std::string_view name = what.substr(0, 60);
  if (!terminal_) {
    fmt::print(stderr, "[{}/{}] {}\n", begun_, total_, name);
    return;
  }
  std::string left;
  if (done > 0) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    left = ", " + format_seconds(seconds / done * (total_ - done)) + " left";
  }
  fmt::print(stderr, "\r\x1b[K[{}/{}] {}{}", begun_, total_, name, left);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

void Progress::note(std::string_view text) {
  clear();
  fmt::print(stderr, "{}\n", text);
}

}  // namespace attune::cli

// This program again, in a new process.
#pragma once

#include <string>
#include <vector>

namespace attune::cli {

struct ChildOutput {
  int status = -1;                 ///< exit status; 128 + signal when it was killed
  std::vector<std::string> lines;  ///< of its stdout; stderr is shared
};

/// Runs it to its end. Throws Error(internal) when it cannot be started.
ChildOutput run_self(const std::vector<std::string>& arguments);

}  // namespace attune::cli

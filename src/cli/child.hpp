// Other programs, and this one again, in new processes.
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

/// Runs a command, found as the shell finds it, with this process's streams and environment, and waits for it. Its exit status;
/// 128 + signal when it was killed. Throws Error(invalid_argument) when it cannot be started.
int run_command(const std::vector<std::string>& words);

}  // namespace attune::cli

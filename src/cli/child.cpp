#include "cli/child.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <attune/error.hpp>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace attune::cli {
namespace {

[[noreturn]] void fail(int code) {
  throw Error(Status::internal, "a new process could not be started: " + std::generic_category().message(code));
}

std::string read_all(int fd) {
  std::string text;
  char block[4096];
  for (;;) {
    const ssize_t got = read(fd, block, sizeof block);
    if (got > 0) text.append(block, static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) return text;
  }
}

std::vector<char*> arguments_of(std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return argv;
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

ChildOutput run_self(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"attune"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> argv = arguments_of(words);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  const std::string text = error == 0 ? read_all(ends[0]) : std::string();
  close(ends[0]);
  if (error != 0) fail(error);

  ChildOutput output;
  output.status = wait_for(child);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) output.lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return output;
}

int run_command(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  const std::vector<char*> argv = arguments_of(copies);
  // Ctrl-C is the command's to deal with; this process stays to say what came of it.
  sigset_t terminal;
  sigemptyset(&terminal);
  sigaddset(&terminal, SIGINT);
  sigaddset(&terminal, SIGQUIT);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigdefault(&attributes, &terminal);
  const auto on_int = std::signal(SIGINT, SIG_IGN), on_quit = std::signal(SIGQUIT, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);  // or there would be nobody to wait for
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  const int status = error == 0 ? wait_for(child) : 0;
  std::signal(SIGINT, on_int), std::signal(SIGQUIT, on_quit);
  if (error != 0) throw Error(Status::invalid_argument, "COMMAND = '" + words[0] + "': " + std::generic_category().message(error));
  return status;
}

}  // namespace attune::cli

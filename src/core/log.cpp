#include "core/log.hpp"

#include <cstdio>

#include "core/names.hpp"

namespace attune {

void Log::set(LogLevel level, LogCallback callback, void* user) {
  const std::lock_guard lock(mutex_);
  callback_ = callback;
  user_ = user;
  level_.store(level, std::memory_order_relaxed);
}

void Log::write(LogLevel level, const std::string& message) const {
  if (!enabled(level) || level == LogLevel::off) return;
  LogCallback callback = nullptr;
  void* user = nullptr;
  {
    const std::lock_guard lock(mutex_);
    callback = callback_;
    user = user_;
  }
  if (callback != nullptr) {
    callback(level, message.c_str(), user);
    return;
  }
  const std::string line = "attune " + std::string(name_of(level)) + ": " + message + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace attune

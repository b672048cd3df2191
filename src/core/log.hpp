// Messages to whoever asked for them.
#pragma once

#include <attune/context.hpp>
#include <attune/types.hpp>
#include <atomic>
#include <mutex>
#include <string>

namespace attune {

class Log {
 public:
  bool enabled(LogLevel level) const noexcept { return level <= level_.load(std::memory_order_relaxed); }
  void set(LogLevel level, LogCallback callback, void* user);
  /// Writes one line if the level is enabled; to stderr where there is no callback.
  void write(LogLevel level, const std::string& message) const;

 private:
  std::atomic<LogLevel> level_{LogLevel::off};
  mutable std::mutex mutex_;
  LogCallback callback_ = nullptr;
  void* user_ = nullptr;
};

}  // namespace attune

#include "runtime/host_runtime.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "core/problem.hpp"
#include "kernels/common/contraction.hpp"
#include "kernels/common/number.hpp"
#include "kernels/host_packed.hpp"

namespace attune {
namespace {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string name = "CPU";
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.rfind("model name", 0) != 0 || colon == std::string::npos) continue;
    name = line.substr(colon + 2);
    break;
  }
  const char* isa = host_supports(HostIsa::avx512) ? "avx512" : host_supports(HostIsa::avx2) ? "avx2" : "base";
  return fmt::format("{} ({})", name, isa);
}

DeviceInfo describe() {
  DeviceInfo info;
  info.name = cpu_name();
  info.processors = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (int level : {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    info.l2_bytes = std::max<std::int64_t>(0, sysconf(level));
    if (info.l2_bytes > 0) break;
  }
  info.memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return info;
}

class ScalePlan final : public Plan {
 public:
  explicit ScalePlan(const Problem& problem) : Plan("host:scale", {}), problem_(problem) {}

  Status run(const Launch& launch) const noexcept override {
    const DType type = spans(problem_).d.type;
    visit_contraction(problem_, [&](const auto& p) {
      const auto v = view(p);
      const double beta = scalar_value(launch.beta, p.compute);
      const std::int64_t bias_z = std::is_same_v<std::decay_t<decltype(p)>, ConvProblem> ? v.rows() : 0;
      for (std::int64_t z = 0; z < v.batches(); ++z)
        for (std::int64_t j = 0; j < v.cols(); ++j)
          for (std::int64_t i = 0; i < v.rows(); ++i) {
            if (type == DType::i32) {
              const double before = p.beta == Scalar::zero ? 0 : load_number(launch.c, type, v.c_offset(i, j, z));
              static_cast<std::int32_t*>(launch.d)[v.d_offset(i, j, z)] = finished_integer(0, 0, beta, before);
              continue;
            }
            double value = p.beta == Scalar::zero ? 0 : beta * load_number(launch.c, type, v.c_offset(i, j, z));
            if (has_bias(p.epilogue)) value += load_number(launch.bias, type, z * bias_z + i);
            store_number(launch.d, type, v.d_offset(i, j, z), activated(activation(p.epilogue), value));
          }
    });
    return Status::ok;
  }

 private:
  Problem problem_;
};

/// Workspaces, lent to one run at a time and kept for the next.
class BlockPool {
 public:
  struct Block {
    void* memory = nullptr;  ///< as the allocator gave it
    std::size_t bytes = 0;   ///< of the memory, room for aligning included
    void* aligned() const noexcept {
      return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(memory) + alignment - 1) / alignment * alignment);
    }
  };

  BlockPool() { free_.reserve(most_kept); }
  ~BlockPool() {
    for (const Block& block : free_) release(block, nullptr);
  }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// The smallest kept block that fits, or a new one; no memory in it when there is none to be had.
  Block take(std::size_t bytes, Stream stream) noexcept {
    const std::size_t needed = bytes + alignment;
    {
      std::lock_guard lock(mutex_);
      auto best = free_.end();
      for (auto it = free_.begin(); it != free_.end(); ++it)
        if (it->bytes >= needed && (best == free_.end() || it->bytes < best->bytes)) best = it;
      if (best != free_.end()) {
        const Block block = *best;
        *best = free_.back();
        free_.pop_back();
        return block;
      }
      taken_ = true;
    }
    return {allocate(needed, stream), needed};
  }

  void give_back(Block block, Stream stream) noexcept {
    {
      std::lock_guard lock(mutex_);
      if (free_.size() < most_kept) {
        free_.push_back(block);
        return;
      }
      auto smallest = std::min_element(free_.begin(), free_.end(), [](auto& a, auto& b) { return a.bytes < b.bytes; });
      if (smallest->bytes < block.bytes) std::swap(*smallest, block);
    }
    release(block, stream);
  }

  bool set_hooks(const Allocator& hooks) noexcept {
    std::lock_guard lock(mutex_);
    if (taken_) return false;
    hooks_ = hooks;
    return true;
  }

 private:
  static constexpr std::size_t alignment = 256;
  static constexpr std::size_t most_kept = 16;

  /// What a caller's function throws must not end the process: it has denied.
  void* allocate(std::size_t bytes, Stream stream) const noexcept {
    if (!hooks_.allocate) return std::malloc(bytes);
    try {
      return hooks_.allocate(bytes, stream, hooks_.user);
    } catch (...) {
      return nullptr;
    }
  }
  void release(const Block& block, Stream stream) const noexcept {
    if (hooks_.deallocate)
      hooks_.deallocate(block.memory, block.bytes, stream, hooks_.user);
    else
      std::free(block.memory);
  }

  std::mutex mutex_;
  std::vector<Block> free_;
  Allocator hooks_;  ///< fixed once `taken_`
  bool taken_ = false;
};

class HostRuntime final : public Runtime {
 public:
  HostRuntime() : info_(describe()) {}

  const DeviceInfo& info() const noexcept override { return info_; }
  bool capturing(Stream) const noexcept override { return false; }
  std::unique_ptr<Guard> guard() override { return std::make_unique<Guard>(); }
  double now() const noexcept override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  std::mutex& measuring() noexcept override {
    static std::mutex mutex;
    return mutex;
  }
  std::unique_ptr<Trial> trial(const Problem& problem, const Constraints& constraints, std::size_t workspace,
                               std::uint64_t seed) override {
    return make_host_trial(info_, problem, constraints, workspace, seed);
  }
  std::unique_ptr<Plan> scale_plan(const Problem& problem) override { return std::make_unique<ScalePlan>(problem); }

  Status run(const std::shared_ptr<const Plan>& plan, const Launch& launch) noexcept override {
    const std::size_t bytes = plan->traits().workspace;
    if (bytes == 0 || launch.workspace != nullptr) return plan->run(launch);
    const BlockPool::Block block = blocks_.take(bytes, launch.stream);
    if (block.memory == nullptr) {
      failure() = "no memory for a workspace";
      return Status::no_memory;
    }
    Launch with = launch;
    with.workspace = block.aligned();
    const Status status = plan->run(with);
    blocks_.give_back(block, launch.stream);
    if (status != Status::ok) failure() = "the plan's library reported a failure";
    return status;
  }

  std::string last_failure() const override { return failure(); }
  bool set_allocator(const Allocator& allocator) override { return blocks_.set_hooks(allocator); }

 private:
  static const char*& failure() noexcept {
    thread_local const char* text = "";
    return text;
  }
  DeviceInfo info_;
  BlockPool blocks_;
};

}  // namespace

std::unique_ptr<Runtime> make_host_runtime() { return std::make_unique<HostRuntime>(); }

}  // namespace attune

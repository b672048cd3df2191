// Trials on a CUDA device: generated operands, checked runs.
#pragma once

#include <cuda_runtime_api.h>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "core/problem.hpp"
#include "core/runtime.hpp"
#include "kernels/trial_kernels.hpp"
#include "runtime/cuda_memory.hpp"
#include "runtime/cuda_trial_layout.hpp"

namespace attune {

/// A stream, two events and a few counters: what the trials of a runtime share. The device must be current.
class CudaLab {
 public:
  CudaLab(CudaMemory& memory, int ordinal);
  ~CudaLab();
  CudaLab(const CudaLab&) = delete;
  CudaLab& operator=(const CudaLab&) = delete;

  CudaMemory& memory;
  const int ordinal;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  Findings* findings = nullptr;         ///< on the device
  Findings* pinned_findings = nullptr;  ///< on the host

  /// Between begin and end, microseconds. Waits for end.
  double elapsed_us() const;
  /// After a failure: waits for the stream and clears CUDA's state. False when the device is lost to this process.
  bool recover() noexcept;

 private:
  void release() noexcept;
};

using TrialView = std::variant<GemmView, ConvView, PoolView>;

class CudaTrial final : public Trial {
 public:
  /// Null when the operands do not fit in memory.
  static std::unique_ptr<CudaTrial> make(CudaLab& lab, const DeviceInfo& info, const Problem& problem,
                                         const Constraints& constraints, std::size_t workspace, std::uint64_t seed);
  ~CudaTrial() override;

  Check check(const Plan& plan) override;
  std::unique_ptr<Timer> timer(const Plan& plan, TimingMethod method, double expected_us) override;

  /// For timers: enqueues the plan on operands of this set.
  Status launch(const Plan& plan, int set) const noexcept;
  CudaLab& lab() const noexcept { return lab_; }
  int sets() const noexcept { return layout_.sets; }
  /// The set that a next launch should use so that its operands have left the cache.
  int next_set = 0;

 private:
  CudaTrial(CudaLab& lab, const Problem& problem, const Constraints& constraints, std::uint64_t seed, const SampleGrid& grid,
            const TrialLayout& layout, const Block& block);
  void* at(std::size_t offset) const noexcept { return static_cast<char*>(block_.pointer) + offset; }
  void* output() const noexcept { return at(layout_.d); }
  bool accumulates_in_place() const noexcept { return layout_.c == layout_.d && spans_.c.elements != 0; }
  void generate();
  /// Inputs that must agree with others.
  void make_consistent(int set);
  void prepare_output(const Plan& plan);
  void examine(const Plan& plan);
  double timed_run(const Plan& plan, int set);
  Check judge() const;
  std::string where(unsigned long long sample) const;

  CudaLab& lab_;
  const Problem problem_;
  const Constraints constraints_;
  const Operands operands_;
  const Spans spans_;
  const std::uint64_t seed_;
  const TrialView view_;
  const SampleGrid grid_;
  const TrialLayout layout_;
  const Block block_;
  /// The values that go with the problem's scalar cases.
  GivenScalar alpha_, beta_;
  bool scaled_ = false;  ///< operands with scales: fp8
};

}  // namespace attune

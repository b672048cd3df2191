// Plans with known behaviour for tests of the CUDA runtime.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/problem.hpp"
#include "kernels/common/contraction.hpp"
#include "kernels/common/number.hpp"
#include "runtime/cuda_support.hpp"
#include "support/gpu.hpp"

namespace attune {

/// Computes on the host in double from the operands on the device, then lets the test spoil the output before it is copied
/// back. Waits, so it cannot be captured.
class HonestPlan : public Plan {
 public:
  /// The output's span with `margin` bytes of what lies around it.
  struct Output {
    std::vector<std::byte> bytes;
    std::size_t margin;
    DType type;
    std::byte* body() { return bytes.data() + margin; }
    void add(std::int64_t offset, double amount) {
      store_number(body(), type, offset, load_number(body(), type, offset) + amount);
    }
  };
  using Spoil = std::function<void(Output&)>;

  explicit HonestPlan(const Problem& problem, Spoil spoil = {}, std::size_t workspace = 0)
      : Plan("test:honest", PlanTraits{workspace, true, false, false, Accumulation::plain}),
        problem_(problem),
        spoil_(std::move(spoil)) {}

  Status run(const Launch& launch) const noexcept override {
    const Spans s = spans(problem_);
    const auto a = read_device(launch.a, s.a.bytes()), b = read_device(launch.b, s.b.bytes());
    const auto c = read_device(launch.c, s.c.bytes());
    Output out;
    out.margin = 4096;
    out.type = s.d.type;
    std::byte* const from = static_cast<std::byte*>(launch.d) - out.margin;
    out.bytes = read_device(from, s.d.bytes() + 2 * out.margin);
    visit_contraction(problem_, [&](const auto& p) {
      const bool wide = p.compute == Compute::f64;
      const double alpha = wide ? *static_cast<const double*>(launch.alpha) : *static_cast<const float*>(launch.alpha);
      const double beta = wide ? *static_cast<const double*>(launch.beta) : *static_cast<const float*>(launch.beta);
      const auto v = view(p);
      for (std::int64_t z = 0; z < v.batches(); ++z)
        for (std::int64_t j = 0; j < v.cols(); ++j)
          for (std::int64_t i = 0; i < v.rows(); ++i) {
            double sum = 0;
            for (std::int64_t l = 0; l < v.terms(); ++l) {
              std::int64_t at_a, at_b;
              if (v.product(i, j, z, l, at_a, at_b))
                sum += load_number(a.data(), s.a.type, at_a) * load_number(b.data(), s.b.type, at_b);
            }
            sum *= alpha;
            if (p.beta != Scalar::zero) sum += beta * load_number(c.data(), s.c.type, v.c_offset(i, j, z));
            store_number(out.body(), out.type, v.d_offset(i, j, z), sum);
          }
    });
    if (spoil_) spoil_(out);
    write_device(from, out.bytes.data(), out.bytes.size());
    return Status::ok;
  }

 private:
  Problem problem_;
  Spoil spoil_;
};

/// Sets its workspace, and `beyond` bytes behind it, to a pattern; leaves the output alone.
class FillingPlan : public Plan {
 public:
  explicit FillingPlan(std::size_t workspace, std::size_t beyond = 0, bool capturable = true)
      : Plan("test:filling", PlanTraits{workspace, true, capturable, false, Accumulation::plain}), beyond_(beyond) {}
  Status run(const Launch& launch) const noexcept override {
    last_workspace = launch.workspace;
    return cuda_status(
        cudaMemsetAsync(launch.workspace, 0x5a, traits().workspace + beyond_, static_cast<cudaStream_t>(launch.stream)),
        "cudaMemsetAsync");
  }
  mutable void* last_workspace = nullptr;

 private:
  std::size_t beyond_;
};

class RefusingPlan : public Plan {
 public:
  RefusingPlan() : Plan("test:refusing", PlanTraits{}) {}
  Status run(const Launch&) const noexcept override {
    note_failure("refused as written");
    return Status::device_error;
  }
};

}  // namespace attune

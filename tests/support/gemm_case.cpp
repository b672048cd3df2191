#include "support/gemm_case.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/cuda_support.hpp"
#include "support/reference.hpp"

namespace attune {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t red_zone = 4096;
constexpr int poison = 0xFF;  // a NaN in every type

bool is_poison(std::byte b) { return b == std::byte{poison}; }

void expect_ok(cudaError_t error) { EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

Bytes random_values(const Span& span, std::uint64_t seed) {
  Bytes bytes(span.bytes());
  test::fill(bytes.data(), span.type, span.elements, seed);
  return bytes;
}

/// Device memory whose payload is aligned to exactly `alignment` bytes, or to 256, between red zones.
class Buffer {
 public:
  Buffer(std::size_t bytes, int alignment) : bytes_(bytes), before_(red_zone + static_cast<std::size_t>(alignment % 16)) {
    expect_ok(cudaMalloc(&base_, all()));
    clear();
  }
  ~Buffer() { cudaFree(base_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* get() const { return static_cast<std::byte*>(base_) + before_; }
  void clear() { expect_ok(cudaMemset(base_, poison, all())); }
  void write(const Bytes& bytes) { expect_ok(cudaMemcpy(get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice)); }
  Bytes read() const {
    Bytes bytes(bytes_);
    expect_ok(cudaMemcpy(bytes.data(), get(), bytes_, cudaMemcpyDeviceToHost));
    return bytes;
  }
  void expect_zones(const std::string& who) const {
    Bytes zone(before_);
    expect_ok(cudaMemcpy(zone.data(), base_, before_, cudaMemcpyDeviceToHost));
    EXPECT_TRUE(std::all_of(zone.begin(), zone.end(), is_poison)) << who << " wrote before its memory";
    zone.resize(red_zone);
    expect_ok(cudaMemcpy(zone.data(), static_cast<std::byte*>(get()) + bytes_, red_zone, cudaMemcpyDeviceToHost));
    EXPECT_TRUE(std::all_of(zone.begin(), zone.end(), is_poison)) << who << " wrote behind its memory";
  }

 private:
  std::size_t all() const { return before_ + bytes_ + red_zone; }

  std::size_t bytes_, before_;
  void* base_ = nullptr;
};

double value_of(Scalar scalar, double other) { return scalar == Scalar::zero ? 0 : scalar == Scalar::one ? 1 : other; }

}  // namespace

struct GemmCase::Memory {
  Memory(const GemmProblem& p, const Spans& spans, bool given_scales)
      : host_a(random_values(spans.a, 1)),
        host_b(random_values(spans.b, 2)),
        host_c(random_values(spans.c, 3)),
        host_bias(random_values(spans.bias, 4)),
        a(spans.a.bytes(), p.align_a),
        b(spans.b.bytes(), p.align_b),
        c(p.beta == Scalar::zero ? spans.d.bytes() : spans.c.bytes(), p.align_c),
        d(spans.d.bytes(), p.align_d),
        bias(spans.bias.bytes(), p.align_bias),
        scales(2 * sizeof(float), 16),
        has_scales(given_scales) {
    a.write(host_a), b.write(host_b), c.write(host_c), bias.write(host_bias);
    expect_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const bool whole = p.compute == Compute::i32;
    alpha.set(p.compute, value_of(p.alpha, whole ? 3 : 1.25));
    beta.set(p.compute, value_of(p.beta, whole ? -2 : -0.75));
    double scale = 1;
    if (has_scales) {
      constexpr float values[2] = {0.5f, 1.5f};
      Bytes bytes(sizeof values);
      std::memcpy(bytes.data(), values, sizeof values);
      scales.write(bytes);
      scale = 0.75;
    }
    expected =
        test::reference(p, host_a.data(), host_b.data(), host_c.data(), alpha.value * scale, beta.value, host_bias.data());
  }
  ~Memory() { cudaStreamDestroy(stream); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Bytes host_a, host_b, host_c, host_bias;
  Buffer a, b, c, d, bias, scales;
  bool has_scales;
  std::unique_ptr<Buffer> workspace;
  GivenScalar alpha, beta;
  cudaStream_t stream = nullptr;
  test::Reference expected;
};

GemmCase::GemmCase(const GemmProblem& problem, const Constraints& constraints, bool null_scales)
    : problem_(resolve(problem)), constraints_(constraints) {
  memory_ = std::make_unique<Memory>(std::get<GemmProblem>(problem_), spans(problem_), is_fp8(problem.a_type) && !null_scales);
}

GemmCase::~GemmCase() = default;

void GemmCase::prepare_output() {
  Memory& m = *memory_;
  m.d.clear();
  if (!in_place_) return;
  // The gaps stay poisoned: only elements are copied.
  const auto& p = std::get<GemmProblem>(problem_);
  const std::size_t size = size_of(p.c_type);
  Bytes filled(spans(problem_).d.bytes(), std::byte{poison});
  for (std::int64_t element : m.expected.at) {
    const std::size_t at = static_cast<std::size_t>(element) * size;
    std::memcpy(filled.data() + at, m.host_c.data() + at, size);
  }
  m.d.write(filled);
}

Status GemmCase::launch(const Plan& plan) {
  Memory& m = *memory_;
  Launch launch;
  launch.a = m.a.get(), launch.b = m.b.get(), launch.d = m.d.get();
  launch.c = in_place_ ? m.d.get() : m.c.get();
  launch.alpha = m.alpha.as_given(), launch.beta = m.beta.as_given();
  if (!m.host_bias.empty()) launch.bias = m.bias.get();
  if (m.has_scales) launch.scale_a = m.scales.get(), launch.scale_b = static_cast<const float*>(m.scales.get()) + 1;
  launch.workspace = plan.traits().workspace == 0 ? nullptr : m.workspace->get();
  launch.stream = m.stream;
  return plan.run(launch);
}

Bytes GemmCase::read_output(const Plan& plan) {
  expect_ok(cudaStreamSynchronize(memory_->stream));
  memory_->workspace->expect_zones(plan.id() + " (workspace)");
  memory_->d.expect_zones(plan.id());
  return memory_->d.read();
}

Bytes GemmCase::run(const Plan& plan) {
  memory_->workspace = std::make_unique<Buffer>(plan.traits().workspace, 16);
  prepare_output();
  expect_ok(cudaDeviceSynchronize());
  EXPECT_EQ(launch(plan), Status::ok) << plan.id() << ": " << noted_failure();
  return read_output(plan);
}

void GemmCase::expect_right(const Plan& plan) { expect_right(run(plan), plan); }

void GemmCase::expect_right_when_replayed(const Plan& plan) {
  Memory& m = *memory_;
  m.workspace = std::make_unique<Buffer>(plan.traits().workspace, 16);
  expect_ok(cudaDeviceSynchronize());
  expect_ok(cudaStreamBeginCapture(m.stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(launch(plan), Status::ok) << plan.id() << ": " << noted_failure();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  expect_ok(cudaStreamEndCapture(m.stream, &graph));
  expect_ok(cudaGraphInstantiate(&replay, graph, 0));
  for (int i = 0; i < 2; ++i) {
    prepare_output();
    expect_ok(cudaDeviceSynchronize());
    expect_ok(cudaGraphLaunch(replay, m.stream));
    expect_right(read_output(plan), plan);
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
}

void GemmCase::expect_right(const Bytes& d, const Plan& plan) {
  const test::Reference& expected = memory_->expected;
  const test::Comparison found = test::compare(problem_, constraints_, plan.traits().accumulation, expected, d.data());
  EXPECT_TRUE(found.ok) << plan.id() << ": " << found.message;
  const std::size_t size = size_of(std::get<GemmProblem>(problem_).c_type);
  Bytes gaps = d;
  for (std::int64_t element : expected.at) std::memset(gaps.data() + static_cast<std::size_t>(element) * size, poison, size);
  EXPECT_TRUE(std::all_of(gaps.begin(), gaps.end(), is_poison)) << plan.id() << " wrote between the columns or matrices";
}

}  // namespace attune

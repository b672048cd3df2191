#include "support/gpu_call.hpp"

#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>

#include "kernels/common/number.hpp"
#include "tune/plan_file.hpp"

namespace attune {
namespace {

constexpr std::byte untouched{0xff};
constexpr float operand_scales[2] = {0.5f, 1.5f};

Scalar case_of(double value) { return value == 0 ? Scalar::zero : value == 1 ? Scalar::one : Scalar::other; }

void align(GemmProblem& p, int alignment, bool reads_c) {
  p.align_a = p.align_b = p.align_d = alignment;
  p.align_c = reads_c ? alignment : 16;
  p.align_bias = has_bias(p.epilogue) ? alignment : 16;
}
void align(ConvProblem& p, int alignment, bool) {
  p.align_x = p.align_w = p.align_y = alignment;
  p.align_bias = has_bias(p.epilogue) ? alignment : 16;
}

Problem complete(Problem problem, const CallOptions& options) {
  const int alignment = alignment_of(reinterpret_cast<const void*>(256 + options.shift));
  std::visit(
      [&]<class P>(P& p) {
        if constexpr (is_contraction<P>) {
          p.alpha = case_of(options.alpha), p.beta = case_of(options.beta);
          align(p, alignment, p.beta != Scalar::zero);
          if constexpr (std::is_same_v<P, GemmProblem>)
            p.align_d = alignment_of(reinterpret_cast<const void*>(256 + options.shift + options.output_shift));
        }
      },
      problem);
  // Resolving makes f32 of Compute::f32_tf32, whose permission belongs to the calls.
  Problem resolved = resolve(problem);
  std::visit(
      [&]<class P>(P& to) {
        if constexpr (is_contraction<P>) to.compute = std::get<P>(problem).compute;
      },
      resolved);
  return resolved;
}

Bytes random_values(const Span& span, std::uint64_t seed) {
  Bytes bytes(span.bytes());
  test::fill(bytes.data(), span.type, span.elements, seed);
  return bytes;
}

}  // namespace

Context gpu_context(std::size_t capacity) {
  Context ctx = Context::Impl::wrap(std::make_unique<Context::Impl>(
      make_backend(Device::cuda(0)), [](const char*) -> const char* { return nullptr; }, capacity));
  ctx.set_effort(Effort::quick);
  return ctx;
}

void GpuContract::SetUp() {
  ATTUNE_SKIP_WITHOUT_GPU();
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

void GpuContract::TearDown() {
  if (!missing_gpu().empty()) return;
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 0);
}

GpuStream::GpuStream(unsigned flags) { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, flags), cudaSuccess); }
GpuStream::~GpuStream() { cudaStreamDestroy(stream_); }

GpuCall::GpuCall(const Problem& problem, const CallOptions& options)
    : problem_(complete(problem, options)),
      options_(options),
      spans_(spans(problem_)),
      shift_(options.shift),
      host_a_(random_values(spans_.a, options.seed * 4)),
      host_b_(random_values(spans_.b, options.seed * 4 + 1)),
      host_c_(random_values(spans_.c, options.seed * 4 + 2)),
      host_bias_(random_values(spans_.bias, options.seed * 4 + 3)),
      initial_(spans_.d.bytes() + 2 * zone, untouched) {
  visit_contraction(problem_, [&](const auto& p) { alpha_.set(p.compute, options.alpha), beta_.set(p.compute, options.beta); });
  if (in_place() && !host_c_.empty()) {
    std::memcpy(initial_.data() + zone, host_c_.data(), host_c_.size());
  }
  a_ = upload(host_a_), b_ = upload(host_b_), bias_ = upload(host_bias_);
  if (is_fp8(spans_.a.type)) {
    scales_ = std::make_unique<DeviceBuffer>(sizeof operand_scales);
    write_device(scales_->get(), operand_scales, sizeof operand_scales);
  }
  // Where beta is zero a C apart holds NaNs.
  c_ = upload(in_place() ? Bytes() : !host_c_.empty() ? host_c_ : Bytes(spans_.d.bytes(), untouched));
  d_ = std::make_unique<DeviceBuffer>(initial_.size() + d_shift(), 0xff);
  reset();
}

std::unique_ptr<DeviceBuffer> GpuCall::upload(const Bytes& bytes) const {
  auto buffer = std::make_unique<DeviceBuffer>(bytes.size() + shift_, 0xff);
  if (!bytes.empty()) write_device(at(*buffer, shift_), bytes.data(), bytes.size());
  return buffer;
}

Status GpuCall::try_run(Context& ctx, Stream stream) {
  const Launch l = launch(nullptr);
  if (const auto* gemm = std::get_if<GemmProblem>(&problem_)) {
    GemmArgs args(l.a, l.b, l.c, l.d, l.alpha, l.beta);
    args.bias = l.bias, args.scale_a = l.scale_a, args.scale_b = l.scale_b;
    return tuned_gemm(ctx, *gemm, args, stream, std::nothrow);
  }
  ConvArgs args(l.a, l.b, l.d, l.alpha, l.beta);
  args.bias = l.bias, args.c = l.c;
  return tuned_conv(ctx, std::get<ConvProblem>(problem_), args, stream, std::nothrow);
}

void GpuCall::run(Context& ctx, Stream stream) {
  EXPECT_EQ(try_run(ctx, stream), Status::ok) << to_string(problem_) << ": " << last_error_message();
}

Launch GpuCall::launch(void* workspace) const {
  Launch launch;
  launch.a = at(*a_, shift_), launch.b = at(*b_, shift_), launch.d = d();
  launch.c = in_place() ? d() : at(*c_, shift_);
  launch.alpha = alpha_.as_given(), launch.beta = beta_.as_given();
  launch.bias = host_bias_.empty() ? nullptr : at(*bias_, shift_);
  launch.scale_a = scale(0), launch.scale_b = scale(1);
  launch.workspace = workspace;
  return launch;
}

void GpuCall::reset() { write_device(at(*d_, d_shift()), initial_.data(), initial_.size()); }

void GpuCall::fill_output(double element) {
  const DType type = spans_.d.type;
  for (std::size_t i = 0; i < initial_.size() / size_of(type); ++i)
    store_number(initial_.data(), type, static_cast<std::int64_t>(i), element);
  reset();
}

void GpuCall::spoil_inputs() {
  a_ = upload(Bytes(host_a_.size(), untouched));
  b_ = upload(Bytes(host_b_.size(), untouched));
}

Bytes GpuCall::output() const { return read_device(d(), spans_.d.bytes()); }

const test::Reference& GpuCall::expected() {
  const double scales = scales_ ? static_cast<double>(operand_scales[0]) * static_cast<double>(operand_scales[1]) : 1;
  if (expected_ == nullptr)
    expected_ = std::make_unique<test::Reference>(test::reference(problem_, host_a_.data(), host_b_.data(), host_c_.data(),
                                                                  alpha_.value * scales, beta_.value, host_bias_.data()));
  return *expected_;
}

void GpuCall::expect_right(Context& ctx) {
  PlanInfo info;
  const std::shared_ptr<const Plan> plan = ctx.impl().prepare(problem_, info);
  ASSERT_NE(plan, nullptr);
  SCOPED_TRACE(info.plan);
  expect_right(ctx.impl().constraints_for(problem_), plan->traits().accumulation);
}

void GpuCall::expect_right(const Constraints& constraints, Accumulation accumulation) {
  Bytes found = read_device(at(*d_, d_shift()), initial_.size());
  const test::Comparison comparison = test::compare(problem_, constraints, accumulation, expected(), found.data() + zone);
  EXPECT_TRUE(comparison.ok) << to_string(problem_) << ": " << comparison.message;
  const std::size_t size = size_of(spans_.d.type);
  for (std::int64_t element : expected().at) {
    const std::size_t offset = zone + static_cast<std::size_t>(element) * size;
    std::memcpy(found.data() + offset, initial_.data() + offset, size);
  }
  EXPECT_TRUE(found == initial_) << to_string(problem_) << ": memory between or around the elements was written";
}

double GpuCall::error_over_bound(const Constraints& constraints, Accumulation accumulation) {
  return test::compare(problem_, constraints, accumulation, expected(), output().data()).max_error;
}

void GpuCall::expect_inputs_untouched() const {
  EXPECT_TRUE(read_device(at(*a_, shift_), host_a_.size()) == host_a_) << "the first input was written";
  EXPECT_TRUE(read_device(at(*b_, shift_), host_b_.size()) == host_b_) << "the second input was written";
  if (in_place() || host_c_.empty()) return;
  EXPECT_TRUE(read_device(at(*c_, shift_), host_c_.size()) == host_c_) << "C was written";
}

std::string plan_with_workspace(Context& ctx, const Problem& problem) {
  const auto guard = ctx.impl().runtime().guard();
  const Problem resolved = resolve(problem);
  const Constraints constraints = ctx.impl().constraints_for(problem);
  std::string any;
  for (const auto& provider : ctx.impl().providers())
    for (const std::string& variant : provider->variants(resolved, constraints, Effort::standard)) {
      const Prepared made = provider->prepare(variant, resolved, constraints);
      if (!made.plan || made.plan->traits().workspace == 0 || !made.plan->traits().deterministic) continue;
      if (made.plan->id().find("_k1_") == std::string::npos) return made.plan->id();
      if (any.empty()) any = made.plan->id();
    }
  EXPECT_FALSE(any.empty()) << "no plan with a workspace for " << to_string(problem);
  return any;
}

void remember_plan(Context& ctx, const Problem& problem, const std::string& plan, Effort effort) {
  const Problem resolved = resolve(problem);
  Record record;
  record.key = key_text(ctx.impl().runtime().info().key(), resolved, ctx.impl().constraints_for(problem));
  record.plan = plan;
  record.version = plan_version(ctx.impl().providers(), plan);
  record.us = 1;
  record.effort = effort;
  char path[] = "/tmp/attune_one_plan_XXXXXX";
  const int file = ::mkstemp(path);
  ASSERT_GE(file, 0);
  ::close(file);
  EXPECT_EQ(append_record(path, record), "");
  EXPECT_EQ(ctx.load(path), 1u);
  std::filesystem::remove(path);
  std::filesystem::remove(std::string(path) + ".lock");
}

}  // namespace attune

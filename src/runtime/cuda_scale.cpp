#include "runtime/cuda_scale.hpp"

#include <algorithm>
#include <cstdint>

#include "core/problem.hpp"
#include "kernels/scale.hpp"
#include "runtime/cuda_support.hpp"

namespace attune {
namespace {

struct Dimension {
  std::int64_t extent, c_step, d_step, bias_step;
};

/// The fastest varying dimension first, without those of extent 1, neighbours joined where both tensors run on.
ScaleShape packed_shape(Dimension* dimensions, int count) noexcept {
  Dimension* const end =
      std::remove_if(dimensions, dimensions + count, [](const Dimension& dimension) { return dimension.extent == 1; });
  std::sort(dimensions, end, [](const Dimension& x, const Dimension& y) { return x.d_step < y.d_step; });
  ScaleShape shape;
  for (const Dimension* next = dimensions; next != end; ++next) {
    const int last = shape.dims - 1;
    if (last >= 0 && next->c_step == shape.c_step[last] * shape.extent[last] &&
        next->d_step == shape.d_step[last] * shape.extent[last] && next->bias_step == 0 && shape.bias_step[last] == 0) {
      shape.extent[last] *= next->extent;
      continue;
    }
    shape.extent[shape.dims] = next->extent;
    shape.c_step[shape.dims] = next->c_step;
    shape.d_step[shape.dims] = next->d_step;
    shape.bias_step[shape.dims] = next->bias_step;
    ++shape.dims;
  }
  if (shape.dims == 0) shape.dims = 1;  // one element
  return shape;
}

ScaleShape shape_of(const GemmProblem& p) noexcept {
  Dimension dimensions[] = {{p.m, 1, 1, has_bias(p.epilogue)}, {p.n, p.ldc, p.ldd, 0}, {p.batch, p.stride_c, p.stride_d, 0}};
  return packed_shape(dimensions, 3);
}

ScaleShape shape_of(const ConvProblem& p) noexcept {
  const Dims y = p.y();
  const bool fwd = p.direction == Direction::fwd, dgrad = p.direction == Direction::dgrad;
  const Dims& extents = fwd ? y : dgrad ? p.x : p.w;
  const std::int64_t* steps = fwd ? p.y_stride : dgrad ? p.x_stride : p.w_stride;
  Dimension dimensions[5];
  for (int i = 0; i < extents.count; ++i) dimensions[i] = {extents.size[i], steps[i], steps[i], i == 1 && has_bias(p.epilogue)};
  return packed_shape(dimensions, extents.count);
}

DType output_type(const GemmProblem& p) noexcept { return p.c_type; }
DType output_type(const ConvProblem& p) noexcept {
  return p.direction == Direction::fwd ? p.y_type : p.direction == Direction::dgrad ? p.x_type : p.w_type;
}

class CudaScalePlan final : public Plan {
 public:
  CudaScalePlan(ScaleShape shape, DType type, Compute compute, Scalar beta, Epilogue epilogue, int ordinal)
      : Plan("scale:strided", PlanTraits{}),
        shape_(shape),
        type_(type),
        compute_(compute),
        beta_(beta),
        epilogue_(epilogue),
        ordinal_(ordinal) {}

  Status run(const Launch& launch) const noexcept override {
    const DeviceScope device(ordinal_);
    ScaleOperands operands;
    if (beta_ != Scalar::zero) operands.beta = scalar_value(launch.beta, compute_);
    if (operands.beta == 1 && launch.c == launch.d && epilogue_ == Epilogue::none) return Status::ok;
    operands.c = launch.c, operands.d = launch.d;
    operands.bias = has_bias(epilogue_) ? launch.bias : nullptr;
    operands.activation = activation(epilogue_);
    const bool wide = compute_ != Compute::f32;  // exact for 32-bit integers
    return cuda_status(launch_scale(type_, wide, shape_, operands, static_cast<cudaStream_t>(launch.stream)), "scaling the output");
  }

 private:
  ScaleShape shape_;
  DType type_;
  Compute compute_;
  Scalar beta_;
  Epilogue epilogue_;
  int ordinal_;
};

}  // namespace

std::unique_ptr<Plan> make_cuda_scale_plan(const Problem& problem, int ordinal) {
  std::unique_ptr<Plan> plan;
  visit_contraction(problem, [&](const auto& p) {
    plan = std::make_unique<CudaScalePlan>(shape_of(p), output_type(p), p.compute, p.beta, p.epilogue, ordinal);
  });
  return plan;
}

}  // namespace attune

#include "runtime/cuda_scale.hpp"

#include <algorithm>
#include <cstdint>

#include "kernels/scale.hpp"
#include "runtime/cuda_support.hpp"

namespace attune {
namespace {

struct Dimension {
  std::int64_t extent, c_step, d_step;
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
        next->d_step == shape.d_step[last] * shape.extent[last]) {
      shape.extent[last] *= next->extent;
      continue;
    }
    shape.extent[shape.dims] = next->extent;
    shape.c_step[shape.dims] = next->c_step;
    shape.d_step[shape.dims] = next->d_step;
    ++shape.dims;
  }
  if (shape.dims == 0) shape.dims = 1;  // one element
  return shape;
}

ScaleShape shape_of(const GemmProblem& p) noexcept {
  Dimension dimensions[] = {{p.m, 1, 1}, {p.n, p.ldc, p.ldd}, {p.batch, p.stride_c, p.stride_d}};
  return packed_shape(dimensions, 3);
}

ScaleShape shape_of(const ConvProblem& p) noexcept {
  const Dims y = p.y();
  const bool fwd = p.direction == Direction::fwd, dgrad = p.direction == Direction::dgrad;
  const Dims& extents = fwd ? y : dgrad ? p.x : p.w;
  const std::int64_t* steps = fwd ? p.y_stride : dgrad ? p.x_stride : p.w_stride;
  Dimension dimensions[5];
  for (int i = 0; i < extents.count; ++i) dimensions[i] = {extents.size[i], steps[i], steps[i]};
  return packed_shape(dimensions, extents.count);
}

DType output_type(const GemmProblem& p) noexcept { return p.c_type; }
DType output_type(const ConvProblem& p) noexcept {
  return p.direction == Direction::fwd ? p.y_type : p.direction == Direction::dgrad ? p.x_type : p.w_type;
}

class CudaScalePlan final : public Plan {
 public:
  CudaScalePlan(ScaleShape shape, DType type, bool wide, Scalar beta, int ordinal)
      : Plan("scale:strided", PlanTraits{}), shape_(shape), type_(type), wide_(wide), beta_(beta), ordinal_(ordinal) {}

  Status run(const Launch& launch) const noexcept override {
    const DeviceScope device(ordinal_);
    double beta = 0;
    if (beta_ != Scalar::zero)
      beta = wide_ ? *static_cast<const double*>(launch.beta) : static_cast<double>(*static_cast<const float*>(launch.beta));
    if (beta == 1 && launch.c == launch.d) return Status::ok;
    return cuda_status(launch_scale(type_, wide_, shape_, beta, launch.c, launch.d, static_cast<cudaStream_t>(launch.stream)),
                       "scaling the output");
  }

 private:
  ScaleShape shape_;
  DType type_;
  bool wide_;
  Scalar beta_;
  int ordinal_;
};

}  // namespace

std::unique_ptr<Plan> make_cuda_scale_plan(const Problem& problem, int ordinal) {
  return std::visit(
      [&](const auto& p) -> std::unique_ptr<Plan> {
        return std::make_unique<CudaScalePlan>(shape_of(p), output_type(p), p.compute == Compute::f64, p.beta, ordinal);
      },
      problem);
}

}  // namespace attune

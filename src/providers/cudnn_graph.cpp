#include "providers/cudnn_graph.hpp"

#include "core/problem.hpp"

#include "providers/cudnn_tail.hpp"
#include "providers/cudnn_tensor.hpp"

namespace attune::cudnn {
namespace {

Descriptor make_convolution(const ConvProblem& p) {
  const int spatial = p.spatial(), lead = spatial == 1 ? 1 : 0;
  const auto rank = static_cast<std::size_t>(spatial + lead);
  std::array<std::int64_t, 3> before{}, after{}, stride{1, 1, 1}, dilation{1, 1, 1};
  for (int i = 0; i < spatial; ++i) {
    const auto to = static_cast<std::size_t>(i + lead);
    before[to] = p.pad.before[i], after[to] = p.pad.after[i], stride[to] = p.stride[i], dilation[to] = p.dilation[i];
  }
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<std::int64_t>(rank));
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, p.compute == Compute::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span(before.data(), rank));
  convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span(after.data(), rank));
  convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span(stride.data(), rank));
  convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span(dilation.data(), rank));
  convolution.finalize();
  return convolution;
}

/// The names of one direction's operation and of its attributes.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};

OperationNames names_of(Direction direction) noexcept {
  switch (direction) {
    case Direction::dgrad:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Direction::wgrad:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  }
}

/// cuDNN reads the scalars of an operation in its compute type.
void set_scalar(Descriptor& operation, cudnnBackendAttributeName_t name, Compute compute, double value) {
  if (compute == Compute::f64) return operation.set(name, CUDNN_TYPE_DOUBLE, 1, &value);
  const auto narrow = static_cast<float>(value);
  operation.set(name, CUDNN_TYPE_FLOAT, 1, &narrow);
}

}  // namespace

const char* unsupported(const ConvProblem& problem) noexcept {
  cudnnDataType_t ignored{};
  if (!data_type(problem.x_type, ignored) || !data_type(problem.w_type, ignored) || !data_type(problem.y_type, ignored))
    return "a tensor type that is not served";
  // Measured with cuDNN 9.19: engine 10 loads a bias 16 bytes at a time whatever alignment its tensor declares.
  if (has_bias(problem.epilogue) && problem.align_bias < 16) return "a bias that is not aligned to 16 bytes";
  // The scalars of a convolution are part of its graph; operations behind it can take them by value, as floats.
  const bool takes_scalars = problem.direction == Direction::fwd && problem.compute != Compute::f64;
  if (problem.alpha != Scalar::one && !takes_scalars) return "alpha other than one";
  if (problem.beta == Scalar::other && !takes_scalars) return "beta other than zero and one";
  // Measured with cuDNN 9.19: engines 0 and 12 take such a graph, and take the scalars' values for addresses.
  if (has_bias(problem.epilogue) && (problem.alpha == Scalar::other || problem.beta == Scalar::other))
    return "scalars other than zero and one with a bias";
  return nullptr;
}

Descriptor make_graph(const ConvProblem& p, cudnnHandle_t handle) {
  const OperationNames names = names_of(p.direction);
  const Descriptor x = make_tensor(uid_x, p.x, p.x_stride, p.x_type, p.align_x);
  const Descriptor w = make_tensor(uid_w, p.w, p.w_stride, p.w_type, p.align_w);
  const Descriptor y = make_tensor(uid_y, p.y(), p.y_stride, p.y_type, p.align_y);
  const Descriptor sums = has_tail(p) ? make_sums(p) : Descriptor();
  const Descriptor convolution = make_convolution(p);
  std::vector<Descriptor> operations;
  Descriptor& operation = operations.emplace_back(names.type);
  operation.set(names.x, x);
  operation.set(names.w, w);
  operation.set(names.y, has_tail(p) ? sums : y);
  operation.set(names.convolution, convolution);
  set_scalar(operation, names.alpha, p.compute, 1);
  set_scalar(operation, names.beta, p.compute, p.beta == Scalar::one && !has_tail(p) ? 1 : 0);
  operation.finalize();
  if (has_tail(p))
    for (Descriptor& step : make_tail(p, sums, y)) operations.push_back(std::move(step));
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<const Descriptor>(operations));
  graph.finalize();
  return graph;
}

std::vector<Candidate> ask_heuristic(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristic.finalize();
  std::vector<Candidate> candidates;
  for (const Descriptor& config :
       heuristic.read_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) {
    const std::vector<Descriptor> engines =
        config.read_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
    if (engines.size() != 1) continue;
    if (std::optional<EngineConfig> read = read_engine(config, engines.front()))
      candidates.push_back({std::move(*read), read_notes(engines.front()),
                            config.read(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 0)});
  }
  return candidates;
}

Descriptor make_engine(const Descriptor& graph, std::int64_t index) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, index);
  engine.finalize();
  return engine;
}

Execution make_execution(const Descriptor& engine, const EngineConfig& config, cudnnHandle_t handle) {
  Execution out;
  std::vector<Descriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const auto& [type, value] : config.knobs) {
    const auto knob = static_cast<cudnnBackendKnobType_t>(type);
    Descriptor& choice = choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &knob);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    choice.finalize();
    if (!choice.ok()) {
      out.why = describe(choice.status());
      return out;
    }
    raw.push_back(choice.get());
  }
  out.config = Descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  out.config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!raw.empty())
    out.config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raw.size()),
                   raw.data());
  out.config.finalize();
  out.plan = Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  out.plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
  out.plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, out.config);
  out.plan.finalize();
  if (!out.plan.ok()) {
    out.why = describe(out.plan.status());
    return out;
  }
  out.workspace = out.plan.read(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, -1);
  if (out.workspace < 0) out.why = "cuDNN does not say how much workspace it needs";
  return out;
}

}  // namespace attune::cudnn

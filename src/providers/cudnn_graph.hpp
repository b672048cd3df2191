// A convolution as an operation graph of cuDNN.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <attune/conv.hpp>

#include "providers/cudnn_descriptor.hpp"
#include "providers/cudnn_engine.hpp"

namespace attune::cudnn {

/// Why cuDNN's graph cannot say the problem; null when it can. The engines may still decline it.
const char* unsupported(const ConvProblem& problem) noexcept;

/// The convolution, and what follows it (cudnn_tail.hpp); `handle` must live as long as the descriptor.
Descriptor make_graph(const ConvProblem& problem, cudnnHandle_t handle);

/// What a heuristic returned: a configuration with its notes.
struct Candidate {
  EngineConfig config;
  Notes notes;
  std::int64_t workspace = 0;  ///< bytes that its plan will need; 0 where cuDNN does not say beforehand
};

/// Candidates of one heuristic mode in cuDNN's order; empty when it has none for this graph.
std::vector<Candidate> ask_heuristic(const Descriptor& graph, cudnnBackendHeurMode_t mode);

/// An engine by its global index; its notes can be read. Fails when the engine does not serve the graph.
Descriptor make_engine(const Descriptor& graph, std::int64_t index);

/// A finalized execution plan and the configuration it was made from.
struct Execution {
  Descriptor config;
  Descriptor plan;
  std::int64_t workspace = 0;
  std::string why;  ///< empty when all is well
};

/// May compile code: up to seconds.
Execution make_execution(const Descriptor& engine, const EngineConfig& config, cudnnHandle_t handle);

}  // namespace attune::cudnn

// The host engine's unpacked kernels: they need no workspace.
#pragma once

#include <attune/conv.hpp>
#include <attune/gemm.hpp>

#include "kernels/host_packed.hpp"
#include "kernels/host_tiles.hpp"

namespace attune {

/// Any valid, resolved problem.
void reference_gemm(const GemmProblem& problem, bool threaded, const HostCall& call);
void reference_conv(const ConvProblem& problem, bool threaded, const HostCall& call);

/// dot, axpy and blocked: inputs of one type.
bool loops_take(const GemmProblem& problem) noexcept;
void loop_gemm(HostFamily family, const GemmProblem& problem, bool threaded, const HostCall& call);

/// direct: tensors of one type. depthwise: also one channel a group, channels next to each other, not the filter gradient.
bool direct_takes(const ConvProblem& problem) noexcept;
bool depthwise_takes(const ConvProblem& problem) noexcept;
void direct_conv(const ConvProblem& problem, bool threaded, const HostCall& call);
void depthwise_conv(const ConvProblem& problem, bool threaded, const HostCall& call);

}  // namespace attune

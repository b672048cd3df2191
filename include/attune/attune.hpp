// Everything of Attune but the conversions from CUDA's own types, which are in <attune/cuda.hpp>.
#pragma once

#include <attune/context.hpp>
#include <attune/conv.hpp>
#include <attune/error.hpp>
#include <attune/gemm.hpp>
#include <attune/pool.hpp>
#include <attune/problem.hpp>
#include <attune/types.hpp>
#include <attune/version.hpp>

// cuDNN on one device: its handles, and the graphs of the problems prepared last.
#pragma once

#include <cudnn.h>

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <attune/conv.hpp>

#include "providers/cudnn_graph.hpp"
#include "providers/cudnn_handles.hpp"
#include "runtime/cuda_support.hpp"

namespace attune::cudnn {

/// The heuristics in the order in which their answers are tried.
inline constexpr std::array heuristics = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK};

/// A problem's graph with what the heuristics said about it. Kept, because every candidate of a problem is made from the same
/// one.
struct Graph {
  std::string problem;
  Descriptor descriptor;
  std::array<std::optional<std::vector<Candidate>>, heuristics.size()> answers;

  /// Each configuration once, across the heuristics asked before.
  const std::vector<Candidate>& ask(std::size_t heuristic);
};

/// What one thread at a time makes plans with: descriptors refer to the handle they were made with.
struct Workbench {
  HandlePool::Lease handle;
  std::vector<std::unique_ptr<Graph>> recent;  ///< the latest first
};

/// Thread-safe. Plans keep it alive, so it may outlive its provider.
class Library {
 public:
  explicit Library(int ordinal) noexcept : ordinal_(ordinal) {}
  ~Library();

  int ordinal() const noexcept { return ordinal_; }
  HandlePool& handles() noexcept { return handles_; }

 private:
  friend class Session;
  std::unique_ptr<Workbench> take_bench(const std::string& problem);
  void put_back(std::unique_ptr<Workbench> bench);

  int ordinal_;
  HandlePool handles_;  // outlives the benches, which borrow from it
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workbench>> idle_;
};

/// One thread's work on one problem: the device is current, captures are relaxed, graph and handle are its own until it ends.
class Session {
 public:
  Session(Library& library, const ConvProblem& problem);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Why there is no graph; empty when there is one.
  const std::string& why() const noexcept { return why_; }
  Graph& graph() noexcept { return *bench_->recent.front(); }
  cudnnHandle_t handle() const noexcept { return bench_->handle.get(); }

 private:
  DeviceScope device_;
  RelaxedCapture relaxed_;
  Library& library_;
  std::unique_ptr<Workbench> bench_;
  std::string why_;
};

}  // namespace attune::cudnn

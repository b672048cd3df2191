#include "providers/cudnn_library.hpp"

#include <attune/problem.hpp>

#include <algorithm>
#include <iterator>

namespace attune::cudnn {
namespace {

constexpr std::size_t graphs_kept = 4;

auto find_graph(std::vector<std::unique_ptr<Graph>>& graphs, const std::string& problem) {
  return std::find_if(graphs.begin(), graphs.end(), [&](const auto& graph) { return graph->problem == problem; });
}

}  // namespace

const std::vector<Candidate>& Graph::ask(std::size_t heuristic) {
  std::optional<std::vector<Candidate>>& answer = answers[heuristic];
  if (answer) return *answer;
  answer.emplace();
  const auto known = [&](const EngineConfig& config) {
    return std::any_of(answers.begin(), answers.end(), [&](const auto& list) {
      return list && std::any_of(list->begin(), list->end(), [&](const Candidate& c) { return c.config == config; });
    });
  };
  for (Candidate& candidate : ask_heuristic(descriptor, heuristics[heuristic]))
    if (!known(candidate.config)) answer->push_back(std::move(candidate));
  return *answer;
}

Library::~Library() {
  const DeviceScope scope(ordinal_);
  const RelaxedCapture relaxed;
  idle_.clear();
  // At the end of the process the driver may be gone, and destroying a handle would touch it: it took the handles with it.
  if (cudaFree(nullptr) == cudaSuccess) handles_.clear();
  cudaGetLastError();
}

std::unique_ptr<Workbench> Library::take_bench(const std::string& problem) {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto found = std::find_if(idle_.begin(), idle_.end(),
                                [&](const auto& bench) { return find_graph(bench->recent, problem) != bench->recent.end(); });
      if (found == idle_.end()) found = std::prev(idle_.end());
      std::unique_ptr<Workbench> bench = std::move(*found);
      idle_.erase(found);
      return bench;
    }
  }
  return std::make_unique<Workbench>(Workbench{handles_.borrow(), {}});
}

void Library::put_back(std::unique_ptr<Workbench> bench) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(bench));
}

Session::Session(Library& library, const ConvProblem& problem) : device_(library.ordinal()), library_(library) {
  const std::string text = to_string(Problem(problem));
  bench_ = library.take_bench(text);
  if (!bench_->handle.get()) {
    why_ = describe(bench_->handle.status());
    bench_.reset();
    return;
  }
  auto& recent = bench_->recent;
  if (const auto found = find_graph(recent, text); found != recent.end()) {
    std::rotate(recent.begin(), found, std::next(found));
    return;
  }
  auto graph = std::make_unique<Graph>();
  graph->problem = text;
  graph->descriptor = make_graph(problem, bench_->handle.get());
  if (!graph->descriptor.ok()) {
    why_ = describe(graph->descriptor.status());
    return;
  }
  recent.insert(recent.begin(), std::move(graph));
  if (recent.size() > graphs_kept) recent.pop_back();
}

Session::~Session() {
  if (bench_) library_.put_back(std::move(bench_));
}

}  // namespace attune::cudnn

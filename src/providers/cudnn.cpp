#include "providers/cudnn.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "core/problem.hpp"
#include "providers/cudnn_library.hpp"
#include "providers/cudnn_pool.hpp"
#include "providers/cudnn_search.hpp"
#include "providers/cudnn_tail.hpp"
#include "providers/cudnn_tensor.hpp"
#include "runtime/cuda_scale.hpp"

namespace attune {
namespace {

using cudnn::failed;

constexpr std::size_t default_workspace = 32 * mebibyte;

// The first few answers of each heuristic, because a lower-ranked one of the first may lose to the best of the next.
constexpr std::array<std::size_t, cudnn::heuristics.size()> quick_share = {6, 0, 0};
constexpr std::array<std::size_t, cudnn::heuristics.size()> standard_share = {12, 8, 4};
constexpr std::size_t standard_variants = 24;
constexpr std::size_t varied = 2;  ///< of an exhaustive list's first answers: their knobs

/// Why no engine can be asked; null when they can.
const char* refusal(const ConvProblem& problem, const Constraints& constraints) noexcept {
  if (constraints.sm_count != 0) return "a limit on the SMs, which cuDNN's convolutions do not know";
  return cudnn::unsupported(problem);
}

/// Why the constraints rule a candidate out before its plan is made; null when they do not.
const char* ruled_out(const cudnn::Candidate& candidate, const ConvProblem& problem, const Constraints& constraints,
                      std::size_t workspace_limit) noexcept {
  if (candidate.workspace > 0 && static_cast<std::size_t>(candidate.workspace) > workspace_limit)
    return "every engine needs more workspace than is allowed";
  if (const char* why = cudnn::known_fault(candidate.config.engine, problem)) return why;
  return cudnn::forbidden(candidate.notes, problem, constraints);
}

class CudnnPlan final : public Plan {
 public:
  CudnnPlan(std::string id, PlanTraits traits, const ConvProblem& problem, std::shared_ptr<cudnn::Library> library,
            cudnn::Execution execution)
      : Plan(std::move(id), traits),
        direction_(problem.direction),
        wide_(problem.compute == Compute::f64),
        copy_c_(problem.beta == Scalar::one && !cudnn::has_tail(problem) ? make_cuda_scale_plan(problem, library->ordinal())
                                                                         : nullptr),
        library_(std::move(library)),
        execution_(std::move(execution)) {
    if (!cudnn::has_tail(problem)) return;
    takes_alpha_ = problem.alpha == Scalar::other;
    takes_beta_ = problem.beta == Scalar::other;
    takes_c_ = problem.beta != Scalar::zero;
    takes_bias_ = has_bias(problem.epilogue);
  }

  ~CudnnPlan() override {
    const DeviceScope scope(library_->ordinal());
    const RelaxedCapture relaxed;
    execution_ = {};
  }

  Status run(const Launch& launch) const noexcept override {
    const DeviceScope scope(library_->ordinal());
    if (copy_c_ && launch.c != launch.d) {  // cuDNN adds to its output in place
      constexpr double one = 1;
      constexpr float narrow_one = 1;
      Launch copy = launch;
      copy.beta = wide_ ? static_cast<const void*>(&one) : &narrow_one;
      if (const Status status = copy_c_->run(copy); status != Status::ok) return status;
    }
    const cudnn::HandlePool::Lease handle = library_->handles().borrow();
    if (!handle.get()) return failed("cudnnCreate", handle.status());
    if (const cudnnStatus_t status = cudnnSetStream(handle.get(), static_cast<cudaStream_t>(launch.stream));
        status != CUDNN_STATUS_SUCCESS)
      return failed("cudnnSetStream", status);
    // A finalized pack cannot be changed, so every call makes its own.
    const Tensors tensors = place(launch);
    cudnn::Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span(tensors.uid.data(), tensors.count));
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(tensors.count),
             tensors.address.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &launch.workspace);
    pack.finalize();
    if (!pack.ok()) return failed("cuDNN variant pack", pack.status());
    const cudnnStatus_t status = cudnnBackendExecute(handle.get(), execution_.plan.get(), pack.get());
    return status == CUDNN_STATUS_SUCCESS ? Status::ok : failed("cudnnBackendExecute", status);
  }

 private:
  /// The graph's tensors by name.
  struct Tensors {
    std::array<std::int64_t, 7> uid{};
    std::array<const void*, 7> address{};
    std::size_t count = 0;

    void add(cudnn::Uid name, const void* at) noexcept { uid[count] = name, address[count++] = at; }
  };

  /// Of a launch, whose operands come in the order of ConvArgs.
  Tensors place(const Launch& launch) const noexcept {
    Tensors t;
    const bool dgrad = direction_ == Direction::dgrad, wgrad = direction_ == Direction::wgrad;
    t.add(cudnn::uid_x, dgrad ? launch.d : launch.a);
    t.add(cudnn::uid_w, wgrad ? launch.d : launch.b);
    t.add(cudnn::uid_y, dgrad ? launch.a : wgrad ? launch.b : launch.d);
    if (takes_c_) t.add(cudnn::uid_c, launch.c);
    if (takes_bias_) t.add(cudnn::uid_bias, launch.bias);
    if (takes_alpha_) t.add(cudnn::uid_alpha, launch.alpha);
    if (takes_beta_) t.add(cudnn::uid_beta, launch.beta);
    return t;
  }

  Direction direction_;
  bool wide_;
  std::unique_ptr<Plan> copy_c_;  ///< where the convolution itself adds to its output
  bool takes_alpha_ = false, takes_beta_ = false, takes_c_ = false, takes_bias_ = false;
  std::shared_ptr<cudnn::Library> library_;
  cudnn::Execution execution_;
};

class CudnnProvider final : public Provider {
 public:
  explicit CudnnProvider(int ordinal) : library_(std::make_shared<cudnn::Library>(ordinal)) {}

  std::string_view name() const noexcept override { return "cudnn"; }

  std::string version(std::string_view) const override {
    const std::size_t number = cudnnGetVersion();
    return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  }

  std::vector<std::string> variants(const Problem& problem, const Constraints& constraints, Effort effort) const override {
    if (const auto* pool = std::get_if<PoolProblem>(&problem)) return cudnn::pool_variants(*pool, constraints);
    const auto* conv = std::get_if<ConvProblem>(&problem);
    if (!conv || refusal(*conv, constraints)) return {};
    cudnn::Session session(*library_, *conv);
    if (!session.why().empty()) return {};
    std::vector<std::string> first, rest;
    const auto& share = effort == Effort::quick ? quick_share : standard_share;
    for (std::size_t h = 0; h < cudnn::heuristics.size(); ++h) {
      if (share[h] == 0) continue;
      std::size_t taken = 0;
      for (const cudnn::Candidate& candidate : session.graph().ask(h)) {
        if (ruled_out(candidate, *conv, constraints, constraints.workspace_limit)) continue;
        (taken++ < share[h] ? first : rest).push_back(to_text(candidate.config));
      }
    }
    if (effort == Effort::quick) return first;
    const std::size_t room = standard_variants - first.size();
    if (effort == Effort::standard && rest.size() > room) rest.resize(room);
    first.insert(first.end(), rest.begin(), rest.end());
    if (effort == Effort::exhaustive) add_unasked(session, *conv, constraints, first);
    return first;
  }

  std::vector<std::string> refine(const Problem& problem, const Constraints& constraints,
                                  std::span<const std::string> best) const override {
    std::vector<std::string> texts;
    const auto* conv = std::get_if<ConvProblem>(&problem);
    if (!conv || refusal(*conv, constraints)) return texts;
    cudnn::Session session(*library_, *conv);
    if (!session.why().empty()) return texts;
    std::unordered_set<std::string> seen(best.begin(), best.end());
    for (const std::string& text : best) add_neighbours(session, text, *conv, constraints, seen, texts);
    return texts;
  }

  Prepared prepare(std::string_view variant, const Problem& problem, const Constraints& constraints) const override {
    if (const auto* pool = std::get_if<PoolProblem>(&problem))
      return cudnn::prepare_pool(library_, variant, *pool, constraints);
    const auto* conv = std::get_if<ConvProblem>(&problem);
    if (!conv) return declined("a GEMM");
    if (const char* why = refusal(*conv, constraints)) return declined(why);
    const std::optional<cudnn::EngineConfig> config = cudnn::parse_engine(variant);
    if (!config) return declined("not the name of an engine and its knobs");
    cudnn::Session session(*library_, *conv);
    if (!session.why().empty()) return declined(session.why());
    return build(session, *config, *conv, constraints, constraints.workspace_limit);
  }

  Prepared prepare_default(const Problem& problem, const Constraints& constraints) const override {
    if (const auto* pool = std::get_if<PoolProblem>(&problem)) return cudnn::prepare_default_pool(library_, *pool, constraints);
    const auto* conv = std::get_if<ConvProblem>(&problem);
    if (!conv) return declined("a GEMM");
    if (const char* why = refusal(*conv, constraints)) return declined(why);
    cudnn::Session session(*library_, *conv);
    if (!session.why().empty()) return declined(session.why());
    const std::size_t limit = std::min(constraints.workspace_limit, default_workspace);
    std::string why = "no heuristic has an answer";
    for (std::size_t h = 0; h < cudnn::heuristics.size(); ++h) {
      for (const cudnn::Candidate& candidate : session.graph().ask(h)) {
        if (const char* not_allowed = ruled_out(candidate, *conv, constraints, limit)) {
          why = not_allowed;
          continue;
        }
        Prepared prepared = build(session, candidate.config, *conv, constraints, limit);
        if (prepared.plan) return prepared;
        why = std::move(prepared.why);
      }
    }
    return declined(std::move(why));
  }

 private:
  /// Every engine with the knobs that it sets itself, then the neighbours of the heuristics' first answers.
  void add_unasked(cudnn::Session& session, const ConvProblem& problem, const Constraints& constraints,
                   std::vector<std::string>& texts) const {
    std::unordered_set<std::string> seen(texts.begin(), texts.end());
    const std::vector<std::string> starts(texts.begin(),
                                          texts.begin() + static_cast<std::ptrdiff_t>(std::min(texts.size(), varied)));
    const std::int64_t engines = cudnn::engine_count(session.graph().descriptor);
    for (std::int64_t index = 0; index < engines; ++index) {
      if (!may_use(cudnn::make_engine(session.graph().descriptor, index), index, problem, constraints)) continue;
      std::string text = to_text(cudnn::EngineConfig{index, {}});
      if (seen.insert(text).second) texts.push_back(std::move(text));
    }
    for (const std::string& text : starts) add_neighbours(session, text, problem, constraints, seen, texts);
  }

  void add_neighbours(cudnn::Session& session, const std::string& of, const ConvProblem& problem,
                      const Constraints& constraints, std::unordered_set<std::string>& seen,
                      std::vector<std::string>& texts) const {
    const std::optional<cudnn::EngineConfig> config = cudnn::parse_engine(of);
    if (!config) return;
    const cudnn::Descriptor engine = cudnn::make_engine(session.graph().descriptor, config->engine);
    if (!may_use(engine, config->engine, problem, constraints)) return;
    for (const cudnn::EngineConfig& next : cudnn::neighbours(*config, cudnn::read_knobs(engine))) {
      std::string text = to_text(next);
      if (seen.insert(text).second) texts.push_back(std::move(text));
    }
  }

  static bool may_use(const cudnn::Descriptor& engine, std::int64_t index, const ConvProblem& problem,
                      const Constraints& constraints) {
    return engine.ok() && cudnn::known_fault(index, problem) == nullptr &&
           cudnn::forbidden(cudnn::read_notes(engine), problem, constraints) == nullptr;
  }

  Prepared build(cudnn::Session& session, const cudnn::EngineConfig& config, const ConvProblem& problem,
                 const Constraints& constraints, std::size_t workspace_limit) const {
    if (const char* why = cudnn::known_fault(config.engine, problem)) return declined(why);
    const cudnn::Descriptor engine = cudnn::make_engine(session.graph().descriptor, config.engine);
    if (!engine.ok()) return declined(cudnn::describe(engine.status()));
    const cudnn::Notes notes = cudnn::read_notes(engine);
    if (const char* why = cudnn::forbidden(notes, problem, constraints)) return declined(why);
    cudnn::Execution execution = cudnn::make_execution(engine, config, session.handle());
    if (!execution.why.empty()) return declined(std::move(execution.why));
    const auto workspace = static_cast<std::size_t>(execution.workspace);
    if (workspace > workspace_limit)
      return declined(fmt::format("{} bytes of workspace, more than the {} allowed", workspace, workspace_limit));
    // So that the first call finds a handle and makes none while its stream is being captured.
    (void)library_->handles().borrow();
    PlanTraits traits;
    traits.workspace = workspace;
    traits.deterministic = !notes.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    traits.retain_in_graph = true;
    traits.accumulation = cudnn::accumulation(notes, problem);
    auto plan =
        std::make_unique<CudnnPlan>(fmt::format("cudnn:{}", to_text(config)), traits, problem, library_, std::move(execution));
    return {std::move(plan), Outcome::ok, {}};
  }

  std::shared_ptr<cudnn::Library> library_;
};

}  // namespace

std::unique_ptr<Provider> make_cudnn_provider(int ordinal, const DeviceInfo&) {
  return std::make_unique<CudnnProvider>(ordinal);
}

}  // namespace attune

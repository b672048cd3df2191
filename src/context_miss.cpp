// What a call does when no plan is at hand, or the one at hand fails.
#include <fmt/format.h>

#include <algorithm>

#include "context_impl.hpp"
#include "core/names.hpp"

namespace attune {
inline namespace v0 {
namespace {

bool same_strides(const Problem& problem) noexcept {
  const auto* g = std::get_if<GemmProblem>(&problem);
  return g == nullptr || (g->ldc == g->ldd && (g->batch <= 1 || g->stride_c == g->stride_d));
}

}  // namespace

bool Context::Impl::more_fit(const CacheEntry& e, const Launch& l) noexcept {
  for (int i = 0; i < e.more_count; ++i) {
    const void* const at = l.more[i];
    const std::size_t bytes = e.more_bytes[i];
    if (at == nullptr || overlap(at, bytes, l.d, e.d_bytes)) return false;
    if (e.more_written[i] && (overlap(at, bytes, l.a, e.a_bytes) || overlap(at, bytes, l.b, e.b_bytes))) return false;
    for (int j = 0; j < i; ++j)
      if ((e.more_written[i] || e.more_written[j]) && overlap(at, bytes, l.more[j], e.more_bytes[j])) return false;
  }
  return true;
}

/// Names what operands_fit refused. `problem` is valid and resolved.
void Context::Impl::check_operands(const Problem& problem, const Launch& launch, const GemmNames& names) {
  Operands o = operands(problem);
  if (std::holds_alternative<GemmProblem>(problem)) o.a.name = names.a, o.b.name = names.b, o.d.name = names.d;
  const bool reads = !scales_only(problem);
  struct Given {
    const Operand& operand;
    const void* at;
    std::size_t bytes;
  };
  const auto given = [](const Operand& operand, const void* at) { return Given{operand, at, operand.span.bytes()}; };
  const Given d = given(o.d, launch.d), c = given(o.c, launch.c);
  std::vector<Given> others;  // inputs, then further outputs
  if (reads) others.push_back(given(o.a, launch.a)), others.push_back(given(o.b, launch.b));
  others.push_back(given(o.bias, launch.bias));
  for (int i = 0; i < o.more_count; ++i) others.push_back(given(o.more[i], launch.more[i]));

  if (d.at == nullptr) throw Error(Status::invalid_argument, fmt::format("{}: is null", d.operand.name));
  for (const Given& g : others)
    if (g.bytes != 0 && g.at == nullptr)
      throw Error(Status::invalid_argument,
                  fmt::format("{}: is null{}", g.operand.name, &g.operand == &o.bias ? ", and the epilogue has one" : ""));
  if (c.bytes != 0 && c.at == nullptr) throw Error(Status::invalid_argument, "C: is null, and beta is not zero");

  const auto refuse_overlap = [](const Given& out, std::string_view why, const Given& with) {
    if (overlap(out.at, out.bytes, with.at, with.bytes))
      throw Error(Status::invalid_argument, fmt::format("{} = {} ({} bytes): {} at {} ({} bytes)", out.operand.name, out.at,
                                                        out.bytes, why, with.at, with.bytes));
  };
  const auto overlaps = [&](const Operand& with) {
    return fmt::format("overlaps {}{}", &with == &o.bias ? "the " : "", with.name);
  };
  for (std::size_t i = 0; i < others.size(); ++i) {
    refuse_overlap(d, overlaps(others[i].operand), others[i]);
    for (std::size_t j = 0; j < others.size(); ++j)
      if (i != j && others[i].operand.written) refuse_overlap(others[i], overlaps(others[j].operand), others[j]);
  }
  if (!(launch.c == launch.d && same_strides(problem)))
    refuse_overlap(d, "must be C itself, with its strides, or lie apart from it: C is", c);
}

Status Context::Impl::run_plan(const std::shared_ptr<const Plan>& plan, const Launch& launch) noexcept {
  const PlanTraits& traits = plan->traits();
  if (traits.workspace == 0 && !traits.retain_in_graph) return plan->run(launch);
  Launch with = launch;
  const CallerWorkspace* const given = caller_workspace_.load(std::memory_order_acquire);
  // A call that began under another limit takes the pool's.
  with.workspace = given != nullptr && given->bytes >= traits.workspace ? given->pointer : nullptr;
  return backend_.runtime->run(plan, with);
}

void Context::Impl::call_slowly(const Problem& problem, const Key& key, std::uint64_t word, const Launch& launch,
                                const Failure& failed, const GemmNames& names) {
  misses_.fetch_add(1, std::memory_order_relaxed);
  validate(problem, names);
  if (empty_output(problem)) return;
  const Problem resolved = resolve(problem);
  check_operands(resolved, launch, names);
  const auto guard = backend_.runtime->guard();
  const bool capturing = backend_.runtime->capturing(launch.stream);
  // Resolving makes f32 of Compute::f32_tf32: what that allows is taken from the problem as it was given.
  const Obtained obtained = obtain(problem, key, word, Request::call, capturing, nullptr);
  // A plan that was found and failed has counted the call.
  if (!failed.plan)
    if (ProblemCounts::Counter* const calls = counter_of(resolved, constraints_of(problem, word))) calls->fetch_add(1);
  run_or_replace(resolved, constraints_of(problem, word), key, obtained, launch, failed);
}

void Context::Impl::refuse_if_spoilt(const Plan& plan, const Launch& launch, Status status) const {
  if (plan.traits().restartable || launch.c != launch.d) return;
  const std::string why = backend_.runtime->last_failure();
  throw Error(status, fmt::format("{} failed, and a part of its result may be in the output already: {}", plan.id(),
                                  why.empty() ? to_string(status) : why.c_str()));
}

void Context::Impl::run_or_replace(const Problem& problem, const Constraints& constraints, const Key& key,
                                   const Obtained& obtained, const Launch& launch, const Failure& failed) {
  std::unordered_set<std::string> tried;
  Status status = failed.status;
  if (failed.plan) {
    refuse_if_spoilt(*failed.plan, launch, status);
    tried.insert(failed.plan->id());
  }
  // Another thread may have replaced it meanwhile.
  if (tried.insert(obtained.plan->id()).second) {
    status = run_plan(obtained.plan, launch);
    if (status == Status::ok) return;
    refuse_if_spoilt(*obtained.plan, launch, status);
  }
  const std::string why = backend_.runtime->last_failure();
  Obtained other = fallback(problem, constraints, launch, std::move(tried));
  if (other.plan == nullptr)
    throw Error(status, fmt::format("{} failed: {} ({})", obtained.plan->id(), to_string(status), why.empty() ? "no details" : why));
  // Memory may be there again at the next call; a plan that failed otherwise is not tried again.
  if (status == Status::no_memory) return;
  replaced_.fetch_add(1, std::memory_order_relaxed);
  other.info.reason = fmt::format("{} failed: {}", obtained.plan->id(), why.empty() ? to_string(status) : why.c_str());
  {
    const std::lock_guard lock(records_mutex_);
    failed_plans_.insert(obtained.plan->id() + " of " + key_text(device_key_, problem, constraints).problem);
  }
  warn(fmt::format("{}; replaced by {} for {}", other.info.reason, other.plan->id(), to_string(problem)));
  if (constraints.deterministic) {
    const std::lock_guard lock(flight_mutex_);
    bound_.insert(key);
  }
  remember(problem, constraints, key, other, 0, true);
}

/// The first plan that runs: the default, the default without workspace, then anything without workspace.
Context::Impl::Obtained Context::Impl::fallback(const Problem& problem, const Constraints& constraints, const Launch& launch,
                                                std::unordered_set<std::string> failed) {
  Constraints frugal = constraints;
  frugal.workspace_limit = 0;
  Obtained result;
  const auto runs = [&](Prepared prepared) {
    if (!prepared.plan || !failed.insert(prepared.plan->id()).second) return false;
    std::shared_ptr<const Plan> plan = std::move(prepared.plan);
    if (const Status status = run_plan(plan, launch); status != Status::ok) {
      refuse_if_spoilt(*plan, launch, status);
      return false;
    }
    result.info.plan = result.info.default_plan = plan->id();
    result.info.source = Source::default_plan;
    result.info.workspace = plan->traits().workspace;
    result.info.deterministic = plan->traits().deterministic;
    result.plan = std::move(plan);
    return true;
  };
  if (runs(prepare_default(backend_.providers, problem, constraints))) return result;
  if (runs(prepare_default(backend_.providers, problem, frugal))) return result;
  for (const auto& provider : backend_.providers)
    for (const std::string& variant : provider->variants(problem, frugal, Effort::quick))
      if (runs(provider->prepare(variant, problem, frugal))) return result;
  return result;
}

/// Finds or makes the plan of a key. One thread works on a key; others that ask for it wait, but never a capturing one.
Context::Impl::Obtained Context::Impl::obtain(const Problem& problem, const Key& key, std::uint64_t word, Request request,
                                              bool capturing, std::vector<CandidateResult>* report) {
  if (empty_output(problem)) {
    Obtained nothing;
    nothing.info.reason = "nothing to compute";
    return nothing;
  }
  const Settings now = settings();
  const Constraints constraints = constraints_of(problem, word);
  Situation situation{request, now.benchmark.get(), constraints.deterministic, capturing, now.effort.get()};
  bool mine = false;
  std::uint64_t epoch = 0;
  {
    std::unique_lock lock(flight_mutex_);
    for (;;) {
      epoch = epoch_.load();  // before the records are looked at: what is read meanwhile counts as news
      other_lookups_.fetch_add(1, std::memory_order_relaxed);
      const PlanCache::Found found = cache_.find(key);
      if (found) {
        const bool bound = constraints.deterministic && bound_.contains(key);
        const bool by_default = found->untuned || found->info.source == Source::default_plan;
        const bool may_tune =
            request == Request::tune || (request == Request::call && found->deferred && situation.benchmark && !capturing);
        const bool again = by_default ? may_tune || (found->untuned && !bound && found->epoch.load() != epoch)
                                      : tune_again(request, found->info.effort, situation.effort);
        if (!again) {
          Obtained have{found->plan, found->info, found->deferred, found->untuned};
          if (request != Request::call) {
            have.info.timed = have.info.rejected = 0;
            if (have.info.source == Source::tuned) have.info.source = Source::memory;
          }
          if (found->untuned) found->epoch.store(epoch);
          if (request == Request::call && by_default) {
            if (constraints.deterministic) bound_.insert(key);
            found->ran.store(true);
          }
          return have;
        }
      }
      situation.returned_before = bound_.contains(key);
      if (!in_flight_.contains(key)) {
        in_flight_.insert(key);
        mine = true;
        break;
      }
      if (capturing) break;
      flight_ended_.wait(lock);
    }
  }
  struct Landing {
    Impl& impl;
    const Key& key;
    bool mine;
    ~Landing() {
      if (!mine) return;
      {
        const std::lock_guard lock(impl.flight_mutex_);
        impl.in_flight_.erase(key);
      }
      impl.flight_ended_.notify_all();
    }
  } landing{*this, key, mine};

  const auto guard = backend_.runtime->guard();
  const Problem filled = resolve(problem);
  Obtained obtained = scales_only(filled) ? from_scaling(filled) : resolve_miss(filled, constraints, situation, report);
  if (mine) remember(filled, constraints, key, obtained, epoch, request == Request::call);
  if (request == Request::call && obtained.untuned && constraints.deterministic) {
    const std::lock_guard lock(flight_mutex_);
    bound_.insert(key);
  }
  return obtained;
}

Context::Impl::Obtained Context::Impl::resolve_miss(const Problem& problem, const Constraints& constraints, Situation situation,
                                                    std::vector<CandidateResult>* report) {
  Record record;
  situation.has_record = best_record(problem, constraints, record, situation.record_valid);
  situation.record_effort = record.effort;
  Decision decision = decide(situation);
  if (decision.action == Action::use_record) {
    Obtained obtained = from_record(problem, constraints, record);
    if (obtained.plan) return obtained;
    situation.record_valid = false;
    decision = decide(situation);
  }
  if (decision.action == Action::tune) return from_tuning(problem, constraints, situation.effort, report);
  return from_default(problem, constraints, decision);
}

Context::Impl::Obtained Context::Impl::from_record(const Problem& problem, const Constraints& constraints, const Record& record) {
  Prepared prepared = prepare_plan(backend_.providers, record.plan, problem, constraints);
  if (!prepared.plan || (constraints.deterministic && !prepared.plan->traits().deterministic)) {
    warn(fmt::format("the remembered plan {} of {} cannot be made: {}", record.plan, record.key.problem, prepared.why));
    return {};
  }
  Obtained o;
  o.info.plan = record.plan;
  o.info.source = record.origin;
  o.info.reason = record.origin == Source::file ? "read from a plan file" : "tuned earlier in this process";
  if (!record.default_plan.empty() && plan_version(backend_.providers, record.default_plan) != record.default_version)
    o.info.reason += "; the default plan's provider has changed since";
  o.info.default_plan = record.default_plan;
  o.info.time_us = record.us;
  o.info.default_us = record.default_us;
  o.info.workspace = prepared.plan->traits().workspace;
  o.info.deterministic = prepared.plan->traits().deterministic;
  o.info.effort = record.effort;
  o.info.max_error = record.max_error;
  o.plan = std::move(prepared.plan);
  return o;
}

Context::Impl::Obtained Context::Impl::from_default(const Problem& problem, const Constraints& constraints, const Decision& decision) {
  Prepared prepared = prepare_default(backend_.providers, problem, constraints);
  if (!prepared.plan)  // nobody's default: the first that can be made
    for (const auto& provider : backend_.providers)
      for (const std::string& variant : provider->variants(problem, constraints, Effort::quick))
        if (!prepared.plan) prepared = provider->prepare(variant, problem, constraints);
  if (!prepared.plan)
    throw Error(Status::unsupported, fmt::format("no plan for {} under {}: {}", to_string(problem), to_text(constraints), prepared.why));
  Obtained o;
  o.info.plan = o.info.default_plan = prepared.plan->id();
  o.info.source = decision.source;
  o.info.reason = decision.reason;
  o.info.workspace = prepared.plan->traits().workspace;
  o.info.deterministic = prepared.plan->traits().deterministic;
  o.deferred = decision.source == Source::deferred;
  o.untuned = true;
  o.plan = std::move(prepared.plan);
  return o;
}

Context::Impl::Obtained Context::Impl::from_tuning(const Problem& problem, const Constraints& constraints, Effort effort,
                                                   std::vector<CandidateResult>* report) {
  const std::string text = to_string(problem);
  TuneResult result;
  {
    const std::lock_guard lock(backend_.runtime->measuring());
    log_.write(LogLevel::info, fmt::format("tuning {} under {}", text, to_text(constraints)));
    result = attune::tune({problem, constraints, effort, settings().budget_ms.get() / 1000}, backend_.providers, *backend_.runtime, log_);
  }
  tuned_.fetch_add(1, std::memory_order_relaxed);
  timed_.fetch_add(static_cast<std::uint64_t>(result.timed), std::memory_order_relaxed);
  rejected_.fetch_add(static_cast<std::uint64_t>(result.rejected), std::memory_order_relaxed);
  if (report != nullptr) *report = result.candidates;
  if (!result.plan)
    throw Error(Status::unsupported, fmt::format("no plan for {} under {}: {}", text, to_text(constraints), result.why));

  const CandidateResult& winner = result.candidates[result.winner];
  Obtained o;
  o.plan = result.plan;
  o.info.plan = winner.plan;
  o.info.source = result.measured ? Source::tuned : Source::default_plan;
  o.info.reason = result.why;
  o.info.time_us = winner.us;
  o.info.workspace = winner.workspace;
  o.info.deterministic = o.plan->traits().deterministic;
  o.info.effort = effort;
  o.info.timed = result.timed;
  o.info.rejected = result.rejected;
  o.info.max_error = winner.error;
  for (const CandidateResult& c : result.candidates)
    if (c.is_default) o.info.default_plan = c.plan, o.info.default_us = c.us;
  log_.write(LogLevel::info, fmt::format("tuned in {:.0f} ms: {}, {}; {} timed, {} rejected", result.seconds * 1e3, winner.plan,
                                         result.why, result.timed, result.rejected));
  o.untuned = !result.measured;
  if (!result.measured) return o;

  Record record;
  record.origin = Source::memory;
  record.key = key_text(device_key_, problem, constraints);
  record.plan = winner.plan;
  record.version = plan_version(backend_.providers, winner.plan);
  record.us = winner.us;
  record.default_plan = o.info.default_plan;
  record.default_version = record.default_plan.empty() ? "" : plan_version(backend_.providers, record.default_plan);
  record.default_us = o.info.default_us;
  record.workspace = winner.workspace;
  record.effort = effort;
  record.timed = result.timed;
  record.rejected = result.rejected;
  record.max_error = winner.error;
  for (const CandidateResult& c : result.candidates)
    if (c.outcome == Outcome::ok && c.plan != winner.plan) record.runners_up.push_back({c.plan, c.us});
  std::sort(record.runners_up.begin(), record.runners_up.end(), [](const RunnerUp& a, const RunnerUp& b) { return a.us < b.us; });
  if (record.runners_up.size() > max_runners_up) record.runners_up.resize(max_runners_up);
  keep_record(std::move(record));
  return o;
}

Context::Impl::Obtained Context::Impl::from_scaling(const Problem& problem) {
  Obtained o;
  o.plan = backend_.runtime->scale_plan(problem);
  o.info.plan = o.info.default_plan = o.plan->id();
  o.info.reason = "alpha is zero or the reduction is empty: the output is beta * C";
  o.info.deterministic = true;
  return o;
}

void Context::Impl::remember(const Problem& problem, const Constraints& constraints, const Key& key, const Obtained& obtained,
                             std::uint64_t epoch, bool ran) {
  auto entry = std::make_unique<CacheEntry>();
  entry->key = key;
  entry->plan = obtained.plan;
  entry->info = obtained.info;
  entry->deferred = obtained.deferred;
  if (entry->deferred) deferred_.fetch_add(1, std::memory_order_relaxed);
  entry->untuned = obtained.untuned;
  entry->calls = counter_of(problem, constraints);
  entry->attended = entry->untuned || entry->calls != nullptr;
  entry->epoch = epoch;
  entry->ran = ran;
  entry->direct = obtained.plan->traits().workspace == 0 && !obtained.plan->traits().retain_in_graph;
  const Operands o = operands(problem);
  const bool reads = !scales_only(problem);
  entry->a_bytes = reads ? o.a.span.bytes() : 0;
  entry->b_bytes = reads ? o.b.span.bytes() : 0;
  entry->c_bytes = o.c.span.bytes();
  entry->d_bytes = o.d.span.bytes();
  entry->bias_bytes = o.bias.span.bytes();
  entry->more_count = o.more_count;
  for (int i = 0; i < o.more_count; ++i)
    entry->more_bytes[i] = o.more[i].span.bytes(), entry->more_written[i] = o.more[i].written;
  entry->in_place = same_strides(problem);
  cache_.insert(std::move(entry));
}

}  // namespace v0
}  // namespace attune

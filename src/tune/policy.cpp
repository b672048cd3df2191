#include "tune/policy.hpp"

namespace attune {

Decision decide(const Situation& s) noexcept {
  const bool may_tune = s.request == Request::tune || (s.request == Request::call && s.benchmark && !s.capturing);
  // The bits of a deterministic key stay what they were when it first returned, whatever was remembered since.
  const bool bound = s.request != Request::tune && s.deterministic && s.returned_before;
  if (s.has_record && s.record_valid && !bound && (s.record_effort >= s.effort || !may_tune))
    return {Action::use_record, Source::file, "remembered"};
  if (may_tune && !bound) return {Action::tune, Source::tuned, "no plan was remembered"};

  if (s.has_record && !s.record_valid && !bound && !(s.request == Request::call && s.benchmark && s.capturing))
    return {Action::run_default, Source::stale, "the remembered plan belongs to another version of its provider"};
  if (bound) return {Action::run_default, Source::default_plan, "deterministic, and the key has already run with its default plan"};
  if (s.request == Request::call && s.capturing && s.benchmark)
    return {Action::run_default, Source::deferred, "the stream is being captured; to be tuned at the next call that is not"};
  if (s.request == Request::prepare && s.benchmark)
    return {Action::run_default, Source::deferred, "prepared without timing; to be tuned at the next call"};
  return {Action::run_default, Source::default_plan, "benchmark is off and nothing is remembered"};
}

bool tune_again(Request request, Effort have, Effort want) noexcept { return request == Request::tune && want > have; }

}  // namespace attune

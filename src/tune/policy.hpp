// What to do for a key that has no plan yet. Pure.
#pragma once

#include <attune/types.hpp>

namespace attune {

/// Who asks. `call`: a launch. `prepare`: readiness without timing. `tune`: explicitly to be tuned.
enum class Request : std::uint8_t { call, prepare, tune };

struct Situation {
  Request request = Request::call;
  bool benchmark = true;
  bool deterministic = false;
  bool capturing = false;
  Effort effort = Effort::standard;
  bool has_record = false;      ///< some record of the key exists
  bool record_valid = false;    ///< its provider has still the version it was tuned with
  Effort record_effort = Effort::standard;
  bool returned_before = false;  ///< the key has already run in this process, with its default plan
};

enum class Action : std::uint8_t { use_record, run_default, tune };

struct Decision {
  Action action = Action::run_default;
  Source source = Source::default_plan;  ///< where action is run_default
  const char* reason = "";
};

Decision decide(const Situation& s) noexcept;

/// Whether a key that already has a tuned plan is tuned again: only when asked, and only with a higher effort.
bool tune_again(Request request, Effort have, Effort want) noexcept;

}  // namespace attune

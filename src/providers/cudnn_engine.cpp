#include "providers/cudnn_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace attune::cudnn {
namespace {

struct KnobName {
  std::int32_t type;
  std::string_view name;
};

// Part of the text of plans that files remember: a name, once given, stays. The numbers are those of cudnnBackendKnobType_t.
constexpr std::array knob_names = {
    KnobName{0, "splitk"},     KnobName{1, "swizzle"},    KnobName{2, "tile"},       KnobName{3, "tex"},
    KnobName{4, "edge"},       KnobName{5, "kblock"},     KnobName{6, "ldga"},       KnobName{7, "ldgb"},
    KnobName{8, "chunkk"},     KnobName{9, "splith"},     KnobName{10, "wino"},      KnobName{11, "multiply"},
    KnobName{12, "splitkbuf"}, KnobName{13, "tilek"},     KnobName{14, "stages"},    KnobName{15, "reduction"},
    KnobName{16, "ctasplitk"}, KnobName{17, "splitkslc"}, KnobName{18, "idx"},       KnobName{19, "sliced"},
    KnobName{20, "splitrs"},   KnobName{21, "single"},    KnobName{22, "ldgc"},      KnobName{23, "specfilt"},
    KnobName{24, "kernel"},    KnobName{25, "workspace"}, KnobName{26, "cga"},       KnobName{27, "cgam"},
    KnobName{28, "cgan"},      KnobName{29, "block"},     KnobName{30, "occupancy"}, KnobName{31, "array"},
    KnobName{32, "cperblock"}, KnobName{33, "splitcols"}, KnobName{34, "tilerows"},  KnobName{35, "tilecols"},
    KnobName{36, "load"},      KnobName{37, "ctas"},      KnobName{38, "streamk"},   KnobName{39, "splitpslc"},
    KnobName{40, "tilem"},     KnobName{41, "tilen"},     KnobName{42, "warpspec"},  KnobName{43, "swapab"},
};
constexpr std::string_view unnamed = "knob";

/// More than there are knob types: cuDNN does not say beforehand how many knobs a configuration sets.
constexpr std::int64_t most_knobs = 64;

template <class T>
bool take_number(std::string_view& text, T& value) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view word) noexcept {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

bool take_knob_type(std::string_view& text, std::int32_t& type) noexcept {
  const std::string_view name = text.substr(0, text.find('='));
  for (const KnobName& knob : knob_names) {
    if (name != knob.name) continue;
    type = knob.type;
    return take(text, name);
  }
  return take(text, unnamed) && take_number(text, type);
}

bool sixteen_bit(DType type) noexcept { return type == DType::f16 || type == DType::bf16; }

bool reads_f32(const ConvProblem& p) noexcept {
  return (p.direction != Direction::dgrad && p.x_type == DType::f32) ||
         (p.direction != Direction::wgrad && p.w_type == DType::f32) ||
         (p.direction != Direction::fwd && p.y_type == DType::f32);
}

std::uint32_t bits(const std::vector<std::int32_t>& notes) noexcept {
  std::uint32_t set = 0;
  for (std::int32_t note : notes)
    if (note >= 0 && note < 32) set |= 1u << note;
  return set;
}

}  // namespace

std::string to_text(const EngineConfig& config) {
  std::string text = fmt::format("eng{}", config.engine);
  for (const auto& [type, value] : config.knobs) {
    const auto known =
        std::find_if(knob_names.begin(), knob_names.end(), [t = type](const KnobName& k) { return k.type == t; });
    if (known != knob_names.end()) {
      fmt::format_to(std::back_inserter(text), "_{}={}", known->name, value);
    } else {
      fmt::format_to(std::back_inserter(text), "_{}{}={}", unnamed, type, value);
    }
  }
  return text;
}

std::optional<EngineConfig> parse_engine(std::string_view text) {
  EngineConfig config;
  std::string_view rest = text;
  if (!take(rest, "eng") || !take_number(rest, config.engine)) return std::nullopt;
  while (!rest.empty()) {
    std::int32_t type = 0;
    std::int64_t value = 0;
    if (!take(rest, "_") || !take_knob_type(rest, type) || !take(rest, "=") || !take_number(rest, value)) return std::nullopt;
    if (!config.knobs.empty() && config.knobs.back().first >= type) return std::nullopt;
    config.knobs.emplace_back(type, value);
  }
  if (to_text(config) != text) return std::nullopt;
  return config;
}

std::optional<EngineConfig> read_engine(const Descriptor& engine_config, const Descriptor& engine) {
  EngineConfig config;
  config.engine = engine.read(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, -1);
  if (config.engine < 0) return std::nullopt;
  for (const Descriptor& choice :
       engine_config.read_descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, most_knobs)) {
    const std::int64_t type = choice.read(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, -1);
    if (type < 0) return std::nullopt;
    config.knobs.emplace_back(static_cast<std::int32_t>(type),
                              choice.read(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 0));
  }
  std::sort(config.knobs.begin(), config.knobs.end());
  return config;
}

bool Notes::transforms() const noexcept {
  return has(CUDNN_NUMERICAL_NOTE_FFT) || has(CUDNN_NUMERICAL_NOTE_WINOGRAD) || has(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4) ||
         has(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6) || has(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
}

Notes read_notes(const Descriptor& engine) {
  return {bits(engine.read_list<std::int32_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE)),
          bits(engine.read_list<std::int32_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE))};
}

const char* forbidden(const Notes& notes, const ConvProblem& problem, const Constraints& constraints) noexcept {
  if (constraints.deterministic && notes.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return "not deterministic";
  if (!allows(constraints, MathMode::transforms) && notes.transforms()) return "transforms are not allowed";
  if (notes.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return "rounds its inputs to a narrower type";
  if (reads_f32(problem) && notes.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) && !allows(constraints, MathMode::tf32))
    return "tf32 is not allowed";
  if (!allows(constraints, MathMode::reduced_reduction) && notes.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION))
    return "reduced-precision reduction is not allowed";
  if (notes.has(CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER) ||
      notes.has(CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER))
    return "needs a reordered operand";
  return nullptr;
}

const char* known_fault(std::int64_t engine, const ConvProblem& problem) noexcept {
  // cuDNN 9.19 on sm_90, fp32 wgrad, NHWC, tensors declared to be 4-byte aligned: a misaligned access, which ends the context.
  const bool misaligned = problem.align_x < 16 || problem.align_w < 16 || problem.align_y < 16;
  if (engine == 67 && misaligned) return "the engine ignores the declared alignment";
  return nullptr;
}

Accumulation accumulation(const Notes& notes, const ConvProblem& problem) noexcept {
  if (notes.transforms()) return Accumulation::transform;
  // fp64 tensor cores round like fused multiply-adds; 16-bit engines may use tensor cores whether a note says so or not.
  if (problem.compute == Compute::f64) return Accumulation::plain;
  const bool narrow = sixteen_bit(problem.x_type) || sixteen_bit(problem.w_type) || sixteen_bit(problem.y_type);
  return narrow || notes.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) ? Accumulation::tensor_core : Accumulation::plain;
}

}  // namespace attune::cudnn

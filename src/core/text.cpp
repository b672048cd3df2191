// The text form of problems and constraints.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "core/constraints.hpp"
#include "core/names.hpp"
#include "core/problem_fields.hpp"

namespace attune {
namespace {

class Writer {
 public:
  explicit Writer(std::string op) : text_(std::move(op)) {}

  template <class E>
  requires std::is_enum_v<E>
  void field(const char* name, E value, E standard) {
    if (value != standard) word(name, std::string(name_of(value)));
  }
  void field(const char* name, std::int64_t value, std::int64_t standard) {
    if (value != standard) word(name, std::to_string(value));
  }
  void step(const char* name, std::int64_t value, std::int64_t standard) { field(name, resolved(value, standard), standard); }
  void dims(const char* name, const Dims& dims) { word(name, join(dims.size, dims.count < 5 ? dims.count : 5)); }
  void list(const char* name, const std::int64_t* values, int count, const std::int64_t* standard) {
    if (!std::equal(values, values + count, standard)) word(name, join(values, count));
  }
  template <class Fill>
  void strides(const char* name, const std::int64_t* values, int count, Fill&& fill) {
    std::int64_t standard[5], actual[5];
    fill(standard);
    for (int i = 0; i < count; ++i) actual[i] = resolved(values[i], standard[i]);
    list(name, actual, count, standard);
  }
  std::string take() { return std::move(text_); }

 private:
  void word(const char* name, const std::string& value) { text_ += fmt::format(" {}={}", name, value); }
  static std::string join(const std::int64_t* values, int count) {
    return fmt::format("{}", fmt::join(values, values + count, ","));
  }
  std::string text_;
};

[[noreturn]] void refuse(std::string_view word, const std::string& why, const char* what = "problem") {
  throw Error(Status::invalid_argument, fmt::format("{} text: '{}': {}", what, word.substr(0, 64), why));
}

struct Word {
  std::string_view text, name, value;
  bool used = false;
};

std::vector<Word> words_of(std::string_view text) {
  std::vector<Word> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(" \t\r", at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_of(" \t\r", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const std::size_t equals = word.find('=');
    words.push_back({word, word.substr(0, equals), equals == std::string_view::npos ? "" : word.substr(equals + 1)});
    at = end;
  }
  return words;
}

class Parser {
 public:
  explicit Parser(std::vector<Word>& words) : words_(words) {}

  template <class E>
  requires std::is_enum_v<E>
  void field(const char* name, E& value, E standard) {
    value = standard;
    if (const Word* word = find(name)) {
      const auto parsed = from_name<E>(word->value);
      if (!parsed) refuse(word->text, "accepted are " + accepted<E>());
      value = *parsed;
    }
  }
  template <std::integral I>
  void field(const char* name, I& value, I standard) {
    value = standard;
    if (const Word* word = find(name)) value = number<I>(*word, word->value);
  }
  void step(const char* name, std::int64_t& value, std::int64_t standard) { field(name, value, standard); }
  void dims(const char* name, Dims& dims) {
    dims = Dims();
    const Word* word = find(name);
    if (word == nullptr) refuse(name, "is missing");
    dims.count = numbers(*word, dims.size, 5);
  }
  void list(const char* name, std::int64_t* values, int count, const std::int64_t* standard) {
    for (int i = 0; i < count; ++i) values[i] = standard[i];
    if (const Word* word = find(name))
      if (numbers(*word, values, count) != count) refuse(word->text, fmt::format("needs {} values", count));
  }
  template <class Fill>
  void strides(const char* name, std::int64_t* values, int count, Fill&& fill) {
    std::int64_t standard[5];
    fill(standard);
    list(name, values, count, standard);
  }

 private:
  const Word* find(std::string_view name) {
    for (Word& word : words_)
      if (word.name == name) {
        word.used = true;
        return &word;
      }
    return nullptr;
  }
  template <std::integral I>
  static I number(const Word& word, std::string_view text) {
    I value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) refuse(word.text, "not a number");
    return value;
  }
  static int numbers(const Word& word, std::int64_t* values, int most) {
    int count = 0;
    std::string_view rest = word.value;
    for (;;) {
      const std::size_t comma = rest.find(',');
      if (count == most) refuse(word.text, fmt::format("more than {} values", most));
      values[count++] = number<std::int64_t>(word, rest.substr(0, comma));
      if (comma == std::string_view::npos) return count;
      rest.remove_prefix(comma + 1);
    }
  }
  std::vector<Word>& words_;
};

template <class P>
Problem parse_fields(std::vector<Word>& words) {
  P problem;
  visit_fields(problem, Parser(words));
  for (std::size_t i = 1; i < words.size(); ++i)
    if (!words[i].used) refuse(words[i].text, words[i].value.empty() ? "not name=value" : "unknown, or given twice");
  return problem;
}

template <std::size_t At>
Problem parse_op(std::vector<Word>& words, std::string known = {}) {
  if constexpr (At == std::variant_size_v<Problem>) {
    refuse(words[0].text, "unknown op; accepted are " + known);
  } else {
    using P = std::variant_alternative_t<At, Problem>;
    if (words[0].text == op_name<P>) return parse_fields<P>(words);
    return parse_op<At + 1>(words, known + (At == 0 ? "" : ", ") + op_name<P>);
  }
}

}  // namespace

inline namespace v0 {

std::string to_string(const Problem& problem) {
  return std::visit(
      [](const auto& p) {
        Writer writer(op_name<std::decay_t<decltype(p)>>);
        visit_fields(p, writer);
        return writer.take();
      },
      problem);
}

Problem parse_problem(std::string_view text) {
  std::vector<Word> words = words_of(text);
  if (words.empty()) refuse("", "empty; starts with the name of an op");
  return parse_op<0>(words);
}

}  // namespace v0

namespace {
struct ModeName {
  MathMode mode;
  const char* name;
};
constexpr ModeName mode_names[] = {{MathMode::tf32, "tf32"},
                                   {MathMode::reduced_reduction, "reduced_reduction"},
                                   {MathMode::transforms, "transforms"},
                                   {MathMode::fp8_fast, "fp8_fast"}};
}  // namespace

std::string to_text(MathMode modes) {
  std::string text;
  for (const auto& [mode, name] : mode_names)
    if (any(modes & mode)) text += (text.empty() ? "" : ",") + std::string(name);
  return text.empty() ? "strict" : text;
}

std::string to_text(const Constraints& c) {
  std::string text = fmt::format("math={}", to_text(c.math));
  text += c.workspace_limit == no_limit ? " workspace=none" : fmt::format(" workspace={}MiB", c.workspace_limit / mebibyte);
  if (c.deterministic) text += " deterministic";
  if (c.sm_count != 0) text += fmt::format(" sms={}", c.sm_count);
  return text;
}

namespace {

MathMode parse_modes(const Word& word) {
  MathMode modes{};
  if (word.value == "strict") return modes;
  for (std::string_view rest = word.value;;) {
    const std::size_t comma = rest.find(',');
    const auto found = std::find_if(std::begin(mode_names), std::end(mode_names),
                                    [&](const ModeName& m) { return m.name == rest.substr(0, comma); });
    if (found == std::end(mode_names))
      refuse(word.text, "accepted are strict, or any of tf32,reduced_reduction,transforms,fp8_fast", "constraints");
    modes = modes | found->mode;
    if (comma == std::string_view::npos) return modes;
    rest.remove_prefix(comma + 1);
  }
}

std::size_t parse_limit(const Word& word) {
  for (const std::size_t limit : workspace_limits)
    if (word.value == (limit == no_limit ? "none" : fmt::format("{}MiB", limit / mebibyte))) return limit;
  refuse(word.text, "accepted are 0MiB, 1MiB, 4MiB, 32MiB, 256MiB, none", "constraints");
}

}  // namespace

Constraints parse_constraints(std::string_view text) {
  Constraints c;
  for (const Word& word : words_of(text)) {
    if (word.name == "math")
      c.math = parse_modes(word);
    else if (word.name == "workspace")
      c.workspace_limit = parse_limit(word);
    else if (word.text == "deterministic")
      c.deterministic = true;
    else
      refuse(word.text, "accepted are math=, workspace=, deterministic", "constraints");
  }
  return c;
}

}  // namespace attune

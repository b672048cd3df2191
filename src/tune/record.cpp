#include "tune/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/names.hpp"

namespace attune {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t format_version = 1;

constexpr std::string_view known_fields[] = {"v",     "device",       "problem",         "constraints", "plan",      "version",
                                             "us",    "default_plan", "default_version", "default_us",  "workspace", "effort",
                                             "timed", "rejected",     "max_error",       "runners_up"};

bool is_known_field(std::string_view name) {
  return std::find(std::begin(known_fields), std::end(known_fields), name) != std::end(known_fields);
}

std::string text_fault(const char* name, const std::string& text, std::size_t most, bool may_be_empty) {
  if (text.empty() && !may_be_empty) return fmt::format("{} is empty", name);
  if (text.size() > most) return fmt::format("{} has {} bytes, at most {} are read", name, text.size(), most);
  for (char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return fmt::format("{} holds a control character", name);
  return {};
}

std::string time_fault(const char* name, double us, bool may_be_zero) {
  if (may_be_zero && us == 0) return {};
  if (us >= min_time_us && us <= max_time_us) return {};
  return fmt::format("{} = {} is no time", name, us);
}

std::string count_fault(const char* name, int count) {
  return count >= 0 && count <= max_count ? std::string() : fmt::format("{} = {} is no count", name, count);
}

/// Reads the fields of one object; the first one that is missing or of another type is reported.
class FieldReader {
 public:
  FieldReader(const Json& object, std::string& why) : object_(object), why_(why) {}

  void text(const char* name, std::string& value, bool required) {
    const Json* field = find(name, required);
    if (field == nullptr) return;
    if (!field->is_string()) return refuse(name, "a string");
    value = field->get_ref<const std::string&>();
  }
  void number(const char* name, double& value, bool required) {
    const Json* field = find(name, required);
    if (field == nullptr) return;
    if (!field->is_number()) return refuse(name, "a number");
    value = field->get<double>();
  }
  template <class Integer>
  void count(const char* name, Integer& value, bool required) {
    const Json* field = find(name, required);
    if (field == nullptr) return;
    if (!field->is_number_unsigned() || field->get<std::uint64_t>() > std::numeric_limits<Integer>::max())
      return refuse(name, "a count");
    value = static_cast<Integer>(field->get<std::uint64_t>());
  }
  void effort(const char* name, Effort& value) {
    std::string word;
    text(name, word, true);
    if (!why_.empty()) return;
    if (const auto found = from_name<Effort>(word))
      value = *found;
    else
      refuse(name, "an effort");
  }
  void runners_up(const char* name, std::vector<RunnerUp>& value) {
    const Json* field = find(name, false);
    if (field == nullptr) return;
    if (!field->is_array()) return refuse(name, "an array");
    if (field->size() > max_runners_up) return refuse(name, "short enough");
    for (const Json& entry : *field) {
      if (!entry.is_object()) return refuse(name, "an array of objects");
      RunnerUp runner;
      FieldReader reader(entry, why_);
      reader.text("plan", runner.plan, true);
      reader.number("us", runner.us, true);
      value.push_back(std::move(runner));
    }
  }

 private:
  const Json* find(const char* name, bool required) {
    if (!why_.empty()) return nullptr;
    const auto field = object_.find(name);
    if (field != object_.end()) return &*field;
    if (required) why_ = fmt::format("{} is missing", name);
    return nullptr;
  }
  void refuse(const char* name, const char* expected) { why_ = fmt::format("{} is not {}", name, expected); }

  const Json& object_;
  std::string& why_;
};

/// Parses without throwing and without recursion; refuses what nests too deep, and fields given twice.
Json parse_object(std::string_view line, std::string& why) {
  std::vector<std::string> names;
  const auto inspect = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > static_cast<int>(max_depth)) {
      why = "values nest too deep";
      return false;
    }
    if (event == Json::parse_event_t::key && depth == 1) {
      const std::string& name = value.get_ref<const std::string&>();
      if (std::find(names.begin(), names.end(), name) != names.end())
        why = "a field is given twice";
      else if (names.size() < max_line_bytes / 64)
        names.push_back(name);
      else
        why = "too many fields";
    }
    return true;
  };
  Json object = Json::parse(line.begin(), line.end(), inspect, /*allow_exceptions=*/false);
  if (why.empty() && !object.is_object()) why = "not a JSON object";
  return object;
}

}  // namespace

std::string fault(const Record& r) {
  const auto faults = {
      text_fault("device", r.key.device, max_device_bytes, false),
      text_fault("problem", r.key.problem, max_problem_bytes, false),
      text_fault("constraints", r.key.constraints, max_constraints_bytes, true),
      text_fault("plan", r.plan, max_plan_bytes, false),
      text_fault("version", r.version, max_version_bytes, true),
      text_fault("default_plan", r.default_plan, max_plan_bytes, true),
      text_fault("default_version", r.default_version, max_version_bytes, true),
      time_fault("us", r.us, false),
      time_fault("default_us", r.default_us, true),
      count_fault("timed", r.timed),
      count_fault("rejected", r.rejected),
  };
  for (const std::string& found : faults)
    if (!found.empty()) return found;
  if (!is_known(r.effort)) return "effort is unknown";
  if (!(r.max_error >= 0) || !std::isfinite(r.max_error)) return fmt::format("max_error = {} is no error", r.max_error);
  if (r.runners_up.size() > max_runners_up) return fmt::format("more than {} runners-up", max_runners_up);
  for (const RunnerUp& runner : r.runners_up) {
    std::string found = text_fault("a runner-up's plan", runner.plan, max_plan_bytes, false);
    if (found.empty()) found = time_fault("a runner-up's us", runner.us, false);
    if (!found.empty()) return found;
  }
  return {};
}

std::string to_line(const Record& r) {
  Json line;
  line["v"] = format_version;
  line["device"] = r.key.device;
  line["problem"] = r.key.problem;
  line["constraints"] = r.key.constraints;
  line["plan"] = r.plan;
  line["version"] = r.version;
  line["us"] = r.us;
  line["default_plan"] = r.default_plan;
  line["default_version"] = r.default_version;
  line["default_us"] = r.default_us;
  line["workspace"] = r.workspace;
  line["effort"] = name_of(r.effort);
  line["timed"] = r.timed;
  line["rejected"] = r.rejected;
  line["max_error"] = r.max_error;
  Json& runners = line["runners_up"] = Json::array();
  for (const RunnerUp& runner : r.runners_up) runners.push_back({{"plan", runner.plan}, {"us", runner.us}});
  if (!r.extra.empty()) {
    const Json extra = Json::parse(r.extra, nullptr, /*allow_exceptions=*/false);
    if (extra.is_object())
      for (const auto& field : extra.items())
        if (!is_known_field(field.key())) line[field.key()] = field.value();
  }
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Record> parse_line(std::string_view line, std::string& why) {
  why.clear();
  if (line.size() > max_line_bytes)
    why = fmt::format("{} bytes, at most {} are read", line.size(), max_line_bytes);
  else if (line.find('\0') != std::string_view::npos)  // would end the text for the JSON parser
    why = "not text";
  if (!why.empty()) return std::nullopt;

  Json object = parse_object(line, why);
  if (!why.empty()) return std::nullopt;
  FieldReader fields(object, why);
  std::uint64_t version = 0;
  fields.count("v", version, true);
  if (why.empty() && version > format_version) why = fmt::format("version {} is newer than {}", version, format_version);
  if (why.empty() && version < format_version) why = "v is not a version";

  Record r;
  fields.text("device", r.key.device, true);
  fields.text("problem", r.key.problem, true);
  fields.text("constraints", r.key.constraints, true);
  fields.text("plan", r.plan, true);
  fields.text("version", r.version, true);
  fields.number("us", r.us, true);
  fields.text("default_plan", r.default_plan, false);
  fields.text("default_version", r.default_version, false);
  fields.number("default_us", r.default_us, false);
  fields.count("workspace", r.workspace, false);
  fields.effort("effort", r.effort);
  fields.count("timed", r.timed, false);
  fields.count("rejected", r.rejected, false);
  fields.number("max_error", r.max_error, false);
  fields.runners_up("runners_up", r.runners_up);
  if (why.empty()) why = fault(r);
  if (!why.empty()) return std::nullopt;

  for (std::string_view name : known_fields) object.erase(std::string(name));
  if (!object.empty()) r.extra = object.dump();
  return r;
}

bool better(const Record& a, const Record& b) {
  if (a.effort != b.effort) return a.effort > b.effort;
  if (a.us != b.us) return a.us < b.us;
  return to_line(a) < to_line(b);
}

bool RecordStore::add(Record record) {
  auto& rivals = records_[record.key];
  const auto same = rivals.find(record);
  if (same != rivals.end()) {
    if (!better(record, *same)) return false;
    rivals.erase(same);
    --size_;
  }
  rivals.insert(std::move(record));
  ++size_;
  return true;
}

const Record* RecordStore::best(const KeyText& key, const Valid& valid, bool& is_valid) const {
  is_valid = false;
  const auto found = records_.find(key);
  if (found == records_.end()) return nullptr;
  const Record* best = nullptr;
  for (const Record& record : found->second) {
    const bool usable = valid(record);
    if (best != nullptr && (usable != is_valid ? is_valid : !better(record, *best))) continue;
    best = &record;
    is_valid = usable;
  }
  return best;
}

void RecordStore::for_each(const std::function<void(const Record&)>& visit) const {
  std::vector<const Record*> ordered;
  for (const auto& [key, rivals] : records_) {
    ordered.clear();
    for (const Record& record : rivals) ordered.push_back(&record);
    std::sort(ordered.begin(), ordered.end(), [](const Record* a, const Record* b) { return better(*a, *b); });
    for (const Record* record : ordered) visit(*record);
  }
}

}  // namespace attune

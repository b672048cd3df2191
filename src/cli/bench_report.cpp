#include "cli/bench_report.hpp"

#include <fmt/format.h>
#include <attune/error.hpp>

#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

namespace attune::cli {
namespace {

/// The ratios of one group of rows.
struct Group {
  GeometricMean over_default, over_vendor_best, over_floor;

  void add(const BenchResult& r) {
    over_default.add(r.default_us, r.winner_us);
    over_vendor_best.add(r.vendor_best_us, r.winner_us);
    over_floor.add(r.winner_us, r.floor_us);
  }
};

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string figure(double us) { return us > 0 ? fmt::format("{:.4f}", us) : std::string(); }

std::string class_of(const BenchResult& r) { return r.row->class_name.empty() ? r.row->kind : r.row->class_name; }

std::string mean(const GeometricMean& m) { return m.count() == 0 ? "-" : fmt::format("{:.4f}", m.value()); }

}  // namespace

BenchTable::BenchTable()
    : table_({{"name", 36, true},
              {"dtype", 5, true},
              {"floor us", 9},
              {"default us", 10},
              {"GemmEx us", 9},
              {"autotune us", 11},
              {"vendor us", 9},
              {"winner us", 9},
              {"speed-up", 8},
              {"own us", 9},
              {"timed", 5},
              {"rejected", 8},
              {"error", 6},
              {"winner", 0, true}}) {}

void BenchTable::row(const BenchResult& r) const {
  if (!r.wrong.empty()) return;
  table_.row({r.row->name, r.row->dtype, format_us(r.floor_us), format_us(r.default_us), format_us(r.gemm_ex_us),
              format_us(r.gemm_ex_autotune_us), format_us(r.vendor_best_us), format_us(r.winner_us),
              format_ratio(r.default_us, r.winner_us), format_us(r.own_best_us), std::to_string(r.timed),
              std::to_string(r.rejected), format_error(r.max_error), r.winner});
}

void print_summary(const std::vector<BenchResult>& results, std::FILE* to) {
  std::map<std::string, Group> classes;
  Group gemm, conv, others, all;
  GeometricMean over_gemm_ex, over_autotune;
  double seconds = 0, largest_error = 0;
  int good = 0, dropped = 0, not_reached = 0;
  std::vector<std::string> slower;
  for (const BenchResult& r : results) {
    seconds += r.tune_seconds;
    dropped += r.dropped;
    not_reached += r.not_reached;
    if (!r.wrong.empty()) continue;
    ++good;
    classes[class_of(r)].add(r);
    (r.row->kind == "gemm" ? gemm : r.row->kind.starts_with("conv") ? conv : others).add(r);
    all.add(r);
    over_gemm_ex.add(r.gemm_ex_us, r.winner_us);
    over_autotune.add(r.gemm_ex_autotune_us, r.winner_us);
    largest_error = std::max(largest_error, r.max_error);
    if (r.slower >= slower_repeats)
      slower.push_back(fmt::format("{} ({} us against {} us)", r.row->name, format_us(r.winner_us), format_us(r.default_us)));
  }

  fmt::print(to, "\nGeometric means (a ratio above 1 of default or vendor best to winner: the winner is faster)\n");
  const Table table(
      {{"class", 18, true}, {"rows", 4}, {"default/winner", 14}, {"vendor best/winner", 18}, {"winner/floor", 12}}, to);
  table.header();
  const auto line = [&](const std::string& name, const Group& g) {
    if (g.over_floor.count() == 0) return;
    table.row({name, std::to_string(g.over_floor.count()), mean(g.over_default), mean(g.over_vendor_best), mean(g.over_floor)});
  };
  for (const auto& [name, group] : classes) line(name, group);
  line("all GEMM", gemm);
  line("all convolution", conv);
  line("all other ops", others);
  line("all", all);
  if (over_gemm_ex.count() > 0)
    fmt::print(to, "cublasGemmEx/winner {}, with CUBLAS_GEMM_AUTOTUNE {} ({} rows)\n", mean(over_gemm_ex), mean(over_autotune),
               over_gemm_ex.count());
  fmt::print(to, "{} rows timed, {} not; largest error {} of its bound; tuning took {:.1f} s in all\n", good,
             results.size() - static_cast<std::size_t>(good), format_error(largest_error), seconds);
  fmt::print(to, "wrong plans dropped in the comparison: {}; vendor candidates not prepared for lack of time: {}\n", dropped,
             not_reached);
  fmt::print(to, "rows more than 2 percent and 0.1 us slower than the default in {0} of {0} repeats: {1}\n", slower_repeats,
             slower.size());
  for (const std::string& name : slower) fmt::print(to, "  {}\n", name);
}

void print_json(const BenchResult& r) {
  nlohmann::ordered_json line;
  const auto figure = [&](const char* name, double value) { line[name] = value > 0 ? nlohmann::ordered_json(value) : nullptr; };
  line["kind"] = r.row->kind, line["name"] = r.row->name, line["class"] = r.row->class_name, line["dtype"] = r.row->dtype;
  if (r.wrong.empty()) {
    figure("floor_us", r.floor_us), figure("default_us", r.default_us), figure("vendor_best_us", r.vendor_best_us);
    figure("winner_us", r.winner_us), line["winner"] = r.winner;
    figure("own_best_us", r.own_best_us), line["own_best"] = r.own_best;
    line["timed"] = r.timed, line["rejected"] = r.rejected, line["max_error"] = r.max_error;
  } else {
    for (const char* name : {"floor_us", "default_us", "vendor_best_us", "winner_us", "winner", "own_best_us", "own_best",
                             "timed", "rejected", "max_error"})
      line[name] = nullptr;
    line["wrong"] = r.wrong;
  }
  fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  std::fflush(stdout);
}

BenchCsv::BenchCsv(const std::string& path, const std::vector<std::string>& head) : path_(path) {
  if (path.empty()) return;
  file_ = std::fopen(path.c_str(), "w");
  if (file_ == nullptr) throw Error(Status::file_error, fmt::format("{}: {}", path, std::generic_category().message(errno)));
  for (const std::string& line : head) write("# " + line);
  write(
      "kind,name,class,dtype,floor_us,default_us,vendor_best_us,winner_us,winner,own_best_us,own_best,timed,rejected,max_"
      "error");
}

BenchCsv::~BenchCsv() {
  if (file_ != nullptr) std::fclose(file_);
}

void BenchCsv::write(const std::string& line) {
  if (file_ == nullptr) return;
  failed_ = std::fprintf(file_, "%s\n", line.c_str()) < 0 || std::fflush(file_) != 0 || failed_;
}

void BenchCsv::row(const BenchResult& r) {
  const Row& row = *r.row;
  if (row.kind.empty()) return;  // the line says nothing that could stand here
  std::string line = fmt::format("{},{},{},{},", field(row.kind), field(row.name), field(row.class_name), field(row.dtype));
  if (r.wrong.empty())
    line += fmt::format("{},{},{},{},{},{},{},{},{},{:.4f}", figure(r.floor_us), figure(r.default_us), figure(r.vendor_best_us),
                        figure(r.winner_us), field(r.winner), figure(r.own_best_us), field(r.own_best), r.timed, r.rejected,
                        r.max_error);
  else
    line += ",,,,,,,,,";
  write(line);
}

void BenchCsv::close() {
  if (file_ == nullptr) return;
  failed_ = std::fclose(file_) != 0 || failed_;
  file_ = nullptr;
  if (failed_) throw Error(Status::file_error, path_ + ": could not be written");
}

}  // namespace attune::cli

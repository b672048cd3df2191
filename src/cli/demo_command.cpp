// attune demo: tune a few real problems, run them again from memory, and from the plan file in a new process.
#include <fmt/format.h>
#include <attune/error.hpp>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/child.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "cli/device_context.hpp"
#include "cli/table.hpp"
#include "cli/workload.hpp"

namespace attune::cli {
namespace {

constexpr const char* device_problems =
    "gemm,llama3_8b_qkv_m1,bf16,N,T,1,6144,4096,1\n"
    "gemm,llama3_8b_down_m256,bf16,N,T,256,4096,14336,1\n"
    "gemm,bert_large_ffn2_b8s512,fp16,N,T,4096,1024,4096,1\n"
    "gemm,odd_sgemm_1000_999_1001,fp32,N,T,1000,999,1001,1\n"
    "conv,rn50_s2_3x3_128_n32,fp16,NHWC,fwd,32,128,28,28,128,3,3,1,1,1,1\n"
    "conv,rn50_s3_1x1_1024_256_n32,fp16,NHWC,fwd,32,1024,14,14,256,1,1,0,1,1,1\n"
    "conv,mbv2_dw_384_14_n1,fp16,NHWC,fwd,1,384,14,14,384,3,3,1,1,1,384\n"
    "conv,sd15_640_32_wgrad,fp16,NHWC,wgrad,2,640,32,32,640,3,3,1,1,1,1\n";

/// Layers of the same kinds at sizes that a few cores compute in milliseconds.
constexpr const char* host_problems =
    "gemm,sgemm_sq512,fp32,N,N,512,512,512,1\n"
    "gemm,linear_m16,fp32,N,T,16,1024,1024,1\n"
    "gemm,attn_qk_b12s128,fp32,N,T,128,128,64,12\n"
    "gemm,dgemm_sq256,fp64,N,T,256,256,256,1\n"
    "gemm,linear_bf16_m64,bf16,N,T,64,512,512,1\n"
    "conv,rn50_s1_3x3_64_n1,fp32,NCHW,fwd,1,64,56,56,64,3,3,1,1,1,1\n"
    "conv,mbv2_dw_96_28_n1,fp32,NHWC,fwd,1,96,28,28,96,3,3,1,1,1,96\n"
    "conv,rn50_s3_1x1_256_64_n1_dgrad,fp32,NCHW,dgrad,1,256,14,14,64,1,1,0,1,1,1\n";

struct Files {
  std::string folder;    ///< made for the demo; empty with --plans
  std::string problems;  ///< the rows, for the new process
  std::string plans;
};

Files make_files(const Options& options, const std::string& problems) {
  std::string folder = (std::filesystem::temp_directory_path() / "attune-demo-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw Error(Status::file_error, folder + ": a folder cannot be made");
  Files files{folder, folder + "/problems.csv", options.plans ? *options.plans : folder + "/plans.jsonl"};
  std::ofstream out(files.problems);
  out << problems;
  if (!out.flush()) throw Error(Status::file_error, files.problems + ": cannot be written");
  return files;
}

/// Text of the rows that the filter leaves, for the new process.
std::string kept_lines(const char* all, const Workload& workload) {
  std::vector<std::string> lines(1);
  for (const char* c = all; *c != '\0'; ++c)
    if (*c == '\n')
      lines.emplace_back();
    else
      lines.back() += *c;
  std::string text;
  for (const Row& row : workload.rows) text += lines[static_cast<std::size_t>(row.line - 1)] + "\n";
  return text;
}

void expect(bool holds, const std::string& what, int& failures) {
  if (holds) return;
  fmt::print("FAILED: {}\n", what);
  ++failures;
}

bool right(double error) { return std::isfinite(error) && error >= 0 && error <= 1; }

std::vector<PlanInfo> tune_all(DeviceContext& device_context, const Workload& workload, int& failures) {
  fmt::print("\nFirst pass: every candidate is checked against a double-precision reference, then timed in turn.\n");
  const Table table({{"problem", 28, true},
                     {"tried", 5},
                     {"rejected", 8},
                     {"us", 9},
                     {"default us", 10},
                     {"speed-up", 8},
                     {"error", 6},
                     {"winner", 0, true}});
  table.header();
  Progress progress(static_cast<int>(workload.rows.size()));
  std::vector<PlanInfo> plans;
  for (const Row& row : workload.rows) {
    progress.next(row.name);
    const PlanInfo info = device_context.context().tune(*row.problem);
    progress.clear();
    table.row({row.name, std::to_string(info.timed + info.rejected), std::to_string(info.rejected), format_us(info.time_us),
               format_us(info.default_us), format_ratio(info.default_us, info.time_us), format_error(info.max_error),
               info.plan});
    expect(right(info.max_error), row.name + ": its answer is wrong", failures);
    plans.push_back(info);
  }
  return plans;
}

/// One run of the remembered plan on fresh operands: the error of its answer over what is allowed.
double run_once(DeviceContext& device_context, const Problem& asked, const std::string& plan_id) {
  const Problem problem = resolve(asked);
  const Constraints constraints = device_context.impl().constraints_for(asked);
  Runtime& runtime = device_context.impl().runtime();
  const auto guard = runtime.guard();
  const Prepared prepared = prepare_plan(device_context.impl().providers(), plan_id, problem, constraints);
  if (!prepared.plan) throw Error(Status::internal, fmt::format("{}: {}", plan_id, prepared.why));
  const auto trial = runtime.trial(problem, constraints, prepared.plan->traits().workspace, 2);
  if (!trial) throw Error(Status::no_memory, "operands do not fit in memory");
  const Check check = trial->check(*prepared.plan);
  if (check.outcome != Outcome::ok) throw Error(Status::internal, fmt::format("{}: {}", plan_id, check.why));
  return check.error;
}

Table again_table() {
  return Table({{"problem", 28, true}, {"timed", 5}, {"source", 8, true}, {"error", 6}, {"plan", 0, true}});
}

void run_again(DeviceContext& device_context, const Workload& workload, const std::vector<PlanInfo>& first, int& failures) {
  fmt::print("\nSecond pass: the same calls again, on other data. Nothing is timed.\n");
  const Table table = again_table();
  table.header();
  for (std::size_t i = 0; i < workload.rows.size(); ++i) {
    const Row& row = workload.rows[i];
    const PlanInfo info = device_context.context().tune(*row.problem);
    const double error = run_once(device_context, *row.problem, info.plan);
    table.row({row.name, std::to_string(info.timed), to_string(info.source), format_error(error), info.plan});
    expect(info.timed == 0, row.name + ": the second pass timed something", failures);
    expect(info.plan == first[i].plan, row.name + ": the plan has changed", failures);
    expect(right(error), row.name + ": its answer is wrong", failures);
  }
}

void run_in_new_process(const Options& options, DeviceContext& device_context, const Workload& workload, const Files& files,
                        const std::vector<PlanInfo>& first, int& failures) {
  std::vector<std::string> arguments{"tune", "--json", "--device", to_text(device_context.device()), "--plans", files.plans};
  if (options.effort) arguments.insert(arguments.end(), {"--effort", to_string(*options.effort)});
  arguments.push_back(files.problems);
  fmt::print("\nA new process reads the plan file. Nothing is timed.\n$ attune {}\n", fmt::join(arguments, " "));
  std::fflush(stdout);
  const ChildOutput child = run_self(arguments);
  expect(child.status == 0, fmt::format("the new process ended with {}", child.status), failures);

  const Table table = again_table();
  table.header();
  std::size_t i = 0;
  for (const std::string& line : child.lines) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || i == workload.rows.size()) {
      expect(false, "the new process printed: " + line, failures);
      continue;
    }
    const std::string name = json.value("name", ""), plan = json.value("plan", ""), source = json.value("source", "");
    const int timed = json.value("timed", -1);
    table.row({name, std::to_string(timed), source, format_error(json.value("max_error", 0.0)), plan});
    expect(timed == 0 && source == "file", name + ": not from the plan file", failures);
    expect(plan == first[i].plan, name + ": another plan than before", failures);
    ++i;
  }
  expect(i == workload.rows.size(), "the new process left rows out", failures);
}

}  // namespace

int run_demo(const Options& asked) {
  std::string why;
  Options options = asked;
  if (!options.device) options.device = cuda_device_count(why) > 0 ? Device::cuda(0) : Device::host();
  const bool host = options.device->kind == Device::Kind::host;
  const char* const text = host ? host_problems : device_problems;
  const Workload workload = parse_workload(text, "demo", options.filter);
  if (workload.rows.empty()) throw Error(Status::invalid_argument, "no problem of the demo matches --filter");
  const Files files = make_files(options, kept_lines(text, workload));
  options.plans = files.plans;

  DeviceContext device_context(options);
  device_context.impl().change([](Settings& settings) { settings.benchmark.set(true, Origin::flag, "demo"); });
  const DeviceInfo& device = device_context.impl().runtime().info();
  if (!asked.device && host) fmt::print("{}: the demo runs on the host engine.\n", why.empty() ? "no GPU is visible" : why);
  fmt::print("Attune on {}: {} problems\n", device.name, workload.rows.size());

  int failures = 0;
  const std::vector<PlanInfo> first = tune_all(device_context, workload, failures);
  run_again(device_context, workload, first, failures);
  run_in_new_process(options, device_context, workload, files, first, failures);

  fmt::print("\nPlan file: {}\nProblems:  {}\n", files.plans, files.problems);
  fmt::print(
      "Next: `attune plans show {}` says what was tried; `attune tune FILE` tunes problems of your own;\n"
      "set ATTUNE_CACHE_FILE={} for a program that calls Attune, and it starts tuned.\n",
      files.plans, files.plans);
  if (failures > 0) fmt::print("{} of the demo's promises did not hold.\n", failures);
  return failures == 0 ? exit_ok : exit_bad_rows;
}

}  // namespace attune::cli

// The program: the reader of its workload files, and whole commands on the host engine through the built binary.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/workload.hpp"

namespace attune::cli {
namespace {

namespace fs = std::filesystem;

template <class P>
const P& as(const Row& row) {
  EXPECT_EQ(row.wrong, "");
  return std::get<P>(row.problem.value());
}

TEST(Workload, GemmLinesAreRowMajor) {
  const Row row = parse_row("gemm,layer,bf16,N,T,8,6144,4096,3", 7);
  const auto& p = as<GemmProblem>(row);
  EXPECT_EQ(row.line, 7);
  EXPECT_EQ(row.kind, "gemm");
  EXPECT_EQ(row.name, "layer");
  EXPECT_EQ(row.dtype, "bf16");
  EXPECT_EQ(p.m, 6144);
  EXPECT_EQ(p.n, 8);
  EXPECT_EQ(p.k, 4096);
  EXPECT_EQ(p.batch, 3);
  EXPECT_EQ(p.op_a, Op::T);
  EXPECT_EQ(p.op_b, Op::N);
  EXPECT_EQ(p.a_type, DType::bf16);
  EXPECT_EQ(p.compute, Compute::f32);
}

TEST(Workload, TypesDecideTheCompute) {
  EXPECT_EQ(as<GemmProblem>(parse_row("gemm,a,tf32,N,N,8,8,8,1", 1)).compute, Compute::f32_tf32);
  EXPECT_EQ(as<GemmProblem>(parse_row("gemm,a,fp32,N,N,8,8,8,1", 1)).compute, Compute::f32);
  EXPECT_EQ(as<GemmProblem>(parse_row("gemm,a,fp64,N,N,8,8,8,1", 1)).compute, Compute::f64);
}

TEST(Workload, ConvLinesHoldTheForwardSizes) {
  const Row row = parse_row("conv,c,fp16,NHWC,dgrad,2,64,28,30,128,3,5,1,2,3,4", 1);
  const auto& p = as<ConvProblem>(row);
  EXPECT_EQ(p.direction, Direction::dgrad);
  EXPECT_EQ(p.layout, Layout::nhwc);
  EXPECT_EQ(p.x.size[1], 64);
  EXPECT_EQ(p.x.size[3], 30);
  EXPECT_EQ(p.w.size[0], 128);
  EXPECT_EQ(p.w.size[1], 16);
  EXPECT_EQ(p.w.size[3], 5);
  EXPECT_EQ(p.groups, 4);
  EXPECT_EQ(p.pad.before[1], 1);
  EXPECT_EQ(p.pad.after[0], 1);
  EXPECT_EQ(p.stride[0], 2);
  EXPECT_EQ(p.dilation[1], 3);
}

TEST(Workload, Conv3dLinesHaveThreeOfEach) {
  const Row row = parse_row("conv3d,c,bf16,NCDHW,wgrad,2,8,10,11,12,16,1,3,5,0,1,2,1,2,3,1,1", 1);
  const auto& p = as<ConvProblem>(row);
  EXPECT_EQ(row.kind, "conv3d");
  EXPECT_EQ(p.spatial(), 3);
  EXPECT_EQ(p.x.size[2], 10);
  EXPECT_EQ(p.w.size[4], 5);
  EXPECT_EQ(p.pad.before[2], 2);
  EXPECT_EQ(p.stride[2], 3);
}

TEST(Workload, TextFormIsReadAsToStringWritesIt) {
  const Row conv = parse_row("conv,c,tf32,NCHW,fwd,1,4,8,8,4,3,3,1,1,1,2", 1);
  const Row again = parse_row(to_string(*conv.problem), 1);
  EXPECT_EQ(again.wrong, "");
  EXPECT_EQ(to_string(*again.problem), to_string(*conv.problem));
  EXPECT_EQ(again.name, to_string(*conv.problem));
  EXPECT_EQ(again.dtype, "tf32");
  EXPECT_EQ(again.kind, "conv");
  EXPECT_EQ(parse_row("conv x=1,2,3,4,5 w=2,2,1,1,1 xt=f16", 1).kind, "conv3d");
}

TEST(Workload, BadLinesNameFieldAndValue) {
  const std::pair<const char*, const char*> cases[] = {
      {"gemm,a,bf16,N,X,8,8,8,1", "transB = 'X'"},
      {"gemm,a,bf17,N,T,8,8,8,1", "dtype = 'bf17'"},
      {"gemm,a,bf16,N,T,8,-8,8,1", "N = -8"},
      {"gemm,a,bf16,N,T,8,8x,8,1", "N = '8x'"},
      {"gemm,a,bf16,N,T,8,99999999999999999999,8,1", "does not fit"},
      {"gemm,a,bf16,N,T,8,8,8", "8 fields where gemm has 9"},
      {"conv,a,fp16,NHWC,fwd,1,8,8,8,8,3,3,1,1,1,3", "groups = 3: does not divide C = 8"},
      {"conv,a,fp16,NDHWC,fwd,1,8,8,8,8,3,3,1,1,1,1", "layout = 'NDHWC'"},
      {"conv,a,fp16,NHWC,sideways,1,8,8,8,8,3,3,1,1,1,1", "dir = 'sideways'"},
      {"conv,a,fp16,NHWC,fwd,1,8,8,8,8,3,3,1,0,1,1", "stride = 0"},
      {"gemm m=8 n=8 k=8 q=1", "q=1"},
      {"winograd,a,b", "'winograd': unknown kind"},
      {",,,", "unknown kind"},
  };
  for (const auto& [line, part] : cases) {
    const Row row = parse_row(line, 1);
    EXPECT_NE(row.wrong.find(part), std::string::npos) << line << "\n" << row.wrong;
    EXPECT_FALSE(row.problem.has_value()) << line;
  }
  EXPECT_NE(parse_row(std::string(100000, 'g'), 1).wrong, "");
}

TEST(Workload, Fp8MeansE4m3InAndBf16Out) {
  const Row row = parse_row("gemm,a,fp8,N,T,64,64,64,1", 1);
  ASSERT_TRUE(row.problem.has_value());
  EXPECT_EQ(std::get<GemmProblem>(*row.problem).a_type, DType::f8_e4m3);
  EXPECT_EQ(std::get<GemmProblem>(*row.problem).c_type, DType::bf16);
  EXPECT_TRUE(row.wrong.empty()) << row.wrong;
}

TEST(Workload, CommentsBlanksAndFiltersDoNotShiftLines) {
  const Workload w =
      parse_workload("# head\r\n\n  gemm,one,fp32,N,N,8,8,8,1\r\n#\ngemm,two,fp32,N,N,8,8,8,1\n???", "f", "^two$");
  ASSERT_EQ(w.rows.size(), 2u);
  EXPECT_EQ(w.rows[0].name, "two");
  EXPECT_EQ(w.rows[0].line, 5);
  EXPECT_EQ(w.rows[1].line, 6);
  EXPECT_EQ(complaint(w, w.rows[0], "why"), "f:5: two: why");
}

TEST(Workload, TheSuiteIsReadWhole) {
  const Workload w = read_workload(ATTUNE_SOURCE_DIR "/benchmarks/workloads.csv", "");
  EXPECT_EQ(w.rows.size(), 168u);
  for (const Row& row : w.rows) {
    EXPECT_TRUE(row.problem.has_value()) << row.name << ": " << row.wrong;
    EXPECT_TRUE(row.wrong.empty()) << row.name << ": " << row.wrong;
    EXPECT_NE(row.class_name, "") << row.name;
  }
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class Program : public testing::Test {
 protected:
  struct Result {
    int status = -1;
    std::string out, err;
    std::vector<nlohmann::json> objects() const {
      std::vector<nlohmann::json> lines;
      std::istringstream in(out);
      for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
      return lines;
    }
  };

  void SetUp() override {
    for (const char* name :
         {"ATTUNE_BENCHMARK", "ATTUNE_DETERMINISTIC", "ATTUNE_EFFORT", "ATTUNE_BUDGET_MS", "ATTUNE_WORKSPACE_MB",
          "ATTUNE_CACHE_FILE", "ATTUNE_CACHE_READ", "ATTUNE_CACHE_WRITE", "ATTUNE_RECORD", "ATTUNE_LOG"})
      unsetenv(name);
    std::string name = (fs::temp_directory_path() / "attune-cli-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    write(folder_ / "good.csv",
          "gemm,small,fp32,N,T,24,40,32,1\ngemm,batch,fp64,N,N,16,16,16,4\nconv,c3x3,fp32,NHWC,fwd,1,8,10,10,8,3,3,1,1,1,1\n");
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Runs `attune ARGUMENTS` in the folder.
  Result run(const std::string& arguments, const std::string& environment = "") {
    const std::string command = "cd '" + folder_.string() + "' && " + environment + " '" ATTUNE_PROGRAM_PATH "' " + arguments +
                                " >out.txt 2>err.txt </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(folder_ / "out.txt"), read(folder_ / "err.txt")};
  }

  fs::path folder_;
};

TEST_F(Program, ASecondProcessTimesNothing) {
  const Result first = run("tune good.csv --json --device host --plans p.jsonl");
  ASSERT_EQ(first.status, 0) << first.err;
  const Result second = run("tune good.csv --json --device host --plans p.jsonl");
  ASSERT_EQ(second.status, 0) << second.err;
  const auto before = first.objects(), after = second.objects();
  ASSERT_EQ(before.size(), 3u);
  ASSERT_EQ(after.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(before[i]["source"], "tuned");
    EXPECT_GT(before[i]["timed"].get<int>(), 1);
    EXPECT_GT(before[i]["us"].get<double>(), 0);
    EXPECT_GT(before[i]["default_us"].get<double>(), 0);
    EXPECT_LE(before[i]["max_error"].get<double>(), 1);
    EXPECT_EQ(after[i]["source"], "file");
    EXPECT_EQ(after[i]["timed"], 0);
    EXPECT_EQ(after[i]["name"], before[i]["name"]);
    EXPECT_EQ(after[i]["plan"], before[i]["plan"]);
  }
}

TEST_F(Program, BadLinesCostOnlyThemselves) {
  write(folder_ / "mixed.csv",
        "gemm,first,fp32,N,N,16,16,16,1\ngemm,torn,fp32,N\nnonsense\ngemm,nine,fp9,N,T,16,16,16,1\ngemm,last,fp32,N,N,8,8,8,"
        "1\n");
  const Result result = run("tune mixed.csv --json --device host");
  EXPECT_EQ(result.status, 1);
  const auto rows = result.objects();
  ASSERT_EQ(rows.size(), 2u) << result.out;
  EXPECT_EQ(rows[0]["name"], "first");
  EXPECT_EQ(rows[1]["name"], "last");
  for (const char* place : {"mixed.csv:2: ", "mixed.csv:3: ", "mixed.csv:4: "})
    EXPECT_EQ(count(result.err, place), 1u) << result.err;
  EXPECT_EQ(count(result.err, "mixed.csv:"), 3u) << result.err;
}

TEST_F(Program, ADamagedPlanFileCostsOnlyItsDamagedLines) {
  ASSERT_EQ(run("tune good.csv --json --device host --plans p.jsonl").status, 0);
  std::string text = read(folder_ / "p.jsonl");
  const std::size_t end = text.find('\n');
  ASSERT_NE(end, std::string::npos);
  write(folder_ / "p.jsonl", text.substr(0, end / 2) + "\n{\"v\":99}\nnot json\n" + text.substr(end + 1));
  const Result result = run("tune good.csv --json --device host --plans p.jsonl");
  EXPECT_EQ(result.status, 0) << result.err;
  const auto rows = result.objects();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["source"], "tuned");
  EXPECT_EQ(rows[1]["source"], "file");
  EXPECT_EQ(rows[2]["source"], "file");

  const Result list = run("plans list p.jsonl");
  EXPECT_EQ(list.status, 0);
  EXPECT_NE(list.out.find("3 records, 3 lines kept and not used"), std::string::npos) << list.out;
  EXPECT_NE(list.out.find("p.jsonl:1: "), std::string::npos) << list.out;
}

TEST_F(Program, PlansAreListedShownAndFiltered) {
  ASSERT_EQ(run("tune good.csv --device host --plans p.jsonl").status, 0);
  EXPECT_EQ(count(run("plans list p.jsonl").out, "gemm m=40 n=24") + count(run("plans list p.jsonl").out, "gemm op_a=T m=40"),
            1u);
  const Result show = run("plans show p.jsonl --filter '^conv'");
  EXPECT_EQ(show.status, 0);
  EXPECT_NE(show.out.find("conv x=1,8,10,10"), std::string::npos) << show.out;
  EXPECT_EQ(show.out.find("gemm"), std::string::npos) << show.out;
  EXPECT_NE(show.out.find("1 records"), std::string::npos) << show.out;
}

TEST_F(Program, PlansAreCheckedPrunedAndMerged) {
  ASSERT_EQ(run("tune good.csv --device host --plans p.jsonl").status, 0);
  const std::string good = read(folder_ / "p.jsonl");
  Result check = run("plans check p.jsonl");
  EXPECT_EQ(check.status, 0) << check.out;
  EXPECT_NE(check.out.find(" 3 usable"), std::string::npos) << check.out;

  // A slower record of the first key, one of another device, one of a provider that has changed, one of a variant that is not
  // built in, a newer line, a damaged one.
  const nlohmann::json first = nlohmann::json::parse(good.substr(0, good.find('\n')));
  nlohmann::json slow = first, foreign = first, stale = first, absent = first;
  slow["us"] = first["us"].get<double>() * 2;
  foreign["device"] = "another", stale["version"] = "old", absent["plan"] = "host:not_built_in";
  std::string text = good;
  for (const auto& record : {slow, foreign, stale, absent}) text += record.dump() + "\n";
  write(folder_ / "p.jsonl", text + "{\"v\":99}\nnot json\n");
  check = run("plans check p.jsonl");
  EXPECT_EQ(check.status, 1);
  for (const char* line : {" 4 usable", " 1 of a provider that has changed", " 1 of a provider that is not here",
                           " 1 of other devices", " 1 of a newer version", " 1 damaged", "p.jsonl:9: "})
    EXPECT_NE(check.out.find(line), std::string::npos) << line << "\n" << check.out;

  const Result prune = run("plans prune p.jsonl");
  EXPECT_EQ(prune.status, 0) << prune.err;
  EXPECT_NE(prune.out.find("dropped 1 of a provider that has changed, 1 beaten"), std::string::npos) << prune.out;
  EXPECT_NE(prune.out.find("1 damaged; 6 left"), std::string::npos) << prune.out;
  EXPECT_EQ(run("plans check p.jsonl").status, 0);
  EXPECT_EQ(count(read(folder_ / "p.jsonl"), "\"another\""), 1u) << "other devices' records stay";
  EXPECT_EQ(count(read(folder_ / "p.jsonl"), "{\"v\":99}"), 1u) << "and lines of newer versions";
  EXPECT_EQ(count(read(folder_ / "p.jsonl"), "not_built_in"), 1u) << "and records of what another build may have";
  const std::string pruned = read(folder_ / "p.jsonl");
  std::istringstream lines(good);
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(count(pruned, line), 1u) << "no winner is lost: " << line;

  write(folder_ / "q.jsonl", good);
  EXPECT_EQ(run("plans merge new.jsonl p.jsonl q.jsonl").status, 0);
  EXPECT_EQ(read(folder_ / "new.jsonl"), read(folder_ / "p.jsonl"));
  EXPECT_EQ(run("plans prune missing.jsonl").status, 2);
}

TEST_F(Program, RecordPassesTheStatusOnAndTuneReadsWhatItWrote) {
  const Result seven = run("record --out r.txt -- sh -c 'exit 7'");
  EXPECT_EQ(seven.status, 7);
  EXPECT_NE(seven.err.find("nothing was recorded"), std::string::npos) << seven.err;
  const Result none = run("record -- no_such_command_at_all");
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("no_such_command_at_all"), std::string::npos) << none.err;

  // The command finds the name of the file in its environment; here it writes what a context would.
  const Result recorded =
      run("record --out r.txt -- sh -c 'echo 12 gemm m=32 n=16 k=8 > \"$ATTUNE_RECORD\"; echo 3 gemm m=8 n=8 k=8 >> "
          "\"$ATTUNE_RECORD\"'");
  EXPECT_EQ(recorded.status, 0) << recorded.err;
  EXPECT_NE(recorded.out.find("12  gemm m=32 n=16 k=8"), std::string::npos) << recorded.out;
  const auto rows = run("tune r.txt --json --device host").objects();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["name"], "gemm m=32 n=16 k=8");
}

TEST_F(Program, ARowIsTunedUnderItsOwnConstraintsAndTheNextUnderTheUsual) {
  write(folder_ / "r.txt",
        "3 gemm m=32 n=16 k=8 | math=transforms workspace=32MiB deterministic\n2 gemm m=32 n=16 k=8\n"
        "1 gemm m=8 n=8 k=8 | workspace=3MiB\n");
  const Result tuned = run("tune r.txt --json --device host --plans p.jsonl", "ATTUNE_WORKSPACE_MB=4");
  EXPECT_EQ(tuned.status, 1);
  EXPECT_NE(tuned.err.find("workspace=3MiB"), std::string::npos) << tuned.err;
  EXPECT_EQ(tuned.objects().size(), 2u);
  std::vector<std::string> constraints;
  std::istringstream lines(read(folder_ / "p.jsonl"));
  for (std::string line; std::getline(lines, line);) constraints.push_back(nlohmann::json::parse(line)["constraints"]);
  EXPECT_EQ(constraints, (std::vector<std::string>{"math=strict workspace=32MiB deterministic", "math=strict workspace=4MiB"}));
}

TEST_F(Program, BenchWritesJson) {
  write(folder_ / "b.csv", "gemm,sq,fp32,N,N,64,64,64,1\ngemm,bad,fp32\n");
  const Result result = run("bench b.csv --json --device host");
  EXPECT_EQ(result.status, 1);
  const auto rows = result.objects();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_GT(rows[0]["winner_us"].get<double>(), 0);
  EXPECT_NE(rows[0]["winner"], "");
  EXPECT_EQ(rows[1]["name"], "bad");
  EXPECT_NE(rows[1]["wrong"], "");
  for (const auto& [name, value] : rows[0].items()) EXPECT_TRUE(rows[1].contains(name)) << name;
  EXPECT_NE(result.err.find("Geometric means"), std::string::npos) << "the rest goes to stderr";
}

TEST_F(Program, AllDevicesMeansAllGpus) {
  const Result none = run("tune good.csv --device all", "CUDA_VISIBLE_DEVICES=-1");
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("--device all"), std::string::npos) << none.err;
}

TEST_F(Program, FilterTakesMatchingNames) {
  const auto rows = run("tune good.csv --json --device host --filter 'bat|3x3'").objects();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["name"], "batch");
  EXPECT_EQ(rows[1]["name"], "c3x3");
}

TEST_F(Program, BadUsageEndsWithTwo) {
  for (const char* arguments : {"", "tune", "tune missing.csv", "tune good.csv --device tpu", "tune good.csv --device cuda:x",
                                "tune good.csv --effort heroic", "tune good.csv --budget-ms -1", "tune good.csv --filter '('",
                                "tune good.csv --colour", "plans", "plans list", "juggle"}) {
    const Result result = run(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_NE(result.err, "") << arguments;
  }
  EXPECT_EQ(run("--help").status, 0);
  EXPECT_EQ(run("tune --help").status, 0);
  EXPECT_EQ(run("--version").status, 0);
}

TEST_F(Program, AFlagBeatsTheEnvironment) {
  const Result info =
      run("info --device host --effort quick --plans mine.jsonl", "ATTUNE_EFFORT=exhaustive ATTUNE_CACHE_FILE=theirs");
  EXPECT_EQ(info.status, 0) << info.err;
  EXPECT_NE(info.out.find("quick (--effort)"), std::string::npos) << info.out;
  EXPECT_NE(info.out.find("mine.jsonl (--plans)"), std::string::npos) << info.out;
  EXPECT_EQ(info.out.find("theirs"), std::string::npos) << info.out;
  const Result plain = run("info --device host", "ATTUNE_EFFORT=exhaustive");
  EXPECT_NE(plain.out.find("exhaustive (ATTUNE_EFFORT)"), std::string::npos) << plain.out;
  EXPECT_NE(plain.out.find("attune 0."), std::string::npos);
}

TEST_F(Program, DemoKeepsItsPromises) {
  const Result demo = run("demo --device host --effort quick --plans p.jsonl");
  EXPECT_EQ(demo.status, 0) << demo.out << demo.err;
  EXPECT_EQ(demo.out.find("FAILED"), std::string::npos) << demo.out;
  EXPECT_EQ(count(demo.out, "  memory  "), 8u) << demo.out;
  EXPECT_EQ(count(demo.out, "  file  "), 8u) << demo.out;
  EXPECT_TRUE(fs::exists(folder_ / "p.jsonl"));
  EXPECT_EQ(run("demo --device host --effort quick --plans p.jsonl").status, 0);
}

TEST_F(Program, BenchWritesItsTable) {
  write(folder_ / "mixed.csv", "gemm,sq,fp32,N,N,64,64,64,1\nconv,eight,fp8,nhwc,fwd,1,8,8,8,8,1,1,0,1,1,1\n");
  const Result bench = run("bench mixed.csv --device host --effort quick --csv b.csv");
  EXPECT_EQ(bench.status, 1) << bench.err;
  EXPECT_EQ(count(bench.err, "mixed.csv:2: "), 1u) << bench.err;
  EXPECT_NE(bench.out.find("all GEMM"), std::string::npos) << bench.out;

  std::istringstream csv(read(folder_ / "b.csv"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(csv, line);)
    if (!line.starts_with("# ")) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0],
            "kind,name,class,dtype,floor_us,default_us,vendor_best_us,winner_us,winner,own_best_us,own_best,timed,rejected,max_"
            "error");
  EXPECT_TRUE(lines[1].starts_with("gemm,sq,,fp32,")) << lines[1];
  EXPECT_EQ(lines[2], "conv,eight,,fp8,,,,,,,,,,");
  EXPECT_EQ(std::count(lines[1].begin(), lines[1].end(), ','), std::count(lines[0].begin(), lines[0].end(), ','));
}

}  // namespace
}  // namespace attune::cli

#include "tune/record.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

namespace attune {
namespace {

Record sample() {
  Record r;
  r.key = {"Device A|9.0|132|1|2", "gemm m=64 n=32 k=16", "math=strict"};
  r.plan = "tile:f16_128x256x64_c2_s4";
  r.version = "3";
  r.us = 12.625;
  r.default_plan = "cublaslt:algo=66,tile=20";
  r.default_version = "13.1";
  r.default_us = 15.1;
  r.workspace = 1 << 20;
  r.effort = Effort::exhaustive;
  r.timed = 17;
  r.rejected = 2;
  r.max_error = 0.25;
  r.runners_up = {{"cublaslt:algo=66,tile=21", 12.75}, {"tile:other", 13}};
  return r;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string why_refused(const std::string& line) {
  std::string why;
  return parse_line(line, why) ? "accepted" : why;
}

TEST(Record, LineStartsWithTheVersionAndHoldsNoNewline) {
  const std::string line = to_line(sample());
  EXPECT_EQ(line.rfind("{\"v\":1,\"device\":", 0), 0u) << line;
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(Record, ComesBackFromItsLine) {
  std::string why;
  const auto back = parse_line(to_line(sample()), why);
  ASSERT_TRUE(back) << why;
  EXPECT_EQ(*back, sample());
  EXPECT_EQ(to_line(*back), to_line(sample()));
}

TEST(Record, TimesComeBackToTheLastBit) {
  for (double us : {0.1, 1.0 / 3, 1e-3, 123456789.123, 1e12}) {
    Record r = sample();
    r.us = us;
    std::string why;
    const auto back = parse_line(to_line(r), why);
    ASSERT_TRUE(back) << why;
    EXPECT_EQ(back->us, us);
  }
}

TEST(Record, UnknownFieldsAreIgnoredAndWrittenBack) {
  const std::string line = replaced(to_line(sample()), "\"us\":", R"("note":{"a":[1,2,"x"]},"us":)");
  std::string why;
  const auto back = parse_line(line, why);
  ASSERT_TRUE(back) << why;
  EXPECT_EQ(back->plan, sample().plan);
  EXPECT_NE(to_line(*back).find(R"("note":{"a":[1,2,"x"]})"), std::string::npos);
  EXPECT_EQ(parse_line(to_line(*back), why), back);
}

TEST(Record, FieldsThatSayLittleMayBeAbsent) {
  std::string why;
  const auto r = parse_line(
      R"({"v":1,"device":"d","problem":"p","constraints":"","plan":"host:a","version":"1","us":5,"effort":"quick"})", why);
  ASSERT_TRUE(r) << why;
  EXPECT_EQ(r->us, 5);
  EXPECT_EQ(r->default_us, 0);
  EXPECT_TRUE(r->runners_up.empty());
}

TEST(Record, EachRequiredFieldIsMissed) {
  for (const char* name : {"v", "device", "problem", "constraints", "plan", "version", "us", "effort"}) {
    const std::string line = replaced(to_line(sample()), std::string("\"") + name + "\":", "\"x\":");
    EXPECT_EQ(why_refused(line), std::string(name) + " is missing");
  }
}

TEST(Record, AFieldOfAnotherTypeIsRefused) {
  const std::string line = to_line(sample());
  for (const char* value : {"\"12\"", "true", "null", "[1]", "{}"}) {
    EXPECT_NE(why_refused(replaced(line, "\"us\":12.625", std::string("\"us\":") + value)), "accepted") << value;
    EXPECT_NE(why_refused(replaced(line, "\"timed\":17", std::string("\"timed\":") + value)), "accepted") << value;
    EXPECT_NE(why_refused(replaced(line, "\"v\":1", std::string("\"v\":") + value)), "accepted") << value;
  }
  EXPECT_NE(why_refused(replaced(line, "\"timed\":17", "\"timed\":1.5")), "accepted");
  EXPECT_NE(why_refused(replaced(line, "\"workspace\":1048576", "\"workspace\":-1")), "accepted");
  EXPECT_NE(why_refused(replaced(line, "\"version\":\"3\"", "\"version\":3")), "accepted");
  EXPECT_NE(why_refused(replaced(line, "\"exhaustive\"", "\"Exhaustive\"")), "accepted");
  EXPECT_NE(why_refused(replaced(line, "\"runners_up\":[", "\"runners_up\":[5,")), "accepted");
}

TEST(Record, TimesThatAreNoneAreRefused) {
  for (const char* us : {"0", "-0.0", "-1", "1e999", "-1e999", "1e-320", "1e13", "NaN", "null", "Infinity"})
    EXPECT_NE(why_refused(replaced(to_line(sample()), "12.625", us)), "accepted") << us;
  Record r = sample();
  for (double us : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    r.us = us;
    EXPECT_NE(fault(r), "");
    EXPECT_NE(why_refused(to_line(r)), "accepted");
  }
}

TEST(Record, LengthsAreBounded) {
  const auto with = [](auto change) {
    Record r = sample();
    change(r);
    EXPECT_EQ(fault(r).empty(), why_refused(to_line(r)) == "accepted");
    return fault(r);
  };
  EXPECT_EQ(with([](Record& r) { r.plan.assign(max_plan_bytes, 'p'); }), "");
  EXPECT_NE(with([](Record& r) { r.plan.assign(max_plan_bytes + 1, 'p'); }), "");
  EXPECT_EQ(with([](Record& r) { r.key.problem.assign(max_problem_bytes, 'p'); }), "");
  EXPECT_NE(with([](Record& r) { r.key.problem.assign(max_problem_bytes + 1, 'p'); }), "");
  EXPECT_NE(with([](Record& r) { r.key.device.assign(max_device_bytes + 1, 'p'); }), "");
  EXPECT_NE(with([](Record& r) { r.version.assign(max_version_bytes + 1, 'p'); }), "");
  EXPECT_NE(with([](Record& r) { r.runners_up.assign(max_runners_up + 1, {"host:a", 1}); }), "");
  EXPECT_NE(with([](Record& r) { r.plan.clear(); }), "");
  EXPECT_NE(with([](Record& r) { r.plan += '\n'; }), "");
  EXPECT_NE(with([](Record& r) { r.timed = -1; }), "");
}

TEST(Record, TheLongestLegalRecordFitsInALine) {
  Record r = sample();
  r.key = {std::string(max_device_bytes, '"'), std::string(max_problem_bytes, '\\'), std::string(max_constraints_bytes, '"')};
  r.plan = r.default_plan = std::string(max_plan_bytes, '\\');
  r.version = r.default_version = std::string(max_version_bytes, '"');
  r.runners_up.assign(max_runners_up, {r.plan, 1.0 / 3});
  EXPECT_LT(to_line(r).size(), max_line_bytes);
  EXPECT_EQ(why_refused(to_line(r)), "accepted");
}

TEST(Record, DamagedLinesAreRefusedWithoutThrowing) {
  const std::string line = to_line(sample());
  for (std::size_t length = 0; length < line.size(); ++length) EXPECT_NE(why_refused(line.substr(0, length)), "accepted");
  EXPECT_NE(why_refused(line + "x"), "accepted");
  EXPECT_NE(why_refused(line + line), "accepted");
  EXPECT_NE(why_refused(line + std::string(1, '\0') + "x"), "accepted");
  EXPECT_NE(why_refused(replaced(line, "Device", "D\xff\xfevice")), "accepted");
  EXPECT_NE(why_refused(replaced(line, "Device", "D\xc3vice")), "accepted");
  EXPECT_NE(why_refused(replaced(line, "Device", "D\\u0000vice")), "accepted");
  EXPECT_NE(why_refused(replaced(line, "\"us\":", "\"us\":1,\"us\":")), "accepted");
  EXPECT_NE(why_refused("[" + line + "]"), "accepted");
  EXPECT_NE(why_refused("5"), "accepted");
}

TEST(Record, DeepNestingAndManyFieldsCostNoStack) {
  EXPECT_NE(why_refused(std::string(max_line_bytes, '[')), "accepted");
  std::string objects;
  while (objects.size() + 5 < max_line_bytes) objects += "{\"a\":";
  EXPECT_NE(why_refused(objects), "accepted");
  const std::string brackets = std::string(20'000, '[') + std::string(20'000, ']');
  EXPECT_EQ(why_refused(replaced(to_line(sample()), "\"us\":", "\"note\":" + brackets + ",\"us\":")), "values nest too deep");
  std::string fields = "{";
  for (int i = 0; fields.size() < max_line_bytes - 20; ++i) fields += "\"" + std::to_string(i) + "\":0,";
  EXPECT_NE(why_refused(fields + "\"z\":0}"), "accepted");
  EXPECT_NE(why_refused("{\"v\":1" + std::string(max_line_bytes, ' ') + "}"), "accepted");
}

TEST(Record, RandomDamageNeverThrows) {
  const unsigned seed = 20250811;
  std::mt19937 random(seed);
  const std::string line = to_line(sample());
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = line;
    for (unsigned hits = random() % 4 + 1; hits > 0; --hits) damaged[random() % damaged.size()] = static_cast<char>(random());
    std::string why;
    const auto record = parse_line(damaged, why);
    EXPECT_EQ(record.has_value(), why.empty()) << "seed " << seed << ": " << damaged;
    if (record) {
      EXPECT_EQ(fault(*record), "");
    }
  }
}

TEST(Record, ALineOfANewerVersionIsNamedAsSuch) {
  EXPECT_EQ(why_refused(replaced(to_line(sample()), "\"v\":1", "\"v\":2")), "version 2 is newer than 1");
  EXPECT_EQ(why_refused(R"({"v":7,"all":"different"})"), "version 7 is newer than 1");
  EXPECT_NE(why_refused(replaced(to_line(sample()), "\"v\":1", "\"v\":0")), "accepted");
  EXPECT_NE(why_refused(replaced(to_line(sample()), "\"v\":1", "\"v\":1.0")), "accepted");
}

TEST(Record, OrderIsEffortThenTimeThenText) {
  Record a = sample(), b = sample();
  EXPECT_FALSE(better(a, b));
  b.us = a.us / 2;
  EXPECT_TRUE(better(b, a));
  b.effort = Effort::standard;
  EXPECT_TRUE(better(a, b));
  EXPECT_FALSE(better(b, a));
  b = a;
  b.plan = "tile:e";
  EXPECT_TRUE(better(b, a));
  EXPECT_FALSE(better(a, b));
}

TEST(RecordStore, KeepsTheBetterOfOneKeyPlanAndVersion) {
  RecordStore store;
  Record r = sample();
  EXPECT_TRUE(store.add(r));
  EXPECT_FALSE(store.add(r));
  r.us = 20;
  EXPECT_FALSE(store.add(r));
  r.us = 10;
  EXPECT_TRUE(store.add(r));
  EXPECT_EQ(store.size(), 1u);
  r.version = "4";
  EXPECT_TRUE(store.add(r));
  r.plan = "tile:other";
  EXPECT_TRUE(store.add(r));
  EXPECT_EQ(store.size(), 3u);
}

TEST(RecordStore, PartsOfTheKeyDoNotRunIntoEachOther) {
  RecordStore store;
  Record r = sample();
  for (const KeyText& key : {KeyText{"a", "b", "c"}, KeyText{"ab", "", "c"}, KeyText{"a", "bc", ""}, KeyText{"", "a", "bc"}}) {
    r.key = key;
    EXPECT_TRUE(store.add(r));
  }
  EXPECT_EQ(store.size(), 4u);
}

TEST(RecordStore, AValidRecordComesBeforeABetterInvalidOne) {
  RecordStore store;
  Record old = sample(), present = sample();
  old.version = "2";
  old.us = 1;
  present.effort = Effort::quick;
  store.add(old);
  store.add(present);
  const auto valid = [](const Record& r) { return r.version == "3"; };
  bool is_valid = false;
  const Record* best = store.best(sample().key, valid, is_valid);
  ASSERT_NE(best, nullptr);
  EXPECT_TRUE(is_valid);
  EXPECT_EQ(*best, present);
  best = store.best(
      sample().key, [](const Record&) { return false; }, is_valid);
  ASSERT_NE(best, nullptr);
  EXPECT_FALSE(is_valid);
  EXPECT_EQ(*best, old);
  EXPECT_EQ(store.best({"x", "y", "z"}, valid, is_valid), nullptr);
  EXPECT_FALSE(is_valid);
}

TEST(RecordStore, ManyRivalsOfOneKeyStayQuick) {
  RecordStore store;
  Record r = sample();
  for (int i = 0; i < 20'000; ++i) {
    r.plan = "host:" + std::to_string(i);
    r.us = 20'000 - i;
    store.add(r);
  }
  bool is_valid = false;
  const Record* best = store.best(
      r.key, [](const Record&) { return true; }, is_valid);
  ASSERT_NE(best, nullptr);
  EXPECT_EQ(best->us, 1);
  double last = 0;
  store.for_each([&](const Record& each) {
    EXPECT_GT(each.us, last);
    last = each.us;
  });
}

}  // namespace
}  // namespace attune

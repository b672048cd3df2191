// Reading, appending, rewriting and merging plan files.
#include "tune/plan_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <clocale>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/plan_file_fixture.hpp"

namespace attune {
namespace {

// --- reading and appending

TEST_F(PlanFileTest, AMissingFileIsNoError) {
  const PlanFile file = read_plan_file(path);
  EXPECT_TRUE(file.missing);
  EXPECT_EQ(file.error, "");
  EXPECT_TRUE(file.records.empty());
}

TEST_F(PlanFileTest, AppendedRecordsAreReadBackInOrder) {
  ASSERT_EQ(append_record(path, record_of("b")), "");
  ASSERT_EQ(append_record(path, record_of("a")), "");
  const PlanFile file = read_plan_file(path);
  ASSERT_EQ(file.records.size(), 2u);
  EXPECT_EQ(file.records[0], record_of("b"));
  EXPECT_EQ(file.records[1], record_of("a"));
  EXPECT_TRUE(file.kept.empty());
  EXPECT_FALSE(file.missing);
}

TEST_F(PlanFileTest, BadLinesCostOnlyThemselves) {
  const std::string newer = R"({"v":2,"something":"else"})";
  const std::string binary("\x00\xff\x80{}\x01", 6);
  const std::string oversized = "{\"v\":1,\"note\":\"" + std::string(3 * max_line_bytes, 'x') + "\"}";
  const std::string deep(max_line_bytes, '[');
  const std::string torn = to_line(record_of("torn")).substr(0, 60);
  std::string text = "\xef\xbb\xbf" + to_line(record_of("first")) + "\r\n\r\n \n";
  for (const std::string& line : {newer, binary, oversized, deep, torn})
    text += line + "\n" + to_line(record_of("after")) + "\n";
  text += to_line(record_of("last"));  // no newline at the end
  write_text(path, text);
  const PlanFile file = read_plan_file(path);
  EXPECT_EQ(file.error, "");
  EXPECT_EQ(file.records.size(), 7u);
  EXPECT_EQ(problems_of(file), (std::set<std::string>{"first", "after", "last"}));
  EXPECT_EQ(file.kept, (std::vector<std::string>{newer, binary, oversized, deep, torn}));
  ASSERT_EQ(file.notes.size(), 5u);
  EXPECT_EQ(file.notes[0], path + ":4: version 2 is newer than 1");
}

TEST_F(PlanFileTest, NotesAreFew) {
  write_text(path, [] {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += "damaged\n";
    return text;
  }());
  const PlanFile file = read_plan_file(path);
  EXPECT_EQ(file.kept.size(), 1000u);
  EXPECT_EQ(file.notes.size(), 16u);
}

TEST_F(PlanFileTest, RecordsOfOtherDevicesAreReadToo) {
  Record foreign = record_of("p");
  foreign.key.device = "device B";
  ASSERT_EQ(append_record(path, foreign), "");
  const PlanFile file = read_plan_file(path);
  ASSERT_EQ(file.records.size(), 1u);
  EXPECT_EQ(file.records[0].key.device, "device B");
}

TEST_F(PlanFileTest, AnAppendAfterATornLineStartsALineOfItsOwn) {
  const std::string torn = to_line(record_of("torn")).substr(0, 40);
  write_text(path, to_line(record_of("a")) + "\n" + torn);
  ASSERT_EQ(append_record(path, record_of("b")), "");
  const PlanFile file = read_plan_file(path);
  EXPECT_EQ(problems_of(file), (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(file.kept, std::vector<std::string>{torn});
}

TEST_F(PlanFileTest, ARecordThatCouldNotBeReadBackIsNotWritten) {
  Record r = record_of("p");
  r.us = std::nan("");
  EXPECT_NE(append_record(path, r).find(path), std::string::npos);
  EXPECT_NE(write_plan_file(path, {r}, {}), "");
  EXPECT_TRUE(read_plan_file(path).missing);
}

TEST_F(PlanFileTest, SymbolicLinksAreFollowed) {
  fs::create_directory(folder / "real");
  fs::create_symlink("real/target.jsonl", folder / "link1");
  fs::create_symlink(folder / "link1", folder / "link2");
  const std::string link = (folder / "link2").string();
  ASSERT_EQ(append_record(link, record_of("a")), "");  // the link dangles at first
  ASSERT_EQ(write_plan_file(link, {record_of("a"), record_of("b")}, {}), "");
  EXPECT_TRUE(fs::is_symlink(folder / "link1"));
  EXPECT_TRUE(fs::is_symlink(folder / "link2"));
  EXPECT_TRUE(fs::exists(folder / "real" / "target.jsonl.lock"));
  EXPECT_EQ(read_plan_file(link).records.size(), 2u);
}

TEST_F(PlanFileTest, WhatIsNoRegularFileIsRefusedAndNeverWaitedFor) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(read_plan_file(path).error.find("not a regular file"), std::string::npos);
  EXPECT_NE(append_record(path, record_of("a")), "");
  EXPECT_NE(write_plan_file(path, {}, {}), "");
  EXPECT_NE(read_plan_file(folder.string()).error, "");
  EXPECT_NE(append_record(folder.string(), record_of("a")), "");
}

TEST_F(PlanFileTest, AFileBeyondTheBoundIsRefusedUnread) {
  write_text(path, "");
  fs::resize_file(path, max_file_bytes + 1);  // sparse
  EXPECT_NE(read_plan_file(path).error.find(path), std::string::npos);
  EXPECT_NE(append_record(path, record_of("a")), "");
  fs::resize_file(path, max_file_bytes - 10);
  EXPECT_NE(append_record(path, record_of("a")), "");
  EXPECT_EQ(fs::file_size(path), max_file_bytes - 10);
}

// --- rewriting and merging

TEST_F(PlanFileTest, ARewriteIsSortedCompactAndStable) {
  const std::vector<Record> records = {record_of("b", 3, "host:x"), record_of("a"), record_of("b", 2, "host:y"),
                                       record_of("a", 5)};
  ASSERT_EQ(write_plan_file(path, records, {"z damaged", "a damaged", "z damaged"}), "");
  const PlanFile file = read_plan_file(path);
  ASSERT_EQ(file.records.size(), 3u);
  EXPECT_EQ(file.records[0], record_of("a"));
  EXPECT_EQ(file.records[1], record_of("b", 2, "host:y"));
  EXPECT_EQ(file.records[2], record_of("b", 3, "host:x"));
  EXPECT_EQ(file.kept, (std::vector<std::string>{"a damaged", "z damaged"}));
  const std::string before = text_of(path);
  ASSERT_EQ(write_plan_file(path, file.records, file.kept), "");
  EXPECT_EQ(text_of(path), before);
  EXPECT_FALSE(fs::exists(path + ".tmp"));
}

TEST_F(PlanFileTest, ARewriteKeepsThePermissions) {
  write_text(path, "");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  ASSERT_EQ(write_plan_file(path, {record_of("a")}, {}), "");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

TEST_F(PlanFileTest, ATemporaryFileOfAKilledWriterIsNoObstacle) {
  write_text(path + ".tmp", "half a li");
  ASSERT_EQ(write_plan_file(path, {record_of("a")}, {}), "");
  EXPECT_EQ(read_plan_file(path).records.size(), 1u);
  EXPECT_FALSE(fs::exists(path + ".tmp"));
}

TEST_F(PlanFileTest, MergingEitherWayGivesTheSameText) {
  Record newer_driver = record_of("both");
  newer_driver.version = "2";
  Record thorough = record_of("effort", 9);
  thorough.effort = Effort::exhaustive;
  Record foreign = record_of("p");
  foreign.key.device = "device B";
  Record same_time = record_of("text");
  same_time.timed = 4;
  const std::string a = (folder / "a").string(), b = (folder / "b").string(), c = (folder / "c").string();
  ASSERT_EQ(write_plan_file(a, {record_of("both", 5), record_of("effort", 1), record_of("a"), record_of("text")},
                            {"damaged", R"({"v":2})"}),
            "");
  ASSERT_EQ(write_plan_file(b, {record_of("both", 4), newer_driver, thorough, foreign, same_time}, {"damaged", "other"}), "");
  fs::copy_file(b, c);
  ASSERT_EQ(merge_plan_files(c, a), "");
  ASSERT_EQ(merge_plan_files(a, b), "");
  EXPECT_EQ(text_of(a), text_of(c));
  const PlanFile merged = read_plan_file(a);
  EXPECT_EQ(merged.records.size(), 6u);
  EXPECT_EQ(merged.kept, (std::vector<std::string>{"damaged", "other", R"({"v":2})"}));
  for (const Record& r : merged.records) {
    if (r.key.problem == "both" && r.version == "1") {
      EXPECT_EQ(r.us, 4);
    }
    if (r.key.problem == "effort") {
      EXPECT_EQ(r, thorough);
    }
  }
}

TEST_F(PlanFileTest, MergingIntoAMissingFileMakesItAndFromOneIsAnError) {
  const std::string from = (folder / "from").string();
  EXPECT_NE(merge_plan_files(path, from).find(from), std::string::npos);
  EXPECT_FALSE(fs::exists(path));
  ASSERT_EQ(append_record(from, record_of("a")), "");
  ASSERT_EQ(merge_plan_files(path, from), "");
  EXPECT_EQ(read_plan_file(path).records.size(), 1u);
  ASSERT_EQ(merge_plan_files(path, path), "");
  EXPECT_EQ(read_plan_file(path).records.size(), 1u);
}

// --- the locale

TEST_F(PlanFileTest, ALocaleWithDecimalCommasChangesNothing) {
  if (std::setlocale(LC_ALL, "de_DE.UTF-8") == nullptr) {
    const std::string target = (folder / "de_DE.UTF-8").string();
    const std::string command = "localedef -i de_DE -f UTF-8 " + target + " >/dev/null 2>&1";
    const bool made = std::system(command.c_str()) == 0;
    ::setenv("LOCPATH", folder.c_str(), 1);
    if (!made || std::setlocale(LC_ALL, "de_DE.UTF-8") == nullptr) GTEST_SKIP() << "no such locale here";
  }
  ASSERT_STREQ(std::localeconv()->decimal_point, ",");
  const std::string error = append_record(path, record_of("a", 1.5));
  const PlanFile file = read_plan_file(path);
  const std::string text = text_of(path);
  std::setlocale(LC_ALL, "C");
  ::unsetenv("LOCPATH");
  EXPECT_EQ(error, "");
  EXPECT_NE(text.find("\"us\":1.5"), std::string::npos) << text;
  ASSERT_EQ(file.records.size(), 1u);
  EXPECT_EQ(file.records[0].us, 1.5);
}

}  // namespace
}  // namespace attune

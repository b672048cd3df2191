// What the tests of plan files share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tune/plan_file.hpp"

namespace attune {

namespace fs = std::filesystem;

/// A folder of its own for each test, and the path of a plan file in it that does not exist yet.
class PlanFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "attune_plan_file_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    path = (folder / "plans.jsonl").string();
  }
  void TearDown() override {
    std::error_code ignored;
    fs::permissions(folder, fs::perms::owner_all, ignored);
    fs::remove_all(folder, ignored);
  }

  fs::path folder;
  std::string path;
};

inline Record record_of(const std::string& problem, double us = 2, const std::string& plan = "host:a") {
  Record r;
  r.key = {"device A", problem, "math=strict"};
  r.plan = plan;
  r.version = "1";
  r.us = us;
  return r;
}

inline void write_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

inline std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::set<std::string> problems_of(const PlanFile& file) {
  std::set<std::string> out;
  for (const Record& r : file.records) out.insert(r.key.problem);
  return out;
}

}  // namespace attune

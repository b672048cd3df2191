// Plan files under several processes, killed writers and system calls that fail.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "support/plan_file_fixture.hpp"
#include "tune/file_lock.hpp"
#include "tune/plan_file.hpp"

namespace attune {
namespace {

/// Runs `body` in a process of its own; returns its id.
template <class Body>
pid_t start(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

// --- several processes

TEST_F(PlanFileTest, EightProcessesWithFiftyKeysEachLeaveFourHundredLines) {
  std::vector<pid_t> children;
  for (int p = 0; p < 8; ++p)
    children.push_back(start([&] {
      for (int i = 0; i < 50; ++i)
        if (!append_record(path, record_of(std::to_string(p) + "_" + std::to_string(i))).empty()) ::_exit(1);
    }));
  for (pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  const PlanFile file = read_plan_file(path);
  EXPECT_TRUE(file.kept.empty());
  EXPECT_EQ(file.records.size(), 400u);
  EXPECT_EQ(problems_of(file).size(), 400u);
}

TEST_F(PlanFileTest, AppendsAndMergesOfSeveralProcessesLoseNothing) {
  const std::string other = (folder / "other").string();
  ASSERT_EQ(append_record(other, record_of("other")), "");
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p)
    children.push_back(start([&] {
      for (int i = 0; i < 25; ++i) {
        if (!append_record(path, record_of(std::to_string(p) + "_" + std::to_string(i))).empty()) ::_exit(1);
        if (i % 8 == 0 && !merge_plan_files(path, other).empty()) ::_exit(2);
      }
    }));
  for (pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(problems_of(read_plan_file(path)).size(), 101u);
}

TEST_F(PlanFileTest, ThreadsOfOneProcessExcludeEachOther) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) EXPECT_EQ(append_record(path, record_of(std::to_string(t) + "_" + std::to_string(i))), "");
    });
  for (std::thread& thread : threads) thread.join();
  const PlanFile file = read_plan_file(path);
  EXPECT_EQ(file.records.size(), 160u);
  EXPECT_TRUE(file.kept.empty());
}

int writes_left = 0;

ssize_t write_half_and_die(int fd, const void* bytes, std::size_t count) {
  if (--writes_left > 0) return ::write(fd, bytes, count);
  if (::write(fd, bytes, count / 2) < 0) ::_exit(1);
  ::raise(SIGKILL);
  return -1;
}

TEST_F(PlanFileTest, AWriterKilledInMidSaveAHundredTimesLeavesAFileThatLoads) {
  FileOps deadly = system_file_ops;
  deadly.write = write_half_and_die;
  const std::string other = (folder / "other").string();
  ASSERT_EQ(append_record(other, record_of("other")), "");
  std::set<std::string> expected;
  for (int round = 0; round < 100; ++round) {
    const std::string name = std::to_string(round);
    ASSERT_EQ(append_record(path, record_of("kept " + name)), "") << round;
    expected.insert("kept " + name);
    const pid_t child = start([&] {
      writes_left = round % 3 + 1;
      while (true)
        if (round % 2 == 0)
          append_record(path, record_of("child"), deadly);
        else
          merge_plan_files(path, other, deadly);
    });
    const int status = wait_for(child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << round;
    const PlanFile file = read_plan_file(path);
    ASSERT_EQ(file.error, "");
    std::set<std::string> found = problems_of(file);
    found.erase("child");
    found.erase("other");
    ASSERT_EQ(found, expected) << round;
  }
  ASSERT_EQ(merge_plan_files(path, other), "");
  EXPECT_EQ(problems_of(read_plan_file(path)).size(), 102u);
}

TEST_F(PlanFileTest, AWriterKilledAtAnyMomentLeavesAFileThatLoads) {
  const unsigned seed = 7;
  std::mt19937 random(seed);
  const std::string other = (folder / "other").string();
  ASSERT_EQ(append_record(other, record_of("other")), "");
  for (int round = 0; round < 30; ++round) {
    ASSERT_EQ(append_record(path, record_of("kept " + std::to_string(round))), "");
    const pid_t child = start([&] {
      while (true) {
        append_record(path, record_of("child"));
        merge_plan_files(path, other);
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
    ::kill(child, SIGKILL);
    wait_for(child);
    const PlanFile file = read_plan_file(path);
    ASSERT_EQ(file.error, "") << "seed " << seed;
    for (int i = 0; i <= round; ++i) ASSERT_TRUE(problems_of(file).count("kept " + std::to_string(i))) << "seed " << seed;
  }
}

// --- calls that fail

int fault_errno = 0;
int slept_ms = 0;

FileOps failing(int error) {
  fault_errno = error;
  slept_ms = 0;
  FileOps ops = system_file_ops;
  ops.sleep_ms = [](int ms) { slept_ms += ms; };
  return ops;
}

TEST_F(PlanFileTest, ALockThatCannotBeHadIsAMessageAndNothingIsWritten) {
  const std::string before = to_line(record_of("before")) + "\n";
  write_text(path, before);
  for (int error : {ENOLCK, ENOSYS, EIO, EBADF}) {
    FileOps ops = failing(error);
    ops.try_lock = [](int) {
      errno = fault_errno;
      return -1;
    };
    const std::string text = std::generic_category().message(error);
    for (const std::string& message :
         {append_record(path, record_of("a"), ops), write_plan_file(path, {}, {}, ops), merge_plan_files(path, path, ops)}) {
      EXPECT_NE(message.find(path + ".lock"), std::string::npos) << message;
      EXPECT_NE(message.find(text), std::string::npos) << message;
    }
    EXPECT_EQ(slept_ms, 0);
    EXPECT_EQ(text_of(path), before);
  }
}

TEST_F(PlanFileTest, ALockFileThatCannotBeOpenedIsAMessageAndNothingIsWritten) {
  const std::string before = to_line(record_of("before")) + "\n";
  write_text(path, before);
  for (int error : {EEXIST, ENOENT, EACCES, EROFS, EMFILE}) {
    FileOps ops = failing(error);
    ops.open = [](const char* name, int flags, mode_t mode) {
      if (!std::string_view(name).ends_with(".lock")) return ::open(name, flags, mode);
      errno = fault_errno;
      return -1;
    };
    const std::string message = append_record(path, record_of("a"), ops);
    EXPECT_NE(message.find(path + ".lock"), std::string::npos) << message;
    EXPECT_NE(message.find(std::generic_category().message(error)), std::string::npos) << message;
    EXPECT_EQ(text_of(path), before);
  }
}

TEST_F(PlanFileTest, ALockHeldByAnotherIsGivenUpAfterABoundedWait) {
  FileLock holder(path, system_file_ops);
  ASSERT_TRUE(holder.held());
  const FileOps ops = failing(0);
  EXPECT_NE(append_record(path, record_of("a"), ops).find("still held"), std::string::npos);
  EXPECT_GE(slept_ms, max_lock_wait_ms);
  EXPECT_LE(slept_ms, max_lock_wait_ms + 50);
  EXPECT_TRUE(read_plan_file(path).missing);
}

TEST_F(PlanFileTest, AnInterruptedCallIsRepeated) {
  FileOps ops = failing(0);
  ops.write = [](int fd, const void* bytes, std::size_t count) {
    static int calls = 0;
    errno = EINTR;
    return ++calls % 2 == 1 ? ssize_t{-1} : ::write(fd, bytes, count);
  };
  ops.try_lock = [](int fd) {
    static int calls = 0;
    errno = EINTR;
    return ++calls % 2 == 1 ? -1 : system_file_ops.try_lock(fd);
  };
  ASSERT_EQ(append_record(path, record_of("a"), ops), "");
  ASSERT_EQ(append_record(path, record_of("b"), ops), "");
  EXPECT_EQ(read_plan_file(path).records.size(), 2u);
}

TEST_F(PlanFileTest, AFullDiskLeavesTheFileAsItWas) {
  ASSERT_EQ(append_record(path, record_of("before")), "");
  const std::string before = text_of(path);
  FileOps none = failing(ENOSPC);
  none.write = [](int, const void*, std::size_t) {
    errno = fault_errno;
    return ssize_t{-1};
  };
  FileOps part = failing(ENOSPC);
  part.write = [](int fd, const void* bytes, std::size_t count) {
    errno = fault_errno;
    return count > 10 ? ::write(fd, bytes, 10) : ssize_t{-1};
  };
  for (const FileOps& ops : {none, part}) {
    for (const std::string& message :
         {append_record(path, record_of("a"), ops), write_plan_file(path, {record_of("a")}, {}, none)}) {
      EXPECT_NE(message.find(path), std::string::npos) << message;
      EXPECT_NE(message.find(std::generic_category().message(ENOSPC)), std::string::npos) << message;
    }
    EXPECT_EQ(text_of(path), before);
    EXPECT_FALSE(fs::exists(path + ".tmp"));
  }
}

TEST_F(PlanFileTest, ATornLineThatCannotBeTakenBackCostsOnlyItself) {
  ASSERT_EQ(append_record(path, record_of("before")), "");
  FileOps ops = failing(EIO);
  ops.write = [](int fd, const void* bytes, std::size_t) { return ::write(fd, bytes, 10); };
  ops.truncate = [](int, off_t) {
    errno = fault_errno;
    return -1;
  };
  EXPECT_NE(append_record(path, record_of("a"), ops), "");
  ASSERT_EQ(append_record(path, record_of("after")), "");
  const PlanFile file = read_plan_file(path);
  EXPECT_EQ(problems_of(file), (std::set<std::string>{"before", "after"}));
  EXPECT_EQ(file.kept.size(), 1u);
}

TEST_F(PlanFileTest, AFailedRewriteLeavesTheOldFile) {
  ASSERT_EQ(append_record(path, record_of("before")), "");
  const std::string before = text_of(path);
  FileOps no_sync = failing(EIO), no_rename = failing(EIO), no_close = failing(EIO);
  no_sync.sync = [](int) {
    errno = fault_errno;
    return -1;
  };
  no_rename.rename = [](const char*, const char*) {
    errno = fault_errno;
    return -1;
  };
  no_close.close = [](int fd) {
    ::close(fd);
    errno = fault_errno;
    return -1;
  };
  for (const FileOps& ops : {no_sync, no_rename, no_close}) {
    EXPECT_NE(write_plan_file(path, {record_of("a")}, {}, ops).find("Input/output error"), std::string::npos);
    EXPECT_EQ(text_of(path), before);
    EXPECT_FALSE(fs::exists(path + ".tmp"));
  }
}

TEST_F(PlanFileTest, AReadThatFailsIsAnErrorNotAnEmptyFile) {
  ASSERT_EQ(append_record(path, record_of("before")), "");
  FileOps ops = failing(EIO);
  ops.read_at = [](int, void*, std::size_t, off_t) {
    errno = fault_errno;
    return ssize_t{-1};
  };
  EXPECT_NE(read_plan_file(path, ops).error.find(path), std::string::npos);
  const std::string before = text_of(path);
  EXPECT_NE(merge_plan_files(path, path, ops), "");
  EXPECT_EQ(text_of(path), before);
}

TEST_F(PlanFileTest, AFolderThatMayNotBeWrittenIsAMessage) {
  ASSERT_EQ(append_record(path, record_of("before")), "");
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  ASSERT_EQ(::unlink((path + ".lock").c_str()), 0);
  ASSERT_EQ(::chmod(folder.c_str(), 0555), 0);
  const std::string before = text_of(path);
  const pid_t child = start([&] {
    constexpr uid_t nobody = 65534;  // the superuser may write everywhere
    if (::geteuid() == 0 && ::setuid(nobody) != 0) ::_exit(3);
    if (read_plan_file(path).records.size() != 1) ::_exit(4);
    for (const std::string& message :
         {append_record(path, record_of("a")), write_plan_file(path, {}, {}), merge_plan_files(path, path)})
      if (message.find(path) == std::string::npos || message.find("Permission denied") == std::string::npos) ::_exit(1);
  });
  EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(text_of(path), before);
}

TEST_F(PlanFileTest, AFileThatMayNotBeWrittenIsNotReplacedThoughItsFolderMay) {
  ASSERT_EQ(append_record(path, record_of("before")), "");
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  ASSERT_EQ(::chmod((path + ".lock").c_str(), 0666), 0);
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  const std::string before = text_of(path);
  const pid_t child = start([&] {
    constexpr uid_t nobody = 65534;
    if (::geteuid() == 0 && ::setuid(nobody) != 0) ::_exit(3);
    for (const std::string& message : {append_record(path, record_of("a")), write_plan_file(path, {}, {})})
      if (message.find(path) == std::string::npos || message.find("Permission denied") == std::string::npos) ::_exit(1);
  });
  EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(text_of(path), before);
}

TEST_F(PlanFileTest, AFolderThatDoesNotExistIsAMessage) {
  const std::string nowhere = (folder / "none" / "plans").string();
  for (const std::string& message : {append_record(nowhere, record_of("a")), write_plan_file(nowhere, {}, {})}) {
    EXPECT_NE(message.find(nowhere), std::string::npos) << message;
    EXPECT_NE(message.find("No such file"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace attune

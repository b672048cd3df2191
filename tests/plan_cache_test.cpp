// The plan cache: finding, replacing, the bound, eviction, and readers beside writers.
#include "tune/plan_cache.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace attune {
namespace {

std::atomic<int> alive{0};

class CountedPlan final : public Plan {
 public:
  explicit CountedPlan(std::int64_t m) : Plan("fake:" + std::to_string(m), {}), m_(m) { alive.fetch_add(1); }
  ~CountedPlan() override {
    m_ = -1;
    alive.fetch_sub(1);
  }
  Status run(const Launch&) const noexcept override { return m_ >= 0 ? Status::ok : Status::internal; }

 private:
  std::int64_t m_;
};

Key key_of(std::int64_t m) {
  Key key;
  make_key(GemmProblem(Op::N, Op::N, m, 8, 8, DType::f32), pack({}), key);
  return key;
}

std::unique_ptr<CacheEntry> entry_of(std::int64_t m, std::int64_t plan) {
  auto entry = std::make_unique<CacheEntry>();
  entry->key = key_of(m);
  entry->plan = std::make_shared<CountedPlan>(plan);
  return entry;
}

TEST(PlanCache, FindsWhatWasInsertedAndNothingElse) {
  PlanCache cache(8);
  EXPECT_FALSE(cache.find(key_of(1)));
  cache.insert(entry_of(1, 1));
  ASSERT_TRUE(cache.find(key_of(1)));
  EXPECT_EQ(cache.find(key_of(1))->plan->id(), "fake:1");
  EXPECT_FALSE(cache.find(key_of(2)));
}

TEST(PlanCache, AnInsertReplacesAndTheOldPlanGoesOnceNobodyHoldsIt) {
  const int before = alive;
  PlanCache cache(8);
  cache.insert(entry_of(1, 1));
  {
    const auto held = cache.find(key_of(1));
    for (std::int64_t p = 2; p < 6; ++p) cache.insert(entry_of(1, p));
    EXPECT_EQ(held->plan->id(), "fake:1");
    EXPECT_EQ(held->plan->run({}), Status::ok) << "still alive";
    EXPECT_EQ(cache.find(key_of(1))->plan->id(), "fake:5");
  }
  EXPECT_EQ(cache.size(), 1u);
  for (std::int64_t p = 6; p < 10; ++p) cache.insert(entry_of(1, p));
  EXPECT_LE(alive - before, 3) << "old ones are freed as the writer goes on";
}

TEST(PlanCache, TwentyThousandKeysAndACapOfAThousand) {
  const int before = alive;
  PlanCache cache(1000);
  for (std::int64_t m = 1; m <= 20000; ++m) cache.insert(entry_of(m, m));
  EXPECT_EQ(cache.size(), 1000u);
  EXPECT_EQ(cache.evicted(), 19000u);
  EXPECT_LE(alive - before, 1010);
  int found = 0;
  for (std::int64_t m = 1; m <= 20000; ++m) found += static_cast<bool>(cache.find(key_of(m)));
  EXPECT_EQ(found, 1000);
}

TEST(PlanCache, WhatIsUsedStaysLonger) {
  PlanCache cache(100);
  for (std::int64_t m = 1; m <= 100; ++m) cache.insert(entry_of(m, m));
  for (std::int64_t m = 101; m <= 250; ++m) {
    EXPECT_TRUE(cache.find(key_of(1))) << m;
    cache.insert(entry_of(m, m));
  }
}

TEST(PlanCache, EverythingIsFreedAtTheEnd) {
  const int before = alive;
  {
    PlanCache cache(4);
    for (std::int64_t m = 1; m <= 50; ++m) cache.insert(entry_of(m % 7, m));
    cache.clear();
    EXPECT_EQ(cache.size(), 0u);
    cache.insert(entry_of(1, 1));
  }
  EXPECT_EQ(alive, before);
}

// Under the thread sanitizer this is also the race test of the read path.
TEST(PlanCache, ReadersBesideWritersSeeWholeLivingPlans) {
  const int before = alive;
  {
    PlanCache cache(16);
    for (std::int64_t m = 0; m < 8; ++m) cache.insert(entry_of(m, m));
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> bad{0}, found{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 4; ++t)
      readers.emplace_back([&, t] {
        for (std::int64_t i = t; !stop.load(std::memory_order_relaxed); ++i) {
          const auto hit = cache.find(key_of(i % 24));
          if (!hit) continue;
          found.fetch_add(1, std::memory_order_relaxed);
          if (hit->plan->run({}) != Status::ok || !(hit->key == key_of(i % 24))) bad.fetch_add(1);
        }
      });
    for (std::int64_t i = 0; i < 4000; ++i) {
      cache.insert(entry_of(i % 24, i));
      if (i % 16 == 0) std::this_thread::yield();
    }
    stop = true;
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(bad, 0u);
    EXPECT_GT(found, 0u);
    EXPECT_LE(cache.size(), 16u);
  }
  EXPECT_EQ(alive, before);
}

}  // namespace
}  // namespace attune

#include "tune/plan_cache.hpp"

#include <algorithm>
#include <bit>

namespace attune {
namespace {

std::atomic<std::size_t> next_slot{0};

}  // namespace

constinit thread_local std::size_t PlanCache::this_slot_ = PlanCache::unassigned;

std::size_t PlanCache::assign_slot() noexcept {
  return this_slot_ = next_slot.fetch_add(1, std::memory_order_relaxed) % reader_slots;
}

PlanCache::PlanCache(std::size_t capacity)
    : capacity_(std::max<std::size_t>(capacity, 1)),
      mask_(std::bit_ceil(capacity_ * 2) - 1),
      buckets_(std::make_unique<std::atomic<CacheEntry*>[]>(mask_ + 1)) {}

PlanCache::~PlanCache() {
  for (CacheEntry* entry : entries_) delete entry;
  for (const Retired& r : retired_) delete r.entry;
}

void PlanCache::insert(std::unique_ptr<CacheEntry> entry) {
  const std::lock_guard lock(mutex_);
  const auto position = [&] {
    return static_cast<std::size_t>(
        std::find_if(entries_.begin(), entries_.end(), [&](CacheEntry* e) { return e->key == entry->key; }) - entries_.begin());
  };
  std::size_t at = position();
  if (at == entries_.size() && entries_.size() == capacity_) {
    evict_one();
    at = entries_.size();
  }
  // Room first: nothing may throw between publishing and remembering.
  entries_.reserve(entries_.size() + 1);
  retired_.reserve(retired_.size() + 1);
  CacheEntry* fresh = entry.release();
  std::atomic<CacheEntry*>& head = buckets_[fresh->key.hash & mask_];
  fresh->next.store(head.load(std::memory_order_relaxed), std::memory_order_relaxed);
  head.store(fresh, std::memory_order_seq_cst);
  if (at < entries_.size()) {
    CacheEntry* old = entries_[at];
    entries_[at] = fresh;
    unlink(old);
  } else {
    entries_.push_back(fresh);
  }
  reclaim();
}

void PlanCache::clear() {
  const std::lock_guard lock(mutex_);
  retired_.reserve(retired_.size() + entries_.size());
  for (CacheEntry* entry : entries_) unlink(entry);
  entries_.clear();
  hand_ = 0;
  reclaim();
}

std::size_t PlanCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::uint64_t PlanCache::evicted() const {
  const std::lock_guard lock(mutex_);
  return evicted_;
}

std::size_t PlanCache::retired() const {
  const std::lock_guard lock(mutex_);
  return retired_.size();
}

std::uint64_t PlanCache::lookups() const noexcept {
  std::uint64_t sum = 0;
  for (const Slot& slot : slots_)
    sum += slot.entered[0].load(std::memory_order_relaxed) + slot.entered[1].load(std::memory_order_relaxed);
  return sum;
}

// Readers on the entry go on through its `next`, which stays as it is.
void PlanCache::unlink(CacheEntry* entry) noexcept {
  std::atomic<CacheEntry*>* link = &buckets_[entry->key.hash & mask_];
  while (link->load(std::memory_order_relaxed) != entry) link = &link->load(std::memory_order_relaxed)->next;
  link->store(entry->next.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  retired_.push_back({entry, {false, false}});
}

// The second-chance rule: an entry used since the hand last passed stays this time.
void PlanCache::evict_one() {
  retired_.reserve(retired_.size() + 1);
  for (;;) {
    hand_ = hand_ % entries_.size();
    CacheEntry* entry = entries_[hand_];
    if (entry->used.exchange(false, std::memory_order_relaxed)) {
      ++hand_;
      continue;
    }
    entries_[hand_] = entries_.back();
    entries_.pop_back();
    unlink(entry);
    ++evicted_;
    return;
  }
}

// `left` is summed before `entered`: a reader that enters meanwhile makes the sums differ, never agree.
bool PlanCache::drained(unsigned parity) const noexcept {
  std::uint64_t left = 0, entered = 0;
  for (const Slot& slot : slots_) left += slot.left[parity].load(std::memory_order_seq_cst);
  for (const Slot& slot : slots_) entered += slot.entered[parity].load(std::memory_order_seq_cst);
  return left == entered;
}

void PlanCache::reclaim() {
  if (retired_.empty()) return;
  for (unsigned parity : {0u, 1u})
    if (drained(parity))
      for (Retired& r : retired_) r.drained[parity] = true;
  const auto free = std::partition(retired_.begin(), retired_.end(), [](const Retired& r) { return !(r.drained[0] && r.drained[1]); });
  std::vector<Retired> gone(free, retired_.end());
  retired_.erase(free, retired_.end());
  for (const Retired& r : gone) delete r.entry;
  parity_.fetch_xor(1, std::memory_order_release);
}

}  // namespace attune

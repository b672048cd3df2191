// The plan cache: bounded, read without locks, written under one.
//
// Readers announce themselves in a slot of their own (one cache line for each thread, up to `reader_slots` threads), so that no
// two of them write to one line. An entry that is replaced or evicted is unlinked at once and freed when every reader that may
// still hold it has left: readers count in and out under one of two parities, the writer flips the parity and frees a retired
// entry once it has seen each parity drained since the entry was unlinked.
#pragma once

#include <attune/context.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/plan.hpp"
#include "tune/key.hpp"

namespace attune {

/// One remembered plan. Immutable once inserted, but for `used`, `epoch`, `ran` and `next`.
struct CacheEntry {
  Key key;
  std::shared_ptr<const Plan> plan;
  /// The plan runs as it is: no workspace, nothing to retain, nothing still to be tuned.
  bool direct = false;
  /// The default plan stands in; the next call that may shall tune.
  bool deferred = false;
  /// The default plan is there for want of a better one: what the context may do or knows can change that.
  bool untuned = false;
  /// Counts the calls, where the context records them.
  std::atomic<std::uint64_t>* calls = nullptr;
  /// A hit has more to do than to run the plan: it is untuned, or its calls are counted.
  bool attended = false;
  PlanInfo info;
  /// Bytes that the operands span: an output must not overlap an input.
  std::size_t a_bytes = 0, b_bytes = 0, c_bytes = 0, d_bytes = 0, bias_bytes = 0;
  /// C may be D: they have the same strides.
  bool in_place = true;
  /// The same of the further operands that some ops have.
  int more_count = 0;
  std::size_t more_bytes[Launch::most_more] = {};
  bool more_written[Launch::most_more] = {};

  mutable std::atomic<bool> used{false};  ///< since the eviction hand last passed
  mutable std::atomic<std::uint64_t> epoch{0};  ///< of an untuned plan: the context's, when it was last settled for
  mutable std::atomic<bool> ran{false};         ///< of an untuned plan: a call has settled for it
  std::atomic<CacheEntry*> next{nullptr};
};

class PlanCache {
 public:
  static constexpr std::size_t reader_slots = 64;

  /// At most `capacity` entries.
  explicit PlanCache(std::size_t capacity);
  ~PlanCache();
  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;

 private:
  struct alignas(128) Slot {
    std::atomic<std::uint64_t> entered[2] = {};
    std::atomic<std::uint64_t> left[2] = {};
  };

 public:
  /// Keeps what it found alive. Held for the time of one call.
  class Found {
   public:
    Found(Found&& other) noexcept : entry_(other.entry_), left_(other.left_) { other.left_ = nullptr; }
    Found& operator=(Found&&) = delete;
    ~Found() {
      if (left_ != nullptr) left_->fetch_add(1, std::memory_order_release);
    }
    explicit operator bool() const noexcept { return entry_ != nullptr; }
    const CacheEntry* operator->() const noexcept { return entry_; }
    const CacheEntry* get() const noexcept { return entry_; }

   private:
    friend class PlanCache;
    Found(const CacheEntry* entry, std::atomic<std::uint64_t>* left) noexcept : entry_(entry), left_(left) {}
    const CacheEntry* entry_;
    std::atomic<std::uint64_t>* left_;
  };

  Found find(const Key& key) const noexcept {
    Slot& slot = slots_[reader_slot()];
    const unsigned parity = parity_.load(std::memory_order_acquire) & 1;
    slot.entered[parity].fetch_add(1, std::memory_order_seq_cst);
    const CacheEntry* entry = buckets_[key.hash & mask_].load(std::memory_order_seq_cst);
    while (entry != nullptr && !(entry->key == key)) entry = entry->next.load(std::memory_order_seq_cst);
    if (entry != nullptr && !entry->used.load(std::memory_order_relaxed)) entry->used.store(true, std::memory_order_relaxed);
    return Found(entry, &slot.left[parity]);
  }

  /// Puts the entry in the place of one with the same key, if there is one; evicts another when full.
  void insert(std::unique_ptr<CacheEntry> entry);
  void clear();

  std::size_t size() const;
  std::uint64_t evicted() const;
  std::uint64_t lookups() const noexcept;
  /// Unlinked entries not yet freed; for tests.
  std::size_t retired() const;

 private:
  struct Retired {
    CacheEntry* entry;
    bool drained[2];
  };

  /// Initial-exec: read with one instruction in a shared library too.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local std::size_t this_slot_;
  static constexpr std::size_t unassigned = ~std::size_t{0};
  static std::size_t assign_slot() noexcept;
  static std::size_t reader_slot() noexcept {
    const std::size_t slot = this_slot_;
    return slot != unassigned ? slot : assign_slot();
  }
  void unlink(CacheEntry* entry) noexcept;
  void evict_one();
  void reclaim();
  bool drained(unsigned parity) const noexcept;

  const std::size_t capacity_;
  const std::size_t mask_;
  const std::unique_ptr<std::atomic<CacheEntry*>[]> buckets_;
  std::atomic<unsigned> parity_{0};
  mutable std::array<Slot, reader_slots> slots_;

  mutable std::mutex mutex_;  ///< guards what follows, and all writing
  std::vector<CacheEntry*> entries_;
  std::size_t hand_ = 0;
  std::vector<Retired> retired_;
  std::uint64_t evicted_ = 0;
};

}  // namespace attune

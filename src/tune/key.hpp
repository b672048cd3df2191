// The key of a problem within one context: its fields and constraints as words, with their hash. The device is the context's.
#pragma once

#include <attune/problem.hpp>
#include <cstdint>

#include "core/constraints.hpp"
#include "core/problem.hpp"
#include "core/problem_fields.hpp"
#include "tune/record.hpp"

namespace attune {

/// Constraints in one word, for the call path: the math modes are the upper half.
std::uint64_t pack(const Constraints& constraints) noexcept;
Constraints unpack(std::uint64_t word) noexcept;

struct Key {
  static constexpr int max_words = 46;

  std::uint64_t hash = 0;
  int count = 0;
  std::uint64_t word[max_words];

  /// Word by word: wider loads than the stores that have just written a key would wait for them to leave the core.
  friend bool operator==(const Key& a, const Key& b) noexcept {
    if (a.hash != b.hash || a.count != b.count) return false;
    for (int i = 0; i < a.count; ++i)
      if (a.word[i] != b.word[i]) return false;
    return true;
  }
};

struct KeyHash {
  std::size_t operator()(const Key& key) const noexcept { return key.hash; }
};

std::uint64_t hash_words(const std::uint64_t* words, int count) noexcept;

/// Visits the fields into words. Enumerations and alignments take a byte each; a size, stride or list takes words only where it
/// is not at its default, and a bit that says so, so that the usual key is short.
class KeyPacker {
 public:
  explicit KeyPacker(Key& key) noexcept : key_(key) {}

  template <class E>
    requires std::is_enum_v<E>
  void field(const char*, E value, E) noexcept {
    byte(static_cast<std::uint8_t>(value));
  }
  void field(const char*, Compute value, Compute) noexcept {
    byte(static_cast<std::uint8_t>(value == Compute::f32_tf32 ? Compute::f32 : value));
  }
  void field(const char*, int value, int) noexcept { byte(static_cast<std::uint8_t>(value < 0 || value > 255 ? 255 : value)); }
  void field(const char*, std::int64_t value, std::int64_t standard) noexcept {
    const bool differs = value != standard;
    mark(differs);
    if (differs) word(static_cast<std::uint64_t>(value));
  }
  void step(const char*, std::int64_t value, std::int64_t standard) noexcept {
    const bool differs = value != packed && value != standard;
    mark(differs);
    if (differs) word(static_cast<std::uint64_t>(value));
  }
  void dims(const char*, const Dims& dims) noexcept {
    byte(static_cast<std::uint8_t>(dims.count < 0 || dims.count > 255 ? 255 : dims.count));
    for (int i = 0; i < dims.count && i < 5; ++i) word(static_cast<std::uint64_t>(dims.size[i]));
  }
  void list(const char*, const std::int64_t* values, int count, const std::int64_t* standard) noexcept {
    bool differs = false;
    for (int i = 0; i < count; ++i) differs |= values[i] != standard[i];
    mark(differs);
    if (!differs) return;
    for (int i = 0; i < count; ++i) word(static_cast<std::uint64_t>(values[i]));
  }
  template <class Fill>
  void strides(const char* name, const std::int64_t* values, int count, Fill&& fill) noexcept {
    bool all_packed = true;
    for (int i = 0; i < count; ++i) all_packed &= values[i] == packed;
    if (all_packed) {
      mark(false);
      return;
    }
    std::int64_t standard[5], actual[5];
    fill(standard);
    for (int i = 0; i < count; ++i) actual[i] = resolved(values[i], standard[i]);
    list(name, actual, count, standard);
  }
  void word(std::uint64_t value) noexcept { key_.word[key_.count++] = value; }
  void byte(std::uint8_t value) noexcept {
    if (used_ == 8) {
      word(bytes_);
      bytes_ = 0;
      used_ = 0;
    }
    bytes_ |= static_cast<std::uint64_t>(value) << (8 * used_++);
  }
  /// Writes what is still pending, and the hash.
  void finish() noexcept {
    word(bytes_);
    word(marks_);
    key_.hash = hash_words(key_.word, key_.count);
  }

 private:
  void mark(bool differs) noexcept { marks_ = marks_ << 1 | static_cast<std::uint64_t>(differs); }

  Key& key_;
  std::uint64_t bytes_ = 0;
  std::uint64_t marks_ = 0;
  int used_ = 0;
};

/// What a call knows better than the problem it was given: the cases of its scalars and the alignment of its pointers, both in the
/// order of the field list.
struct CallFacts {
  Scalar scalar[2] = {Scalar::one, Scalar::zero};
  int align[5] = {16, 16, 16, 16, 16};
};

/// Packs the facts in the place of the problem's own fields, which saves the call path a copy of the problem.
class CallPacker : public KeyPacker {
 public:
  CallPacker(Key& key, const CallFacts& facts) noexcept : KeyPacker(key), facts_(facts) {}
  using KeyPacker::field;
  void field(const char* name, Scalar, Scalar standard) noexcept { KeyPacker::field(name, facts_.scalar[scalars_++], standard); }
  void field(const char* name, int, int standard) noexcept { KeyPacker::field(name, facts_.align[aligns_++], standard); }

 private:
  const CallFacts facts_;  ///< a copy, which stays in registers
  int scalars_ = 0;
  int aligns_ = 0;
};

/// Writes the facts into a problem.
class FactsWriter {
 public:
  explicit FactsWriter(const CallFacts& facts) noexcept : facts_(facts) {}
  template <class T>
  void field(const char*, T& value, T) noexcept {
    if constexpr (std::is_same_v<T, Scalar>) value = facts_.scalar[scalars_++];
    if constexpr (std::is_same_v<T, int>) value = facts_.align[aligns_++];
  }
  void dims(const char*, Dims&) noexcept {}
  void list(const char*, std::int64_t*, int, const std::int64_t*) noexcept {}
  void step(const char*, std::int64_t&, std::int64_t) noexcept {}
  template <class Fill>
  void strides(const char*, std::int64_t*, int, Fill&&) noexcept {}

 private:
  const CallFacts& facts_;
  int scalars_ = 0;
  int aligns_ = 0;
};

/// `constraints` is a packed word as the settings give it; it is fitted to the problem here.
template <class P, class Packer>
void pack_key(const P& problem, std::uint64_t constraints, Packer&& packer) noexcept {
  const auto modes = static_cast<MathMode>(constraints >> 32);
  const std::uint64_t fitted =
      (constraints & 0xffffffffu) | static_cast<std::uint64_t>(modes_for(problem, modes)) << 32;
  packer.byte(static_cast<std::uint8_t>(op_index<P>()));
  visit_fields(problem, packer);
  packer.word(fitted);
  packer.finish();
}

template <class P>
void make_key(const P& problem, std::uint64_t constraints, Key& key) noexcept {
  pack_key(problem, constraints, KeyPacker(key));
}

/// The key as it stands in a plan file; `constraints` are those applied to the problem.
KeyText key_text(const std::string& device, const Problem& problem, const Constraints& constraints);

}  // namespace attune

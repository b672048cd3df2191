// From a matrix in global memory to a swizzled tile in shared memory, by all threads of a block.
//
// An `AlignedCopy` needs lines that begin at multiples of 16 bytes and leaves the work to cp.async. A `ShiftedCopy` takes any
// alignment of the elements: it loads the two aligned granules that a chunk lies in, and shifts them together in registers, so
// that an odd leading dimension costs one more load from the L1, not eight narrow ones. Neither reads outside the operand.
#pragma once

#include <cstdint>

#include "kernels/common/granule.cuh"
#include "kernels/common/mma.cuh"

namespace attune {

/// A matrix of lines in memory, of which a tile is copied: `first` is the tile's first row (or column) of the result.
template <typename T>
struct LinedMatrix {
  const T* data = nullptr;     ///< of this matrix
  const T* begin = nullptr;    ///< of the whole operand, which may be a batch
  const T* end = nullptr;
  std::int64_t ld = 0;
  int first = 0, extent = 0;   ///< rows (or columns) of the result: where the tile begins, how many there are
};

/// What both copies know: thread t copies chunk t % chunks of lines t / chunks, + lines_each, + 2 lines_each, ...
template <typename T, bool KMajor, int Extent, int BK, int Threads>
struct CopyPlan {
  using Tile = SharedTile<T, KMajor, Extent, BK>;
  static constexpr int elements = chunk_elements<T>;
  static constexpr int lines_each = Threads / Tile::chunks;
  static constexpr int count = (Tile::lines + lines_each - 1) / lines_each;
  static constexpr bool even = Tile::lines % lines_each == 0;
  static_assert(Threads % Tile::chunks == 0);

  LinedMatrix<T> from;
  const T* pointer;  ///< of this thread's first chunk at the present k
  int line, chunk;

  __device__ CopyPlan(const LinedMatrix<T>& matrix, int k0) : from(matrix) {
    line = static_cast<int>(threadIdx.x) / Tile::chunks, chunk = static_cast<int>(threadIdx.x) % Tile::chunks;
    pointer = KMajor ? from.data + (static_cast<std::int64_t>(from.first) + line) * from.ld + k0 + chunk * elements
                     : from.data + (static_cast<std::int64_t>(k0) + line) * from.ld + from.first + chunk * elements;
  }
  /// Elements of the i-th chunk that exist, for k from k0 to k_end.
  __device__ int valid(int i, int k0, int k_end) const {
    const int at = line + i * lines_each;
    if (!even && at >= Tile::lines) return 0;
    const bool inside = KMajor ? from.first + at < from.extent : k0 + at < k_end;
    const int left = KMajor ? k_end - k0 - chunk * elements : from.extent - from.first - chunk * elements;
    return !inside || left <= 0 ? 0 : left < elements ? left : elements;
  }
  __device__ void advance() { pointer += KMajor ? std::int64_t{BK} : BK * from.ld; }
};

/// A granule of which a part lies outside the operand.
template <typename T>
__device__ __noinline__ uint4 partial_granule(const T* granule, const T* begin, const T* end) {
  alignas(16) T values[chunk_elements<T>];
  for (int i = 0; i < chunk_elements<T>; ++i) values[i] = granule + i >= begin && granule + i < end ? granule[i] : T{};
  return *reinterpret_cast<const uint4*>(values);
}

template <typename T, bool KMajor, int Extent, int BK, int Threads>
struct AlignedCopy : CopyPlan<T, KMajor, Extent, BK, Threads> {
  using Base = CopyPlan<T, KMajor, Extent, BK, Threads>;
  using Base::Base;

  /// Starts the copy of k0 .. k0 + BK; what lies past k_end or the extent becomes zero.
  __device__ void start(std::uint32_t tile, int k0, int k_end) {
    // An operand of whole granules, as nearly all are, has none of which a part lies outside.
    if ((this->from.end - this->from.begin) % Base::elements == 0) {
#pragma unroll
      for (int i = 0; i < Base::count; ++i) copy(tile, i, k0, k_end);
    } else {
#pragma unroll 1
      for (int i = 0; i < Base::count; ++i)
        if (!copy_part(tile, i, k0, k_end)) copy(tile, i, k0, k_end);
    }
    this->advance();
  }

 private:
  __device__ void copy(std::uint32_t tile, int i, int k0, int k_end) {
    const int at = this->line + i * Base::lines_each;
    if (!Base::even && at >= Base::Tile::lines) return;
    const int bytes = this->valid(i, k0, k_end) * static_cast<int>(sizeof(T));
    const T* source = bytes > 0 ? this->pointer + i * Base::lines_each * this->from.ld : this->from.begin;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(tile + Base::Tile::at(at, this->chunk)), "l"(source), "r"(bytes));
  }
  /// Where the copy would read all 16 bytes and the last of them lie outside the operand, its elements one by one. Whether it was so.
  __device__ bool copy_part(std::uint32_t tile, int i, int k0, int k_end) {
    const int at = this->line + i * Base::lines_each;
    if (!Base::even && at >= Base::Tile::lines) return true;
    const int valid = this->valid(i, k0, k_end);
    const T* source = valid > 0 ? this->pointer + i * Base::lines_each * this->from.ld : this->from.begin;
    if (source + Base::elements <= this->from.end) return false;
    const std::uint32_t to = tile + Base::Tile::at(at, this->chunk);
    asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
#pragma unroll 1
    for (int e = 0; e < valid; ++e) {
      if constexpr (sizeof(T) == 2)
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to + e * 2), "h"(reinterpret_cast<const unsigned short*>(source)[e]) : "memory");
      else
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(to + e * 4), "r"(reinterpret_cast<const unsigned*>(source)[e]) : "memory");
    }
    return true;
  }
};

template <typename T, bool KMajor, int Extent, int BK, int Threads>
struct ShiftedCopy : CopyPlan<T, KMajor, Extent, BK, Threads> {
  using Base = CopyPlan<T, KMajor, Extent, BK, Threads>;
  using Base::Base;
  uint4 low[Base::count], high[Base::count];

  __device__ static int misalignment(const T* p) { return static_cast<int>(reinterpret_cast<std::uintptr_t>(p) & 15); }
  __device__ const T* chunk_pointer(int i) const { return this->pointer + i * Base::lines_each * this->from.ld; }

  /// Starts the loads of k0 .. k0 + BK into registers.
  __device__ void load(int k0, int k_end) {
#pragma unroll
    for (int i = 0; i < Base::count; ++i) {
      low[i] = high[i] = uint4{0, 0, 0, 0};
      const int valid = this->valid(i, k0, k_end);
      if (valid == 0) continue;
      const T* p = chunk_pointer(i);
      const int off = misalignment(p);
      const T* granule = reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(p) - static_cast<unsigned>(off));
      const bool second = off / static_cast<int>(sizeof(T)) + valid > Base::elements;
      const T* last = granule + (second ? 2 : 1) * Base::elements;
      if (granule >= this->from.begin && last <= this->from.end) {
        low[i] = *reinterpret_cast<const uint4*>(granule);
        if (second) high[i] = *reinterpret_cast<const uint4*>(granule + Base::elements);
      } else {
        low[i] = partial_granule(granule, this->from.begin, this->from.end);
        if (second) high[i] = partial_granule(granule + Base::elements, this->from.begin, this->from.end);
      }
    }
  }
  /// Shifts what was loaded and writes it to the tile.
  __device__ void store(char* tile, int k0, int k_end) {
#pragma unroll
    for (int i = 0; i < Base::count; ++i) {
      const int at = this->line + i * Base::lines_each;
      if (!Base::even && at >= Base::Tile::lines) break;
      const int off = misalignment(chunk_pointer(i));
      const int bytes = this->valid(i, k0, k_end) * static_cast<int>(sizeof(T));
      *reinterpret_cast<uint4*>(tile + Base::Tile::at(at, this->chunk)) = first_bytes(joined(low[i], high[i], off), bytes);
    }
    this->advance();
  }
};

}  // namespace attune

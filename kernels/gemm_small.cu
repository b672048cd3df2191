#include "kernels/gemm_small.hpp"

#include "kernels/common/mma.cuh"
#include "kernels/common/overlap.cuh"
#include "kernels/gemm_simt.cuh"

namespace attune {
namespace {

template <int Index>
struct SmallGemm {
  static constexpr SimtGemmRow row = simt_gemm_rows[Index];
  using T = std::conditional_t<row.type == DType::f64, double, float>;
  using Sum = std::conditional_t<row.type == DType::f64, double, float>;
  static constexpr int edge = row.bm, problems = row.problems, width = Packet<T>::count;
  static constexpr int across = edge / row.tm, threads_each = across * (edge / row.tn), threads = threads_each * problems;
  static constexpr int pitch = edge + width, operand = edge * pitch;  ///< of a matrix in shared memory, [k][row or column]
  static constexpr int apart = operand;                               ///< from problem to problem there
  static constexpr int packets = edge * edge / width, each = packets * problems / threads;
  static constexpr int out_pitch = edge + 16 / static_cast<int>(sizeof(Sum));
  static constexpr int operand_bytes = 2 * problems * operand * static_cast<int>(sizeof(T));
  static constexpr int out_bytes = problems * edge * out_pitch * static_cast<int>(sizeof(Sum));
  static constexpr int bytes = operand_bytes > out_bytes ? operand_bytes : out_bytes;
  static_assert(row.bn == edge && row.bk == edge && row.tm == width && edge % row.tn == 0);
  static_assert(packets * problems % threads == 0 && bytes <= 48 * 1024 && threads_each <= 256);
  static_assert(threads_each >= edge);  // finish_tile takes a line at least at a time
};

/// The same on tensor cores: a warp takes a problem, whose operands lie in shared memory as they do outside.
template <int Index>
struct SmallMma {
  static constexpr SimtGemmRow row = simt_gemm_rows[Index];
  using T = std::conditional_t<row.type == DType::f16, __half, __nv_bfloat16>;
  static constexpr int edge = row.bm, problems = row.problems, width = 8, threads = 32 * problems;
  static constexpr int pitch = edge + width, operand = edge * pitch, apart = 2 * operand;
  static constexpr int packets = edge * edge / width, each = packets * problems / threads;
  static constexpr int out_pitch = edge + 4;
  static constexpr int bytes = problems * apart * static_cast<int>(sizeof(T));
  static_assert(row.bn == edge && row.bk == edge && edge % 16 == 0 && bytes <= 48 * 1024);
  static_assert(edge * out_pitch * 4 <= apart * static_cast<int>(sizeof(T)) && apart * static_cast<int>(sizeof(T)) % 16 == 0);
};

/// A thread's share of one operand of the block's problems, all of it on its way at once.
template <typename Small>
struct SmallFeed {
  using T = typename Small::T;
  Packet<T> held[Small::each];

  /// Lines of the operand lie along its rows (or columns), or along k. `along` elements of a line exist, and `lines` lines.
  __device__ void load(const T* data, std::int64_t line_step, std::int64_t problem_step, std::int64_t problems, int along, int lines,
                       bool vectors) {
    constexpr int width = Small::width;
#pragma unroll
    for (int e = 0; e < Small::each; ++e) {
      const int id = static_cast<int>(threadIdx.x) + e * Small::threads;
      const int problem = id / Small::packets, place = id % (Small::edge / width) * width, line = id % Small::packets / (Small::edge / width);
      const T* from = data + problem * problem_step + line * line_step + place;
      const int left = problem < problems && line < lines ? along - place : 0;
      if (vectors && left >= width) {
        *reinterpret_cast<uint4*>(held[e].value) = *reinterpret_cast<const uint4*>(from);  // not __ldg: see overlap.cuh
      } else {
#pragma unroll
        for (int x = 0; x < width; ++x) held[e].value[x] = x < left ? from[x] : static_cast<T>(0.0f);
      }
    }
  }
  __device__ void store(T* to, bool along_k) const {
    constexpr int width = Small::width;
#pragma unroll
    for (int e = 0; e < Small::each; ++e) {
      const int id = static_cast<int>(threadIdx.x) + e * Small::threads;
      const int problem = id / Small::packets, place = id % (Small::edge / width) * width, line = id % Small::packets / (Small::edge / width);
      T* const matrix = to + problem * Small::apart;
      if (along_k) {
#pragma unroll
        for (int x = 0; x < width; ++x) matrix[(place + x) * Small::pitch + line] = held[e].value[x];
      } else {
        *reinterpret_cast<uint4*>(matrix + line * Small::pitch + place) = *reinterpret_cast<const uint4*>(held[e].value);
      }
    }
  }
};

/// Both operands of the block's problems, both on their way before either is stored. `turn`: lines along k are turned, so that all
/// lines in shared memory lie across it.
template <typename Small>
__device__ void load_operands(const SimtGemmShape& shape, const SimtGemmCall& call, std::int64_t z0, std::int64_t problems,
                              typename Small::T* to_a, bool turn_a, typename Small::T* to_b, bool turn_b) {
  using T = typename Small::T;
  const int m = static_cast<int>(shape.m), n = static_cast<int>(shape.n), k = static_cast<int>(shape.k);
  const bool a_along_k = shape.a_l == 1, b_along_k = shape.b_l == 1;
  SmallFeed<Small> a, b;
  a.load(static_cast<const T*>(call.a) + z0 * shape.a_batch, a_along_k ? shape.a_i : shape.a_l, shape.a_batch, problems,
         a_along_k ? k : m, a_along_k ? m : k, shape.a_vectors);
  b.load(static_cast<const T*>(call.b) + z0 * shape.b_batch, b_along_k ? shape.b_j : shape.b_l, shape.b_batch, problems,
         b_along_k ? k : n, b_along_k ? n : k, shape.b_vectors);
  a.store(to_a, turn_a), b.store(to_b, turn_b);
}

/// A part of the block's threads takes each problem: a packet of rows by a few columns a thread.
template <int Index>
__global__ void __launch_bounds__(SmallGemm<Index>::threads) small_gemm(SimtGemmShape shape, SimtGemmCall call) {
  using S = SmallGemm<Index>;
  using T = typename S::T;
  using Sum = typename S::Sum;
  constexpr int tm = S::row.tm, tn = S::row.tn, apart = S::edge / tn;
  extern __shared__ __align__(16) char memory[];
  T* const shared_a = reinterpret_cast<T*>(memory);
  T* const shared_b = shared_a + S::problems * S::operand;
  const std::int64_t z0 = std::int64_t{blockIdx.x} * S::problems, problems = shape.batch - z0;
  const int m = static_cast<int>(shape.m), n = static_cast<int>(shape.n), k = static_cast<int>(shape.k);
  const bool a_along_k = shape.a_l == 1, b_along_k = shape.b_l == 1;
  wait_for_previous();
  let_next_begin();
  load_operands<S>(shape, call, z0, problems, shared_a, a_along_k, shared_b, b_along_k);
  __syncthreads();
  const int problem = static_cast<int>(threadIdx.x) / S::threads_each, thread = static_cast<int>(threadIdx.x) % S::threads_each;
  const int row = thread % S::across * tm, column = thread / S::across;
  const T* const a = shared_a + problem * S::operand + row;
  const T* const b = shared_b + problem * S::operand + column;
  Sum sum[tn][tm] = {};
#pragma unroll 4
  for (int l = 0; l < k; ++l) {
    const Packet<T> x = *reinterpret_cast<const Packet<T>*>(a + l * S::pitch);
    Sum y[tn];
#pragma unroll
    for (int j = 0; j < tn; ++j) y[j] = static_cast<Sum>(b[l * S::pitch + j * apart]);
#pragma unroll
    for (int i = 0; i < tm; ++i) {
      const Sum value = static_cast<Sum>(x.value[i]);
#pragma unroll
      for (int j = 0; j < tn; ++j) sum[j][i] += value * y[j];
    }
  }
  // Nothing follows the sums, as a rule: then they need not go through shared memory.
  const std::int64_t z = z0 + problem;
  if (shape.vectors && shape.out_type == S::row.type && call.c == nullptr && call.bias == nullptr && call.activation == Activation::none) {
    if (problem >= problems || row >= m) return;
    T* const d = static_cast<T*>(call.d) + z * shape.d_batch + row;
#pragma unroll
    for (int j = 0; j < tn; ++j) {
      if (column + j * apart >= n) break;
      Packet<T> packet;
#pragma unroll
      for (int i = 0; i < tm; ++i) packet.value[i] = finishing::rounded<T>(static_cast<Sum>(call.alpha) * sum[j][i]);
      T* const to = d + (column + j * apart) * shape.d_j;
      if (row + tm <= m) {
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(packet.value);
      } else {
#pragma unroll
        for (int i = 0; i < tm; ++i)
          if (row + i < m) to[i] = packet.value[i];
      }
    }
    return;
  }
  __syncthreads();
  Sum* const staged = reinterpret_cast<Sum*>(memory) + problem * S::edge * S::out_pitch;
#pragma unroll
  for (int j = 0; j < tn; ++j)
#pragma unroll
    for (int i = 0; i < tm; ++i) staged[(column + j * apart) * S::out_pitch + row + i] = sum[j][i];
  __syncthreads();
  if (problem < problems)
    finish_tile<Sum>(output_of<Sum>(shape, call, 0, z), staged, S::out_pitch, S::edge, n, m, thread, S::threads_each);
}

/// Fragments of X = op(B)^T are 16 rows by 16 k, of Y = op(A)^T 16 k by 16 columns: so the results lie along D's columns.
template <int Index>
__global__ void __launch_bounds__(SmallMma<Index>::threads) small_mma(SimtGemmShape shape, SimtGemmCall call) {
  using S = SmallMma<Index>;
  using T = typename S::T;
  constexpr int blocks = S::edge / 16, line_bytes = S::pitch * 2;
  extern __shared__ __align__(16) char memory[];
  T* const shared = reinterpret_cast<T*>(memory);
  const std::int64_t z0 = std::int64_t{blockIdx.x} * S::problems, problems = shape.batch - z0;
  const int m = static_cast<int>(shape.m), n = static_cast<int>(shape.n), k = static_cast<int>(shape.k);
  const bool a_along_k = shape.a_l == 1, b_along_k = shape.b_l == 1;
  wait_for_previous();
  let_next_begin();
  load_operands<S>(shape, call, z0, problems, shared, false, shared + S::operand, false);
  __syncthreads();
  const int problem = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (problem >= problems) return;
  T* const own = shared + problem * S::apart;
  const std::uint32_t y = shared_address(own), x = y + S::operand * 2;
  // Where this lane's row of eight elements begins, for lines along k and across it.
  const int low = lane % 8 + lane / 16 * 8, middle = lane / 8 % 2 * 8;
  const std::uint32_t x_at = x + (b_along_k ? lane % 16 * line_bytes + lane / 16 * 16 : low * line_bytes + middle * 2);
  const std::uint32_t y_at = y + (a_along_k ? low * line_bytes + middle * 2 : (lane % 8 + middle) * line_bytes + lane / 16 * 16);
  const int x_block = b_along_k ? 16 * line_bytes : 32, x_step = b_along_k ? 32 : 16 * line_bytes;
  const int y_block = a_along_k ? 16 * line_bytes : 32, y_step = a_along_k ? 32 : 16 * line_bytes;
  float sum[blocks][2 * blocks][4] = {};
#pragma unroll
  for (int step = 0; step < blocks; ++step) {
    if (step * 16 >= k) break;
    std::uint32_t fx[blocks][4], fy[blocks][4];
#pragma unroll
    for (int b = 0; b < blocks; ++b) {
      b_along_k ? load_matrices(fx[b], x_at + b * x_block + step * x_step) : load_matrices_transposed(fx[b], x_at + b * x_block + step * x_step);
      a_along_k ? load_matrices(fy[b], y_at + b * y_block + step * y_step) : load_matrices_transposed(fy[b], y_at + b * y_block + step * y_step);
    }
#pragma unroll
    for (int i = 0; i < blocks; ++i)
#pragma unroll
      for (int j = 0; j < 2 * blocks; ++j) multiply<T>(sum[i][j], fx[i], fy[j / 2][j % 2 * 2], fy[j / 2][j % 2 * 2 + 1]);
  }
  __syncwarp();
  const std::int64_t z = z0 + problem;
  const bool plain = shape.vectors && shape.out_type == S::row.type && call.c == nullptr && call.bias == nullptr &&
                     call.activation == Activation::none;
  const auto stage = [&](auto* to, int pitch, float alpha) {
    using Staged = std::remove_pointer_t<decltype(to)>;
#pragma unroll
    for (int i = 0; i < blocks; ++i)
#pragma unroll
      for (int j = 0; j < 2 * blocks; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          finishing::Pack<Staged, 2> pair;
#pragma unroll
          for (int e = 0; e < 2; ++e) pair.value[e] = finishing::rounded<Staged>(alpha * sum[i][j][half * 2 + e]);
          *reinterpret_cast<finishing::Pack<Staged, 2>*>(to + (i * 16 + half * 8 + lane / 4) * pitch + j * 8 + lane % 4 * 2) = pair;
        }
    __syncwarp();
  };
  if (!plain) {
    float* const staged = reinterpret_cast<float*>(own);
    stage(staged, S::out_pitch, 1);
    finish_tile<float>(output_of<float>(shape, call, 0, z), staged, S::out_pitch, S::edge, n, m, lane, 32);
    return;
  }
  stage(own, S::pitch, static_cast<float>(call.alpha));
  T* const d = static_cast<T*>(call.d) + z * shape.d_batch;
#pragma unroll
  for (int e = 0; e < S::packets / 32; ++e) {
    const int id = lane + e * 32, line = id / (S::edge / 8), place = id % (S::edge / 8) * 8;
    if (line >= n || place >= m) continue;
    const T* const from = own + line * S::pitch + place;
    T* const to = d + line * shape.d_j + place;
    if (place + 8 <= m) {
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    } else {
      for (int i = 0; place + i < m; ++i) to[i] = from[i];
    }
  }
}

template <int Index>
using SmallOf = std::conditional_t<simt_gemm_rows[Index].tensor_cores, SmallMma<Index>, SmallGemm<Index>>;

template <int Index = 0, typename Use>
cudaError_t with_small(int row, Use&& use) {
  if constexpr (Index < static_cast<int>(std::size(simt_gemm_rows))) {
    if constexpr (simt_gemm_rows[Index].problems > 0) {
      if (row == Index) return use(std::integral_constant<int, Index>{});
    }
    return with_small<Index + 1>(row, use);
  } else {
    return cudaErrorNotSupported;
  }
}

}  // namespace

std::size_t small_gemm_shared(int row) noexcept {
  std::size_t bytes = 0;
  with_small(row, [&](auto index) { return bytes = SmallOf<index()>::bytes, cudaSuccess; });
  return bytes;
}

cudaError_t launch_small_gemm(int row, const SimtGemmShape& shape, const SimtGemmCall& call, cudaStream_t stream) noexcept {
  return with_small(row, [&](auto index) {
    using S = SmallOf<index()>;
    const auto blocks = static_cast<unsigned>((shape.batch + S::problems - 1) / S::problems);
    if constexpr (S::row.tensor_cores)
      return launch_overlapped(small_mma<index()>, blocks, S::threads, S::bytes, stream, shape, call);
    else
      return launch_overlapped(small_gemm<index()>, blocks, S::threads, S::bytes, stream, shape, call);
  });
}

}  // namespace attune

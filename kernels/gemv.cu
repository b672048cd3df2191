#include "kernels/gemv.hpp"

#include "kernels/common/finish.cuh"
#include "kernels/common/overlap.cuh"

namespace attune {
namespace {

constexpr int warps = 8, threads = warps * 32;
constexpr int rows_each = 2;   // rows of a warp: two share what is loaded of the vectors
constexpr int loads_ahead = 4; // of each row, in flight

template <typename T>
using SumOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T, int Width>
struct alignas(Width * sizeof(T)) Packet {
  T value[Width];
};

template <typename Sum, typename T>
__device__ Sum widened(T value) {
  return finishing::widened<Sum>(value);
}

/// Streams past the caches: no element of the matrix is needed twice.
template <typename T, int Width>
__device__ Packet<T, Width> load_once(const T* from) {
  Packet<T, Width> packet;
  if constexpr (sizeof(packet) == 16)
    *reinterpret_cast<uint4*>(packet.value) = __ldcs(reinterpret_cast<const uint4*>(from));
  else
    packet.value[0] = from[0];
  return packet;
}

template <typename Sum>
__device__ void write(const GemvShape& s, const GemvCall& call, Sum sum, std::int64_t z, std::int64_t r, int v) {
  Output<Sum> out;
  out.c = call.c, out.bias = call.bias, out.type = s.out_type, out.activation = call.activation;
  out.alpha = static_cast<Sum>(call.alpha), out.beta = static_cast<Sum>(call.beta);
  store_as(call.d, s.out_type, z * s.d_batch + r * s.d_r + v * s.d_v,
           finished(out, sum, z * s.c_batch + r * s.c_r + v * s.c_v, r * s.bias_r + std::int64_t{v} * s.bias_v));
}

/// The matrix lies along k: warps walk along rows.
template <typename T, int Width, int Vectors>
__global__ void __launch_bounds__(threads) gemv_along_k(GemvShape s, GemvCall call) {
  using Sum = SumOf<T>;
  __shared__ Sum parts[warps][rows_each * Vectors];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int groups = warps / s.warps_each, group = warp / s.warps_each, share = warp % s.warps_each;
  const std::int64_t row_groups = (s.rows + rows_each - 1) / rows_each, blocks = (row_groups + groups - 1) / groups;
  wait_for_previous();
  let_next_begin();
  for (std::int64_t work = blockIdx.x; work < blocks * s.batch; work += gridDim.x) {
    const std::int64_t z = work / blocks, r0 = (work % blocks * groups + group) * rows_each;
    const T* matrix = static_cast<const T*>(call.matrix) + z * s.matrix_batch;
    const T* vectors = static_cast<const T*>(call.vectors) + z * s.vector_batch;
    const T* row[rows_each];
#pragma unroll
    for (int i = 0; i < rows_each; ++i) row[i] = matrix + (r0 + i < s.rows ? r0 + i : s.rows - 1) * s.ld;
    Sum sum[rows_each][Vectors] = {};
    const auto add = [&](const Packet<T, Width> (&m)[rows_each], std::int64_t l) {
#pragma unroll
      for (int v = 0; v < Vectors; ++v) {
        if (v >= s.vectors) break;
        const T* x = vectors + v * s.vector_v;
#pragma unroll
        for (int e = 0; e < Width; ++e) {
          const Sum value = widened<Sum>(x[(l + e) * s.vector_l]);
#pragma unroll
          for (int i = 0; i < rows_each; ++i) sum[i][v] += widened<Sum>(m[i].value[e]) * value;
        }
      }
    };
    // Along k the vectors run on, as a rule: whole packets of them are then loaded at once.
    const auto add_packed = [&](const Packet<T, Width> (&m)[rows_each], std::int64_t l) {
#pragma unroll
      for (int v = 0; v < Vectors; ++v) {
        if (v >= s.vectors) break;
        const auto x = *reinterpret_cast<const Packet<T, Width>*>(vectors + v * s.vector_v + l);
#pragma unroll
        for (int e = 0; e < Width; ++e)
#pragma unroll
          for (int i = 0; i < rows_each; ++i) sum[i][v] += widened<Sum>(m[i].value[e]) * widened<Sum>(x.value[e]);
      }
    };
    const std::int64_t step = std::int64_t{32} * Width * s.warps_each;
    std::int64_t l = (std::int64_t{share} * 32 + lane) * Width;
    const bool packed = s.vector_l == 1 && (reinterpret_cast<std::uintptr_t>(vectors) | static_cast<std::uintptr_t>(s.vector_v) * sizeof(T)) % sizeof(Packet<T, Width>) == 0;
    for (; l + (loads_ahead - 1) * step + Width <= s.k; l += loads_ahead * step) {
      Packet<T, Width> m[loads_ahead][rows_each];
#pragma unroll
      for (int a = 0; a < loads_ahead; ++a)
#pragma unroll
        for (int i = 0; i < rows_each; ++i) m[a][i] = load_once<T, Width>(row[i] + l + a * step);
#pragma unroll
      for (int a = 0; a < loads_ahead; ++a) {
        if (packed)
          add_packed(m[a], l + a * step);
        else
          add(m[a], l + a * step);
      }
    }
#pragma unroll 1
    for (; l < s.k; l += step) {
      const int width = static_cast<int>(s.k - l < Width ? s.k - l : Width);
#pragma unroll 1
      for (int e = 0; e < width; ++e)
#pragma unroll
        for (int v = 0; v < Vectors; ++v) {
          if (v >= s.vectors) break;
          const Sum value = widened<Sum>(vectors[v * s.vector_v + (l + e) * s.vector_l]);
#pragma unroll
          for (int i = 0; i < rows_each; ++i) sum[i][v] += widened<Sum>(row[i][l + e]) * value;
        }
    }
#pragma unroll
    for (int i = 0; i < rows_each; ++i)
#pragma unroll
      for (int v = 0; v < Vectors; ++v) {
#pragma unroll
        for (int other = 16; other > 0; other /= 2) sum[i][v] += __shfl_xor_sync(0xffffffffu, sum[i][v], other);
        if (lane == 0) parts[warp][i * Vectors + v] = sum[i][v];
      }
    __syncthreads();
    if (share == 0 && lane < rows_each * Vectors) {
      const int i = lane / Vectors, v = lane % Vectors;
      Sum all = 0;
      for (int w = 0; w < s.warps_each; ++w) all += parts[warp + w][lane];
      if (r0 + i < s.rows && v < s.vectors) write(s, call, all, z, r0 + i, v);
    }
    __syncthreads();
  }
}

/// The matrix lies along its rows: a thread keeps the sums of Width rows, the warps of a block share k.
template <typename T, int Width, int Vectors>
__global__ void __launch_bounds__(threads) gemv_along_rows(GemvShape s, GemvCall call) {
  using Sum = SumOf<T>;
  constexpr int block_rows = 32 * Width;
  __shared__ Sum parts[Vectors][block_rows];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t blocks = (s.rows + block_rows - 1) / block_rows;
  wait_for_previous();
  let_next_begin();
  for (std::int64_t work = blockIdx.x; work < blocks * s.batch; work += gridDim.x) {
    const std::int64_t z = work / blocks, r0 = work % blocks * block_rows + lane * Width;
    const T* matrix = static_cast<const T*>(call.matrix) + z * s.matrix_batch;
    const T* vectors = static_cast<const T*>(call.vectors) + z * s.vector_batch;
    const bool whole = r0 + Width <= s.rows;
    Sum sum[Vectors][Width] = {};
    for (std::int64_t l0 = warp; l0 < s.k; l0 += warps * loads_ahead) {
      Packet<T, Width> m[loads_ahead];
#pragma unroll
      for (int a = 0; a < loads_ahead; ++a) {
        const std::int64_t l = l0 + a * warps;
        if (l < s.k && whole)
          m[a] = load_once<T, Width>(matrix + l * s.ld + r0);
        else
#pragma unroll
          for (int e = 0; e < Width; ++e) m[a].value[e] = l < s.k && r0 + e < s.rows ? matrix[l * s.ld + r0 + e] : T(0.0f);
      }
#pragma unroll
      for (int a = 0; a < loads_ahead; ++a) {
        const std::int64_t l = l0 + a * warps;
        if (l >= s.k) break;
#pragma unroll
        for (int v = 0; v < Vectors; ++v) {
          if (v >= s.vectors) break;
          const Sum x = widened<Sum>(vectors[v * s.vector_v + l * s.vector_l]);
#pragma unroll
          for (int e = 0; e < Width; ++e) sum[v][e] += widened<Sum>(m[a].value[e]) * x;
        }
      }
    }
    // One warp after the other, so that the order of the sum is fixed.
    for (int w = 0; w < warps; ++w) {
      if (warp == w)
#pragma unroll
        for (int v = 0; v < Vectors; ++v)
#pragma unroll
          for (int e = 0; e < Width; ++e) {
            Sum& part = parts[v][e * 32 + lane];
            part = w == 0 ? sum[v][e] : part + sum[v][e];
          }
      __syncthreads();
    }
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < block_rows * Vectors; i += threads) {
      const int v = i / block_rows, r = i % block_rows;
      const std::int64_t at = work % blocks * block_rows + r;
      if (at < s.rows && v < s.vectors) write(s, call, parts[v][r % Width * 32 + r / Width], z, at, v);
    }
    __syncthreads();
  }
}

template <int Index = 0, typename Use>
cudaError_t with_row(int row, Use&& use) {
  if constexpr (Index < static_cast<int>(gemv_rows.size())) {
    if (row != Index) return with_row<Index + 1>(row, use);
    return use(std::integral_constant<int, Index>{});
  } else {
    return cudaErrorNotSupported;
  }
}

template <DType Type>
using ElementOf = std::conditional_t<Type == DType::f16, __half,
                                     std::conditional_t<Type == DType::bf16, __nv_bfloat16,
                                                        std::conditional_t<Type == DType::f64, double, float>>>;

}  // namespace

cudaError_t launch_gemv(int row, const GemvShape& s, const GemvCall& call, cudaStream_t stream) noexcept {
  return with_row(row, [&](auto index) {
    constexpr GemvRow r = gemv_rows[index()];
    using T = ElementOf<r.type>;
    constexpr int width = r.vector_loads ? 16 / static_cast<int>(sizeof(T)) : 1;
    const auto grid = [&](std::int64_t blocks) { return static_cast<unsigned>(blocks < INT32_MAX ? blocks : INT32_MAX); };
    if constexpr (r.k_major) {
      const std::int64_t groups = warps / s.warps_each, row_groups = (s.rows + rows_each - 1) / rows_each;
      return launch_overlapped(gemv_along_k<T, width, r.vectors>, grid((row_groups + groups - 1) / groups * s.batch), threads, 0, stream,
                               s, call);
    } else {
      return launch_overlapped(gemv_along_rows<T, width, r.vectors>, grid((s.rows + 32 * width - 1) / (32 * width) * s.batch), threads, 0,
                               stream, s, call);
    }
  });
}

}  // namespace attune

#include "kernels/gemm_simt.cuh"
#include "kernels/gemm_small.hpp"

namespace attune {
namespace {

/// One operand's way into shared memory: [k][Extent + pad], from registers, so that the next tile's loads run under the present
/// tile's arithmetic.
template <typename T, int Extent, int BK, int Threads>
struct Feed {
  static constexpr int width = Packet<T>::count, pitch = Extent + width;
  static constexpr int packets = Extent * BK / width, each = (packets + Threads - 1) / Threads;
  Packet<T> held[each];

  /// Along k where step_l is 1, else along the rows.
  __device__ void load(const T* data, std::int64_t step_i, std::int64_t step_l, bool vectors, int rows, int terms) {
    const bool along_k = step_l == 1;
#pragma unroll
    for (int e = 0; e < each; ++e) {
      const int id = static_cast<int>(threadIdx.x) + e * Threads;
      if (packets % Threads != 0 && id >= packets) break;
      const int i = along_k ? id / (BK / width) : id % (Extent / width) * width;
      const int l = along_k ? id % (BK / width) * width : id / (Extent / width);
      const T* from = data + i * step_i + l * step_l;
      const int left = along_k ? (i < rows ? terms - l : 0) : (l < terms ? rows - i : 0);
      if (vectors && left >= width) {
        *reinterpret_cast<uint4*>(held[e].value) = __ldg(reinterpret_cast<const uint4*>(from));
      } else {
#pragma unroll
        for (int x = 0; x < width; ++x) held[e].value[x] = x < left ? __ldg(from + x * (along_k ? step_l : step_i)) : T(0);
      }
    }
  }
  __device__ void store(T* tile, bool along_k) const {
#pragma unroll
    for (int e = 0; e < each; ++e) {
      const int id = static_cast<int>(threadIdx.x) + e * Threads;
      if (packets % Threads != 0 && id >= packets) break;
      if (along_k) {
        const int i = id / (BK / width), l = id % (BK / width) * width;
#pragma unroll
        for (int x = 0; x < width; ++x) tile[(l + x) * pitch + i] = held[e].value[x];
      } else {
        const int i = id % (Extent / width) * width, l = id / (Extent / width);
        *reinterpret_cast<uint4*>(tile + l * pitch + i) = *reinterpret_cast<const uint4*>(held[e].value);
      }
    }
  }
};

template <int Index>
struct SimtTile {
  static constexpr SimtGemmRow row = simt_gemm_rows[Index];
  using T = std::conditional_t<row.type == DType::f64, double, float>;
  static constexpr int bm = row.bm, bn = row.bn, bk = row.bk, tm = row.tm, tn = row.tn;
  static constexpr int across = bm / tm, down = bn / tn, threads = across * down;
  static constexpr int width = Packet<T>::count;
  static_assert(tm % width == 0 && tn % width == 0 && bk % width == 0);
  using FeedA = Feed<T, bm, bk, threads>;
  using FeedB = Feed<T, bn, bk, threads>;
  static constexpr int stage = (FeedA::pitch + FeedB::pitch) * bk;
  static constexpr int out_pitch = bm + width;
  static constexpr int elements = 2 * stage > bn * out_pitch ? 2 * stage : bn * out_pitch;
  static constexpr int bytes = elements * static_cast<int>(sizeof(T));
};

/// Each thread sums tm x tn elements, in packets that are bm / (tm / width) apart so that a warp reads whole lines of shared memory.
template <int Index>
__global__ void __launch_bounds__(SimtTile<Index>::threads) simt_gemm(SimtGemmShape shape, SimtGemmCall call) {
  using S = SimtTile<Index>;
  using T = typename S::T;
  constexpr int width = S::width, groups_m = S::tm / width, groups_n = S::tn / width;
  extern __shared__ __align__(16) char memory[];
  T* shared = reinterpret_cast<T*>(memory);
  const int tiles_m = static_cast<int>((shape.m + S::bm - 1) / S::bm), tiles_n = static_cast<int>((shape.n + S::bn - 1) / S::bn);
  const std::int64_t tiles = std::int64_t{tiles_m} * tiles_n, total = tiles * shape.batch * shape.splits;
  const std::int64_t k_each = ((shape.k + shape.splits - 1) / shape.splits + S::bk - 1) / S::bk * S::bk;
  const bool a_along_k = shape.a_l == 1, b_along_k = shape.b_l == 1;
  const int x = static_cast<int>(threadIdx.x) % S::across * width, y = static_cast<int>(threadIdx.x) / S::across * width;
  for (std::int64_t work = blockIdx.x; work < total; work += gridDim.x) {
    const std::int64_t tile = work % tiles, z = work / tiles / shape.splits;
    const int split = static_cast<int>(work / tiles % shape.splits);
    const std::int64_t i0 = tile % tiles_m * S::bm, j0 = tile / tiles_m * S::bn;
    const std::int64_t k0 = split * k_each, k_end = k0 + k_each < shape.k ? k0 + k_each : shape.k;
    const int rows = static_cast<int>(shape.m - i0 < S::bm ? shape.m - i0 : S::bm);
    const int columns = static_cast<int>(shape.n - j0 < S::bn ? shape.n - j0 : S::bn);
    const T* a = static_cast<const T*>(call.a) + z * shape.a_batch + i0 * shape.a_i;
    const T* b = static_cast<const T*>(call.b) + z * shape.b_batch + j0 * shape.b_j;

    T sum[S::tm][S::tn] = {};
    typename S::FeedA feed_a;
    typename S::FeedB feed_b;
    const auto load = [&](std::int64_t k) {
      const int terms = static_cast<int>(k_end - k < S::bk ? k_end - k : S::bk);
      feed_a.load(a + k * shape.a_l, shape.a_i, shape.a_l, shape.a_vectors, rows, terms);
      feed_b.load(b + k * shape.b_l, shape.b_j, shape.b_l, shape.b_vectors, columns, terms);
    };
    const auto store = [&](int buffer) {
      feed_a.store(shared + buffer * S::stage, a_along_k);
      feed_b.store(shared + buffer * S::stage + S::FeedA::pitch * S::bk, b_along_k);
    };
    int buffer = 0;
    if (k0 < k_end) {
      load(k0);
      store(0);
    }
    __syncthreads();
    for (std::int64_t k = k0; k < k_end; k += S::bk, buffer ^= 1) {
      const bool more = k + S::bk < k_end;
      if (more) load(k + S::bk);
      const T* tile_a = shared + buffer * S::stage;
      const T* tile_b = tile_a + S::FeedA::pitch * S::bk;
#pragma unroll
      for (int l = 0; l < S::bk; ++l) {
        Packet<T> pa[groups_m], pb[groups_n];
#pragma unroll
        for (int g = 0; g < groups_m; ++g)
          pa[g] = *reinterpret_cast<const Packet<T>*>(tile_a + l * S::FeedA::pitch + x + g * (S::bm / groups_m));
#pragma unroll
        for (int g = 0; g < groups_n; ++g)
          pb[g] = *reinterpret_cast<const Packet<T>*>(tile_b + l * S::FeedB::pitch + y + g * (S::bn / groups_n));
#pragma unroll
        for (int i = 0; i < S::tm; ++i)
#pragma unroll
          for (int j = 0; j < S::tn; ++j) sum[i][j] += pa[i / width].value[i % width] * pb[j / width].value[j % width];
      }
      if (more) store(buffer ^ 1);
      __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < S::tn; ++j)
#pragma unroll
      for (int i = 0; i < S::tm; ++i)
        shared[(y + j / width * (S::bn / groups_n) + j % width) * S::out_pitch + x + i / width * (S::bm / groups_m) + i % width] =
            sum[i][j];
    __syncthreads();
    finish_tile<T>(at_tile(output_of<T>(shape, call, split, z), j0, i0), shared, S::out_pitch, S::bm, columns, rows,
                   static_cast<int>(threadIdx.x), S::threads);
    __syncthreads();
  }
}

__device__ int load_integer(const void* base, DType type, std::int64_t at) {
  return type == DType::i8 ? static_cast<const std::int8_t*>(base)[at] : static_cast<const std::int32_t*>(base)[at];
}

/// An element of any type in the type of the sums.
template <typename Sum>
__device__ Sum load_operand(const void* base, DType type, std::int64_t at) {
  if constexpr (std::is_same_v<Sum, int>)
    return load_integer(base, type, at);
  else
    return static_cast<Sum>(load_as_double(base, type, at));
}

/// Any types, sizes, alignments: 32 x 32 elements of D a block, four a thread.
template <typename Sum>
__global__ void __launch_bounds__(256) any_gemm(SimtGemmShape shape, SimtGemmCall call) {
  constexpr int edge = 32, bk = 16;
  __shared__ Sum tile_a[bk][edge + 1], tile_b[bk][edge + 1];
  const std::int64_t tiles_m = (shape.m + edge - 1) / edge, tiles_n = (shape.n + edge - 1) / edge;
  const int t = static_cast<int>(threadIdx.x), x = t % edge, y = t / edge;
  for (std::int64_t work = blockIdx.x; work < tiles_m * tiles_n * shape.batch; work += gridDim.x) {
    const std::int64_t i0 = work % tiles_m * edge, j0 = work / tiles_m % tiles_n * edge, z = work / tiles_m / tiles_n;
    Sum sum[4] = {};
    for (std::int64_t k0 = 0; k0 < shape.k; k0 += bk) {
      for (int e = t; e < edge * bk; e += 256) {
        // Neighbouring threads along the operand's own direction.
        const int a_i = shape.a_l == 1 ? e / bk : e % edge, a_l = shape.a_l == 1 ? e % bk : e / edge;
        const int b_j = shape.b_l == 1 ? e / bk : e % edge, b_l = shape.b_l == 1 ? e % bk : e / edge;
        tile_a[a_l][a_i] = i0 + a_i < shape.m && k0 + a_l < shape.k
                               ? load_operand<Sum>(call.a, shape.a_type,
                                                   z * shape.a_batch + (i0 + a_i) * shape.a_i + (k0 + a_l) * shape.a_l)
                               : Sum(0);
        tile_b[b_l][b_j] = j0 + b_j < shape.n && k0 + b_l < shape.k
                               ? load_operand<Sum>(call.b, shape.b_type,
                                                   z * shape.b_batch + (j0 + b_j) * shape.b_j + (k0 + b_l) * shape.b_l)
                               : Sum(0);
      }
      __syncthreads();
#pragma unroll
      for (int l = 0; l < bk; ++l)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[e] += tile_a[l][x] * tile_b[l][y + e * 8];
      __syncthreads();
    }
    if (i0 + x >= shape.m) continue;
#pragma unroll 1
    for (int e = 0; e < 4; ++e) {
      const std::int64_t i = i0 + x, j = j0 + y + e * 8;
      if (j >= shape.n) break;
      const std::int64_t d_at = z * shape.d_batch + j * shape.d_j + i, c_at = z * shape.c_batch + j * shape.c_j + i;
      if constexpr (std::is_same_v<Sum, int>) {
        // Unsigned, so that wrapping around is defined.
        unsigned value = static_cast<unsigned>(static_cast<int>(call.alpha)) * static_cast<unsigned>(sum[e]);
        if (call.c != nullptr)
          value += static_cast<unsigned>(static_cast<int>(call.beta)) *
                   static_cast<unsigned>(static_cast<const int*>(call.c)[c_at]);
        static_cast<int*>(call.d)[d_at] = static_cast<int>(value);
      } else {
        Output<Sum> out;
        out.c = call.c, out.bias = call.bias, out.type = shape.out_type, out.activation = call.activation;
        out.alpha = static_cast<Sum>(call.alpha), out.beta = static_cast<Sum>(call.beta);
        if (call.scale_a != nullptr) out.alpha *= static_cast<Sum>(*call.scale_a);
        if (call.scale_b != nullptr) out.alpha *= static_cast<Sum>(*call.scale_b);
        store_as(call.d, shape.out_type, d_at, finished(out, sum[e], c_at, i));
      }
    }
  }
}

unsigned grid_of(std::int64_t blocks) { return static_cast<unsigned>(blocks < INT32_MAX ? blocks : INT32_MAX); }

template <int Index = 0, typename Use>
cudaError_t with_row(int row, Use&& use) {
  if constexpr (Index < static_cast<int>(std::size(simt_gemm_rows))) {
    if (row != Index) return with_row<Index + 1>(row, use);
    return use(std::integral_constant<int, Index>{});
  } else {
    return cudaErrorNotSupported;
  }
}

}  // namespace

std::size_t simt_gemm_shared(int row) noexcept {
  std::size_t bytes = 0;
  with_row(row, [&](auto index) {
    if constexpr (simt_gemm_rows[index()].problems > 0)
      bytes = small_gemm_shared(row);
    else if constexpr (!simt_gemm_rows[index()].any_types)
      bytes = SimtTile<index()>::bytes;
    return cudaSuccess;
  });
  return bytes;
}

cudaError_t allow_simt_gemm(int row) noexcept {
  return with_row(row, [](auto index) {
    if constexpr (simt_gemm_rows[index()].any_types || simt_gemm_rows[index()].problems > 0)
      return cudaSuccess;
    else
      return cudaFuncSetAttribute(simt_gemm<index()>, cudaFuncAttributeMaxDynamicSharedMemorySize, SimtTile<index()>::bytes);
  });
}

cudaError_t launch_simt_gemm(int row, const SimtGemmShape& shape, const SimtGemmCall& call, cudaStream_t stream) noexcept {
  return with_row(row, [&](auto index) {
    constexpr SimtGemmRow r = simt_gemm_rows[index()];
    if constexpr (r.problems > 0) {
      return launch_small_gemm(row, shape, call, stream);
    } else if constexpr (r.any_types) {
      const unsigned grid = grid_of((shape.m + 31) / 32 * ((shape.n + 31) / 32) * shape.batch);
      if constexpr (r.type == DType::f64)
        any_gemm<double><<<grid, 256, 0, stream>>>(shape, call);
      else if constexpr (r.type == DType::i32)
        any_gemm<int><<<grid, 256, 0, stream>>>(shape, call);
      else
        any_gemm<float><<<grid, 256, 0, stream>>>(shape, call);
    } else {
      using S = SimtTile<index()>;
      const std::int64_t tiles = (shape.m + S::bm - 1) / S::bm * ((shape.n + S::bn - 1) / S::bn);
      simt_gemm<index()><<<grid_of(tiles * shape.batch * shape.splits), S::threads, S::bytes, stream>>>(shape, call);
    }
    return cudaGetLastError();
  });
}

}  // namespace attune

// Hopper's GEMM: one warpgroup gives its registers away and feeds a ring of tiles by tensor copies; the others multiply out of it
// and stage their results, which tensor copies, or other warps of the first, store. Blocks stay and walk over tiles, so that the
// next tile is loaded and multiplied while the present one is stored.
// Included by one source for each element type.
#pragma once

#include "kernels/common/hopper.cuh"
#include "kernels/common/overlap.cuh"
#include "kernels/common/wgmma.cuh"
#include "kernels/gemm_hopper_store.cuh"

namespace attune {

/// One thread `issues` every copy; others only come along to meetings of a cluster.
template <typename Gemm>
__device__ void hopper_produce(const HopperGemmMaps& maps, const HopperGemmShape& s, std::uint32_t ring, std::uint32_t full,
                               std::uint32_t empty, int rank, int first, int stride, bool issues) {
  constexpr HopperGemmRow row = Gemm::row;
  constexpr std::uint16_t everyone = (1 << Gemm::below) - 1;
  int stage = 0, phase = 0;
  const int total = HopperWork::count<Gemm>(s);
  for (int index = first; index < total; index += stride) {
    const HopperWork w = HopperWork::at<Gemm>(s, index, rank);
    const int zx = s.x_batched ? w.z : 0, zy = s.y_batched ? w.z : 0;
    for (int step = 0; issues && step < w.steps; ++step) {
      const int k = w.k0 + step * Gemm::bk;
      const std::uint32_t x = ring + stage * Gemm::bytes, y = x + Gemm::x_bytes, ready = full + stage * 8;
      hopper::wait_barrier(empty + stage * 8, phase ^ 1);
      hopper::expect_bytes(ready, Gemm::bytes);
      if constexpr (row.x_k_major) {
        hopper::load_box(x, maps.x, k, w.row, zx, ready);
      } else {
#pragma unroll
        for (int b = 0; b < Gemm::bm / 64; ++b) hopper::load_box(x + b * 8192, maps.x, w.row + b * 64, k, zx, ready);
      }
      // Each block of a cluster loads its part of Y for all of them.
      const int part_of = Gemm::below > 1 ? rank : 0, column = w.column + part_of * Gemm::y_part;
      const std::uint32_t part = y + part_of * Gemm::y_part * 128;
      if constexpr (row.y_k_major) {
        if constexpr (Gemm::below > 1)
          hopper::load_box_to(part, maps.y, k, column, zy, ready, everyone);
        else
          hopper::load_box(part, maps.y, k, column, zy, ready);
      } else {
#pragma unroll
        for (int b = 0; b < Gemm::y_part / 64; ++b) {
          if constexpr (Gemm::below > 1)
            hopper::load_box_to(part + b * 8192, maps.y, column + b * 64, k, zy, ready, everyone);
          else
            hopper::load_box(part + b * 8192, maps.y, column + b * 64, k, zy, ready);
        }
      }
      if (++stage == Gemm::stages) stage = 0, phase ^= 1;
    }
    if constexpr (row.share_k) {
      __syncwarp();
      hopper::sync_cluster();  // sums are staged
      hopper::sync_cluster();  // and were read
    }
  }
}

template <typename T, typename Gemm>
__device__ void hopper_consume(const HopperGemmMaps& maps, const HopperGemmShape& s, const HopperGemmCall& call, std::uint32_t ring,
                               std::uint32_t full, std::uint32_t empty, char* staging, std::uint32_t staged, std::uint32_t drained,
                               int rank, int first, int stride) {
  constexpr HopperGemmRow row = Gemm::row;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1, thread = static_cast<int>(threadIdx.x) % 128;
  const int barrier = 1 + group;
  constexpr int all_barrier = 3;  // of all who multiply
  char* const own_staging = staging + group * Gemm::staging;
  int stage = 0, phase = 0, tile_phase = 0;
  const int total = HopperWork::count<Gemm>(s);
  // A stage is free when both blocks of a cluster have read it: each may have been filled by the other.
  const auto release = [&](int done) {
    if constexpr (Gemm::below > 1) {
      if (thread < Gemm::below) hopper::arrive_at(empty + done * 8, thread);
    } else {
      if (thread == 0) hopper::arrive(empty + done * 8);
    }
  };
  for (int index = first; index < total; index += stride) {
    const HopperWork w = HopperWork::at<Gemm>(s, index, rank);
    float sum[Gemm::blocks][Gemm::bn / 2];
#pragma unroll
    for (int b = 0; b < Gemm::blocks; ++b)
#pragma unroll
      for (int i = 0; i < Gemm::bn / 2; ++i) sum[b][i] = 0;
    int before = -1;
    for (int step = 0; step < w.steps; ++step) {
      hopper::wait_barrier(full + stage * 8, phase);
      const std::uint32_t x = ring + stage * Gemm::bytes + group * Gemm::group_rows * 128, y = ring + stage * Gemm::bytes + Gemm::x_bytes;
      hopper::begin();
#pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
        const std::uint64_t dy = hopper::describe<row.y_k_major>(y + kk * (row.y_k_major ? 32 : 2048), 8192);
#pragma unroll
        for (int b = 0; b < Gemm::blocks; ++b) {
          const std::uint64_t dx = hopper::describe<row.x_k_major>(x + b * 8192 + kk * (row.x_k_major ? 32 : 2048), 8192);
          hopper::multiply<T, Gemm::bn, row.x_k_major, row.y_k_major>(sum[b], dx, dy, true);
        }
      }
      hopper::commit();
      if (before >= 0) {
        hopper::wait<1>();
        release(before);
      }
      before = stage;
      if (++stage == Gemm::stages) stage = 0, phase ^= 1;
    }
    hopper::wait<0>();
    if (before >= 0) release(before);
    if constexpr (row.share_k) {
      add_up<Gemm>(sum[0], s, call, reinterpret_cast<float*>(staging), group, w, rank, thread);
    } else {
if constexpr (Gemm::has_boxes) {
        if (s.plain) {
          // What was staged before must have been read: by the copies that this thread began, or by the warps that store.
          if (s.boxes) {
            if (thread == 0) hopper::wait_stores_read<0>();
            hopper::sync_threads(barrier, 128);
          } else if (s.direct) {
            hopper::sync_threads(all_barrier, Gemm::consumers);
          } else {
            hopper::wait_barrier(drained, tile_phase ^ 1);
            tile_phase ^= 1;
          }
          const std::uint32_t to = shared_address(own_staging);
#pragma unroll
          for (int b = 0; b < Gemm::blocks; ++b) stage_boxes<Gemm, T>(sum[b], to + b * Gemm::bn * 128, call.alpha, s.swapped, thread);
          if (s.boxes) hopper::fence_for_copies();
          if (!s.boxes && s.direct) {
            hopper::sync_threads(all_barrier, Gemm::consumers);
            store_tile<Gemm>(s, call.d, shared_address(staging), w, static_cast<int>(threadIdx.x) / 32 - 4, Gemm::consumers / 32, thread % 32);
            continue;
          }
          hopper::sync_threads(barrier, 128);
          if (thread == 0 && !s.boxes) hopper::arrive(staged);
          if (thread == 0 && s.boxes) {
#pragma unroll 1
            for (int i = 0; i < Gemm::blocks * (Gemm::bn / 64); ++i) {
              const int x = w.row + group * Gemm::group_rows + i / (Gemm::bn / 64) * 64, y = w.column + i % (Gemm::bn / 64) * 64;
              hopper::store_box(maps.d, to + i * 8192, s.swapped ? y : x, s.swapped ? x : y, w.z);
            }
            hopper::commit_stores();
          }
          continue;
        }
      }
#pragma unroll
      for (int b = 0; b < Gemm::blocks; ++b)
        store_sums<Gemm>(sum[b], s, call, reinterpret_cast<float*>(own_staging), w.row + group * Gemm::group_rows + b * 64, w.column,
                         w.split, w.z, thread, barrier);
    }
  }
  if (s.boxes && thread == 0) hopper::wait_stores();
}

template <typename T, int Index>
__global__ void __launch_bounds__(HopperGemm<T, Index>::threads, HopperGemm<T, Index>::row.resident)
    hopper_gemm(const __grid_constant__ HopperGemmMaps maps, HopperGemmShape shape, HopperGemmCall call) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Gemm = HopperGemm<T, Index>;
  constexpr HopperGemmRow row = Gemm::row;
  // The swizzle counts from addresses that are multiples of 1,024; blocks of a cluster must agree on them.
  extern __shared__ __align__(1024) char memory[];
  const std::uint32_t ring = shared_address(memory);
  if (ring % 1024 != 0) __trap();
  const std::uint32_t barriers = ring + Gemm::stages * Gemm::bytes + row.groups * Gemm::staging;
  const std::uint32_t full = barriers, empty = barriers + Gemm::stages * 8;
  const std::uint32_t staged = empty + Gemm::stages * 8, drained = staged + 8;
  char* const staging = memory + Gemm::stages * Gemm::bytes;
  const int rank = row.cluster > 1 ? hopper::block_in_cluster() : 0;
  if (threadIdx.x == 0) {
    hopper::prefetch_map(maps.x);
    hopper::prefetch_map(maps.y);
    for (int i = 0; i < Gemm::stages; ++i) {
      hopper::init_barrier(full + i * 8, 1);
      hopper::init_barrier(empty + i * 8, row.groups * Gemm::below);
    }
    hopper::init_barrier(staged, row.groups);
    hopper::init_barrier(drained, 3);
    hopper::fence_barrier_init();
  }
  if constexpr (row.cluster > 1)
    hopper::sync_cluster();
  else
    __syncthreads();
  wait_for_previous();
  let_next_begin();
  const int first = static_cast<int>(blockIdx.x) / row.cluster, stride = static_cast<int>(gridDim.x) / row.cluster;
  if (threadIdx.x < 128) {
    hopper::give_registers_up<Gemm::has_boxes ? 88 : 40>();
    if constexpr (row.share_k) {
      // The whole warpgroup keeps pace with the others' meetings.
      hopper_produce<Gemm>(maps, shape, ring, full, empty, rank, first, stride, threadIdx.x == 0);
    } else {
      if (threadIdx.x == 0) hopper_produce<Gemm>(maps, shape, ring, full, empty, rank, first, stride, true);
      if constexpr (Gemm::has_boxes) {
        if (threadIdx.x >= 32 && shape.plain && !shape.boxes && !shape.direct)
          hopper_store<Gemm>(shape, call.d, shared_address(staging), staged, drained, rank, first, stride);
      }
    }
  } else {
    if constexpr (row.groups == 2) hopper::take_registers<Gemm::has_boxes ? 208 : 232>();
    if constexpr (row.groups == 1 && row.resident == 2) hopper::take_registers<Gemm::has_boxes ? 168 : 208>();
    hopper_consume<T, Gemm>(maps, shape, call, ring, full, empty, staging, staged, drained, rank, first, stride);
  }
  // No block may end while another can still arrive at its barriers.
  __syncwarp();
  if constexpr (row.cluster > 1) hopper::sync_cluster();
#endif
}

/// Calls use(constant index) for a row of this type; the others' sources have the rest.
template <DType Type, int Index = 0, typename Use>
cudaError_t with_hopper_gemm(int row, Use&& use) {
  if constexpr (Index < static_cast<int>(hopper_gemm_rows.size())) {
    if constexpr (hopper_gemm_rows[Index].type == Type) {
      if (row == Index) return use(std::integral_constant<int, Index>{});
    }
    return with_hopper_gemm<Type, Index + 1>(row, use);
  } else {
    return cudaErrorNotSupported;
  }
}

template <typename Gemm>
cudaLaunchConfig_t hopper_config(cudaLaunchAttribute (&attributes)[2], std::int64_t blocks, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(Gemm::threads);
  config.dynamicSmemBytes = shared_bytes(Gemm::row);
  config.stream = stream;
  // What a block sets up, it sets up while the kernel before this one ends.
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = Gemm::row.cluster, attributes[1].val.clusterDim.y = 1, attributes[1].val.clusterDim.z = 1;
  config.attrs = attributes, config.numAttrs = Gemm::row.cluster > 1 ? 2 : 1;
  return config;
}

template <typename T, DType Type>
cudaError_t allow_hopper_gemm_of(int row, int& blocks) {
  return with_hopper_gemm<Type>(row, [&](auto index) {
    using Gemm = HopperGemm<T, index()>;
    const auto kernel = hopper_gemm<T, index()>;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes(Gemm::row));
    if (error != cudaSuccess) return error;
    // Blocks walk over tiles together: one that had to wait for another to end would double the time.
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = hopper_config<Gemm>(attributes, Gemm::row.cluster, nullptr);
    if constexpr (Gemm::row.cluster > 1) {
      int clusters = 0;
      error = cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
      blocks = clusters * Gemm::row.cluster;
    } else {
      int device = 0, processors = 0, each = 0;
      error = cudaGetDevice(&device);
      if (error == cudaSuccess) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
      if (error == cudaSuccess)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, Gemm::threads, shared_bytes(Gemm::row));
      blocks = processors * each;
    }
    return error != cudaSuccess ? error : blocks == 0 ? cudaErrorLaunchOutOfResources : cudaSuccess;
  });
}

template <typename T, DType Type>
cudaError_t launch_hopper_gemm_of(int row, const HopperGemmMaps& maps, const HopperGemmShape& shape, const HopperGemmCall& call,
                                  int blocks, cudaStream_t stream) {
  return with_hopper_gemm<Type>(row, [&](auto index) {
    using Gemm = HopperGemm<T, index()>;
    constexpr int cluster = Gemm::row.cluster;
    constexpr int height = Gemm::bm * Gemm::below;
    const std::int64_t tiles = (shape.rows + height - 1) / height * ((shape.columns + Gemm::bn - 1) / Gemm::bn) * shape.batch * shape.splits;
    const std::int64_t most = blocks / cluster;
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = hopper_config<Gemm>(attributes, (tiles < most ? tiles : most) * cluster, stream);
    return cudaLaunchKernelEx(&config, hopper_gemm<T, index()>, maps, shape, call);
  });
}

}  // namespace attune

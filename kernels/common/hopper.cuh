// Hopper's asynchronous machinery (sm_90a): barriers that count bytes, tensor copies, register budgets, clusters.
#pragma once

#include <cuda.h>
#include <cstdint>

#include "kernels/common/mma.cuh"

namespace attune::hopper {

__device__ inline void init_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
__device__ inline void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void expect_bytes(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// At the barrier of the same address in another block of the cluster.
__device__ inline void arrive_at(std::uint32_t barrier, int block) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(barrier),
      "r"(block)
      : "memory");
}
__device__ inline void wait_barrier(std::uint32_t barrier, int phase) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra ready;\nbra again;\nready:\n}\n" ::"r"(
          barrier),
      "r"(phase)
      : "memory");
}

/// A box of a tensor of three dimensions into shared memory; its bytes are counted by the barrier.
__device__ inline void load_box(std::uint32_t to, const CUtensorMap& map, int c0, int c1, int c2, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
/// The same to every block of the cluster in the mask, at the same address, counted by each one's own barrier.
__device__ inline void load_box_to(std::uint32_t to, const CUtensorMap& map, int c0, int c1, int c2, std::uint32_t barrier,
                                   std::uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], "
      "%6;" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "h"(mask)
      : "memory");
}
/// A box from shared memory to a tensor; `commit_stores` closes the group.
__device__ inline void store_box(const CUtensorMap& map, std::uint32_t from, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map), "r"(from), "r"(c0),
               "r"(c1), "r"(c2)
               : "memory");
}
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until at most `Pending` groups of stores still read shared memory.
template <int Pending>
__device__ inline void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}
__device__ inline void wait_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
/// Makes what threads wrote to shared memory visible to tensor copies.
__device__ inline void fence_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

template <int Registers>
__device__ inline void give_registers_up() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

/// A barrier of `threads` threads of the block, other than __syncthreads()'s.
__device__ inline void sync_threads(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline int block_in_cluster() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// A float in the shared memory of another block of the cluster.
__device__ inline float load_from(std::uint32_t address, int block) {
  float value;
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %1, %2;\nld.shared::cluster.f32 %0, [remote];\n}\n"
      : "=f"(value)
      : "r"(address), "r"(block)
      : "memory");
  return value;
}

__device__ inline uint4 load_shared(std::uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
  return v;
}
__device__ inline std::uint16_t load_shared_half(std::uint32_t address) {
  std::uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
  return v;
}

__device__ inline void store_matrices(std::uint32_t to, const std::uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]), "r"(r[2]),
               "r"(r[3])
               : "memory");
}
__device__ inline void store_matrices_transposed(std::uint32_t to, const std::uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]), "r"(r[2]),
               "r"(r[3])
               : "memory");
}

}  // namespace attune::hopper

// Warpgroup matrix multiplication (sm_90a): D[64 x N] += X * Y with both operands in shared memory, given by descriptors. One asm
// statement for each N: its registers have to be named one by one.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <type_traits>

#include "kernels/common/mma.cuh"

namespace attune::hopper {

#define ATTUNE_WGMMA_16(SHAPE, TAIL, ...) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\nwgmma.mma_async.sync.aligned.m64n16" SHAPE " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7" \
               "}, %8, %9, p, 1, 1" TAIL ";\n}\n" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) \
               : "l"(x), "l"(y), "r"(static_cast<int>(add)) __VA_OPT__(, ) __VA_ARGS__)

#define ATTUNE_WGMMA_32(SHAPE, TAIL, ...) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\nwgmma.mma_async.sync.aligned.m64n32" SHAPE " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
               "}, %16, %17, p, 1, 1" TAIL ";\n}\n" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]) \
               : "l"(x), "l"(y), "r"(static_cast<int>(add)) __VA_OPT__(, ) __VA_ARGS__)

#define ATTUNE_WGMMA_64(SHAPE, TAIL, ...) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64" SHAPE " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
               "%24, %25, %26, %27, %28, %29, %30, %31" \
               "}, %32, %33, p, 1, 1" TAIL ";\n}\n" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) \
               : "l"(x), "l"(y), "r"(static_cast<int>(add)) __VA_OPT__(, ) __VA_ARGS__)

#define ATTUNE_WGMMA_128(SHAPE, TAIL, ...) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128" SHAPE " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
               "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
               "}, %64, %65, p, 1, 1" TAIL ";\n}\n" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
                 "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
                 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
                 "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) \
               : "l"(x), "l"(y), "r"(static_cast<int>(add)) __VA_OPT__(, ) __VA_ARGS__)

#define ATTUNE_WGMMA_192(SHAPE, TAIL, ...) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\nwgmma.mma_async.sync.aligned.m64n192" SHAPE " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
               "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, " \
               "%72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
               "}, %96, %97, p, 1, 1" TAIL ";\n}\n" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
                 "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
                 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
                 "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), \
                 "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), \
                 "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), \
                 "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), \
                 "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]) \
               : "l"(x), "l"(y), "r"(static_cast<int>(add)) __VA_OPT__(, ) __VA_ARGS__)

#define ATTUNE_WGMMA_256(SHAPE, TAIL, ...) \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256" SHAPE " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
               "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, " \
               "%72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
               "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, " \
               "%120, %121, %122, %123, %124, %125, %126, %127" \
               "}, %128, %129, p, 1, 1" TAIL ";\n}\n" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), \
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), \
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), \
                 "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), \
                 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
                 "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), \
                 "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), \
                 "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), \
                 "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), \
                 "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), \
                 "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), \
                 "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), \
                 "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), \
                 "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127]) \
               : "l"(x), "l"(y), "r"(static_cast<int>(add)) __VA_OPT__(, ) __VA_ARGS__)

/// One step along k: 32 bytes of each operand. `add` false starts the sums anew. Majors only matter to 16-bit types; the others lie
/// along k.
template <typename T, int N, bool KMajorX, bool KMajorY>
__device__ inline void multiply(float (&d)[N / 2], std::uint64_t x, std::uint64_t y, bool add) {
  constexpr int turn_x = KMajorX ? 0 : 1, turn_y = KMajorY ? 0 : 1;
  if constexpr (N == 16) {
    if constexpr (std::is_same_v<T, __half>)
      ATTUNE_WGMMA_16("k16.f32.f16.f16", ", %11, %12", "n"(turn_x), "n"(turn_y));
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
      ATTUNE_WGMMA_16("k16.f32.bf16.bf16", ", %11, %12", "n"(turn_x), "n"(turn_y));
    else
      ATTUNE_WGMMA_16("k8.f32.tf32.tf32", "");
  } else if constexpr (N == 32) {
    if constexpr (std::is_same_v<T, __half>)
      ATTUNE_WGMMA_32("k16.f32.f16.f16", ", %19, %20", "n"(turn_x), "n"(turn_y));
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
      ATTUNE_WGMMA_32("k16.f32.bf16.bf16", ", %19, %20", "n"(turn_x), "n"(turn_y));
    else
      ATTUNE_WGMMA_32("k8.f32.tf32.tf32", "");
  } else if constexpr (N == 64) {
    if constexpr (std::is_same_v<T, __half>)
      ATTUNE_WGMMA_64("k16.f32.f16.f16", ", %35, %36", "n"(turn_x), "n"(turn_y));
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
      ATTUNE_WGMMA_64("k16.f32.bf16.bf16", ", %35, %36", "n"(turn_x), "n"(turn_y));
    else
      ATTUNE_WGMMA_64("k8.f32.tf32.tf32", "");
  } else if constexpr (N == 128) {
    if constexpr (std::is_same_v<T, __half>)
      ATTUNE_WGMMA_128("k16.f32.f16.f16", ", %67, %68", "n"(turn_x), "n"(turn_y));
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
      ATTUNE_WGMMA_128("k16.f32.bf16.bf16", ", %67, %68", "n"(turn_x), "n"(turn_y));
    else
      ATTUNE_WGMMA_128("k8.f32.tf32.tf32", "");
  } else if constexpr (N == 192) {
    if constexpr (std::is_same_v<T, __half>)
      ATTUNE_WGMMA_192("k16.f32.f16.f16", ", %99, %100", "n"(turn_x), "n"(turn_y));
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
      ATTUNE_WGMMA_192("k16.f32.bf16.bf16", ", %99, %100", "n"(turn_x), "n"(turn_y));
    else
      ATTUNE_WGMMA_192("k8.f32.tf32.tf32", "");
  } else if constexpr (N == 256) {
    if constexpr (std::is_same_v<T, __half>)
      ATTUNE_WGMMA_256("k16.f32.f16.f16", ", %131, %132", "n"(turn_x), "n"(turn_y));
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
      ATTUNE_WGMMA_256("k16.f32.bf16.bf16", ", %131, %132", "n"(turn_x), "n"(turn_y));
    else
      ATTUNE_WGMMA_256("k8.f32.tf32.tf32", "");
  } else {
    static_assert(N == 0, "no instruction of this width is spelled out");
  }
}

#undef ATTUNE_WGMMA_16
#undef ATTUNE_WGMMA_32
#undef ATTUNE_WGMMA_64
#undef ATTUNE_WGMMA_128
#undef ATTUNE_WGMMA_192
#undef ATTUNE_WGMMA_256

__device__ inline void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most `Pending` committed groups are unfinished.
template <int Pending>
__device__ inline void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// An operand in shared memory under the 128-byte swizzle. Along k: lines of 128 bytes, eight to a group of 1 KB. Else: blocks of 64
/// rows (or columns), each k a line of 128 bytes, blocks `block_bytes` apart.
template <bool KMajor>
__device__ inline std::uint64_t describe(std::uint32_t address, int block_bytes) {
  const std::uint64_t leading = KMajor ? 1 : static_cast<std::uint64_t>(block_bytes >> 4);
  return (static_cast<std::uint64_t>(address & 0x3ffff) >> 4) | leading << 16 | std::uint64_t{1024 >> 4} << 32 | std::uint64_t{1} << 62;
}

}  // namespace attune::hopper

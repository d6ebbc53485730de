struct bf16 { unsigned short bits; };

__device__ __forceinline__ float bf16_to_float(bf16 x) {
    float y;
    asm("mov.b32 %0, {%1, %2};" : "=f"(y) : "h"(static_cast<unsigned short>(0)), "h"(x.bits));
    return y;
}

__device__ __forceinline__ bf16 float_to_bf16(float x) {
    bf16 y;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
    const unsigned bits = __float_as_uint(x);
    y.bits = x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fff;
#endif
    return y;
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

extern "C" __global__ void __launch_bounds__(256)
pointwise_64x8x4x1_bf16(
    const bf16* __restrict__ x,
    const float* __restrict__ cos,
    const float* __restrict__ sin,
    bf16* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    alignas(16) bf16 x_rf[8];
    alignas(16) bf16 y_rf[8];
    float part[1];
    const int warp = thread / 32;
    const int warp_n = warp / 2;
    const int warp_h = warp % 2;
    const int lane = thread % 32;
    const int lane_h = lane / 8;
    const int lane_d = lane % 8;

    // Program(1, 4, 8, 64)(5 GL)(Block)

    // load x to x_rf: Move(1, 1, 4, 64)(GL, RF)(Warp)
    copy_16B(&x_rf[0], &x[block * 2048 + warp_n * 512 + warp_h * 256 + lane_h * 64 + lane_d * 8]);

    // y: bf16 in y_rf
    #pragma unroll
    for (int d = 0; d < 8; ++d) {
        part[0] = bf16_to_float(x_rf[d / 2 * 2 - d % 2 + 1]);
        y_rf[d] = float_to_bf16(fmaf(bf16_to_float(x_rf[d]), cos[block * 128 + warp_n * 32 + lane_d * 4 + d / 2], __fmul_rn((d % 2 == 0) != 0 ? -part[0] : part[0], sin[block * 128 + warp_n * 32 + lane_d * 4 + d / 2])));
    }

    // store y: Move(1, 1, 4, 64)(RF, GL)(Warp)
    copy_16B(&y[block * 2048 + warp_n * 512 + warp_h * 256 + lane_h * 64 + lane_d * 8], &y_rf[0]);
}

struct half { unsigned short bits; };

__device__ __forceinline__ float half_to_float(half x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

__device__ __forceinline__ half float_to_half(float x) {
    half y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

__device__ __forceinline__ void copy_2B(void* dst, const void* src) {
    *static_cast<unsigned short*>(dst) = *static_cast<const unsigned short*>(src);
}

// Operation i4_of_byte
__device__ __forceinline__ signed char custom_i4_of_byte(unsigned char x, int k) {
    return (signed char)(x << (4 - 4 * k)) >> 4;
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

extern "C" __global__ void __launch_bounds__(256)
pointwise_256x8_i4_f16(
    const unsigned char* __restrict__ x,
    const half* __restrict__ scale,
    half* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    alignas(16) unsigned char x_rf[4];
    half scale_rf[1];
    alignas(16) half y_rf[8];
    const int warp = thread / 32;
    const int lane = thread % 32;

    // Program(8, 256)(GL, GL, GL)(Block)

    // load x to x_rf: Move(1, 256)(GL, RF)(Warp)
    copy_4B(&x_rf[0], &x[block * 1024 + warp * 128 + lane * 4]);

    // load scale to scale_rf: Move(1)(GL, RF)(Warp)
    copy_2B(&scale_rf[0], &scale[block * 8 + warp]);

    // y: f16 in y_rf
    #pragma unroll
    for (int n = 0; n < 8; ++n) {
        y_rf[n] = float_to_half(__fmul_rn((float)(signed char)custom_i4_of_byte(x_rf[n / 2], (n % 2)), half_to_float(scale_rf[0])));
    }

    // store y: Move(1, 256)(RF, GL)(Warp)
    copy_16B(&y[block * 2048 + warp * 256 + lane * 8], &y_rf[0]);
}

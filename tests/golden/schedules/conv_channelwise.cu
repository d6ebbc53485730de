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

__device__ __forceinline__ float fmaxf_nan(float x, float y) {
#if __CUDA_ARCH__ >= 800
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
#else
    return x != x || y != y ? x + y : fmaxf(x, y);
#endif
}

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

__device__ __forceinline__ void copy_or_zero_8B(void* dst, const void* src, bool read) {
    uint2 value = {};
    if (read) value = *static_cast<const uint2*>(src);
    *static_cast<uint2*>(dst) = value;
}

extern "C" __global__ void __launch_bounds__(112)
by_strips_1x4x14x64x1_f16(
    const half* __restrict__ x,
    const half* __restrict__ f,
    const float* __restrict__ bias,
    half* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    alignas(16) half f_rf[36];
    alignas(16) half x_rf[96];
    float product[32];
    alignas(16) half y_rf[32];
    const int block_n = block / 28;
    const int block_p = block / 4 % 7;
    const int block_q = block / 2 % 2;
    const int block_k = block % 2;
    const int thread_q = thread / 16;
    const int thread_k = thread % 16;

    // Program(1, 4, 14, 64, 3, 3, 1)(4 GL)(Block)

    // load f to f_rf: Move(4, 3, 3, 1)(GL, RF)(Thread)
    #pragma unroll
    for (int r2 = 0; r2 < 9; ++r2) {
        copy_8B(&f_rf[r2 * 4], &f[block_k * 576 + thread_k * 36 + r2 * 4]);
    }

    // load x to x_rf: Move(1, 6, 4, 4)(GL, RF)(Thread)
    #pragma unroll
    for (int r3 = 0; r3 < 24; ++r3) {
        copy_or_zero_8B(&x_rf[r3 * 4], &x[block_n * 100352 + block_p * 14336 + r3 / 4 * 3584 + block_q * 1792 + thread_q * 256 + r3 % 4 * 128 + block_k * 64 + thread_k * 4 - 3712], block_p * 4 + r3 / 4 > 0 && block_p * 4 + r3 / 4 < 29 && block_q * 14 + thread_q * 2 + r3 % 4 > 0 && block_q * 14 + thread_q * 2 + r3 % 4 < 29);
    }
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        product[i] = 0.0f;
    }
    #pragma unroll
    for (int r4 = 0; r4 < 3; ++r4) {
        #pragma unroll
        for (int s = 0; s < 3; ++s) {

            // product: add over r, s, c
            #pragma unroll
            for (int p = 0; p < 4; ++p) {
                #pragma unroll
                for (int q = 0; q < 2; ++q) {
                    #pragma unroll
                    for (int k = 0; k < 4; ++k) {
                        product[p * 8 + q * 4 + k] = fmaf(half_to_float(x_rf[r4 * 16 + s * 4 + p * 16 + q * 4 + k]), half_to_float(f_rf[r4 * 3 + s + k * 9]), product[p * 8 + q * 4 + k]);
                    }
                }
            }
        }
    }

    // y: f16 in y_rf
    #pragma unroll
    for (int p2 = 0; p2 < 4; ++p2) {
        #pragma unroll
        for (int q2 = 0; q2 < 2; ++q2) {
            #pragma unroll
            for (int k2 = 0; k2 < 4; ++k2) {
                y_rf[p2 * 8 + q2 * 4 + k2] = float_to_half(fmaxf_nan(product[p2 * 8 + q2 * 4 + k2] + bias[block_k * 64 + thread_k * 4 + k2], 0.0f));
            }
        }
    }

    // store y: Move(1, 4, 2, 4)(RF, GL)(Thread)
    #pragma unroll
    for (int p3 = 0; p3 < 4; ++p3) {
        #pragma unroll
        for (int q3 = 0; q3 < 2; ++q3) {
            copy_8B(&y[block_n * 100352 + block_p * 14336 + p3 * 3584 + block_q * 1792 + thread_q * 256 + q3 * 128 + block_k * 64 + thread_k * 4], &y_rf[p3 * 8 + q3 * 4]);
        }
    }
}

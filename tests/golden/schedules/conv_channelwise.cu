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

__device__ __forceinline__ void copy_2B(void* dst, const void* src) {
    *static_cast<unsigned short*>(dst) = *static_cast<const unsigned short*>(src);
}

__device__ __forceinline__ void copy_or_zero_16B(void* dst, const void* src, bool read) {
    uint4 value = {};
    if (read) value = *static_cast<const uint4*>(src);
    *static_cast<uint4*>(dst) = value;
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

extern "C" __global__ void __launch_bounds__(112)
channelwise_1x14x4x64x1_f16(
    const half* __restrict__ x,
    const half* __restrict__ f,
    const float* __restrict__ bias,
    half* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* f_sh = reinterpret_cast<half*>(shared);
    float product[32];
    alignas(16) half x_rf[48];
    half f_rf[8];
    alignas(16) half y_rf[32];
    const int block_n = block / 28;
    const int block_p = block / 14 % 2;
    const int block_q = block / 2 % 7;
    const int block_k = block % 2;
    const int thread_p = thread / 8;
    const int thread_k = thread % 8;

    // Program(1, 14, 4, 64, 3, 3, 1)(4 GL)(Block)

    // load f to f_sh: Move(64, 3, 3, 1)(GL, SH)(Block)
    #pragma unroll
    for (int r4 = 0; r4 < 6; ++r4) {
        if (thread + r4 * 112 < 576) {
            copy_2B(&f_sh[r4 * 112 + thread], &f[block_k * 576 + r4 * 112 + thread]);
        }
    }
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        product[i] = 0.0f;
    }
    __syncthreads();  // f_sh is written before it is read
    #pragma unroll
    for (int r = 0; r < 3; ++r) {

        // load x to x_rf: Move(1, 1, 6, 8)(GL, RF)(Thread)
        #pragma unroll
        for (int r2 = 0; r2 < 6; ++r2) {
            copy_or_zero_16B(&x_rf[r2 * 8], &x[block_n * 100352 + block_p * 50176 + thread_p * 3584 + r * 3584 + block_q * 512 + r2 * 128 + block_k * 64 + thread_k * 8 - 3712], block_p * 14 + thread_p + r > 0 && block_p * 14 + thread_p + r < 29 && block_q * 4 + r2 > 0 && block_q * 4 + r2 < 29);
        }
        #pragma unroll
        for (int s = 0; s < 3; ++s) {

            // load f_sh to f_rf: Move(8, 1, 1, 1)(SH, RF)(Thread)
            #pragma unroll
            for (int r3 = 0; r3 < 8; ++r3) {
                copy_2B(&f_rf[r3], &f_sh[thread_k * 72 + r3 * 9 + r * 3 + s]);
            }

            // product: add over r, s, c
            #pragma unroll
            for (int q = 0; q < 4; ++q) {
                #pragma unroll
                for (int k = 0; k < 8; ++k) {
                    product[q * 8 + k] = fmaf(half_to_float(x_rf[s * 8 + q * 8 + k]), half_to_float(f_rf[k]), product[q * 8 + k]);
                }
            }
        }
    }

    // y: f16 in y_rf
    #pragma unroll
    for (int q2 = 0; q2 < 4; ++q2) {
        #pragma unroll
        for (int k2 = 0; k2 < 8; ++k2) {
            y_rf[q2 * 8 + k2] = float_to_half(fmaxf_nan(product[q2 * 8 + k2] + bias[block_k * 64 + thread_k * 8 + k2], 0.0f));
        }
    }

    // store y: Move(1, 1, 4, 8)(RF, GL)(Thread)
    #pragma unroll
    for (int q3 = 0; q3 < 4; ++q3) {
        copy_16B(&y[block_n * 100352 + block_p * 50176 + thread_p * 3584 + block_q * 512 + q3 * 128 + block_k * 64 + thread_k * 8], &y_rf[q3 * 8]);
    }
}

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

__device__ __forceinline__ void copy_or_zero_2B(void* dst, const void* src, bool read) {
    unsigned short value = {};
    if (read) value = *static_cast<const unsigned short*>(src);
    *static_cast<unsigned short*>(dst) = value;
}

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

__device__ __forceinline__ void copy_or_zero_8B(void* dst, const void* src, bool read) {
    uint2 value = {};
    if (read) value = *static_cast<const uint2*>(src);
    *static_cast<uint2*>(dst) = value;
}

extern "C" __global__ void __launch_bounds__(224)
images_1x14x2x64x2x2x1_f16(
    const half* __restrict__ y,
    const half* __restrict__ f,
    half* __restrict__ out_y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* f_sh = reinterpret_cast<half*>(shared);
    alignas(16) half f_rf[64];
    alignas(16) half y_rf[24];
    float product[32];
    alignas(16) half out_y_rf[32];
    const int block_n = block / 7;
    const int block_w = block % 7;
    const int thread_h = thread / 16;
    const int thread_k = thread % 16;
    const int thread_i_u = thread / 4 % 4;
    const int thread_m_v = thread % 4;

    // Program(1, 14, 2, 64, 2, 2, 2, 2, 1)(GL, GL, GL)(Block)

    // load f to f_sh: Move(64, 4, 4, 1)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 5; ++r3) {
        if (thread + r3 * 224 < 1024) {
            copy_or_zero_2B(&f_sh[r3 * 14 + thread / 16 + thread_i_u * 256 + thread_m_v * 64], &f[r3 * 126 + thread / 16 * 9 + thread_i_u * 3 + thread_m_v - 4], thread_i_u > 0 && thread_m_v > 0);
        }
    }

    // load f_sh to f_rf: Move(4, 4, 4, 1)(SH, RF)(Thread)
    __syncthreads();  // f_sh is written before it is read
    #pragma unroll
    for (int r = 0; r < 16; ++r) {
        copy_8B(&f_rf[r * 4], &f_sh[thread_k * 4 + r * 64]);
    }

    // load y to y_rf: Move(1, 2, 3, 4)(GL, RF)(Thread)
    #pragma unroll
    for (int r2 = 0; r2 < 6; ++r2) {
        copy_or_zero_8B(&y_rf[r2 * 4], &y[block_n * 12544 + thread_h * 896 + r2 / 3 * 896 + block_w * 128 + r2 % 3 * 64 + thread_k * 4], thread_h + r2 / 3 < 14 && block_w * 2 + r2 % 3 < 14);
    }
    #pragma unroll
    for (int i2 = 0; i2 < 32; ++i2) {
        product[i2] = 0.0f;
    }
    #pragma unroll
    for (int u = 0; u < 2; ++u) {
        #pragma unroll
        for (int v = 0; v < 2; ++v) {

            // product: add over u, v, c
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                #pragma unroll
                for (int w = 0; w < 2; ++w) {
                    #pragma unroll
                    for (int m = 0; m < 2; ++m) {
                        #pragma unroll
                        for (int k = 0; k < 4; ++k) {
                            product[i * 16 + w * 8 + m * 4 + k] = fmaf((i + 1 < u * 2 || m + 1 < v * 2) != 0 ? 0.0f : half_to_float(y_rf[u * 12 + v * 4 + w * 4 + k]), half_to_float(f_rf[i * 16 - u * 32 - v * 8 + m * 4 + k + 40]), product[i * 16 + w * 8 + m * 4 + k]);
                        }
                    }
                }
            }
        }
    }

    // out_y: f16 in out_y_rf
    #pragma unroll
    for (int i3 = 0; i3 < 2; ++i3) {
        #pragma unroll
        for (int w2 = 0; w2 < 2; ++w2) {
            #pragma unroll
            for (int m2 = 0; m2 < 2; ++m2) {
                #pragma unroll
                for (int k2 = 0; k2 < 4; ++k2) {
                    out_y_rf[i3 * 16 + w2 * 8 + m2 * 4 + k2] = float_to_half(product[i3 * 16 + w2 * 8 + m2 * 4 + k2]);
                }
            }
        }
    }

    // store out_y: Move(1, 1, 2, 2, 2, 4)(RF, GL)(Thread)
    #pragma unroll
    for (int i4 = 0; i4 < 2; ++i4) {
        #pragma unroll
        for (int w3 = 0; w3 < 2; ++w3) {
            #pragma unroll
            for (int m3 = 0; m3 < 2; ++m3) {
                copy_8B(&out_y[block_n * 50176 + thread_h * 3584 + i4 * 1792 + block_w * 256 + w3 * 128 + m3 * 64 + thread_k * 4], &out_y_rf[i4 * 16 + w3 * 8 + m3 * 4]);
            }
        }
    }
}

__device__ __forceinline__ void copy_or_zero_16B(void* dst, const void* src, bool read) {
    uint4 value = {};
    if (read) value = *static_cast<const uint4*>(src);
    *static_cast<uint4*>(dst) = value;
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

extern "C" __global__ void __launch_bounds__(128)
simt_1x32x16x4x8_f32(
    const float* __restrict__ x,
    const float* __restrict__ f,
    float* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    float* x_sh = reinterpret_cast<float*>(shared);
    float* f_sh = reinterpret_cast<float*>(shared + 3456);
    alignas(16) float product[16];
    float x_rf[4];
    float f_rf[4];
    const int block_n = block / 56;
    const int block_p = block / 8 % 7;
    const int block_q = block / 4 % 2;
    const int block_k = block % 4;
    const int thread_p = thread / 32;
    const int thread_q = thread / 8 % 4;
    const int thread_k = thread % 8;
    const int thread_c = thread % 2;

    // Program(1, 4, 16, 32, 3, 3, 64)(GL, GL, GL)(Block)
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        product[i] = 0.0f;
    }
    #pragma unroll 1
    for (int c = 0; c < 8; ++c) {

        // load x to x_sh: Move(1, 6, 18, 8)(GL, SH)(Block)
        #pragma unroll
        for (int r3 = 0; r3 < 2; ++r3) {
            if (thread + r3 * 128 < 216) {
                copy_or_zero_16B(&x_sh[r3 * 512 + thread / 2 * 8 + thread_c * 4], &x[block_n * 50176 + block_p * 7168 + r3 * 5376 + (r3 * 10 + thread / 2) / 18 * 1792 + block_q * 1024 + (r3 * 10 + thread / 2) % 18 * 64 + c * 8 + thread_c * 4 - 1856], block_p * 4 + r3 * 3 + (r3 * 10 + thread / 2) / 18 > 0 && block_p * 4 + r3 * 3 + (r3 * 10 + thread / 2) / 18 < 29 && block_q * 16 + (r3 * 10 + thread / 2) % 18 > 0 && block_q * 16 + (r3 * 10 + thread / 2) % 18 < 29);
            }
        }

        // load f to f_sh: Move(32, 3, 3, 8)(GL, SH)(Block)
        #pragma unroll
        for (int r2 = 0; r2 < 5; ++r2) {
            if (thread + r2 * 128 < 576) {
                copy_16B(&f_sh[r2 * 512 + thread / 2 * 8 + thread_c * 4], &f[block_k * 18432 + r2 * 4096 + thread / 2 * 64 + c * 8 + thread_c * 4]);
            }
        }
        __syncthreads();  // x_sh is written before it is read
        #pragma unroll 1
        for (int r = 0; r < 3; ++r) {
            #pragma unroll 1
            for (int s = 0; s < 3; ++s) {
                #pragma unroll 1
                for (int c2 = 0; c2 < 8; ++c2) {

                    // load x_sh to x_rf: Move(1, 1, 4, 1)(SH, RF)(Thread)
                    #pragma unroll
                    for (int q_s = 0; q_s < 4; ++q_s) {
                        copy_4B(&x_rf[q_s], &x_sh[thread_p * 144 + r * 144 + thread_q * 32 + s * 8 + q_s * 8 + c2]);
                    }

                    // load f_sh to f_rf: Move(4, 1, 1, 1)(SH, RF)(Thread)
                    #pragma unroll
                    for (int k2 = 0; k2 < 4; ++k2) {
                        copy_4B(&f_rf[k2], &f_sh[thread_k * 288 + k2 * 72 + r * 24 + s * 8 + c2]);
                    }

                    // product: add over r, s, c
                    #pragma unroll
                    for (int q = 0; q < 4; ++q) {
                        #pragma unroll
                        for (int k = 0; k < 4; ++k) {
                            product[q * 4 + k] = fmaf(x_rf[q], f_rf[k], product[q * 4 + k]);
                        }
                    }
                }
            }
        }
        __syncthreads();  // x_sh is read before it is overwritten
    }

    // store y: Move(1, 4, 16, 32)(RF, GL)(Block)
    #pragma unroll
    for (int q3 = 0; q3 < 4; ++q3) {
        if (block_q * 16 + thread_q * 4 + q3 < 28) copy_16B(&y[block_n * 100352 + block_p * 14336 + thread_p * 3584 + block_q * 2048 + thread_q * 512 + q3 * 128 + block_k * 32 + thread_k * 4], &product[q3 * 4]);
    }
}

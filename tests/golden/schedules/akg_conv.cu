struct half { unsigned short bits; };

__device__ __forceinline__ half float_to_half(float x) {
    half y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void mma_m8n8k4_row_col_f32_f16(void* c_registers, const void* a_registers, const void* b_registers) {
    float* d = static_cast<float*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    const unsigned* b = static_cast<const unsigned*>(b_registers);
    asm("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

extern "C" __global__ void __launch_bounds__(256)
conv_32x1x2x128x1_f16(
    const half* __restrict__ x,
    const half* __restrict__ f,
    half* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* x_sh = reinterpret_cast<half*>(shared);
    half* f_sh = reinterpret_cast<half*>(shared + 18432);
    half* y_sh = reinterpret_cast<half*>(shared);
    alignas(16) float product[32];
    alignas(16) half x_fr[16];
    alignas(16) half f_fr[16];
    alignas(16) half x_rf[16];
    alignas(16) half f_rf[32];
    alignas(16) half y_rf[32];
    const int block_p = block / 14;
    const int block_q = block % 14;
    const int warp = thread / 32;
    const int warp_n = warp / 4;
    const int warp_k = warp % 4;
    const int quadpair = thread / 4 % 4;
    const int quadpair_m = quadpair % 2;
    const int quadpair_n = quadpair / 2;
    const int thread_c = thread % 8;
    const int thread_q = thread / 16 % 2;
    const int thread_k = thread % 16;

    // Program(32, 1, 2, 128, 5, 5, 64)(GL, GL, GL)(Block)

    // load x to x_rf: Move(32, 1, 2, 64)(GL, RF)(Block)
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        copy_16B(&x_rf[r * 8], &x[r * 1048576 + thread / 16 * 65536 + block_p * 2048 + block_q * 128 + quadpair_n * 64 + thread_c * 8]);
    }

    // load x to x_sh: Move(32, 1, 2, 64)(GL, SH)(Block)
    #pragma unroll
    for (int n7 = 0; n7 < 2; ++n7) {
        copy_16B(&x_sh[thread / 16 * 144 + n7 * 2304 + quadpair_n * 72 + thread_c * 8], &x_rf[n7 * 8]);
    }

    // load f to f_rf: Move(128, 1, 1, 64)(GL, RF)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 4; ++r3) {
        copy_16B(&f_rf[r3 * 8], &f[r3 * 51200 + thread / 8 * 1600 + thread_c * 8]);
    }

    // load f to f_sh: Move(128, 1, 1, 64)(GL, SH)(Block)
    #pragma unroll
    for (int k5 = 0; k5 < 4; ++k5) {
        copy_16B(&f_sh[thread / 8 * 72 + k5 * 2304 + thread_c * 8], &f_rf[k5 * 8]);
    }
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        product[i] = 0.0f;
    }
    __syncthreads();  // x_sh is written before it is read
    #pragma unroll 1
    for (int chunk = 0; chunk < 25; ++chunk) {
        if (chunk < 24) {

            // load x to x_rf: Move(32, 1, 2, 64)(GL, RF)(Block)
            #pragma unroll
            for (int r = 0; r < 2; ++r) {
                copy_16B(&x_rf[r * 8], &x[r * 1048576 + thread / 16 * 65536 + block_p * 2048 + (chunk + 1) / 5 * 2048 + block_q * 128 + (chunk + 1) % 5 * 64 + quadpair_n * 64 + thread_c * 8]);
            }

            // load f to f_rf: Move(128, 1, 1, 64)(GL, RF)(Block)
            #pragma unroll
            for (int r3 = 0; r3 < 4; ++r3) {
                copy_16B(&f_rf[r3 * 8], &f[r3 * 51200 + thread / 8 * 1600 + chunk * 64 + thread_c * 8 + 64]);
            }
        }

        // product: add by atoms
        #pragma unroll
        for (int k = 0; k < 8; ++k) {

            // load x_sh to x_fr: Move(1, 32, 8)(SH, FR)(Warp)
            #pragma unroll
            for (int m4 = 0; m4 < 2; ++m4) {
                copy_16B(&x_fr[m4 * 8], &x_sh[chunk % 2 * 4608 + warp_n * 2304 + quadpair_m * 288 + thread % 4 * 72 + thread / 16 % 2 * 576 + m4 * 1152 + k * 8]);
            }

            // load f_sh to f_fr: Move(1, 1, 8, 32)(SH, FR)(Warp)
            #pragma unroll
            for (int n5 = 0; n5 < 2; ++n5) {
                copy_16B(&f_fr[n5 * 8], &f_sh[chunk % 2 * 9216 + k * 8 + warp_k * 2304 + quadpair_n * 288 + thread % 4 * 72 + thread / 16 % 2 * 576 + n5 * 1152]);
            }
            #pragma unroll
            for (int m = 0; m < 2; ++m) {
                #pragma unroll
                for (int n = 0; n < 2; ++n) {

                    // MatMul(1, 1, 1, 1, 8, 8, 8)(FR, FR, RF)(QuadPair)
                    #pragma unroll
                    for (int k2 = 0; k2 < 2; ++k2) {
                        mma_m8n8k4_row_col_f32_f16(&product[m * 16 + n * 8], &x_fr[m * 8 + k2 * 4], &f_fr[n * 8 + k2 * 4]);
                    }
                }
            }
        }
        if (chunk < 24) {

            // load x to x_sh: Move(32, 1, 2, 64)(GL, SH)(Block)
            #pragma unroll
            for (int n7 = 0; n7 < 2; ++n7) {
                copy_16B(&x_sh[(chunk + 1) % 2 * 4608 + thread / 16 * 144 + n7 * 2304 + quadpair_n * 72 + thread_c * 8], &x_rf[n7 * 8]);
            }

            // load f to f_sh: Move(128, 1, 1, 64)(GL, SH)(Block)
            #pragma unroll
            for (int k5 = 0; k5 < 4; ++k5) {
                copy_16B(&f_sh[(chunk + 1) % 2 * 9216 + thread / 8 * 72 + k5 * 2304 + thread_c * 8], &f_rf[k5 * 8]);
            }
        }
        __syncthreads();  // x_sh is written before it is read
    }

    // y: f16 in y_rf
    #pragma unroll
    for (int n9 = 0; n9 < 4; ++n9) {
        #pragma unroll
        for (int k6 = 0; k6 < 8; ++k6) {
            y_rf[n9 % 2 * 2 + n9 / 2 * 16 + k6 % 2 + k6 / 2 * 4] = float_to_half(product[n9 % 2 * 2 + n9 / 2 * 16 + k6 % 2 + k6 / 2 * 4]);
        }
    }

    // store y: Move(32, 1, 2, 128)(RF, GL)(Block)

    // load y_rf to y_sh: Move(32, 1, 2, 128)(RF, SH)(Block)
    #pragma unroll
    for (int n11 = 0; n11 < 4; ++n11) {
        #pragma unroll
        for (int k7 = 0; k7 < 4; ++k7) {
            copy_4B(&y_sh[n11 % 2 * 128 + warp_n * 4224 + quadpair_m * 528 + thread / 16 % 2 * 1056 + n11 / 2 * 2112 + thread % 2 * 264 + warp_k * 32 + quadpair_n * 4 + thread / 2 % 2 * 2 + k7 * 8], &y_rf[n11 % 2 * 2 + n11 / 2 * 16 + k7 * 4]);
        }
    }
    __syncthreads();  // y_sh is written before it is read
    #pragma unroll
    for (int r4 = 0; r4 < 4; ++r4) {
        copy_16B(&y[r4 * 802816 + thread / 32 * 100352 + block_p * 3584 + block_q * 256 + thread_q * 128 + thread_k * 8], &y_sh[thread / 32 % 2 * 128 + r4 * 2112 + thread / 64 * 528 + thread_q * 264 + thread_k * 8]);
    }
}

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

extern "C" __global__ void __launch_bounds__(128)
test_a_prolog_of_several_inputs_64x64x32_f16_f32(
    const half* __restrict__ A,
    const half* __restrict__ B,
    half* __restrict__ C,
    const half* __restrict__ w,
    const half* __restrict__ bias) {
    const int thread = threadIdx.x;
    __builtin_assume(thread >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* a_sh = reinterpret_cast<half*>(shared);
    half* b_sh = reinterpret_cast<half*>(shared + 8192);
    half* acc_sh = reinterpret_cast<half*>(shared);
    alignas(16) float acc[32];
    alignas(16) half a_fr[16];
    alignas(16) half b_fr[16];
    alignas(16) half a_rf[16];
    alignas(16) half b_rf[16];
    alignas(16) half a_sh_vec[8];
    alignas(16) half w_vec[8];
    alignas(16) half bias_vec[8];
    alignas(16) half acc_sh_vec[2];
    const int warp = thread / 32;
    const int warp_m = warp / 2;
    const int warp_n = warp % 2;
    const int quadpair = thread / 4 % 4;
    const int quadpair_m = quadpair % 2;
    const int quadpair_n = quadpair / 2;
    const int thread_k = thread % 4;
    const int thread_n = thread % 8;

    // MatMul(64, 64, 64)(GL, GL, GL)(Block)

    // Init(0)(FR)(Block)
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        acc[i] = 0.0f;
    }

    // load A to a_rf: Move(64, 32)(GL, RF)(Block)
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        copy_16B(&a_rf[r * 8], &A[r * 2048 + thread / 4 * 64 + thread_k * 8]);
    }

    // load A to a_sh: Move(64, 32)(GL, SH)(Block)
    #pragma unroll
    for (int m5 = 0; m5 < 2; ++m5) {
        copy_16B(&w_vec[0], &w[thread / 4 * 64 + m5 * 2048 + thread_k * 8]);
        copy_16B(&bias_vec[0], &bias[thread_k * 8]);
        #pragma unroll
        for (int e = 0; e < 8; ++e) {
            a_sh_vec[e] = float_to_half(half_to_float(float_to_half(half_to_float(a_rf[m5 * 8 + e]) * half_to_float(w_vec[e]))) + half_to_float(bias_vec[e]));
        }
        copy_16B(&a_sh[thread / 4 * 32 + m5 * 1024 + (thread_k ^ thread / 8 % 4) * 8], &a_sh_vec[0]);
    }

    // load B to b_rf: Move(32, 64)(GL, RF)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 2; ++r3) {
        copy_16B(&b_rf[r3 * 8], &B[thread_k * 8 + r3 * 2048 + thread / 4 * 64]);
    }

    // load B to b_sh: Move(32, 64)(GL, SH)(Block)
    #pragma unroll
    for (int n6 = 0; n6 < 2; ++n6) {
        copy_16B(&b_sh[thread / 4 * 32 + n6 * 1024 + (thread_k ^ thread / 8 % 4) * 8], &b_rf[n6 * 8]);
    }
    __syncthreads();  // a_sh is written before it is read
    #pragma unroll 1
    for (int k = 0; k < 2; ++k) {
        if (k < 1) {

            // load A to a_rf: Move(64, 32)(GL, RF)(Block)
            #pragma unroll
            for (int r = 0; r < 2; ++r) {
                copy_16B(&a_rf[r * 8], &A[r * 2048 + thread / 4 * 64 + k * 32 + thread_k * 8 + 32]);
            }

            // load B to b_rf: Move(32, 64)(GL, RF)(Block)
            #pragma unroll
            for (int r3 = 0; r3 < 2; ++r3) {
                copy_16B(&b_rf[r3 * 8], &B[k * 32 + thread_k * 8 + r3 * 2048 + thread / 4 * 64 + 32]);
            }
        }

        // MatMul(32, 32, 32)(SH, SH, FR)(Warp)
        #pragma unroll
        for (int k2 = 0; k2 < 4; ++k2) {

            // load a_sh to a_fr: Move(32, 8)(SH, FR)(Warp)
            #pragma unroll
            for (int m4 = 0; m4 < 2; ++m4) {
                copy_16B(&a_fr[m4 * 8], &a_sh[k * 2048 + warp_m * 1024 + quadpair_m * 128 + thread % 4 * 32 + thread / 16 % 2 * 256 + m4 * 512 + (k2 ^ quadpair_m * 2 + thread / 2 % 2) * 8]);
            }

            // load b_sh to b_fr: Move(8, 32)(SH, FR)(Warp)
            #pragma unroll
            for (int n5 = 0; n5 < 2; ++n5) {
                copy_16B(&b_fr[n5 * 8], &b_sh[k * 2048 + warp_n * 1024 + quadpair_n * 128 + thread % 4 * 32 + thread / 16 % 2 * 256 + n5 * 512 + (k2 ^ quadpair_n * 2 + thread / 2 % 2) * 8]);
            }
            #pragma unroll
            for (int m = 0; m < 2; ++m) {
                #pragma unroll
                for (int n = 0; n < 2; ++n) {

                    // MatMul(8, 8, 8)(FR, FR, FR)(QuadPair)
                    #pragma unroll
                    for (int k3 = 0; k3 < 2; ++k3) {
                        mma_m8n8k4_row_col_f32_f16(&acc[m * 16 + n * 8], &a_fr[m * 8 + k3 * 4], &b_fr[n * 8 + k3 * 4]);
                    }
                }
            }
        }
        if (k < 1) {

            // load A to a_sh: Move(64, 32)(GL, SH)(Block)
            #pragma unroll
            for (int m5 = 0; m5 < 2; ++m5) {
                copy_16B(&w_vec[0], &w[thread / 4 * 64 + m5 * 2048 + k * 32 + thread_k * 8 + 32]);
                copy_16B(&bias_vec[0], &bias[k * 32 + thread_k * 8 + 32]);
                #pragma unroll
                for (int e = 0; e < 8; ++e) {
                    a_sh_vec[e] = float_to_half(half_to_float(float_to_half(half_to_float(a_rf[m5 * 8 + e]) * half_to_float(w_vec[e]))) + half_to_float(bias_vec[e]));
                }
                copy_16B(&a_sh[k * 2048 + thread / 4 * 32 + m5 * 1024 + (thread_k ^ thread / 8 % 4) * 8 + 2048], &a_sh_vec[0]);
            }

            // load B to b_sh: Move(32, 64)(GL, SH)(Block)
            #pragma unroll
            for (int n6 = 0; n6 < 2; ++n6) {
                copy_16B(&b_sh[k * 2048 + thread / 4 * 32 + n6 * 1024 + (thread_k ^ thread / 8 % 4) * 8 + 2048], &b_rf[n6 * 8]);
            }
        }
        __syncthreads();  // a_sh is written before it is read
    }

    // store C: Move(64, 64)(FR, GL)(Block)
    #pragma unroll
    for (int m6 = 0; m6 < 2; ++m6) {

        // load acc to acc_sh: Move(32, 64)(FR, SH)(Block)
        #pragma unroll
        for (int m8 = 0; m8 < 4; ++m8) {
            #pragma unroll
            for (int n8 = 0; n8 < 4; ++n8) {
                #pragma unroll
                for (int e2 = 0; e2 < 2; ++e2) {
                    acc_sh_vec[e2] = float_to_half(acc[m8 % 2 * 2 + m8 / 2 * 16 + n8 * 4 + e2]);
                }
                if (warp_m * 32 + quadpair_m * 4 + thread % 2 + thread / 16 % 2 * 8 + m8 % 2 * 2 + m8 / 2 * 16 < m6 * 32 + 32 && m6 * 32 <= warp_m * 32 + quadpair_m * 4 + thread % 2 + thread / 16 % 2 * 8 + m8 % 2 * 2 + m8 / 2 * 16) copy_4B(&acc_sh[thread % 2 * 136 + m8 % 2 * 64 + warp_m * 2176 + quadpair_m * 272 + thread / 16 % 2 * 544 - m6 * 2176 + m8 / 2 * 1088 + warp_n * 32 + quadpair_n * 4 + thread / 2 % 2 * 2 + n8 * 8], &acc_sh_vec[0]);
            }
        }
        __syncthreads();  // acc_sh is written before it is read
        #pragma unroll
        for (int r4 = 0; r4 < 2; ++r4) {
            copy_16B(&C[m6 * 2048 + r4 * 1024 + thread / 8 * 64 + thread_n * 8], &acc_sh[thread / 8 % 2 * 136 + thread / 16 % 2 * 64 + r4 * 1088 + thread / 32 * 272 + thread_n * 8]);
        }
        __syncthreads();  // acc_sh is read before it is overwritten
    }
}

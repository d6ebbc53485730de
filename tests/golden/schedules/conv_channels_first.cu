struct half { unsigned short bits; };

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

__device__ __forceinline__ void copy_2B(void* dst, const void* src) {
    *static_cast<unsigned short*>(dst) = *static_cast<const unsigned short*>(src);
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void ldmatrix_x4(void* registers, const void* row) {
    unsigned* d = static_cast<unsigned*>(registers);
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(address));
}

__device__ __forceinline__ void mma_m16n8k16_f32_f16(void* c_registers, const void* a_registers, const void* b_registers) {
    float* d = static_cast<float*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    const unsigned* b = static_cast<const unsigned*>(b_registers);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void __launch_bounds__(128)
mma_2x8x8x64x1_f16(
    const half* __restrict__ x,
    const half* __restrict__ f,
    half* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* x_sh = reinterpret_cast<half*>(shared);
    half* f_sh = reinterpret_cast<half*>(shared + 24576);
    alignas(16) float product[64];
    alignas(16) half x_fr[32];
    alignas(16) half f_fr[64];
    alignas(16) half x_rf[32];
    alignas(16) half f_rf[16];
    half y_rf[64];
    const int block_n = block / 49;
    const int block_p = block / 7 % 7;
    const int block_q = block % 7;
    const int warp = thread / 32;
    const int warp_n = warp / 2;
    const int warp_p = warp % 2;
    const int thread_p_r = thread / 8 % 8;
    const int thread_q_s = thread % 8;
    const int thread_c = thread % 4;

    // Program(2, 8, 8, 64, 3, 3, 64)(GL, GL, GL)(Block)
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        product[i] = 0.0f;
    }

    // product: add by atoms

    // load x to x_rf: Move(2, 8, 8, 32)(GL, RF)(Block)
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        #pragma unroll
        for (int c = 0; c < 8; ++c) {
            copy_or_zero_2B(&x_rf[r * 8 + c], &x[block_n * 401408 + r / 2 * 200704 + block_p * 448 + thread_p_r * 56 + block_q * 8 + thread_q_s + r % 2 * 50176 + thread / 64 * 25088 + c * 3136 - 57], block_p * 8 + thread_p_r > 0 && block_q * 8 + thread_q_s > 0);
        }
    }

    // load f to f_rf: Move(64, 1, 1, 32)(GL, RF)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 2; ++r3) {
        #pragma unroll
        for (int c4 = 0; c4 < 8; ++c4) {
            copy_2B(&f_rf[r3 * 8 + c4], &f[r3 * 18432 + thread / 4 * 576 + thread_c * 72 + c4 * 9]);
        }
    }

    // load x to x_sh: Move(2, 8, 8, 32)(GL, SH)(Block)
    #pragma unroll
    for (int n6 = 0; n6 < 2; ++n6) {
        #pragma unroll
        for (int c3 = 0; c3 < 2; ++c3) {
            copy_16B(&x_sh[n6 * 2048 + thread_p_r * 256 + thread_q_s * 32 + (thread / 64 + c3 * 2 ^ thread_q_s / 2) * 8], &x_rf[n6 * 16 + c3 * 8]);
        }
    }

    // load f to f_sh: Move(64, 1, 1, 32)(GL, SH)(Block)
    #pragma unroll
    for (int k10 = 0; k10 < 2; ++k10) {
        copy_16B(&f_sh[thread / 4 * 32 + k10 * 1024 + (thread_c ^ thread / 8 % 4) * 8], &f_rf[k10 * 8]);
    }

    // load x to x_rf: Move(2, 8, 8, 32)(GL, RF)(Block)
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        #pragma unroll
        for (int c = 0; c < 8; ++c) {
            copy_or_zero_2B(&x_rf[r * 8 + c], &x[block_n * 401408 + r / 2 * 200704 + block_p * 448 + thread_p_r * 56 + block_q * 8 + thread_q_s + r % 2 * 50176 + thread / 64 * 25088 + c * 3136 + 100295], block_p * 8 + thread_p_r > 0 && block_q * 8 + thread_q_s > 0);
        }
    }

    // load f to f_rf: Move(64, 1, 1, 32)(GL, RF)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 2; ++r3) {
        #pragma unroll
        for (int c4 = 0; c4 < 8; ++c4) {
            copy_2B(&f_rf[r3 * 8 + c4], &f[r3 * 18432 + thread / 4 * 576 + thread_c * 72 + c4 * 9 + 288]);
        }
    }

    // load x to x_sh: Move(2, 8, 8, 32)(GL, SH)(Block)
    #pragma unroll
    for (int n6 = 0; n6 < 2; ++n6) {
        #pragma unroll
        for (int c3 = 0; c3 < 2; ++c3) {
            copy_16B(&x_sh[n6 * 2048 + thread_p_r * 256 + thread_q_s * 32 + (thread / 64 + c3 * 2 ^ thread_q_s / 2) * 8 + 4096], &x_rf[n6 * 16 + c3 * 8]);
        }
    }

    // load f to f_sh: Move(64, 1, 1, 32)(GL, SH)(Block)
    #pragma unroll
    for (int k10 = 0; k10 < 2; ++k10) {
        copy_16B(&f_sh[thread / 4 * 32 + k10 * 1024 + (thread_c ^ thread / 8 % 4) * 8 + 2048], &f_rf[k10 * 8]);
    }

    // load x to x_rf: Move(2, 8, 8, 32)(GL, RF)(Block)
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        #pragma unroll
        for (int c = 0; c < 8; ++c) {
            copy_or_zero_2B(&x_rf[r * 8 + c], &x[block_n * 401408 + r / 2 * 200704 + block_p * 448 + thread_p_r * 56 + block_q * 8 + thread_q_s + r % 2 * 50176 + thread / 64 * 25088 + c * 3136 - 56], block_p * 8 + thread_p_r > 0);
        }
    }

    // load f to f_rf: Move(64, 1, 1, 32)(GL, RF)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 2; ++r3) {
        #pragma unroll
        for (int c4 = 0; c4 < 8; ++c4) {
            copy_2B(&f_rf[r3 * 8 + c4], &f[r3 * 18432 + thread / 4 * 576 + thread_c * 72 + c4 * 9 + 1]);
        }
    }

    // load x_sh to x_fr: Move(1, 32, 16)(SH, FR)(Warp)
    __syncthreads();  // x_sh is written before it is read
    #pragma unroll
    for (int m4 = 0; m4 < 2; ++m4) {
        ldmatrix_x4(&x_fr[m4 * 8], &x_sh[warp_n * 2048 + warp_p * 1024 + m4 * 512 + thread % 16 * 32 + (thread / 16 % 2 ^ thread / 2 % 4) * 8]);
    }

    // load f_sh to f_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
    #pragma unroll
    for (int n3 = 0; n3 < 4; ++n3) {
        ldmatrix_x4(&f_fr[n3 * 8], &f_sh[n3 * 512 + thread % 8 * 32 + thread / 16 % 2 * 256 + (thread / 8 % 2 ^ thread / 2 % 4) * 8]);
    }
    #pragma unroll 1
    for (int chunk = 0; chunk < 17; ++chunk) {

        // load x_sh to x_fr: Move(1, 32, 16)(SH, FR)(Warp)
        #pragma unroll
        for (int m4 = 0; m4 < 2; ++m4) {
            ldmatrix_x4(&x_fr[m4 * 8 + 16], &x_sh[chunk % 3 * 4096 + warp_n * 2048 + warp_p * 1024 + m4 * 512 + thread % 16 * 32 + (thread / 16 % 2 + 2 ^ thread / 2 % 4) * 8]);
        }

        // load f_sh to f_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
        #pragma unroll
        for (int n3 = 0; n3 < 4; ++n3) {
            ldmatrix_x4(&f_fr[n3 * 8 + 32], &f_sh[chunk % 3 * 2048 + n3 * 512 + thread % 8 * 32 + thread / 16 % 2 * 256 + (thread / 8 % 2 + 2 ^ thread / 2 % 4) * 8]);
        }
        #pragma unroll
        for (int m = 0; m < 2; ++m) {
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                mma_m16n8k16_f32_f16(&product[m * 32 + n * 4], &x_fr[m * 8], &f_fr[n * 4]);
            }
        }
        if (chunk < 16) {

            // load x to x_sh: Move(2, 8, 8, 32)(GL, SH)(Block)
            #pragma unroll
            for (int n6 = 0; n6 < 2; ++n6) {
                #pragma unroll
                for (int c3 = 0; c3 < 2; ++c3) {
                    copy_16B(&x_sh[(chunk + 2) % 3 * 4096 + n6 * 2048 + thread_p_r * 256 + thread_q_s * 32 + (thread / 64 + c3 * 2 ^ thread_q_s / 2) * 8], &x_rf[n6 * 16 + c3 * 8]);
                }
            }

            // load f to f_sh: Move(64, 1, 1, 32)(GL, SH)(Block)
            #pragma unroll
            for (int k10 = 0; k10 < 2; ++k10) {
                copy_16B(&f_sh[(chunk + 2) % 3 * 2048 + thread / 4 * 32 + k10 * 1024 + (thread_c ^ thread / 8 % 4) * 8], &f_rf[k10 * 8]);
            }
        }
        if (chunk < 15) {

            // load x to x_rf: Move(2, 8, 8, 32)(GL, RF)(Block)
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
                #pragma unroll
                for (int c = 0; c < 8; ++c) {
                    copy_or_zero_2B(&x_rf[r * 8 + c], &x[block_n * 401408 + r / 2 * 200704 + block_p * 448 + (chunk + 3) / 6 * 56 + thread_p_r * 56 + block_q * 8 + ((chunk + 1) / 2 + 1) % 3 + thread_q_s + (chunk + 1) % 2 * 100352 + r % 2 * 50176 + thread / 64 * 25088 + c * 3136 - 57], block_p * 8 + (chunk + 3) / 6 + thread_p_r > 0 && block_p * 8 + (chunk + 3) / 6 + thread_p_r < 57 && block_q * 8 + ((chunk + 1) / 2 + 1) % 3 + thread_q_s > 0 && block_q * 8 + ((chunk + 1) / 2 + 1) % 3 + thread_q_s < 57);
                }
            }

            // load f to f_rf: Move(64, 1, 1, 32)(GL, RF)(Block)
            #pragma unroll
            for (int r3 = 0; r3 < 2; ++r3) {
                #pragma unroll
                for (int c4 = 0; c4 < 8; ++c4) {
                    copy_2B(&f_rf[r3 * 8 + c4], &f[r3 * 18432 + thread / 4 * 576 + (chunk + 1) / 2 + (chunk + 1) % 2 * 288 + thread_c * 72 + c4 * 9 + 1]);
                }
            }
        }

        // load x_sh to x_fr: Move(1, 32, 16)(SH, FR)(Warp)
        #pragma unroll
        for (int m4 = 0; m4 < 2; ++m4) {
            ldmatrix_x4(&x_fr[m4 * 8], &x_sh[(chunk + 1) % 3 * 4096 + warp_n * 2048 + warp_p * 1024 + m4 * 512 + thread % 16 * 32 + (thread / 16 % 2 ^ thread / 2 % 4) * 8]);
        }

        // load f_sh to f_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
        #pragma unroll
        for (int n3 = 0; n3 < 4; ++n3) {
            ldmatrix_x4(&f_fr[n3 * 8], &f_sh[(chunk + 1) % 3 * 2048 + n3 * 512 + thread % 8 * 32 + thread / 16 % 2 * 256 + (thread / 8 % 2 ^ thread / 2 % 4) * 8]);
        }
        #pragma unroll
        for (int m = 0; m < 2; ++m) {
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                mma_m16n8k16_f32_f16(&product[m * 32 + n * 4], &x_fr[m * 8 + 16], &f_fr[n * 4 + 32]);
            }
        }
        __syncthreads();  // x_sh is read before it is overwritten
    }

    // load x_sh to x_fr: Move(1, 32, 16)(SH, FR)(Warp)
    #pragma unroll
    for (int m4 = 0; m4 < 2; ++m4) {
        ldmatrix_x4(&x_fr[m4 * 8 + 16], &x_sh[warp_n * 2048 + warp_p * 1024 + m4 * 512 + thread % 16 * 32 + (thread / 16 % 2 + 2 ^ thread / 2 % 4) * 8 + 8192]);
    }

    // load f_sh to f_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
    #pragma unroll
    for (int n3 = 0; n3 < 4; ++n3) {
        ldmatrix_x4(&f_fr[n3 * 8 + 32], &f_sh[n3 * 512 + thread % 8 * 32 + thread / 16 % 2 * 256 + (thread / 8 % 2 + 2 ^ thread / 2 % 4) * 8 + 4096]);
    }
    #pragma unroll
    for (int m = 0; m < 2; ++m) {
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
            mma_m16n8k16_f32_f16(&product[m * 32 + n * 4], &x_fr[m * 8], &f_fr[n * 4]);
        }
    }
    #pragma unroll
    for (int m = 0; m < 2; ++m) {
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
            mma_m16n8k16_f32_f16(&product[m * 32 + n * 4], &x_fr[m * 8 + 16], &f_fr[n * 4 + 32]);
        }
    }

    // y: f16 in y_rf
    #pragma unroll
    for (int k11 = 0; k11 < 16; ++k11) {
        #pragma unroll
        for (int p = 0; p < 4; ++p) {
            y_rf[k11 * 4 + p] = float_to_half(product[k11 % 2 + k11 / 2 * 4 + p % 2 * 2 + p / 2 * 32]);
        }
    }

    // store y: Move(2, 64, 8, 8)(RF, GL)(Block)
    #pragma unroll
    for (int k12 = 0; k12 < 16; ++k12) {
        #pragma unroll
        for (int p3 = 0; p3 < 4; ++p3) {
            copy_2B(&y[block_n * 401408 + warp_n * 200704 + thread % 4 * 6272 + k12 % 2 * 3136 + k12 / 2 * 25088 + block_p * 448 + warp_p * 224 + p3 * 56 + block_q * 8 + thread / 4 % 8], &y_rf[k12 * 4 + p3]);
        }
    }
}

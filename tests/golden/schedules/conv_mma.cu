struct half { unsigned short bits; };

__device__ __forceinline__ half float_to_half(float x) {
    half y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}

template <int pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

__device__ __forceinline__ void cp_async_or_zero_16B(void* dst, const void* src, bool read) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(src), "r"(read ? 16 : 0) : "memory");
}

__device__ __forceinline__ void cp_async_16B(void* dst, const void* src) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(src) : "memory");
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

__device__ __forceinline__ void cp_async_if_16B(void* dst, const void* src, bool write) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }"
        : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(src), "r"((int)write) : "memory");
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

extern "C" __global__ void __launch_bounds__(128)
mma_8x4x4x128x1_f16(
    const half* __restrict__ x,
    const half* __restrict__ f,
    half* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* x_sh = reinterpret_cast<half*>(shared);
    half* f_sh = reinterpret_cast<half*>(shared + 49152);
    half* y_sh = reinterpret_cast<half*>(shared);
    alignas(16) float product[128];
    alignas(16) half x_fr[64];
    alignas(16) half f_fr[64];
    alignas(16) half y_rf[128];
    const int block_n = block / 49;
    const int block_p = block / 7 % 7;
    const int block_q = block % 7;
    const int warp = thread / 32;
    const int warp_n = warp / 2;
    const int warp_k = warp % 2;
    const int thread_q_s = thread / 8 % 4;
    const int thread_c = thread % 8;
    const int thread_q = thread / 16 % 4;
    const int thread_k = thread % 16;

    // Program(8, 4, 4, 128, 3, 3, 128)(GL, GL, GL)(Block)
    #pragma unroll
    for (int i = 0; i < 128; ++i) {
        product[i] = 0.0f;
    }

    // product: add by atoms

    // load x to x_sh: Move(8, 4, 4, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        cp_async_or_zero_16B(&x_sh[r * 1024 + warp * 256 + thread_q_s * 64 + (thread_c ^ warp % 2 * 4 + thread_q_s) * 8], &x[block_n * 802816 + r * 100352 + block_p * 14336 + warp * 3584 + block_q * 512 + thread_q_s * 128 + thread_c * 8 - 3712], block_p * 4 + warp > 0 && block_q * 4 + thread_q_s > 0);
    }

    // load f to f_sh: Move(128, 1, 1, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 8; ++r2) {
        cp_async_16B(&f_sh[r2 * 1024 + thread / 8 * 64 + (thread_c ^ thread / 8 % 8) * 8], &f[r2 * 18432 + thread / 8 * 1152 + thread_c * 8]);
    }
    cp_async_commit();

    // load x to x_sh: Move(8, 4, 4, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        cp_async_or_zero_16B(&x_sh[r * 1024 + warp * 256 + thread_q_s * 64 + (thread_c ^ warp % 2 * 4 + thread_q_s) * 8 + 8192], &x[block_n * 802816 + r * 100352 + block_p * 14336 + warp * 3584 + block_q * 512 + thread_q_s * 128 + thread_c * 8 - 3648], block_p * 4 + warp > 0 && block_q * 4 + thread_q_s > 0);
    }

    // load f to f_sh: Move(128, 1, 1, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 8; ++r2) {
        cp_async_16B(&f_sh[r2 * 1024 + thread / 8 * 64 + (thread_c ^ thread / 8 % 8) * 8 + 8192], &f[r2 * 18432 + thread / 8 * 1152 + thread_c * 8 + 64]);
    }
    cp_async_commit();
    cp_async_wait<1>();

    // load x to x_sh: Move(8, 4, 4, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        cp_async_or_zero_16B(&x_sh[r * 1024 + warp * 256 + thread_q_s * 64 + (thread_c ^ warp % 2 * 4 + thread_q_s) * 8 + 16384], &x[block_n * 802816 + r * 100352 + block_p * 14336 + warp * 3584 + block_q * 512 + thread_q_s * 128 + thread_c * 8 - 3584], block_p * 4 + warp > 0);
    }

    // load f to f_sh: Move(128, 1, 1, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 8; ++r2) {
        cp_async_16B(&f_sh[r2 * 1024 + thread / 8 * 64 + (thread_c ^ thread / 8 % 8) * 8 + 16384], &f[r2 * 18432 + thread / 8 * 1152 + thread_c * 8 + 128]);
    }
    cp_async_commit();

    // load x_sh to x_fr: Move(64, 16)(SH, FR)(Warp)
    __syncthreads();  // x_sh is written before it is read
    #pragma unroll
    for (int m4 = 0; m4 < 4; ++m4) {
        ldmatrix_x4(&x_fr[m4 * 8], &x_sh[warp_n * 4096 + m4 * 1024 + thread % 16 * 64 + (thread / 16 % 2 ^ thread % 8) * 8]);
    }

    // load f_sh to f_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
    #pragma unroll
    for (int n3 = 0; n3 < 4; ++n3) {
        ldmatrix_x4(&f_fr[n3 * 8], &f_sh[warp_k * 4096 + n3 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (thread / 8 % 2 ^ thread % 8) * 8]);
    }
    #pragma unroll 1
    for (int chunk = 0; chunk < 17; ++chunk) {
        #pragma unroll
        for (int k = 0; k < 3; ++k) {

            // load x_sh to x_fr: Move(64, 16)(SH, FR)(Warp)
            #pragma unroll
            for (int m4 = 0; m4 < 4; ++m4) {
                ldmatrix_x4(&x_fr[(k + 1) % 2 * 32 + m4 * 8], &x_sh[chunk % 3 * 8192 + warp_n * 4096 + m4 * 1024 + thread % 16 * 64 + (k * 2 + thread / 16 % 2 + 2 ^ thread % 8) * 8]);
            }

            // load f_sh to f_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n3 = 0; n3 < 4; ++n3) {
                ldmatrix_x4(&f_fr[(k + 1) % 2 * 32 + n3 * 8], &f_sh[chunk % 3 * 8192 + warp_k * 4096 + n3 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (k * 2 + thread / 8 % 2 + 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int m = 0; m < 4; ++m) {
                #pragma unroll
                for (int n = 0; n < 8; ++n) {
                    mma_m16n8k16_f32_f16(&product[m * 32 + n * 4], &x_fr[k % 2 * 32 + m * 8], &f_fr[k % 2 * 32 + n * 4]);
                }
            }
        }
        cp_async_wait<1>();

        // load x to x_sh: Move(8, 4, 4, 64)(GL, SH)(Block)
        __syncthreads();  // x_sh is read before it is overwritten
        #pragma unroll
        for (int r = 0; r < 8; ++r) {
            if (chunk < 15) cp_async_or_zero_16B(&x_sh[chunk % 3 * 8192 + r * 1024 + warp * 256 + thread_q_s * 64 + (thread_c ^ warp % 2 * 4 + thread_q_s) * 8], &x[block_n * 802816 + r * 100352 + block_p * 14336 + (chunk + 3) / 6 * 3584 + warp * 3584 + block_q * 512 + (chunk + 3) % 6 * 64 + thread_q_s * 128 + thread_c * 8 - 3712], block_p * 4 + (chunk + 3) / 6 + warp > 0 && block_p * 4 + (chunk + 3) / 6 + warp < 29 && block_q * 4 + ((chunk + 1) / 2 + 1) % 3 + thread_q_s > 0 && block_q * 4 + ((chunk + 1) / 2 + 1) % 3 + thread_q_s < 29);
        }

        // load f to f_sh: Move(128, 1, 1, 64)(GL, SH)(Block)
        #pragma unroll
        for (int r2 = 0; r2 < 8; ++r2) {
            cp_async_if_16B(&f_sh[chunk % 3 * 8192 + r2 * 1024 + thread / 8 * 64 + (thread_c ^ thread / 8 % 8) * 8], &f[r2 * 18432 + thread / 8 * 1152 + chunk * 64 + thread_c * 8 + 192], chunk < 15);
        }
        cp_async_commit();

        // load x_sh to x_fr: Move(64, 16)(SH, FR)(Warp)
        #pragma unroll
        for (int m4 = 0; m4 < 4; ++m4) {
            ldmatrix_x4(&x_fr[m4 * 8], &x_sh[(chunk + 1) % 3 * 8192 + warp_n * 4096 + m4 * 1024 + thread % 16 * 64 + (thread / 16 % 2 ^ thread % 8) * 8]);
        }

        // load f_sh to f_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
        #pragma unroll
        for (int n3 = 0; n3 < 4; ++n3) {
            ldmatrix_x4(&f_fr[n3 * 8], &f_sh[(chunk + 1) % 3 * 8192 + warp_k * 4096 + n3 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (thread / 8 % 2 ^ thread % 8) * 8]);
        }
        #pragma unroll
        for (int m = 0; m < 4; ++m) {
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                mma_m16n8k16_f32_f16(&product[m * 32 + n * 4], &x_fr[m * 8 + 32], &f_fr[n * 4 + 32]);
            }
        }
    }
    #pragma unroll
    for (int k = 0; k < 3; ++k) {

        // load x_sh to x_fr: Move(64, 16)(SH, FR)(Warp)
        #pragma unroll
        for (int m4 = 0; m4 < 4; ++m4) {
            ldmatrix_x4(&x_fr[(k + 1) % 2 * 32 + m4 * 8], &x_sh[warp_n * 4096 + m4 * 1024 + thread % 16 * 64 + (k * 2 + thread / 16 % 2 + 2 ^ thread % 8) * 8 + 16384]);
        }

        // load f_sh to f_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
        #pragma unroll
        for (int n3 = 0; n3 < 4; ++n3) {
            ldmatrix_x4(&f_fr[(k + 1) % 2 * 32 + n3 * 8], &f_sh[warp_k * 4096 + n3 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (k * 2 + thread / 8 % 2 + 2 ^ thread % 8) * 8 + 16384]);
        }
        #pragma unroll
        for (int m = 0; m < 4; ++m) {
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                mma_m16n8k16_f32_f16(&product[m * 32 + n * 4], &x_fr[k % 2 * 32 + m * 8], &f_fr[k % 2 * 32 + n * 4]);
            }
        }
    }
    #pragma unroll
    for (int m = 0; m < 4; ++m) {
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
            mma_m16n8k16_f32_f16(&product[m * 32 + n * 4], &x_fr[m * 8 + 32], &f_fr[n * 4 + 32]);
        }
    }

    // y: f16 in y_rf
    #pragma unroll
    for (int n7 = 0; n7 < 4; ++n7) {
        #pragma unroll
        for (int p = 0; p < 2; ++p) {
            #pragma unroll
            for (int k10 = 0; k10 < 16; ++k10) {
                y_rf[n7 * 32 + p * 2 + k10 % 2 + k10 / 2 * 4] = float_to_half(product[n7 * 32 + p * 2 + k10 % 2 + k10 / 2 * 4]);
            }
        }
    }

    // store y: Move(8, 4, 4, 128)(RF, GL)(Block)

    // load y_rf to y_sh: Move(8, 4, 4, 128)(RF, SH)(Block)
    __syncthreads();  // x_sh is read before y_sh takes its place
    #pragma unroll
    for (int n9 = 0; n9 < 4; ++n9) {
        #pragma unroll
        for (int p2 = 0; p2 < 2; ++p2) {
            #pragma unroll
            for (int k11 = 0; k11 < 8; ++k11) {
                copy_4B(&y_sh[warp_n * 8704 + n9 * 2176 + thread / 4 % 8 * 136 + p2 * 1088 + warp_k * 64 + thread % 4 * 2 + k11 * 8], &y_rf[n9 * 32 + p2 * 2 + k11 * 4]);
            }
        }
    }
    __syncthreads();  // y_sh is written before it is read
    #pragma unroll
    for (int r3 = 0; r3 < 16; ++r3) {
        copy_16B(&y[block_n * 802816 + r3 / 2 * 100352 + block_p * 14336 + r3 % 2 * 7168 + thread / 64 * 3584 + block_q * 512 + thread_q * 128 + thread_k * 8], &y_sh[r3 * 1088 + thread / 64 * 544 + thread_q * 136 + thread_k * 8]);
    }
}

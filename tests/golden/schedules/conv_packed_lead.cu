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

__device__ __forceinline__ void copy_or_zero_2B(void* dst, const void* src, bool read) {
    unsigned short value = {};
    if (read) value = *static_cast<const unsigned short*>(src);
    *static_cast<unsigned short*>(dst) = value;
}

__device__ __forceinline__ void copy_2B(void* dst, const void* src) {
    *static_cast<unsigned short*>(dst) = *static_cast<const unsigned short*>(src);
}

__device__ __forceinline__ void cp_async_or_zero_4B(void* dst, const void* src, bool read) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
        : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(src), "r"(read ? 4 : 0) : "memory");
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
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

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

extern "C" __global__ void __launch_bounds__(128)
packed_1x8x16x64x1_f16(
    const half* __restrict__ x,
    const half* __restrict__ f,
    half* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* x_sh = reinterpret_cast<half*>(shared);
    half* f_sh = reinterpret_cast<half*>(shared + 15488);
    half* y_sh = reinterpret_cast<half*>(shared + 51328);
    alignas(16) float product[64];
    alignas(16) half x_a_fr[32];
    alignas(16) half f_fr[32];
    alignas(16) half y_rf[64];
    half f_rf[112];
    const int warp = thread / 32;
    const int thread_q = thread / 8;
    const int thread_k = thread % 8;
    const int thread_j2 = thread % 32;

    // load f to f_rf: Move(64, 7, 32)(GL, RF)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 112; ++r3) {
        copy_or_zero_2B(&f_rf[r3], &f[r3 * 84 + thread / 32 * 21 + thread_j2 - 1], thread_j2 > 0 && thread_j2 < 22);
    }

    // load f to f_sh: Move(64, 7, 32)(GL, SH)(Block)
    #pragma unroll
    for (int r32 = 0; r32 < 112; ++r32) {
        copy_2B(&f_sh[r32 * 160 + thread / 32 * 40 + thread_j2], &f_rf[r32]);
    }

    // load x to x_sh: Move(1, 21, 122)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 11; ++r2) {
        if (thread + r2 * 128 < 1281) {
            cp_async_or_zero_4B(&x_sh[r2 * 256 + thread * 2], &x[block / 7 * 10752 + r2 * 1344 + (thread + r2 * 6) / 61 * 672 + block % 7 * 96 + (thread + r2 * 6) % 61 * 2 - 2026], block / 7 % 14 * 16 + r2 * 2 + (thread + r2 * 6) / 61 > 2 && block / 7 % 14 * 16 + r2 * 2 + (thread + r2 * 6) / 61 < 227 && block % 7 * 48 + (thread + r2 * 6) % 61 > 4 && block % 7 * 48 + (thread + r2 * 6) % 61 < 341);
        }
    }
    cp_async_commit();
    if ((3135 - block) / blocks > 0) {

        // load x to x_sh: Move(1, 21, 122)(GL, SH)(Block)
        #pragma unroll
        for (int r2 = 0; r2 < 11; ++r2) {
            if (thread + r2 * 128 < 1281) {
                cp_async_or_zero_4B(&x_sh[r2 * 256 + thread * 2 + 2568], &x[(block + blocks) / 7 * 10752 + r2 * 1344 + (thread + r2 * 6) / 61 * 672 + (block + blocks) % 7 * 96 + (thread + r2 * 6) % 61 * 2 - 2026], (block + blocks) / 7 % 14 * 16 + r2 * 2 + (thread + r2 * 6) / 61 > 2 && (block + blocks) / 7 % 14 * 16 + r2 * 2 + (thread + r2 * 6) / 61 < 227 && (block + blocks) % 7 * 48 + (thread + r2 * 6) % 61 > 4 && (block + blocks) % 7 * 48 + (thread + r2 * 6) % 61 < 341);
            }
        }
    }
    cp_async_commit();
    #pragma unroll 1
    for (int trip = 0; trip * blocks + block < 3136; ++trip) {

        // Program(1, 8, 16, 64, 7, 32)(GL, GL, GL)(Block)
        const int tile = block + trip * blocks;
        const int tile_n = tile / 98;
        const int tile_p = tile / 7 % 14;
        const int tile_q = tile % 7;
        const int tile_k = 0;
        cp_async_wait<1>();
        if (trip + 1 < (3135 - block) / blocks) {

            // load x to x_sh: Move(1, 21, 122)(GL, SH)(Block)
            #pragma unroll
            for (int r2 = 0; r2 < 11; ++r2) {
                if (thread + r2 * 128 < 1281) {
                    cp_async_or_zero_4B(&x_sh[(trip + 2) % 3 * 2568 + r2 * 256 + thread * 2], &x[(long long)((block + trip * blocks + blocks * 2) / 7) * 10752 + r2 * 1344 + (thread + r2 * 6) / 61 * 672 + (block + trip * blocks + blocks * 2) % 7 * 96 + (thread + r2 * 6) % 61 * 2 - 2026], (block + trip * blocks + blocks * 2) / 7 % 14 * 16 + r2 * 2 + (thread + r2 * 6) / 61 > 2 && (block + trip * blocks + blocks * 2) / 7 % 14 * 16 + r2 * 2 + (thread + r2 * 6) / 61 < 227 && (block + trip * blocks + blocks * 2) % 7 * 48 + (thread + r2 * 6) % 61 > 4 && (block + trip * blocks + blocks * 2) % 7 * 48 + (thread + r2 * 6) % 61 < 341);
                }
            }
        }
        cp_async_commit();
        #pragma unroll
        for (int i = 0; i < 64; ++i) {
            product[i] = 0.0f;
        }
        __syncthreads();  // x_sh is written before it is read
        #pragma unroll 1
        for (int chunk = 0; chunk < 7; ++chunk) {

            // x_a: f16 in x_a_fr
            #pragma unroll
            for (int p = 0; p < 2; ++p) {
                #pragma unroll
                for (int q = 0; q < 2; ++q) {
                    #pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        copy_4B(&x_a_fr[p * 8 + q * 2 + j % 2 * 4 + j / 2 * 16], &x_sh[trip % 3 * 2568 + warp * 488 + p * 244 + chunk * 122 + thread / 4 % 8 * 6 + q * 48 + thread % 4 * 2 + j * 8]);
                        #pragma unroll
                        for (int j_of_pair = 0; j_of_pair < 2; ++j_of_pair) {
                            x_a_fr[p * 8 + q * 2 + j_of_pair + j % 2 * 4 + j / 2 * 16] = (thread % 4 * 2 + j_of_pair + j * 8 > 0 && thread % 4 * 2 + j_of_pair + j * 8 < 22) != 0 ? x_a_fr[p * 8 + q * 2 + j_of_pair + j % 2 * 4 + j / 2 * 16] : half{0x0000};
                        }
                    }
                }
            }

            // product: add by atoms
            #pragma unroll
            for (int k = 0; k < 2; ++k) {

                // load f_sh to f_fr: Move(1, 16, 64)(SH, FR)(Warp)
                #pragma unroll
                for (int n3 = 0; n3 < 4; ++n3) {
                    ldmatrix_x4(&f_fr[n3 * 8], &f_sh[chunk * 40 + k * 16 + thread / 8 % 2 * 8 + n3 * 4480 + thread % 8 * 280 + thread / 16 % 2 * 2240]);
                }
                #pragma unroll
                for (int m = 0; m < 2; ++m) {
                    #pragma unroll
                    for (int n = 0; n < 8; ++n) {
                        mma_m16n8k16_f32_f16(&product[m * 32 + n * 4], &x_a_fr[k * 16 + m * 8], &f_fr[n * 4]);
                    }
                }
            }
        }

        // y: f16 in y_rf
        #pragma unroll
        for (int p2 = 0; p2 < 2; ++p2) {
            #pragma unroll
            for (int q2 = 0; q2 < 2; ++q2) {
                #pragma unroll
                for (int k9 = 0; k9 < 16; ++k9) {
                    y_rf[p2 * 32 + q2 * 2 + k9 % 2 + k9 / 2 * 4] = float_to_half(product[p2 * 32 + q2 * 2 + k9 % 2 + k9 / 2 * 4]);
                }
            }
        }

        // store y: Move(1, 8, 16, 64)(RF, GL)(Block)

        // load y_rf to y_sh: Move(1, 8, 16, 64)(RF, SH)(Block)
        #pragma unroll
        for (int p3 = 0; p3 < 2; ++p3) {
            #pragma unroll
            for (int q3 = 0; q3 < 2; ++q3) {
                #pragma unroll
                for (int k10 = 0; k10 < 8; ++k10) {
                    copy_4B(&y_sh[warp * 2304 + p3 * 1152 + thread / 4 % 8 * 72 + q3 * 576 + thread % 4 * 2 + k10 * 8], &y_rf[p3 * 32 + q3 * 2 + k10 * 4]);
                }
            }
        }
        __syncthreads();  // y_sh is written before it is read
        #pragma unroll
        for (int r = 0; r < 8; ++r) {
            copy_16B(&y[tile_n * 802816 + tile_p * 57344 + r * 7168 + tile_q * 1024 + thread_q * 64 + tile_k * 64 + thread_k * 8], &y_sh[r * 1152 + thread_q * 72 + thread_k * 8]);
        }
    }
}

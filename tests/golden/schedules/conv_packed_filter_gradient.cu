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

__device__ __forceinline__ void cp_async_16B(void* dst, const void* src) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(src) : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(void* registers, const void* row) {
    unsigned* d = static_cast<unsigned*>(registers);
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
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

__device__ __forceinline__ int count_in(int* counter, int count) {
    unsigned before = 0;
    if (threadIdx.x == 0) {
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
            : "=r"(before) : "l"(__cvta_generic_to_global(counter)), "r"(count - 1) : "memory");
    }
    return __syncthreads_or(threadIdx.x == 0 && (int)before == count - 1);
}

extern "C" __global__ void __launch_bounds__(64)
filters_mma_64x1x32x1_k112_f16(
    const half* __restrict__ y,
    const half* __restrict__ x,
    half* __restrict__ out_y,
    float* product_parts,
    int* arrived) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* x_sh = reinterpret_cast<half*>(shared);
    half* y_sh = reinterpret_cast<half*>(shared + 2816);
    alignas(16) float product[32];
    alignas(16) half x_a_fr[112];
    alignas(16) half y_fr[16];
    half x_rf[11];
    half out_y_rf[32];
    alignas(16) float other[32];
    const int way = block % 112;
    const int tile = block / 112;
    const int warp = thread / 32;
    const int thread_k = thread % 8;

    // Program(1, 32, 64, 32, 112, 112)(GL, GL, GL)(Block)

    // load x to x_rf: Move(1, 1, 698)(GL, RF)(Block)
    #pragma unroll
    for (int r = 0; r < 11; ++r) {
        if (thread + r * 64 < 698) {
            copy_or_zero_2B(&x_rf[r], &x[way * 1344 + tile * 672 + thread + r * 64 - 2025], way * 2 + tile > 2 && way * 2 + tile < 227 && thread + r * 64 > 8 && thread + r * 64 < 681);
        }
    }

    // load x to x_sh: Move(1, 1, 698)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 11; ++r2) {
        if (thread + r2 * 64 < 698) {
            copy_2B(&x_sh[thread + r2 * 64], &x_rf[r2]);
        }
    }

    // load y to y_sh: Move(1, 1, 112, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 14; ++r3) {
        cp_async_16B(&y_sh[r3 * 512 + thread / 8 * 64 + (thread_k ^ thread / 8) * 8], &y[way * 7168 + r3 * 512 + thread / 8 * 64 + thread_k * 8]);
    }
    cp_async_commit();
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        product[i] = 0.0f;
    }
    #pragma unroll 1
    for (int chunk = 0; chunk < 32; ++chunk) {
        cp_async_wait<0>();
        __syncthreads();  // x_sh is written before it is read
        if (chunk < 31) {

            // load x to x_rf: Move(1, 1, 698)(GL, RF)(Block)
            #pragma unroll
            for (int r = 0; r < 11; ++r) {
                if (thread + r * 64 < 698) {
                    copy_or_zero_2B(&x_rf[r], &x[chunk * 150528 + way * 1344 + tile * 672 + thread + r * 64 + 148503], way * 2 + tile > 2 && way * 2 + tile < 227 && thread + r * 64 > 8 && thread + r * 64 < 681);
                }
            }

            // load y to y_sh: Move(1, 1, 112, 64)(GL, SH)(Block)
            #pragma unroll
            for (int r3 = 0; r3 < 14; ++r3) {
                cp_async_16B(&y_sh[(chunk + 1) % 2 * 7168 + r3 * 512 + thread / 8 * 64 + (thread_k ^ thread / 8) * 8], &y[chunk * 802816 + way * 7168 + r3 * 512 + thread / 8 * 64 + thread_k * 8 + 802816]);
            }
        }
        cp_async_commit();

        // x_a: f16 in x_a_fr
        #pragma unroll
        for (int m6 = 0; m6 < 4; ++m6) {
            #pragma unroll
            for (int q = 0; q < 28; ++q) {
                x_a_fr[m6 % 2 * 2 + m6 / 2 * 8 + q % 2 + q / 2 % 2 * 4 + q / 4 * 16] = half{0x0000};
                if (thread / 4 % 8 + m6 * 8 < 21) x_a_fr[m6 % 2 * 2 + m6 / 2 * 8 + q % 2 + q / 2 % 2 * 4 + q / 4 * 16] = x_sh[chunk % 2 * 704 + thread % 4 * 12 + q % 2 * 6 + q / 2 * 48 + thread / 4 % 8 + m6 * 8];
            }
        }

        // product: add by atoms
        #pragma unroll
        for (int k = 0; k < 7; ++k) {

            // load y_sh to y_fr: Move(1, 1, 16, 32)(SH, FR)(Warp)
            #pragma unroll
            for (int n3 = 0; n3 < 2; ++n3) {
                ldmatrix_x4_trans(&y_fr[n3 * 8], &y_sh[chunk % 2 * 7168 + k * 1024 + thread % 16 * 64 + (warp * 4 + n3 * 2 + thread / 16 % 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int m = 0; m < 2; ++m) {
                #pragma unroll
                for (int n = 0; n < 4; ++n) {
                    mma_m16n8k16_f32_f16(&product[m * 16 + n * 4], &x_a_fr[k * 16 + m * 8], &y_fr[n * 4]);
                }
            }
        }
        if (chunk < 31) {

            // load x to x_sh: Move(1, 1, 698)(GL, SH)(Block)
            #pragma unroll
            for (int r2 = 0; r2 < 11; ++r2) {
                if (thread + r2 * 64 < 698) {
                    copy_2B(&x_sh[(chunk + 1) % 2 * 704 + thread + r2 * 64], &x_rf[r2]);
                }
            }
        }
    }

    // product over 112 blocks
    #pragma unroll
    for (int i2 = 0; i2 < 8; ++i2) {
        copy_16B(&product_parts[tile * 229376 + way * 2048 + thread / 32 * 1024 + i2 * 128 + thread % 32 * 4], &product[i2 * 4]);
    }
    __syncthreads();  // all threads have written product_parts
    const int last = count_in(&arrived[tile], 112);
    if (last) {

        // product over 112 blocks: the last block combines them
        #pragma unroll
        for (int i4 = 0; i4 < 32; ++i4) {
            product[i4] = 0.0f;
        }
        #pragma unroll 1
        for (int w = 0; w < 56; ++w) {
            #pragma unroll
            for (int u = 0; u < 2; ++u) {
                #pragma unroll
                for (int v = 0; v < 8; ++v) {
                    copy_16B(&other[v * 4], &product_parts[tile * 229376 + w * 4096 + u * 2048 + thread / 32 * 1024 + v * 128 + thread % 32 * 4]);
                }
                #pragma unroll
                for (int i3 = 0; i3 < 32; ++i3) {
                    product[i3] = product[i3] + other[i3];
                }
            }
        }

        // out_y: f16 in out_y_rf
        #pragma unroll
        for (int k10 = 0; k10 < 8; ++k10) {
            #pragma unroll
            for (int m8 = 0; m8 < 4; ++m8) {
                out_y_rf[k10 * 4 + m8] = float_to_half(product[k10 % 2 + k10 / 2 * 4 + m8 % 2 * 2 + m8 / 2 * 16]);
            }
        }

        // store out_y: Move(64, 1, 32)(RF, GL)(Block)
        #pragma unroll
        for (int k11 = 0; k11 < 8; ++k11) {
            #pragma unroll
            for (int m9 = 0; m9 < 4; ++m9) {
                if (thread / 4 % 8 + m9 * 8 < 21) copy_2B(&out_y[warp * 4704 + thread % 4 * 294 + k11 % 2 * 147 + k11 / 2 * 1176 + tile * 21 + thread / 4 % 8 + m9 * 8], &out_y_rf[k11 * 4 + m9]);
            }
        }
    }
}

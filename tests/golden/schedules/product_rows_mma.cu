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

__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}

template <int pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
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

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

__device__ __forceinline__ void shuffle_4B(void* dst, const void* src, int lane) {
    *static_cast<unsigned*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned*>(src), lane);
}

extern "C" __global__ void __launch_bounds__(128)
mma_64x32_f16(
    const half* __restrict__ x,
    const half* __restrict__ w,
    const half* __restrict__ b,
    const half* __restrict__ r,
    const half* __restrict__ g,
    const half* __restrict__ s,
    half* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* x_sh = reinterpret_cast<half*>(shared);
    half* w_sh = reinterpret_cast<half*>(shared + 12288);
    alignas(16) float product[64];
    alignas(16) half x_fr[8];
    alignas(16) half w_fr[64];
    alignas(16) half b_rf[32];
    alignas(16) half r_rf[64];
    alignas(16) half g_rf[32];
    alignas(16) half s_rf[32];
    float z_rf[64];
    float mean_sum[2];
    float mean_rf[2];
    float square_sum[2];
    alignas(16) half y_rf[64];
    float other[1];
    float other2[1];
    float part[1];
    float other3[1];
    float other4[1];
    const int warp = thread / 32;
    const int thread_k = thread % 4;

    // Program(64, 128, 256)(7 GL)(Block)

    // load x to x_sh: Move(64, 32)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 2; ++r2) {
        cp_async_16B(&x_sh[r2 * 1024 + thread / 4 * 32 + (thread_k ^ thread / 8 % 4) * 8], &x[block * 16384 + r2 * 8192 + thread / 4 * 256 + thread_k * 8]);
    }

    // load w to w_sh: Move(128, 32)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 4; ++r3) {
        cp_async_16B(&w_sh[r3 * 1024 + thread / 4 * 32 + (thread_k ^ thread / 8 % 4) * 8], &w[r3 * 8192 + thread / 4 * 256 + thread_k * 8]);
    }
    cp_async_commit();

    // load x to x_sh: Move(64, 32)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 2; ++r2) {
        cp_async_16B(&x_sh[r2 * 1024 + thread / 4 * 32 + (thread_k ^ thread / 8 % 4) * 8 + 2048], &x[block * 16384 + r2 * 8192 + thread / 4 * 256 + thread_k * 8 + 32]);
    }

    // load w to w_sh: Move(128, 32)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 4; ++r3) {
        cp_async_16B(&w_sh[r3 * 1024 + thread / 4 * 32 + (thread_k ^ thread / 8 % 4) * 8 + 4096], &w[r3 * 8192 + thread / 4 * 256 + thread_k * 8 + 32]);
    }
    cp_async_commit();
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        product[i] = 0.0f;
    }
    #pragma unroll 1
    for (int k = 0; k < 8; ++k) {
        cp_async_wait<1>();
        __syncthreads();  // x_sh is written before it is read
        if (k < 6) {

            // load x to x_sh: Move(64, 32)(GL, SH)(Block)
            #pragma unroll
            for (int r2 = 0; r2 < 2; ++r2) {
                cp_async_16B(&x_sh[(k + 2) % 3 * 2048 + r2 * 1024 + thread / 4 * 32 + (thread_k ^ thread / 8 % 4) * 8], &x[block * 16384 + r2 * 8192 + thread / 4 * 256 + k * 32 + thread_k * 8 + 64]);
            }

            // load w to w_sh: Move(128, 32)(GL, SH)(Block)
            #pragma unroll
            for (int r3 = 0; r3 < 4; ++r3) {
                cp_async_16B(&w_sh[(k + 2) % 3 * 4096 + r3 * 1024 + thread / 4 * 32 + (thread_k ^ thread / 8 % 4) * 8], &w[r3 * 8192 + thread / 4 * 256 + k * 32 + thread_k * 8 + 64]);
            }
        }
        cp_async_commit();

        // product: add by atoms
        #pragma unroll
        for (int k2 = 0; k2 < 2; ++k2) {

            // load x_sh to x_fr: Move(16, 16)(SH, FR)(Warp)
            ldmatrix_x4(&x_fr[0], &x_sh[k % 3 * 2048 + warp * 512 + thread % 16 * 32 + (k2 * 2 + thread / 16 % 2 ^ thread / 2 % 4) * 8]);

            // load w_sh to w_fr: Move(16, 128)(SH, FR)(Warp)
            #pragma unroll
            for (int n3 = 0; n3 < 8; ++n3) {
                ldmatrix_x4(&w_fr[n3 * 8], &w_sh[k % 3 * 4096 + n3 * 512 + thread % 8 * 32 + thread / 16 % 2 * 256 + (k2 * 2 + thread / 8 % 2 ^ thread / 2 % 4) * 8]);
            }
            #pragma unroll
            for (int n = 0; n < 16; ++n) {
                mma_m16n8k16_f32_f16(&product[n * 4], &x_fr[0], &w_fr[n * 4]);
            }
        }
    }

    // load b to b_rf: Move(128)(GL, RF)(Block)
    #pragma unroll
    for (int n15 = 0; n15 < 16; ++n15) {
        copy_4B(&b_rf[n15 * 2], &b[thread % 4 * 2 + n15 * 8]);
    }

    // load r to r_rf: Move(64, 128)(GL, RF)(Block)
    #pragma unroll
    for (int m10 = 0; m10 < 2; ++m10) {
        #pragma unroll
        for (int n14 = 0; n14 < 16; ++n14) {
            copy_4B(&r_rf[m10 * 32 + n14 * 2], &r[block * 8192 + warp * 2048 + thread / 4 % 8 * 128 + m10 * 1024 + thread % 4 * 2 + n14 * 8]);
        }
    }

    // z: f32 in z_rf
    #pragma unroll
    for (int m4 = 0; m4 < 2; ++m4) {
        #pragma unroll
        for (int n7 = 0; n7 < 32; ++n7) {
            z_rf[m4 * 2 + n7 % 2 + n7 / 2 * 4] = product[m4 * 2 + n7 % 2 + n7 / 2 * 4] + half_to_float(b_rf[n7]) + half_to_float(r_rf[m4 * 32 + n7]);
        }
    }

    // mean_sum: add over n
    #pragma unroll
    for (int i2 = 0; i2 < 2; ++i2) {
        mean_sum[i2] = 0.0f;
    }
    #pragma unroll
    for (int m5 = 0; m5 < 2; ++m5) {
        #pragma unroll
        for (int n8 = 0; n8 < 32; ++n8) {
            mean_sum[m5] = mean_sum[m5] + z_rf[m5 * 2 + n8 % 2 + n8 / 2 * 4];
        }
    }
    #pragma unroll
    for (int i3 = 0; i3 < 2; ++i3) {
        shuffle_4B(&other[0], &mean_sum[i3], thread % 32 ^ 2);
        mean_sum[i3] = mean_sum[i3] + other[0];
    }
    #pragma unroll
    for (int i4 = 0; i4 < 2; ++i4) {
        shuffle_4B(&other2[0], &mean_sum[i4], thread % 32 ^ 1);
        mean_sum[i4] = mean_sum[i4] + other2[0];
    }

    // mean: f32 in mean_rf
    #pragma unroll
    for (int m6 = 0; m6 < 2; ++m6) {
        mean_rf[m6] = __fmul_rn(mean_sum[m6], 0.0078125f);
    }

    // square_sum: add over n
    #pragma unroll
    for (int i5 = 0; i5 < 2; ++i5) {
        square_sum[i5] = 0.0f;
    }
    #pragma unroll
    for (int m7 = 0; m7 < 2; ++m7) {
        #pragma unroll
        for (int n9 = 0; n9 < 32; ++n9) {
            part[0] = z_rf[m7 * 2 + n9 % 2 + n9 / 2 * 4] - mean_rf[m7];
            square_sum[m7] = fmaf(part[0], part[0], square_sum[m7]);
        }
    }
    #pragma unroll
    for (int i6 = 0; i6 < 2; ++i6) {
        shuffle_4B(&other3[0], &square_sum[i6], thread % 32 ^ 2);
        square_sum[i6] = square_sum[i6] + other3[0];
    }
    #pragma unroll
    for (int i7 = 0; i7 < 2; ++i7) {
        shuffle_4B(&other4[0], &square_sum[i7], thread % 32 ^ 1);
        square_sum[i7] = square_sum[i7] + other4[0];
    }

    // load g to g_rf: Move(128)(GL, RF)(Block)
    #pragma unroll
    for (int n13 = 0; n13 < 16; ++n13) {
        copy_4B(&g_rf[n13 * 2], &g[thread % 4 * 2 + n13 * 8]);
    }

    // load s to s_rf: Move(128)(GL, RF)(Block)
    #pragma unroll
    for (int n12 = 0; n12 < 16; ++n12) {
        copy_4B(&s_rf[n12 * 2], &s[thread % 4 * 2 + n12 * 8]);
    }

    // y: f16 in y_rf
    #pragma unroll
    for (int m8 = 0; m8 < 2; ++m8) {
        #pragma unroll
        for (int n10 = 0; n10 < 32; ++n10) {
            y_rf[m8 * 32 + n10] = float_to_half(fmaf(__fmul_rn(z_rf[m8 * 2 + n10 % 2 + n10 / 2 * 4] - mean_rf[m8], rsqrtf(fmaf(square_sum[m8], 0.0078125f, 1e-05f))), half_to_float(g_rf[n10]), half_to_float(s_rf[n10])));
        }
    }

    // store y: Move(64, 128)(RF, GL)(Block)
    #pragma unroll
    for (int m9 = 0; m9 < 2; ++m9) {
        #pragma unroll
        for (int n11 = 0; n11 < 16; ++n11) {
            copy_4B(&y[block * 8192 + warp * 2048 + thread / 4 % 8 * 128 + m9 * 1024 + thread % 4 * 2 + n11 * 8], &y_rf[m9 * 32 + n11 * 2]);
        }
    }
}

struct half { unsigned short bits; };

__device__ __forceinline__ half float_to_half(float x) {
    half y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
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

__device__ __forceinline__ void copy_or_zero_4B(void* dst, const void* src, bool read) {
    unsigned value = {};
    if (read) value = *static_cast<const unsigned*>(src);
    *static_cast<unsigned*>(dst) = value;
}

__device__ __forceinline__ void ldmatrix_x4_trans(void* registers, const void* row) {
    unsigned* d = static_cast<unsigned*>(registers);
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(address));
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

extern "C" __global__ void __launch_bounds__(128)
mma_1x1x64x64_f16(
    const half* __restrict__ q,
    const half* __restrict__ k,
    const half* __restrict__ v,
    const half* __restrict__ dy,
    const float* __restrict__ lse,
    const float* __restrict__ delta,
    half* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* q_sh = reinterpret_cast<half*>(shared);
    half* dy_sh = reinterpret_cast<half*>(shared + 8192);
    half* k_sh = reinterpret_cast<half*>(shared + 16384);
    half* v_sh = reinterpret_cast<half*>(shared + 32768);
    alignas(16) float dq[32];
    alignas(16) float s[32];
    alignas(16) half q_fr[8];
    alignas(16) half k_fr[32];
    alignas(16) float dp[32];
    alignas(16) half dy_fr[8];
    alignas(16) half v_fr[32];
    alignas(16) half ds_a_fr[32];
    alignas(16) half k_fr2[32];
    float lse_rf[2];
    float delta_rf[2];
    float ds_rf[32];
    alignas(16) half y_rf[32];
    const int block_h = block / 8;
    const int block_i = block % 8;
    const int warp = thread / 32;
    const int thread_d = thread % 8;

    // Program(1, 1, 64, 64, 500, 64)(7 GL)(Block)

    // load q to q_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r4 = 0; r4 < 4; ++r4) {
        cp_async_or_zero_16B(&q_sh[r4 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &q[block_h * 32000 + block_i * 4096 + r4 * 1024 + thread / 8 * 64 + thread_d * 8], block_i * 64 + r4 * 16 + thread / 8 < 500);
    }

    // load dy to dy_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 4; ++r3) {
        cp_async_or_zero_16B(&dy_sh[r3 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &dy[block_h * 32000 + block_i * 4096 + r3 * 1024 + thread / 8 * 64 + thread_d * 8], block_i * 64 + r3 * 16 + thread / 8 < 500);
    }

    // load k to k_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        cp_async_16B(&k_sh[r * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &k[block_h * 32000 + r * 1024 + thread / 8 * 64 + thread_d * 8]);
    }

    // load v to v_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 4; ++r2) {
        cp_async_16B(&v_sh[r2 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &v[block_h * 32000 + r2 * 1024 + thread / 8 * 64 + thread_d * 8]);
    }
    cp_async_commit();
    #pragma unroll
    for (int i7 = 0; i7 < 32; ++i7) {
        dq[i7] = 0.0f;
    }
    const int whole = block_i;
    #pragma unroll 1
    for (int j = 0; j < block_i + 1; ++j) {
        cp_async_wait<0>();
        __syncthreads();  // q_sh is written before it is read
        if (j < block_i) {

            // load k to k_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
                cp_async_or_zero_16B(&k_sh[(j + 1) % 2 * 4096 + r * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &k[block_h * 32000 + j * 4096 + r * 1024 + thread / 8 * 64 + thread_d * 8 + 4096], j * 64 + r * 16 + thread / 8 < 436);
            }

            // load v to v_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
            #pragma unroll
            for (int r2 = 0; r2 < 4; ++r2) {
                cp_async_or_zero_16B(&v_sh[(j + 1) % 2 * 4096 + r2 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &v[block_h * 32000 + j * 4096 + r2 * 1024 + thread / 8 * 64 + thread_d * 8 + 4096], j * 64 + r2 * 16 + thread / 8 < 436);
            }
        }
        cp_async_commit();

        // s: add by atoms

        // Init(0)(RF)(Warp)
        #pragma unroll
        for (int i = 0; i < 32; ++i) {
            s[i] = 0.0f;
        }
        #pragma unroll
        for (int k2 = 0; k2 < 4; ++k2) {

            // load q_sh to q_fr: Move(1, 1, 16, 16)(SH, FR)(Warp)
            ldmatrix_x4(&q_fr[0], &q_sh[warp * 1024 + thread % 16 * 64 + (k2 * 2 + thread / 16 % 2 ^ thread % 8) * 8]);

            // load k_sh to k_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n3 = 0; n3 < 4; ++n3) {
                ldmatrix_x4(&k_fr[n3 * 8], &k_sh[j % 2 * 4096 + n3 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (k2 * 2 + thread / 8 % 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                mma_m16n8k16_f32_f16(&s[n * 4], &q_fr[0], &k_fr[n * 4]);
            }
        }

        // dp: add by atoms

        // Init(0)(RF)(Warp)
        #pragma unroll
        for (int i2 = 0; i2 < 32; ++i2) {
            dp[i2] = 0.0f;
        }
        #pragma unroll
        for (int k11 = 0; k11 < 4; ++k11) {

            // load dy_sh to dy_fr: Move(1, 1, 16, 16)(SH, FR)(Warp)
            ldmatrix_x4(&dy_fr[0], &dy_sh[warp * 1024 + thread % 16 * 64 + (k11 * 2 + thread / 16 % 2 ^ thread % 8) * 8]);

            // load v_sh to v_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n8 = 0; n8 < 4; ++n8) {
                ldmatrix_x4(&v_fr[n8 * 8], &v_sh[j % 2 * 4096 + n8 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (k11 * 2 + thread / 8 % 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int n6 = 0; n6 < 8; ++n6) {
                mma_m16n8k16_f32_f16(&dp[n6 * 4], &dy_fr[0], &v_fr[n6 * 4]);
            }
        }

        // load lse to lse_rf: Move(1, 1, 16)(GL, RF)(Warp)
        #pragma unroll
        for (int i6 = 0; i6 < 2; ++i6) {
            copy_or_zero_4B(&lse_rf[i6], &lse[block_h * 500 + block_i * 64 + warp * 16 + thread / 4 % 8 + i6 * 8], block_i * 64 + warp * 16 + thread / 4 % 8 + i6 * 8 < 500);
        }

        // load delta to delta_rf: Move(1, 1, 16)(GL, RF)(Warp)
        #pragma unroll
        for (int i5 = 0; i5 < 2; ++i5) {
            copy_or_zero_4B(&delta_rf[i5], &delta[block_h * 500 + block_i * 64 + warp * 16 + thread / 4 % 8 + i5 * 8], block_i * 64 + warp * 16 + thread / 4 % 8 + i5 * 8 < 500);
        }

        // ds: f32 in ds_rf
        if (j < whole) {
            #pragma unroll
            for (int i3 = 0; i3 < 2; ++i3) {
                #pragma unroll
                for (int j2 = 0; j2 < 16; ++j2) {
                    ds_rf[i3 * 2 + j2 % 2 + j2 / 2 * 4] = __fmul_rn(exp2_approx(fmaf(s[i3 * 2 + j2 % 2 + j2 / 2 * 4], 0.18033688f, -__fmul_rn(lse_rf[i3], 1.442695f))), dp[i3 * 2 + j2 % 2 + j2 / 2 * 4] - delta_rf[i3]);
                }
            }
        }
        if (whole <= j) {
            #pragma unroll
            for (int i3 = 0; i3 < 2; ++i3) {
                #pragma unroll
                for (int j2 = 0; j2 < 16; ++j2) {
                    ds_rf[i3 * 2 + j2 % 2 + j2 / 2 * 4] = __fmul_rn(exp2_approx((j * 64 + thread % 4 * 2 + j2 % 2 + j2 / 2 * 8 <= block_i * 64 + warp * 16 + thread / 4 % 8 + i3 * 8) != 0 ? fmaf(s[i3 * 2 + j2 % 2 + j2 / 2 * 4], 0.18033688f, -__fmul_rn(lse_rf[i3], 1.442695f)) : __int_as_float(0xff800000)), dp[i3 * 2 + j2 % 2 + j2 / 2 * 4] - delta_rf[i3]);
                }
            }
        }

        // ds_a: f16 in ds_a_fr
        #pragma unroll
        for (int i4 = 0; i4 < 2; ++i4) {
            #pragma unroll
            for (int j3 = 0; j3 < 16; ++j3) {
                ds_a_fr[i4 * 2 + j3 % 2 + j3 / 2 * 4] = float_to_half((block_i * 64 + warp * 16 + thread / 4 % 8 + i4 * 8 < 500 && j * 32 + thread % 4 + j3 / 2 * 4 < 250) != 0 ? ds_rf[i4 * 2 + j3 % 2 + j3 / 2 * 4] : 0.0f);
            }
        }

        // dq: add by atoms
        #pragma unroll
        for (int k20 = 0; k20 < 4; ++k20) {

            // load k_sh to k_fr2: Move(1, 1, 16, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n12 = 0; n12 < 4; ++n12) {
                ldmatrix_x4_trans(&k_fr2[n12 * 8], &k_sh[j % 2 * 4096 + k20 * 1024 + thread % 16 * 64 + (n12 * 2 + thread / 16 % 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int n10 = 0; n10 < 8; ++n10) {
                mma_m16n8k16_f32_f16(&dq[n10 * 4], &ds_a_fr[k20 * 8], &k_fr2[n10 * 4]);
            }
        }
    }

    // y: f16 in y_rf
    #pragma unroll
    for (int i8 = 0; i8 < 2; ++i8) {
        #pragma unroll
        for (int d = 0; d < 16; ++d) {
            y_rf[i8 * 2 + d % 2 + d / 2 * 4] = float_to_half(__fmul_rn(dq[i8 * 2 + d % 2 + d / 2 * 4], 0.125f));
        }
    }

    // store y: Move(1, 1, 64, 64)(RF, GL)(Block)
    #pragma unroll
    for (int i9 = 0; i9 < 2; ++i9) {
        #pragma unroll
        for (int d2 = 0; d2 < 8; ++d2) {
            if (block_i * 64 + warp * 16 + thread / 4 % 8 + i9 * 8 < 500) copy_4B(&y[block_h * 32000 + block_i * 4096 + warp * 1024 + thread / 4 % 8 * 64 + i9 * 512 + thread % 4 * 2 + d2 * 8], &y_rf[i9 * 2 + d2 * 4]);
        }
    }
}

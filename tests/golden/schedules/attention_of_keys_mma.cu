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

__device__ __forceinline__ void copy_or_zero_8B(void* dst, const void* src, bool read) {
    uint2 value = {};
    if (read) value = *static_cast<const uint2*>(src);
    *static_cast<uint2*>(dst) = value;
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
    half* __restrict__ y0,
    half* __restrict__ y1) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* k_sh = reinterpret_cast<half*>(shared);
    half* v_sh = reinterpret_cast<half*>(shared + 8192);
    half* q_sh = reinterpret_cast<half*>(shared + 16384);
    half* dy_sh = reinterpret_cast<half*>(shared + 32768);
    alignas(16) float dk[32];
    alignas(16) float dv[32];
    alignas(16) float s[32];
    alignas(16) half k_fr[8];
    alignas(16) half q_fr[32];
    alignas(16) float dp[32];
    alignas(16) half v_fr[8];
    alignas(16) half dy_fr[32];
    alignas(16) half ds_a_fr[32];
    alignas(16) half q_fr2[32];
    alignas(16) half p_a_fr[32];
    alignas(16) half dy_fr2[32];
    alignas(16) float lse_rf[16];
    alignas(16) float delta_rf[16];
    float p_rf[32];
    float ds_rf[32];
    alignas(16) half y0_rf[32];
    alignas(16) half y1_rf[32];
    const int block_h = block / 8;
    const int block_j = block % 8;
    const int warp = thread / 32;
    const int thread_d = thread % 8;

    // Program(1, 1, 64, 64, 500, 64)(8 GL)(Block)

    // load k to k_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r4 = 0; r4 < 4; ++r4) {
        cp_async_or_zero_16B(&k_sh[r4 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &k[block_h * 32000 + block_j * 4096 + r4 * 1024 + thread / 8 * 64 + thread_d * 8], block_j * 64 + r4 * 16 + thread / 8 < 500);
    }

    // load v to v_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 4; ++r3) {
        cp_async_or_zero_16B(&v_sh[r3 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &v[block_h * 32000 + block_j * 4096 + r3 * 1024 + thread / 8 * 64 + thread_d * 8], block_j * 64 + r3 * 16 + thread / 8 < 500);
    }

    // load q to q_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        cp_async_or_zero_16B(&q_sh[r * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &q[block_h * 32000 + block_j * 4096 + r * 1024 + thread / 8 * 64 + thread_d * 8], block_j * 64 + r * 16 + thread / 8 < 500);
    }

    // load dy to dy_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 4; ++r2) {
        cp_async_or_zero_16B(&dy_sh[r2 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &dy[block_h * 32000 + block_j * 4096 + r2 * 1024 + thread / 8 * 64 + thread_d * 8], block_j * 64 + r2 * 16 + thread / 8 < 500);
    }
    cp_async_commit();
    #pragma unroll
    for (int i10 = 0; i10 < 32; ++i10) {
        dk[i10] = 0.0f;
    }
    #pragma unroll
    for (int i11 = 0; i11 < 32; ++i11) {
        dv[i11] = 0.0f;
    }
    const int whole = 7 - block_j;
    #pragma unroll 1
    for (int i = 0; i < 8 - block_j; ++i) {
        cp_async_wait<0>();
        __syncthreads();  // k_sh is written before it is read
        if (i + block_j < 7) {

            // load q to q_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
                cp_async_or_zero_16B(&q_sh[(i + 1) % 2 * 4096 + r * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &q[block_h * 32000 + block_j * 4096 + i * 4096 + r * 1024 + thread / 8 * 64 + thread_d * 8 + 4096], block_j * 64 + i * 64 + r * 16 + thread / 8 < 436);
            }

            // load dy to dy_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
            #pragma unroll
            for (int r2 = 0; r2 < 4; ++r2) {
                cp_async_or_zero_16B(&dy_sh[(i + 1) % 2 * 4096 + r2 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &dy[block_h * 32000 + block_j * 4096 + i * 4096 + r2 * 1024 + thread / 8 * 64 + thread_d * 8 + 4096], block_j * 64 + i * 64 + r2 * 16 + thread / 8 < 436);
            }
        }
        cp_async_commit();

        // s: add by atoms

        // Init(0)(RF)(Warp)
        #pragma unroll
        for (int i2 = 0; i2 < 32; ++i2) {
            s[i2] = 0.0f;
        }
        #pragma unroll
        for (int k2 = 0; k2 < 4; ++k2) {

            // load k_sh to k_fr: Move(1, 1, 16, 16)(SH, FR)(Warp)
            ldmatrix_x4(&k_fr[0], &k_sh[warp * 1024 + thread % 16 * 64 + (k2 * 2 + thread / 16 % 2 ^ thread % 8) * 8]);

            // load q_sh to q_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n3 = 0; n3 < 4; ++n3) {
                ldmatrix_x4(&q_fr[n3 * 8], &q_sh[i % 2 * 4096 + n3 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (k2 * 2 + thread / 8 % 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                mma_m16n8k16_f32_f16(&s[n * 4], &k_fr[0], &q_fr[n * 4]);
            }
        }

        // load lse to lse_rf: Move(1, 1, 64)(GL, RF)(Warp)
        #pragma unroll
        for (int i9 = 0; i9 < 8; ++i9) {
            copy_or_zero_8B(&lse_rf[i9 * 2], &lse[block_h * 500 + block_j * 64 + i * 64 + thread % 4 * 2 + i9 * 8], block_j * 32 + i * 32 + thread % 4 + i9 * 4 < 250);
        }

        // p: f32 in p_rf
        if (i > 0 && i < whole) {
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                #pragma unroll
                for (int i4 = 0; i4 < 16; ++i4) {
                    p_rf[j * 2 + i4 % 2 + i4 / 2 * 4] = exp2_approx(fmaf(s[j * 2 + i4 % 2 + i4 / 2 * 4], 0.18033688f, -__fmul_rn(lse_rf[i4], 1.442695f)));
                }
            }
        }
        if (i < 1 || whole <= i) {
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                #pragma unroll
                for (int i4 = 0; i4 < 16; ++i4) {
                    p_rf[j * 2 + i4 % 2 + i4 / 2 * 4] = exp2_approx((warp * 16 + thread / 4 % 8 + j * 8 <= i * 64 + thread % 4 * 2 + i4 % 2 + i4 / 2 * 8) != 0 ? fmaf(s[j * 2 + i4 % 2 + i4 / 2 * 4], 0.18033688f, -__fmul_rn(lse_rf[i4], 1.442695f)) : __int_as_float(0xff800000));
                }
            }
        }

        // dp: add by atoms

        // Init(0)(RF)(Warp)
        #pragma unroll
        for (int i3 = 0; i3 < 32; ++i3) {
            dp[i3] = 0.0f;
        }
        #pragma unroll
        for (int k11 = 0; k11 < 4; ++k11) {

            // load v_sh to v_fr: Move(1, 1, 16, 16)(SH, FR)(Warp)
            ldmatrix_x4(&v_fr[0], &v_sh[warp * 1024 + thread % 16 * 64 + (k11 * 2 + thread / 16 % 2 ^ thread % 8) * 8]);

            // load dy_sh to dy_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n8 = 0; n8 < 4; ++n8) {
                ldmatrix_x4(&dy_fr[n8 * 8], &dy_sh[i % 2 * 4096 + n8 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (k11 * 2 + thread / 8 % 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int n6 = 0; n6 < 8; ++n6) {
                mma_m16n8k16_f32_f16(&dp[n6 * 4], &v_fr[0], &dy_fr[n6 * 4]);
            }
        }

        // load delta to delta_rf: Move(1, 1, 64)(GL, RF)(Warp)
        #pragma unroll
        for (int i8 = 0; i8 < 8; ++i8) {
            copy_or_zero_8B(&delta_rf[i8 * 2], &delta[block_h * 500 + block_j * 64 + i * 64 + thread % 4 * 2 + i8 * 8], block_j * 32 + i * 32 + thread % 4 + i8 * 4 < 250);
        }

        // ds: f32 in ds_rf
        #pragma unroll
        for (int j2 = 0; j2 < 2; ++j2) {
            #pragma unroll
            for (int i5 = 0; i5 < 16; ++i5) {
                ds_rf[j2 * 2 + i5 % 2 + i5 / 2 * 4] = __fmul_rn(p_rf[j2 * 2 + i5 % 2 + i5 / 2 * 4], dp[j2 * 2 + i5 % 2 + i5 / 2 * 4] - delta_rf[i5]);
            }
        }

        // ds_a: f16 in ds_a_fr
        #pragma unroll
        for (int j3 = 0; j3 < 2; ++j3) {
            #pragma unroll
            for (int i6 = 0; i6 < 16; ++i6) {
                ds_a_fr[j3 * 2 + i6 % 2 + i6 / 2 * 4] = float_to_half((block_j * 64 + warp * 16 + thread / 4 % 8 + j3 * 8 < 500 && block_j * 32 + i * 32 + thread % 4 + i6 / 2 * 4 < 250) != 0 ? ds_rf[j3 * 2 + i6 % 2 + i6 / 2 * 4] : 0.0f);
            }
        }

        // dk: add by atoms
        #pragma unroll
        for (int k20 = 0; k20 < 4; ++k20) {

            // load q_sh to q_fr2: Move(1, 1, 16, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n12 = 0; n12 < 4; ++n12) {
                ldmatrix_x4_trans(&q_fr2[n12 * 8], &q_sh[i % 2 * 4096 + k20 * 1024 + thread % 16 * 64 + (n12 * 2 + thread / 16 % 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int n10 = 0; n10 < 8; ++n10) {
                mma_m16n8k16_f32_f16(&dk[n10 * 4], &ds_a_fr[k20 * 8], &q_fr2[n10 * 4]);
            }
        }

        // p_a: f16 in p_a_fr
        #pragma unroll
        for (int j4 = 0; j4 < 2; ++j4) {
            #pragma unroll
            for (int i7 = 0; i7 < 16; ++i7) {
                p_a_fr[j4 * 2 + i7 % 2 + i7 / 2 * 4] = float_to_half((block_j * 64 + warp * 16 + thread / 4 % 8 + j4 * 8 < 500 && block_j * 32 + i * 32 + thread % 4 + i7 / 2 * 4 < 250) != 0 ? p_rf[j4 * 2 + i7 % 2 + i7 / 2 * 4] : 0.0f);
            }
        }

        // dv: add by atoms
        #pragma unroll
        for (int k28 = 0; k28 < 4; ++k28) {

            // load dy_sh to dy_fr2: Move(1, 1, 16, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n18 = 0; n18 < 4; ++n18) {
                ldmatrix_x4_trans(&dy_fr2[n18 * 8], &dy_sh[i % 2 * 4096 + k28 * 1024 + thread % 16 * 64 + (n18 * 2 + thread / 16 % 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int n16 = 0; n16 < 8; ++n16) {
                mma_m16n8k16_f32_f16(&dv[n16 * 4], &p_a_fr[k28 * 8], &dy_fr2[n16 * 4]);
            }
        }
    }

    // y0: f16 in y0_rf
    #pragma unroll
    for (int j5 = 0; j5 < 2; ++j5) {
        #pragma unroll
        for (int d = 0; d < 16; ++d) {
            y0_rf[j5 * 2 + d % 2 + d / 2 * 4] = float_to_half(__fmul_rn(dk[j5 * 2 + d % 2 + d / 2 * 4], 0.125f));
        }
    }

    // store y0: Move(1, 1, 64, 64)(RF, GL)(Block)
    #pragma unroll
    for (int j6 = 0; j6 < 2; ++j6) {
        #pragma unroll
        for (int d2 = 0; d2 < 8; ++d2) {
            if (block_j * 64 + warp * 16 + thread / 4 % 8 + j6 * 8 < 500) copy_4B(&y0[block_h * 32000 + block_j * 4096 + warp * 1024 + thread / 4 % 8 * 64 + j6 * 512 + thread % 4 * 2 + d2 * 8], &y0_rf[j6 * 2 + d2 * 4]);
        }
    }

    // y1: f16 in y1_rf
    #pragma unroll
    for (int j7 = 0; j7 < 2; ++j7) {
        #pragma unroll
        for (int e = 0; e < 16; ++e) {
            y1_rf[j7 * 2 + e % 2 + e / 2 * 4] = float_to_half(dv[j7 * 2 + e % 2 + e / 2 * 4]);
        }
    }

    // store y1: Move(1, 1, 64, 64)(RF, GL)(Block)
    #pragma unroll
    for (int j8 = 0; j8 < 2; ++j8) {
        #pragma unroll
        for (int e2 = 0; e2 < 8; ++e2) {
            if (block_j * 64 + warp * 16 + thread / 4 % 8 + j8 * 8 < 500) copy_4B(&y1[block_h * 32000 + block_j * 4096 + warp * 1024 + thread / 4 % 8 * 64 + j8 * 512 + thread % 4 * 2 + e2 * 8], &y1_rf[j8 * 2 + e2 * 4]);
        }
    }
}

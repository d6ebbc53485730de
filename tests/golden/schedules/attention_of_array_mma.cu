struct bf16 { unsigned short bits; };

__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float fminf_nan(float x, float y) {
#if __CUDA_ARCH__ >= 800
    float z;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
#else
    return x != x || y != y ? x + y : fminf(x, y);
#endif
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

__device__ __forceinline__ void mma_m16n8k16_f32_bf16(void* c_registers, const void* a_registers, const void* b_registers) {
    float* d = static_cast<float*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    const unsigned* b = static_cast<const unsigned*>(b_registers);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

extern "C" __global__ void __launch_bounds__(128)
looped_1x64x64x1_bf16_f32(
    const bf16* __restrict__ q,
    const bf16* __restrict__ k,
    const bf16* __restrict__ v,
    const bf16* __restrict__ dy,
    const float* __restrict__ lse,
    const float* __restrict__ delta,
    const float* __restrict__ bias,
    float* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    bf16* q_sh = reinterpret_cast<bf16*>(shared);
    bf16* dy_sh = reinterpret_cast<bf16*>(shared + 16384);
    bf16* k_sh = reinterpret_cast<bf16*>(shared + 32768);
    bf16* v_sh = reinterpret_cast<bf16*>(shared + 49152);
    alignas(16) float sum[32];
    alignas(16) float s[32];
    alignas(16) bf16 q_fr[8];
    alignas(16) bf16 k_fr[32];
    alignas(16) float dp[32];
    alignas(16) bf16 dy_fr[8];
    alignas(16) bf16 v_fr[32];
    alignas(16) float bias_rf[32];
    float lse_rf[2];
    float delta_rf[2];
    float part[1];
    const int block_h = block / 64;
    const int block_i = block / 8 % 8;
    const int block_j = block % 8;
    const int warp = thread / 32;
    const int thread_d = thread % 8;

    // Program(4, 1, 64, 64, 64, 64)(8 GL)(Block)

    // load q to q_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        cp_async_16B(&q_sh[r * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &q[block_h * 32768 + block_i * 4096 + r * 1024 + thread / 8 * 64 + thread_d * 8]);
    }

    // load dy to dy_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 4; ++r2) {
        cp_async_16B(&dy_sh[r2 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &dy[block_h * 32768 + block_i * 4096 + r2 * 1024 + thread / 8 * 64 + thread_d * 8]);
    }

    // load k to k_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 4; ++r3) {
        cp_async_16B(&k_sh[r3 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &k[block_h * 32768 + block_j * 4096 + r3 * 1024 + thread / 8 * 64 + thread_d * 8]);
    }

    // load v to v_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r4 = 0; r4 < 4; ++r4) {
        cp_async_16B(&v_sh[r4 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &v[block_h * 32768 + block_j * 4096 + r4 * 1024 + thread / 8 * 64 + thread_d * 8]);
    }
    cp_async_commit();
    #pragma unroll
    for (int i7 = 0; i7 < 32; ++i7) {
        sum[i7] = 0.0f;
    }
    #pragma unroll 1
    for (int b = 0; b < 4; ++b) {
        cp_async_wait<0>();
        __syncthreads();  // q_sh is written before it is read
        if (b < 3) {

            // load q to q_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
                cp_async_16B(&q_sh[(b + 1) % 2 * 4096 + r * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &q[b * 262144 + block_h * 32768 + block_i * 4096 + r * 1024 + thread / 8 * 64 + thread_d * 8 + 262144]);
            }

            // load dy to dy_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
            #pragma unroll
            for (int r2 = 0; r2 < 4; ++r2) {
                cp_async_16B(&dy_sh[(b + 1) % 2 * 4096 + r2 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &dy[b * 262144 + block_h * 32768 + block_i * 4096 + r2 * 1024 + thread / 8 * 64 + thread_d * 8 + 262144]);
            }

            // load k to k_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
            #pragma unroll
            for (int r3 = 0; r3 < 4; ++r3) {
                cp_async_16B(&k_sh[(b + 1) % 2 * 4096 + r3 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &k[b * 262144 + block_h * 32768 + block_j * 4096 + r3 * 1024 + thread / 8 * 64 + thread_d * 8 + 262144]);
            }

            // load v to v_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
            #pragma unroll
            for (int r4 = 0; r4 < 4; ++r4) {
                cp_async_16B(&v_sh[(b + 1) % 2 * 4096 + r4 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &v[b * 262144 + block_h * 32768 + block_j * 4096 + r4 * 1024 + thread / 8 * 64 + thread_d * 8 + 262144]);
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
            ldmatrix_x4(&q_fr[0], &q_sh[b % 2 * 4096 + warp * 1024 + thread % 16 * 64 + (k2 * 2 + thread / 16 % 2 ^ thread % 8) * 8]);

            // load k_sh to k_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n3 = 0; n3 < 4; ++n3) {
                ldmatrix_x4(&k_fr[n3 * 8], &k_sh[b % 2 * 4096 + n3 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (k2 * 2 + thread / 8 % 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                mma_m16n8k16_f32_bf16(&s[n * 4], &q_fr[0], &k_fr[n * 4]);
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
            ldmatrix_x4(&dy_fr[0], &dy_sh[b % 2 * 4096 + warp * 1024 + thread % 16 * 64 + (k11 * 2 + thread / 16 % 2 ^ thread % 8) * 8]);

            // load v_sh to v_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n8 = 0; n8 < 4; ++n8) {
                ldmatrix_x4(&v_fr[n8 * 8], &v_sh[b % 2 * 4096 + n8 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (k11 * 2 + thread / 8 % 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int n6 = 0; n6 < 8; ++n6) {
                mma_m16n8k16_f32_bf16(&dp[n6 * 4], &dy_fr[0], &v_fr[n6 * 4]);
            }
        }

        // load bias to bias_rf: Move(1, 16, 64)(GL, RF)(Warp)
        #pragma unroll
        for (int i6 = 0; i6 < 2; ++i6) {
            #pragma unroll
            for (int j3 = 0; j3 < 8; ++j3) {
                copy_8B(&bias_rf[i6 * 16 + j3 * 2], &bias[block_h * 262144 + block_i * 32768 + warp * 8192 + thread / 4 % 8 * 512 + i6 * 4096 + block_j * 64 + thread % 4 * 2 + j3 * 8]);
            }
        }

        // load lse to lse_rf: Move(1, 1, 16)(GL, RF)(Warp)
        #pragma unroll
        for (int i5 = 0; i5 < 2; ++i5) {
            copy_4B(&lse_rf[i5], &lse[b * 4096 + block_h * 512 + block_i * 64 + warp * 16 + thread / 4 % 8 + i5 * 8]);
        }

        // load delta to delta_rf: Move(1, 1, 16)(GL, RF)(Warp)
        #pragma unroll
        for (int i4 = 0; i4 < 2; ++i4) {
            copy_4B(&delta_rf[i4], &delta[b * 4096 + block_h * 512 + block_i * 64 + warp * 16 + thread / 4 % 8 + i4 * 8]);
        }

        // sum: add over b
        #pragma unroll
        for (int i3 = 0; i3 < 2; ++i3) {
            #pragma unroll
            for (int j = 0; j < 16; ++j) {
                part[0] = (float)(block_j * 64 + thread % 4 * 2 - block_i * 64 - warp * 16 - thread / 4 % 8) + (float)(j % 2 + j / 2 * 8 - i3 * 8);
                sum[i3 * 16 + j] = fmaf(__fmul_rn(exp2_approx(fminf_nan(fmaf(-(lse_rf[i3] < -3e+38f ? 0.0f : lse_rf[i3]), 1.442695f, +fmaf(s[i3 * 2 + j % 2 + j / 2 * 4], 0.18033688f, __fmul_rn(__fmul_rn(bias_rf[i3 * 16 + j], 0.14426951f), part[0]))), 0.0f)), dp[i3 * 2 + j % 2 + j / 2 * 4] - delta_rf[i3]), __fmul_rn(part[0], 0.1f), sum[i3 * 16 + j]);
            }
        }
    }

    // store y: Move(1, 64, 64)(RF, GL)(Block)
    #pragma unroll
    for (int i8 = 0; i8 < 2; ++i8) {
        #pragma unroll
        for (int j5 = 0; j5 < 8; ++j5) {
            copy_8B(&y[block_h * 262144 + block_i * 32768 + warp * 8192 + thread / 4 % 8 * 512 + i8 * 4096 + block_j * 64 + thread % 4 * 2 + j5 * 8], &sum[i8 * 16 + j5 * 2]);
        }
    }
}

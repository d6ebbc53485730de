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

__device__ __forceinline__ float fmaxf_nan(float x, float y) {
#if __CUDA_ARCH__ >= 800
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
#else
    return x != x || y != y ? x + y : fmaxf(x, y);
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

__device__ __forceinline__ void shuffle_4B(void* dst, const void* src, int lane) {
    *static_cast<unsigned*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned*>(src), lane);
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
    half* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* q_sh = reinterpret_cast<half*>(shared);
    half* k_sh = reinterpret_cast<half*>(shared + 8192);
    half* v_sh = reinterpret_cast<half*>(shared + 24576);
    float top[2];
    float total[2];
    alignas(16) float o[32];
    alignas(16) float s[32];
    alignas(16) half q_fr[8];
    alignas(16) half k_fr[32];
    alignas(16) half part_a_fr[32];
    alignas(16) half v_fr[32];
    float top_chunk[2];
    float top_chunk2[2];
    float top_before_rf[2];
    float top_factor_rf[2];
    float top_finite_rf[2];
    float part_rf[32];
    float inverse_rf[2];
    alignas(16) half y_rf[32];
    float other[1];
    float other2[1];
    float other3[1];
    float other4[1];
    const int block_h = block / 4;
    const int block_i = block % 4;
    const int warp = thread / 32;
    const int thread_d = thread % 8;

    // Program(1, 1, 64, 1000, 64, 64)(4 GL)(Block)

    // load q to q_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 4; ++r3) {
        cp_async_16B(&q_sh[r3 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &q[block_h * 16384 + block_i * 4096 + r3 * 1024 + thread / 8 * 64 + thread_d * 8]);
    }

    // load k to k_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        cp_async_16B(&k_sh[r * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &k[block_h * 64000 + r * 1024 + thread / 8 * 64 + thread_d * 8]);
    }

    // load v to v_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 4; ++r2) {
        cp_async_16B(&v_sh[r2 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &v[block_h * 64000 + r2 * 1024 + thread / 8 * 64 + thread_d * 8]);
    }
    cp_async_commit();
    #pragma unroll
    for (int i16 = 0; i16 < 2; ++i16) {
        top[i16] = __int_as_float(0xff800000);
    }
    #pragma unroll
    for (int i17 = 0; i17 < 2; ++i17) {
        total[i17] = 0.0f;
    }
    #pragma unroll
    for (int i18 = 0; i18 < 32; ++i18) {
        o[i18] = 0.0f;
    }
    #pragma unroll 1
    for (int j = 0; j < 16; ++j) {
        cp_async_wait<0>();
        __syncthreads();  // q_sh is written before it is read
        if (j < 15) {

            // load k to k_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
                cp_async_or_zero_16B(&k_sh[(j + 1) % 2 * 4096 + r * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &k[block_h * 64000 + j * 4096 + r * 1024 + thread / 8 * 64 + thread_d * 8 + 4096], j * 64 + r * 16 + thread / 8 < 936);
            }

            // load v to v_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
            #pragma unroll
            for (int r2 = 0; r2 < 4; ++r2) {
                cp_async_or_zero_16B(&v_sh[(j + 1) % 2 * 4096 + r2 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &v[block_h * 64000 + j * 4096 + r2 * 1024 + thread / 8 * 64 + thread_d * 8 + 4096], j * 64 + r2 * 16 + thread / 8 < 936);
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

        // top: max over j
        #pragma unroll
        for (int i3 = 0; i3 < 2; ++i3) {
            top_chunk[i3] = __int_as_float(0xff800000);
        }
        if (j < 15) {
            #pragma unroll
            for (int i2 = 0; i2 < 2; ++i2) {
                #pragma unroll
                for (int j2 = 0; j2 < 16; ++j2) {
                    top_chunk[i2] = fmaxf_nan(top_chunk[i2], s[i2 * 2 + j2 % 2 + j2 / 2 * 4]);
                }
            }
        }
        if (j > 14) {
            #pragma unroll
            for (int i2 = 0; i2 < 2; ++i2) {
                #pragma unroll
                for (int j2 = 0; j2 < 16; ++j2) {
                    if (j * 8 + j2 / 2 < 125) top_chunk[i2] = fmaxf_nan(top_chunk[i2], s[i2 * 2 + j2 % 2 + j2 / 2 * 4]);
                }
            }
        }
        #pragma unroll
        for (int i4 = 0; i4 < 2; ++i4) {
            shuffle_4B(&other[0], &top_chunk[i4], thread % 32 ^ 2);
            top_chunk[i4] = fmaxf_nan(top_chunk[i4], other[0]);
        }
        #pragma unroll
        for (int i5 = 0; i5 < 2; ++i5) {
            shuffle_4B(&other2[0], &top_chunk[i5], thread % 32 ^ 1);
            top_chunk[i5] = fmaxf_nan(top_chunk[i5], other2[0]);
        }
        #pragma unroll
        for (int i6 = 0; i6 < 2; ++i6) {
            top_chunk2[i6] = __fmul_rn(top_chunk[i6], 0.18033688f);
        }

        // top_before: f32 in top_before_rf
        #pragma unroll
        for (int i7 = 0; i7 < 2; ++i7) {
            top_before_rf[i7] = top[i7];
        }
        #pragma unroll
        for (int i8 = 0; i8 < 2; ++i8) {
            top[i8] = fmaxf_nan(top[i8], top_chunk2[i8]);
        }

        // top_factor: f32 in top_factor_rf
        #pragma unroll
        for (int i9 = 0; i9 < 2; ++i9) {
            top_factor_rf[i9] = top_before_rf[i9] == __int_as_float(0xff800000) ? 0.0f : exp2_approx(top_before_rf[i9] - top[i9]);
        }

        // top_finite: f32 in top_finite_rf
        #pragma unroll
        for (int i10 = 0; i10 < 2; ++i10) {
            top_finite_rf[i10] = top[i10] == __int_as_float(0xff800000) ? 0.0f : top[i10];
        }

        // part: f32 in part_rf
        #pragma unroll
        for (int i11 = 0; i11 < 2; ++i11) {
            #pragma unroll
            for (int j3 = 0; j3 < 16; ++j3) {
                part_rf[i11 * 2 + j3 % 2 + j3 / 2 * 4] = exp2_approx(fmaf(s[i11 * 2 + j3 % 2 + j3 / 2 * 4], 0.18033688f, -top_finite_rf[i11]));
            }
        }

        // total: add over j
        #pragma unroll
        for (int i13 = 0; i13 < 2; ++i13) {
            total[i13] = __fmul_rn(total[i13], top_factor_rf[i13]);
        }
        if (j < 15) {
            #pragma unroll
            for (int i12 = 0; i12 < 2; ++i12) {
                #pragma unroll
                for (int j4 = 0; j4 < 16; ++j4) {
                    total[i12] = total[i12] + part_rf[i12 * 2 + j4 % 2 + j4 / 2 * 4];
                }
            }
        }
        if (j > 14) {
            #pragma unroll
            for (int i12 = 0; i12 < 2; ++i12) {
                #pragma unroll
                for (int j4 = 0; j4 < 16; ++j4) {
                    if (j * 8 + j4 / 2 < 125) total[i12] = total[i12] + part_rf[i12 * 2 + j4 % 2 + j4 / 2 * 4];
                }
            }
        }

        // part_a: f16 in part_a_fr
        #pragma unroll
        for (int i14 = 0; i14 < 2; ++i14) {
            #pragma unroll
            for (int j5 = 0; j5 < 16; ++j5) {
                part_a_fr[i14 * 2 + j5 % 2 + j5 / 2 * 4] = float_to_half((j * 8 + j5 / 2 < 125) != 0 ? part_rf[i14 * 2 + j5 % 2 + j5 / 2 * 4] : 0.0f);
            }
        }

        // o: what was summed is corrected
        #pragma unroll
        for (int i15 = 0; i15 < 2; ++i15) {
            #pragma unroll
            for (int e = 0; e < 16; ++e) {
                o[i15 * 2 + e % 2 + e / 2 * 4] = __fmul_rn(o[i15 * 2 + e % 2 + e / 2 * 4], top_factor_rf[i15]);
            }
        }

        // o: add by atoms
        #pragma unroll
        for (int k11 = 0; k11 < 4; ++k11) {

            // load v_sh to v_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n8 = 0; n8 < 4; ++n8) {
                ldmatrix_x4_trans(&v_fr[n8 * 8], &v_sh[j % 2 * 4096 + k11 * 1024 + thread % 16 * 64 + (n8 * 2 + thread / 16 % 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int n6 = 0; n6 < 8; ++n6) {
                mma_m16n8k16_f32_f16(&o[n6 * 4], &part_a_fr[k11 * 8], &v_fr[n6 * 4]);
            }
        }
    }
    #pragma unroll
    for (int i19 = 0; i19 < 2; ++i19) {
        shuffle_4B(&other3[0], &total[i19], thread % 32 ^ 2);
        total[i19] = total[i19] + other3[0];
    }
    #pragma unroll
    for (int i20 = 0; i20 < 2; ++i20) {
        shuffle_4B(&other4[0], &total[i20], thread % 32 ^ 1);
        total[i20] = total[i20] + other4[0];
    }

    // inverse: f32 in inverse_rf
    #pragma unroll
    for (int i21 = 0; i21 < 2; ++i21) {
        inverse_rf[i21] = total[i21] <= 0.0f ? 0.0f : 1.0f / total[i21];
    }

    // y: f16 in y_rf
    #pragma unroll
    for (int i22 = 0; i22 < 2; ++i22) {
        #pragma unroll
        for (int e2 = 0; e2 < 16; ++e2) {
            y_rf[i22 * 2 + e2 % 2 + e2 / 2 * 4] = float_to_half(__fmul_rn(o[i22 * 2 + e2 % 2 + e2 / 2 * 4], inverse_rf[i22]));
        }
    }

    // store y: Move(1, 1, 64, 64)(RF, GL)(Block)
    #pragma unroll
    for (int i23 = 0; i23 < 2; ++i23) {
        #pragma unroll
        for (int e3 = 0; e3 < 8; ++e3) {
            copy_4B(&y[block_h * 16384 + block_i * 4096 + warp * 1024 + thread / 4 % 8 * 64 + i23 * 512 + thread % 4 * 2 + e3 * 8], &y_rf[i23 * 2 + e3 * 4]);
        }
    }
}

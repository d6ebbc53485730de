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

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void copy_or_zero_16B(void* dst, const void* src, bool read) {
    uint4 value = {};
    if (read) value = *static_cast<const uint4*>(src);
    *static_cast<uint4*>(dst) = value;
}

__device__ __forceinline__ void mma_m8n8k4_row_col_f32_f16(void* c_registers, const void* a_registers, const void* b_registers) {
    float* d = static_cast<float*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    const unsigned* b = static_cast<const unsigned*>(b_registers);
    asm("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void shuffle_4B(void* dst, const void* src, int lane) {
    *static_cast<unsigned*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned*>(src), lane);
}

__device__ __forceinline__ void regroup_pairs(void* dst, const void* src) {
    const unsigned* s = static_cast<const unsigned*>(src);
    unsigned* d = static_cast<unsigned*>(dst);
    const bool second = threadIdx.x % 4 >= 2;
    const unsigned x = __shfl_xor_sync(0xffffffff, second ? s[0] : s[1], 2);
    const unsigned own = second ? s[1] : s[0];
    d[0] = second ? x : own;
    d[1] = second ? own : x;
}

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

__device__ __forceinline__ void mma_m8n8k4_row_row_f32_f16(void* c_registers, const void* a_registers, const void* b_registers) {
    float* d = static_cast<float*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    const unsigned* b = static_cast<const unsigned*>(b_registers);
    asm("mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

extern "C" __global__ void __launch_bounds__(128)
volta_1x1x128x32_f16(
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
    half* k_sh = reinterpret_cast<half*>(shared + 16384);
    half* v_sh = reinterpret_cast<half*>(shared + 24576);
    float top[2];
    float total[2];
    alignas(16) float o[64];
    alignas(16) float s[32];
    alignas(16) half q_fr[8];
    alignas(16) half k_fr[32];
    alignas(16) half part_a_fr[32];
    alignas(16) half v_fr[32];
    alignas(16) half part_a_fr_summed[32];
    float top_chunk[2];
    float top_chunk2[2];
    float top_before_rf[2];
    float top_factor_rf[2];
    float top_finite_rf[2];
    float part_rf[32];
    alignas(16) half k_rf[16];
    alignas(16) half v_rf[16];
    float inverse_rf[2];
    alignas(16) half y_rf[64];
    float other[1];
    float other2[1];
    const int block_h = block / 2;
    const int block_i = block % 2;
    const int warp = thread / 32;
    const int quadpair = thread / 4 % 4;
    const int thread_d = thread % 8;

    // Program(1, 1, 128, 1000, 64, 64)(4 GL)(Block)

    // load q to q_sh: Move(1, 1, 128, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r4 = 0; r4 < 8; ++r4) {
        copy_16B(&q_sh[r4 * 1024 + thread / 8 * 64 + (thread_d ^ thread / 8 % 8) * 8], &q[block_h * 16384 + block_i * 8192 + r4 * 1024 + thread / 8 * 64 + thread_d * 8]);
    }

    // load k to k_rf: Move(1, 1, 32, 64)(GL, RF)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 2; ++r2) {
        copy_16B(&k_rf[r2 * 8], &k[block_h * 64000 + r2 * 1024 + thread / 8 * 64 + thread_d * 8]);
    }

    // load k to k_sh: Move(1, 1, 32, 64)(GL, SH)(Block)
    #pragma unroll
    for (int j6 = 0; j6 < 2; ++j6) {
        copy_16B(&k_sh[thread / 8 * 64 + j6 * 1024 + (thread_d ^ thread / 8 % 8) * 8], &k_rf[j6 * 8]);
    }

    // load v to v_rf: Move(1, 1, 32, 64)(GL, RF)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 2; ++r3) {
        copy_16B(&v_rf[r3 * 8], &v[block_h * 64000 + r3 * 1024 + thread / 8 * 64 + thread_d * 8]);
    }

    // load v to v_sh: Move(1, 1, 32, 64)(GL, SH)(Block)
    #pragma unroll
    for (int j7 = 0; j7 < 2; ++j7) {
        copy_16B(&v_sh[thread / 8 * 64 + j7 * 1024 + (thread_d ^ thread / 8 % 8) * 8], &v_rf[j7 * 8]);
    }
    #pragma unroll
    for (int i15 = 0; i15 < 2; ++i15) {
        top[i15] = __int_as_float(0xff800000);
    }
    #pragma unroll
    for (int i16 = 0; i16 < 2; ++i16) {
        total[i16] = 0.0f;
    }
    #pragma unroll
    for (int i17 = 0; i17 < 64; ++i17) {
        o[i17] = 0.0f;
    }
    __syncthreads();  // q_sh is written before it is read
    #pragma unroll 1
    for (int j = 0; j < 32; ++j) {
        if (j < 31) {

            // load k to k_rf: Move(1, 1, 32, 64)(GL, RF)(Block)
            #pragma unroll
            for (int r2 = 0; r2 < 2; ++r2) {
                copy_or_zero_16B(&k_rf[r2 * 8], &k[block_h * 64000 + j * 2048 + r2 * 1024 + thread / 8 * 64 + thread_d * 8 + 2048], j * 32 + r2 * 16 + thread / 8 < 968);
            }

            // load v to v_rf: Move(1, 1, 32, 64)(GL, RF)(Block)
            #pragma unroll
            for (int r3 = 0; r3 < 2; ++r3) {
                copy_or_zero_16B(&v_rf[r3 * 8], &v[block_h * 64000 + j * 2048 + r3 * 1024 + thread / 8 * 64 + thread_d * 8 + 2048], j * 32 + r3 * 16 + thread / 8 < 968);
            }
        }

        // s: add by atoms

        // Init(0)(RF)(QuadPair)
        #pragma unroll
        for (int i = 0; i < 32; ++i) {
            s[i] = 0.0f;
        }
        #pragma unroll
        for (int k2 = 0; k2 < 8; ++k2) {

            // load q_sh to q_fr: Move(1, 1, 8, 8)(SH, FR)(QuadPair)
            copy_16B(&q_fr[0], &q_sh[warp * 2048 + quadpair * 512 + thread % 4 * 64 + thread / 16 % 2 * 256 + (k2 ^ thread % 4 + thread / 16 % 2 * 4) * 8]);

            // load k_sh to k_fr: Move(1, 1, 8, 32)(SH, FR)(QuadPair)
            #pragma unroll
            for (int n5 = 0; n5 < 4; ++n5) {
                copy_16B(&k_fr[n5 * 8], &k_sh[j % 2 * 2048 + thread % 4 * 64 + thread / 16 % 2 * 256 + n5 * 512 + (k2 ^ thread % 4 + thread / 16 % 2 * 4) * 8]);
            }
            #pragma unroll
            for (int n = 0; n < 4; ++n) {
                #pragma unroll
                for (int k3 = 0; k3 < 2; ++k3) {
                    mma_m8n8k4_row_col_f32_f16(&s[n * 8], &q_fr[k3 * 4], &k_fr[n * 8 + k3 * 4]);
                }
            }
        }

        // top: max over j
        #pragma unroll
        for (int i3 = 0; i3 < 2; ++i3) {
            top_chunk[i3] = __int_as_float(0xff800000);
        }
        if (j < 31) {
            #pragma unroll
            for (int i2 = 0; i2 < 2; ++i2) {
                #pragma unroll
                for (int j2 = 0; j2 < 16; ++j2) {
                    top_chunk[i2] = fmaxf_nan(top_chunk[i2], s[i2 * 2 + j2 % 2 + j2 / 2 * 4]);
                }
            }
        }
        if (j > 30) {
            #pragma unroll
            for (int i2 = 0; i2 < 2; ++i2) {
                #pragma unroll
                for (int j2 = 0; j2 < 16; ++j2) {
                    if (j * 8 + j2 / 2 < 250) top_chunk[i2] = fmaxf_nan(top_chunk[i2], s[i2 * 2 + j2 % 2 + j2 / 2 * 4]);
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
            top_chunk2[i5] = __fmul_rn(top_chunk[i5], 0.18033688f);
        }

        // top_before: f32 in top_before_rf
        #pragma unroll
        for (int i6 = 0; i6 < 2; ++i6) {
            top_before_rf[i6] = top[i6];
        }
        #pragma unroll
        for (int i7 = 0; i7 < 2; ++i7) {
            top[i7] = fmaxf_nan(top[i7], top_chunk2[i7]);
        }

        // top_factor: f32 in top_factor_rf
        #pragma unroll
        for (int i8 = 0; i8 < 2; ++i8) {
            top_factor_rf[i8] = top_before_rf[i8] == __int_as_float(0xff800000) ? 0.0f : exp2_approx(top_before_rf[i8] - top[i8]);
        }

        // top_finite: f32 in top_finite_rf
        #pragma unroll
        for (int i9 = 0; i9 < 2; ++i9) {
            top_finite_rf[i9] = top[i9] == __int_as_float(0xff800000) ? 0.0f : top[i9];
        }

        // part: f32 in part_rf
        #pragma unroll
        for (int i10 = 0; i10 < 2; ++i10) {
            #pragma unroll
            for (int j3 = 0; j3 < 16; ++j3) {
                part_rf[i10 * 2 + j3 % 2 + j3 / 2 * 4] = exp2_approx(fmaf(s[i10 * 2 + j3 % 2 + j3 / 2 * 4], 0.18033688f, -top_finite_rf[i10]));
            }
        }

        // total: add over j
        #pragma unroll
        for (int i12 = 0; i12 < 2; ++i12) {
            total[i12] = __fmul_rn(total[i12], top_factor_rf[i12]);
        }
        if (j < 31) {
            #pragma unroll
            for (int i11 = 0; i11 < 2; ++i11) {
                #pragma unroll
                for (int j4 = 0; j4 < 16; ++j4) {
                    total[i11] = total[i11] + part_rf[i11 * 2 + j4 % 2 + j4 / 2 * 4];
                }
            }
        }
        if (j > 30) {
            #pragma unroll
            for (int i11 = 0; i11 < 2; ++i11) {
                #pragma unroll
                for (int j4 = 0; j4 < 16; ++j4) {
                    if (j * 8 + j4 / 2 < 250) total[i11] = total[i11] + part_rf[i11 * 2 + j4 % 2 + j4 / 2 * 4];
                }
            }
        }

        // part_a: f16 in part_a_fr_summed
        #pragma unroll
        for (int i13 = 0; i13 < 2; ++i13) {
            #pragma unroll
            for (int j5 = 0; j5 < 16; ++j5) {
                part_a_fr_summed[i13 * 2 + j5 % 2 + j5 / 2 * 4] = float_to_half((j * 8 + j5 / 2 < 250) != 0 ? part_rf[i13 * 2 + j5 % 2 + j5 / 2 * 4] : 0.0f);
            }
        }

        // o: what was summed is corrected
        #pragma unroll
        for (int i14 = 0; i14 < 2; ++i14) {
            #pragma unroll
            for (int e = 0; e < 32; ++e) {
                o[i14 * 2 + e % 2 + e / 2 * 4] = __fmul_rn(o[i14 * 2 + e % 2 + e / 2 * 4], top_factor_rf[i14]);
            }
        }

        // part_a_fr_summed to part_a_fr: exchanged between lanes
        #pragma unroll
        for (int r = 0; r < 8; ++r) {
            regroup_pairs(&part_a_fr[r * 4], &part_a_fr_summed[r * 4]);
        }

        // o: add by atoms
        #pragma unroll
        for (int k6 = 0; k6 < 8; ++k6) {

            // load v_sh to v_fr: Move(1, 1, 4, 64)(SH, FR)(QuadPair)
            #pragma unroll
            for (int n11 = 0; n11 < 8; ++n11) {
                copy_8B(&v_fr[n11 * 4], &v_sh[j % 2 * 2048 + k6 * 256 + thread % 4 * 64 + thread / 16 % 2 * 4 + (n11 ^ k6 % 2 * 4 + thread % 4) * 8]);
            }
            #pragma unroll
            for (int n7 = 0; n7 < 8; ++n7) {
                mma_m8n8k4_row_row_f32_f16(&o[n7 * 8], &part_a_fr[k6 * 4], &v_fr[n7 * 4]);
            }
        }
        if (j < 31) {

            // load k to k_sh: Move(1, 1, 32, 64)(GL, SH)(Block)
            #pragma unroll
            for (int j6 = 0; j6 < 2; ++j6) {
                copy_16B(&k_sh[(j + 1) % 2 * 2048 + thread / 8 * 64 + j6 * 1024 + (thread_d ^ thread / 8 % 8) * 8], &k_rf[j6 * 8]);
            }

            // load v to v_sh: Move(1, 1, 32, 64)(GL, SH)(Block)
            #pragma unroll
            for (int j7 = 0; j7 < 2; ++j7) {
                copy_16B(&v_sh[(j + 1) % 2 * 2048 + thread / 8 * 64 + j7 * 1024 + (thread_d ^ thread / 8 % 8) * 8], &v_rf[j7 * 8]);
            }
        }
        __syncthreads();  // k_sh is written before it is read
    }
    #pragma unroll
    for (int i18 = 0; i18 < 2; ++i18) {
        shuffle_4B(&other2[0], &total[i18], thread % 32 ^ 2);
        total[i18] = total[i18] + other2[0];
    }

    // inverse: f32 in inverse_rf
    #pragma unroll
    for (int i19 = 0; i19 < 2; ++i19) {
        inverse_rf[i19] = total[i19] <= 0.0f ? 0.0f : 1.0f / total[i19];
    }

    // y: f16 in y_rf
    #pragma unroll
    for (int i20 = 0; i20 < 2; ++i20) {
        #pragma unroll
        for (int e2 = 0; e2 < 32; ++e2) {
            y_rf[i20 * 2 + e2 % 2 + e2 / 2 * 4] = float_to_half(__fmul_rn(o[i20 * 2 + e2 % 2 + e2 / 2 * 4], inverse_rf[i20]));
        }
    }

    // store y: Move(1, 1, 128, 64)(RF, GL)(Block)
    #pragma unroll
    for (int i21 = 0; i21 < 2; ++i21) {
        #pragma unroll
        for (int e3 = 0; e3 < 16; ++e3) {
            copy_4B(&y[block_h * 16384 + block_i * 8192 + warp * 2048 + quadpair * 512 + thread % 2 * 64 + thread / 16 % 2 * 256 + i21 * 128 + thread / 2 % 2 * 2 + e3 * 4], &y_rf[i21 * 2 + e3 * 4]);
        }
    }
}

struct bf16 { unsigned short bits; };

__device__ __forceinline__ unsigned floats_to_bf16_pair(float low, float high) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ bf16 float_to_bf16(float x) {
    bf16 y;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
    const unsigned bits = __float_as_uint(x);
    y.bits = x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fff;
#endif
    return y;
}

template <typename T>
__device__ __forceinline__ void put_pair(T* place, unsigned pair) {
    *reinterpret_cast<unsigned*>(place) = pair;
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
mma_1x1x128x64_bf16(
    const bf16* __restrict__ q,
    const bf16* __restrict__ k,
    const bf16* __restrict__ v,
    bf16* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    bf16* q_sh = reinterpret_cast<bf16*>(shared);
    bf16* k_sh = reinterpret_cast<bf16*>(shared + 32768);
    bf16* v_sh = reinterpret_cast<bf16*>(shared + 65536);
    float top[4];
    float total[4];
    alignas(16) float o[128];
    alignas(16) float s[64];
    alignas(16) bf16 q_fr[16];
    alignas(16) bf16 k_fr[32];
    alignas(16) bf16 part_a_fr[64];
    alignas(16) bf16 v_fr[64];
    float top_chunk[4];
    float top_chunk2[4];
    float top_before_rf[4];
    float top_factor_rf[4];
    float top_finite_rf[4];
    float part_rf[2];
    float inverse_rf[4];
    alignas(16) bf16 y_rf[128];
    float other[1];
    float other2[1];
    int outgrown[1];
    float other3[1];
    float other4[1];
    const int block_h = block % 2;
    const int block_i = 95 - block / 2;
    const int warp = thread / 32;
    const int thread_d = thread % 16;

    // Program(1, 1, 128, 4096, 128, 128)(4 GL)(Block)

    // load q to q_sh: Move(1, 1, 128, 128)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 16; ++r3) {
        cp_async_16B(&q_sh[r3 * 1024 + thread / 16 * 128 + (thread_d ^ thread / 16) * 8], &q[block_h * 1572864 + block_i * 16384 + r3 * 1024 + thread / 16 * 128 + thread_d * 8]);
    }
    if (max(block_i * 128 - 8064, 0) / 64 > 0) {

        // load k to k_sh: Move(1, 1, 64, 128)(GL, SH)(Block)
        #pragma unroll
        for (int r = 0; r < 8; ++r) {
            cp_async_16B(&k_sh[r * 1024 + thread / 16 * 128 + (thread_d ^ thread / 16) * 8], &k[block_h * 524288 + r * 1024 + thread / 16 * 128 + thread_d * 8]);
        }

        // load v to v_sh: Move(1, 1, 64, 128)(GL, SH)(Block)
        #pragma unroll
        for (int r2 = 0; r2 < 8; ++r2) {
            cp_async_16B(&v_sh[r2 * 1024 + thread / 16 * 128 + (thread_d ^ thread / 16) * 8], &v[block_h * 524288 + r2 * 1024 + thread / 16 * 128 + thread_d * 8]);
        }
    }
    cp_async_commit();
    #pragma unroll
    for (int i16 = 0; i16 < 4; ++i16) {
        top[i16] = __int_as_float(0xff800000);
    }
    #pragma unroll
    for (int i17 = 0; i17 < 4; ++i17) {
        total[i17] = 0.0f;
    }
    #pragma unroll
    for (int i18 = 0; i18 < 128; ++i18) {
        o[i18] = 0.0f;
    }
    const int whole = min(max(block_i * 128 - 8064, 0) / 64, max(block_i * 128 - 8191, 0) / 64);
    #pragma unroll 1
    for (int j = 0; j < max(block_i * 128 - 8064, 0) / 64; ++j) {
        cp_async_wait<0>();
        __syncthreads();  // q_sh is written before it is read
        if (j + 1 < max(block_i * 128 - 8064, 0) / 64) {

            // load k to k_sh: Move(1, 1, 64, 128)(GL, SH)(Block)
            #pragma unroll
            for (int r = 0; r < 8; ++r) {
                cp_async_16B(&k_sh[(j + 1) % 2 * 8192 + r * 1024 + thread / 16 * 128 + (thread_d ^ thread / 16) * 8], &k[block_h * 524288 + j * 8192 + r * 1024 + thread / 16 * 128 + thread_d * 8 + 8192]);
            }

            // load v to v_sh: Move(1, 1, 64, 128)(GL, SH)(Block)
            #pragma unroll
            for (int r2 = 0; r2 < 8; ++r2) {
                cp_async_16B(&v_sh[(j + 1) % 2 * 8192 + r2 * 1024 + thread / 16 * 128 + (thread_d ^ thread / 16) * 8], &v[block_h * 524288 + j * 8192 + r2 * 1024 + thread / 16 * 128 + thread_d * 8 + 8192]);
            }
        }
        cp_async_commit();

        // s: add by atoms

        // Init(0)(RF)(Warp)
        #pragma unroll
        for (int i = 0; i < 64; ++i) {
            s[i] = 0.0f;
        }
        #pragma unroll
        for (int k2 = 0; k2 < 8; ++k2) {

            // load q_sh to q_fr: Move(1, 1, 32, 16)(SH, FR)(Warp)
            #pragma unroll
            for (int m4 = 0; m4 < 2; ++m4) {
                ldmatrix_x4(&q_fr[m4 * 8], &q_sh[warp * 4096 + m4 * 2048 + thread % 16 * 128 + (k2 * 2 + thread / 16 % 2 ^ thread % 8) * 8]);
            }

            // load k_sh to k_fr: Move(1, 1, 16, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n3 = 0; n3 < 4; ++n3) {
                ldmatrix_x4(&k_fr[n3 * 8], &k_sh[j % 2 * 8192 + n3 * 2048 + thread % 8 * 128 + thread / 16 % 2 * 1024 + (k2 * 2 + thread / 8 % 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int m = 0; m < 2; ++m) {
                #pragma unroll
                for (int n = 0; n < 8; ++n) {
                    mma_m16n8k16_f32_bf16(&s[m * 32 + n * 4], &q_fr[m * 8], &k_fr[n * 4]);
                }
            }
        }

        // top: max over j
        #pragma unroll
        for (int i3 = 0; i3 < 4; ++i3) {
            top_chunk[i3] = __int_as_float(0xff800000);
        }
        if (j < whole) {
            #pragma unroll
            for (int i2 = 0; i2 < 4; ++i2) {
                #pragma unroll
                for (int j2 = 0; j2 < 16; ++j2) {
                    top_chunk[i2] = fmaxf_nan(top_chunk[i2], s[i2 % 2 * 2 + i2 / 2 * 32 + j2 % 2 + j2 / 2 * 4]);
                }
            }
        }
        if (whole <= j) {
            #pragma unroll
            for (int i2 = 0; i2 < 4; ++i2) {
                #pragma unroll
                for (int j2 = 0; j2 < 16; ++j2) {
                    if (j * 64 + thread % 4 * 2 + j2 % 2 + j2 / 2 * 8 + 8191 < block_i * 128 + warp * 32 + thread / 4 % 8 + i2 * 8) top_chunk[i2] = fmaxf_nan(top_chunk[i2], s[i2 % 2 * 2 + i2 / 2 * 32 + j2 % 2 + j2 / 2 * 4]);
                }
            }
        }
        #pragma unroll
        for (int i4 = 0; i4 < 4; ++i4) {
            shuffle_4B(&other[0], &top_chunk[i4], thread % 32 ^ 2);
            top_chunk[i4] = fmaxf_nan(top_chunk[i4], other[0]);
        }
        #pragma unroll
        for (int i5 = 0; i5 < 4; ++i5) {
            shuffle_4B(&other2[0], &top_chunk[i5], thread % 32 ^ 1);
            top_chunk[i5] = fmaxf_nan(top_chunk[i5], other2[0]);
        }
        #pragma unroll
        for (int i6 = 0; i6 < 4; ++i6) {
            top_chunk2[i6] = __fmul_rn(top_chunk[i6], 0.12751743f);
        }
        if (j != 0) {
            outgrown[0] = 5.9604645e-08f <= exp2_approx(top[0] - fmaxf_nan(top[0], top_chunk2[0])) ? (5.9604645e-08f <= exp2_approx(top[1] - fmaxf_nan(top[1], top_chunk2[1])) ? (5.9604645e-08f <= exp2_approx(top[2] - fmaxf_nan(top[2], top_chunk2[2])) ? (5.9604645e-08f <= exp2_approx(top[3] - fmaxf_nan(top[3], top_chunk2[3])) ? 0 : 1) : 1) : 1) : 1;
        }
        const int again = j != 0 ? __any_sync(0xffffffff, outgrown[0]) : 1;
        if (again == 1) {

            // top: the value that others follow

            // top_before: f32 in top_before_rf
            #pragma unroll
            for (int i7 = 0; i7 < 4; ++i7) {
                top_before_rf[i7] = top[i7];
            }
            #pragma unroll
            for (int i8 = 0; i8 < 4; ++i8) {
                top[i8] = fmaxf_nan(top[i8], top_chunk2[i8]);
            }

            // top_factor: f32 in top_factor_rf
            #pragma unroll
            for (int i9 = 0; i9 < 4; ++i9) {
                top_factor_rf[i9] = top_before_rf[i9] == __int_as_float(0xff800000) ? 0.0f : exp2_approx(top_before_rf[i9] - top[i9]);
            }

            // top_finite: f32 in top_finite_rf
            #pragma unroll
            for (int i10 = 0; i10 < 4; ++i10) {
                top_finite_rf[i10] = top[i10] == __int_as_float(0xff800000) ? 0.0f : top[i10];
            }
            #pragma unroll
            for (int i14 = 0; i14 < 4; ++i14) {
                total[i14] = __fmul_rn(total[i14], top_factor_rf[i14]);
            }
        }
        #pragma unroll
        for (int i11 = 0; i11 < 4; ++i11) {
            #pragma unroll
            for (int j3 = 0; j3 < 8; ++j3) {

                // part: f32 in part_rf
                #pragma unroll
                for (int e = 0; e < 2; ++e) {
                    part_rf[e] = exp2_approx((j * 64 + thread % 4 * 2 + e + j3 * 8 + 8191 < block_i * 128 + warp * 32 + thread / 4 % 8 + i11 * 8) != 0 ? fmaf(s[i11 % 2 * 2 + i11 / 2 * 32 + e + j3 * 4], 0.12751743f, -top_finite_rf[i11]) : __int_as_float(0xff800000));
                }

                // total: add over j
                #pragma unroll
                for (int e2 = 0; e2 < 2; ++e2) {
                    total[i11] = total[i11] + part_rf[e2];
                }

                // part_a: bf16 in part_a_fr
                #pragma unroll
                for (int e3 = 0; e3 < 1; ++e3) {
                    put_pair(&part_a_fr[i11 % 2 * 2 + i11 / 2 * 8 + e3 * 2 + j3 % 2 * 4 + j3 / 2 * 16], floats_to_bf16_pair(part_rf[e3 * 2], part_rf[e3 * 2 + 1]));
                }
            }
        }
        if (again == 1) {

            // o: what was summed is corrected
            #pragma unroll
            for (int i15 = 0; i15 < 4; ++i15) {
                #pragma unroll
                for (int e4 = 0; e4 < 32; ++e4) {
                    o[i15 % 2 * 2 + i15 / 2 * 64 + e4 % 2 + e4 / 2 * 4] = __fmul_rn(o[i15 % 2 * 2 + i15 / 2 * 64 + e4 % 2 + e4 / 2 * 4], top_factor_rf[i15]);
                }
            }
        }

        // o: add by atoms
        #pragma unroll
        for (int k11 = 0; k11 < 4; ++k11) {

            // load v_sh to v_fr: Move(1, 1, 16, 128)(SH, FR)(Warp)
            #pragma unroll
            for (int n8 = 0; n8 < 8; ++n8) {
                ldmatrix_x4_trans(&v_fr[n8 * 8], &v_sh[j % 2 * 8192 + k11 * 2048 + thread % 16 * 128 + (n8 * 2 + thread / 16 % 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int m7 = 0; m7 < 2; ++m7) {
                #pragma unroll
                for (int n6 = 0; n6 < 16; ++n6) {
                    mma_m16n8k16_f32_bf16(&o[m7 * 64 + n6 * 4], &part_a_fr[k11 * 16 + m7 * 8], &v_fr[n6 * 4]);
                }
            }
        }
    }
    cp_async_wait<0>();
    #pragma unroll
    for (int i19 = 0; i19 < 4; ++i19) {
        shuffle_4B(&other3[0], &total[i19], thread % 32 ^ 2);
        total[i19] = total[i19] + other3[0];
    }
    #pragma unroll
    for (int i20 = 0; i20 < 4; ++i20) {
        shuffle_4B(&other4[0], &total[i20], thread % 32 ^ 1);
        total[i20] = total[i20] + other4[0];
    }

    // inverse: f32 in inverse_rf
    #pragma unroll
    for (int i21 = 0; i21 < 4; ++i21) {
        inverse_rf[i21] = total[i21] <= 0.0f ? 0.0f : 1.0f / total[i21];
    }

    // y: bf16 in y_rf
    #pragma unroll
    for (int i22 = 0; i22 < 4; ++i22) {
        #pragma unroll
        for (int e5 = 0; e5 < 32; ++e5) {
            y_rf[i22 % 2 * 2 + i22 / 2 * 64 + e5 % 2 + e5 / 2 * 4] = float_to_bf16(__fmul_rn(o[i22 % 2 * 2 + i22 / 2 * 64 + e5 % 2 + e5 / 2 * 4], inverse_rf[i22]));
        }
    }

    // store y: Move(1, 1, 128, 128)(RF, GL)(Block)
    #pragma unroll
    for (int i23 = 0; i23 < 4; ++i23) {
        #pragma unroll
        for (int e6 = 0; e6 < 16; ++e6) {
            copy_4B(&y[block_h * 1572864 + block_i * 16384 + warp * 4096 + thread / 4 % 8 * 128 + i23 * 1024 + thread % 4 * 2 + e6 * 8], &y_rf[i23 % 2 * 2 + i23 / 2 * 64 + e6 * 4]);
        }
    }
}

struct bf16 { unsigned short bits; };
struct e4m3 { unsigned char bits; };

__device__ __forceinline__ unsigned short floats_to_e4m3_pair(float low, float high) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}

template <typename T>
__device__ __forceinline__ void put_bytes(T* place, unsigned short pair) {
    *reinterpret_cast<unsigned short*>(place) = pair;
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

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void ldmatrix_x4(void* registers, const void* row) {
    unsigned* d = static_cast<unsigned*>(registers);
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(address));
}

__device__ __forceinline__ void mma_m16n8k32_f32_e4m3(void* c_registers, const void* a_registers, const void* b_registers) {
    float* d = static_cast<float*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    const unsigned* b = static_cast<const unsigned*>(b_registers);
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void shuffle_4B(void* dst, const void* src, int lane) {
    *static_cast<unsigned*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned*>(src), lane);
}

__device__ __forceinline__ void copy_2B(void* dst, const void* src) {
    *static_cast<unsigned short*>(dst) = *static_cast<const unsigned short*>(src);
}

extern "C" __global__ void __launch_bounds__(256)
mma_1x1x128x64_e4m3_bf16_f32(
    const e4m3* __restrict__ q,
    const e4m3* __restrict__ k,
    const e4m3* __restrict__ v,
    const float* __restrict__ q_scale,
    const float* __restrict__ k_scale,
    const float* __restrict__ v_scale,
    bf16* __restrict__ y0,
    float* __restrict__ lse) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    e4m3* q_sh = reinterpret_cast<e4m3*>(shared);
    e4m3* k_sh = reinterpret_cast<e4m3*>(shared + 16384);
    e4m3* v_sh = reinterpret_cast<e4m3*>(shared + 32768);
    float q_rf[1];
    float k_rf[1];
    float worth_rf[1];
    float top[2];
    float total[2];
    alignas(16) float o[64];
    alignas(16) float s[32];
    alignas(16) e4m3 q_fr[16];
    alignas(16) e4m3 k_fr[64];
    alignas(16) e4m3 part_a_fr[32];
    alignas(16) e4m3 v_fr[128];
    float top_unscaled[2];
    float top_chunk_rf[2];
    float top_before_rf[2];
    float top_factor_rf[2];
    float top_finite_rf[2];
    float part_rf[32];
    alignas(16) e4m3 v_rf[64];
    float v_rf2[1];
    float inverse_rf[2];
    alignas(16) bf16 y0_rf[64];
    float lse_rf[2];
    float part[1];
    float other[1];
    float other2[1];
    alignas(16) e4m3 v_sh_vec[16];
    float other3[1];
    float other4[1];
    const int block_b = block / 128;
    const int block_h = block / 8 % 16;
    const int block_i = block % 8;
    const int warp = thread / 32;
    const int thread_d = thread % 8;
    const int thread_j = thread / 2 % 4;
    const int thread_e = thread % 2 + thread / 8 * 2;

    // Program(1, 1, 128, 1024, 128, 128)(8 GL)(Block)

    // load q to q_sh: Move(1, 1, 128, 128)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 4; ++r2) {
        cp_async_16B(&q_sh[r2 * 4096 + thread / 8 * 128 + (thread_d ^ thread / 8 % 8) * 16], &q[block_b * 2097152 + block_h * 131072 + block_i * 16384 + r2 * 4096 + thread / 8 * 128 + thread_d * 16]);
    }
    cp_async_commit();

    // load q_scale to q_rf: Move(1)(GL, RF)(Block)
    copy_4B(&q_rf[0], &q_scale[block_h]);

    // load k_scale to k_rf: Move(1)(GL, RF)(Block)
    copy_4B(&k_rf[0], &k_scale[block_h]);

    // worth: f32 in worth_rf
    part[0] = __fmul_rn(__fmul_rn(0.12751743f, q_rf[0]), k_rf[0]);
    worth_rf[0] = 0.0f <= part[0] ? fminf_nan(fmaxf_nan(part[0], 1e-30f), 1e+30f) : __int_as_float(0x7fc00000);

    // load k to k_sh: Move(1, 1, 64, 128)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        cp_async_16B(&k_sh[r * 4096 + thread / 8 * 128 + (thread_d ^ thread / 8 % 8) * 16], &k[block_b * 2097152 + block_h * 131072 + r * 4096 + thread / 8 * 128 + thread_d * 16]);
    }
    cp_async_commit();

    // load v to v_rf: Move(1, 1, 64, 128)(GL, RF)(Block)
    if (thread < 128) {
        #pragma unroll
        for (int j6 = 0; j6 < 16; ++j6) {
            copy_4B(&v_rf[j6 * 4], &v[block_b * 2097152 + block_h * 131072 + thread_j * 2048 + j6 * 128 + thread_e * 4]);
        }
    }

    // load v to v_sh: Move(1, 1, 64, 128)(GL, SH)(Block)
    if (thread < 128) {
        #pragma unroll
        for (int e2 = 0; e2 < 4; ++e2) {
            #pragma unroll
            for (int e3 = 0; e3 < 16; ++e3) {
                v_sh_vec[e3] = v_rf[e2 + e3 * 4];
            }
            copy_16B(&v_sh[thread_j * 16 + thread_e * 320 + e2 * 80], &v_sh_vec[0]);
        }
    }
    #pragma unroll
    for (int i16 = 0; i16 < 2; ++i16) {
        top[i16] = __int_as_float(0xff800000);
    }
    #pragma unroll
    for (int i17 = 0; i17 < 2; ++i17) {
        total[i17] = 0.0f;
    }
    #pragma unroll
    for (int i18 = 0; i18 < 64; ++i18) {
        o[i18] = 0.0f;
    }
    #pragma unroll 1
    for (int j = 0; j < 16; ++j) {
        cp_async_wait<0>();
        __syncthreads();  // q_sh is written before it is read
        if (j < 15) {

            // load k to k_sh: Move(1, 1, 64, 128)(GL, SH)(Block)
            #pragma unroll
            for (int r = 0; r < 2; ++r) {
                cp_async_16B(&k_sh[(j + 1) % 2 * 8192 + r * 4096 + thread / 8 * 128 + (thread_d ^ thread / 8 % 8) * 16], &k[block_b * 2097152 + block_h * 131072 + j * 8192 + r * 4096 + thread / 8 * 128 + thread_d * 16 + 8192]);
            }

            // load v to v_rf: Move(1, 1, 64, 128)(GL, RF)(Block)
            if (thread < 128) {
                #pragma unroll
                for (int j6 = 0; j6 < 16; ++j6) {
                    copy_4B(&v_rf[j6 * 4], &v[block_b * 2097152 + block_h * 131072 + j * 8192 + thread_j * 2048 + j6 * 128 + thread_e * 4 + 8192]);
                }
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

            // load q_sh to q_fr: Move(1, 1, 16, 32)(SH, FR)(Warp)
            ldmatrix_x4(&q_fr[0], &q_sh[warp * 2048 + thread % 16 * 128 + (k2 * 2 + thread / 16 % 2 ^ thread % 8) * 16]);

            // load k_sh to k_fr: Move(1, 1, 32, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n3 = 0; n3 < 4; ++n3) {
                ldmatrix_x4(&k_fr[n3 * 16], &k_sh[j % 2 * 8192 + n3 * 2048 + thread % 8 * 128 + thread / 16 % 2 * 1024 + (k2 * 2 + thread / 8 % 2 ^ thread % 8) * 16]);
            }
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                mma_m16n8k32_f32_e4m3(&s[n * 4], &q_fr[0], &k_fr[n * 8]);
            }
        }

        // top: max over j
        #pragma unroll
        for (int i3 = 0; i3 < 2; ++i3) {
            top_unscaled[i3] = __int_as_float(0xff800000);
        }
        #pragma unroll
        for (int i2 = 0; i2 < 2; ++i2) {
            #pragma unroll
            for (int j2 = 0; j2 < 16; ++j2) {
                top_unscaled[i2] = fmaxf_nan(top_unscaled[i2], s[i2 * 2 + j2 % 2 + j2 / 2 * 4]);
            }
        }
        #pragma unroll
        for (int i4 = 0; i4 < 2; ++i4) {
            shuffle_4B(&other[0], &top_unscaled[i4], thread % 32 ^ 2);
            top_unscaled[i4] = fmaxf_nan(top_unscaled[i4], other[0]);
        }
        #pragma unroll
        for (int i5 = 0; i5 < 2; ++i5) {
            shuffle_4B(&other2[0], &top_unscaled[i5], thread % 32 ^ 1);
            top_unscaled[i5] = fmaxf_nan(top_unscaled[i5], other2[0]);
        }

        // top_chunk: f32 in top_chunk_rf
        #pragma unroll
        for (int i6 = 0; i6 < 2; ++i6) {
            top_chunk_rf[i6] = __fmul_rn(top_unscaled[i6], worth_rf[0]);
        }

        // top_before: f32 in top_before_rf
        #pragma unroll
        for (int i7 = 0; i7 < 2; ++i7) {
            top_before_rf[i7] = top[i7];
        }
        #pragma unroll
        for (int i8 = 0; i8 < 2; ++i8) {
            top[i8] = fmaxf_nan(top[i8], top_chunk_rf[i8]);
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
                part_rf[i11 * 2 + j3 % 2 + j3 / 2 * 4] = exp2_approx(fmaf(s[i11 * 2 + j3 % 2 + j3 / 2 * 4], worth_rf[0], -(top_finite_rf[i11] - 8.0f)));
            }
        }

        // total: add over j
        #pragma unroll
        for (int i13 = 0; i13 < 2; ++i13) {
            total[i13] = __fmul_rn(total[i13], top_factor_rf[i13]);
        }
        #pragma unroll
        for (int i12 = 0; i12 < 2; ++i12) {
            #pragma unroll
            for (int j4 = 0; j4 < 16; ++j4) {
                total[i12] = total[i12] + part_rf[i12 * 2 + j4 % 2 + j4 / 2 * 4];
            }
        }

        // part_a: e4m3 in part_a_fr
        #pragma unroll
        for (int i14 = 0; i14 < 2; ++i14) {
            #pragma unroll
            for (int j5 = 0; j5 < 8; ++j5) {
                put_bytes(&part_a_fr[i14 * 4 + j5 % 2 * 2 + j5 / 2 * 8], floats_to_e4m3_pair(part_rf[i14 * 2 + j5 * 4], part_rf[i14 * 2 + j5 * 4 + 1]));
            }
        }

        // o: what was summed is corrected
        #pragma unroll
        for (int i15 = 0; i15 < 2; ++i15) {
            #pragma unroll
            for (int e = 0; e < 32; ++e) {
                o[i15 * 2 + e % 2 + e / 2 * 4] = __fmul_rn(o[i15 * 2 + e % 2 + e / 2 * 4], top_factor_rf[i15]);
            }
        }

        // o: add by atoms
        #pragma unroll
        for (int k11 = 0; k11 < 2; ++k11) {

            // load v_sh to v_fr: Move(1, 1, 32, 128)(SH, FR)(Warp)
            #pragma unroll
            for (int n8 = 0; n8 < 16; ++n8) {
                #pragma unroll
                for (int k18 = 0; k18 < 4; ++k18) {
                    copy_2B(&v_fr[n8 * 8 + k18 * 2], &v_sh[j % 2 * 10240 + k11 * 32 + thread % 4 * 2 + k18 * 8 + thread / 4 % 8 * 80 + n8 * 640]);
                }
            }
            #pragma unroll
            for (int n6 = 0; n6 < 16; ++n6) {
                mma_m16n8k32_f32_e4m3(&o[n6 * 4], &part_a_fr[k11 * 16], &v_fr[n6 * 8]);
            }
        }
        if (j < 15) {

            // load v to v_sh: Move(1, 1, 64, 128)(GL, SH)(Block)
            if (thread < 128) {
                #pragma unroll
                for (int e2 = 0; e2 < 4; ++e2) {
                    #pragma unroll
                    for (int e3 = 0; e3 < 16; ++e3) {
                        v_sh_vec[e3] = v_rf[e2 + e3 * 4];
                    }
                    copy_16B(&v_sh[(j + 1) % 2 * 10240 + thread_j * 16 + thread_e * 320 + e2 * 80], &v_sh_vec[0]);
                }
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

    // load v_scale to v_rf2: Move(1)(GL, RF)(Block)
    copy_4B(&v_rf2[0], &v_scale[block_h]);

    // y0: bf16 in y0_rf
    #pragma unroll
    for (int i22 = 0; i22 < 2; ++i22) {
        #pragma unroll
        for (int e4 = 0; e4 < 32; ++e4) {
            y0_rf[i22 * 2 + e4 % 2 + e4 / 2 * 4] = float_to_bf16(__fmul_rn(__fmul_rn(o[i22 * 2 + e4 % 2 + e4 / 2 * 4], inverse_rf[i22]), v_rf2[0]));
        }
    }

    // store y0: Move(1, 1, 128, 128)(RF, GL)(Block)
    #pragma unroll
    for (int i23 = 0; i23 < 2; ++i23) {
        #pragma unroll
        for (int e5 = 0; e5 < 16; ++e5) {
            copy_4B(&y0[block_b * 2097152 + block_h * 131072 + block_i * 16384 + warp * 2048 + thread / 4 % 8 * 128 + i23 * 1024 + thread % 4 * 2 + e5 * 8], &y0_rf[i23 * 2 + e5 * 4]);
        }
    }

    // lse: f32 in lse_rf
    #pragma unroll
    for (int i24 = 0; i24 < 2; ++i24) {
        lse_rf[i24] = __fmul_rn(top[i24] + log2f(total[i24]) - 8.0f, 0.6931472f);
    }

    // store lse: Move(1, 1, 128)(RF, GL)(Block)
    if (thread % 4 == 0) {
        #pragma unroll
        for (int i25 = 0; i25 < 2; ++i25) {
            copy_4B(&lse[block_b * 16384 + block_h * 1024 + block_i * 128 + warp * 16 + thread / 4 % 8 + i25 * 8], &lse_rf[i25]);
        }
    }
}

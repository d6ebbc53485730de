struct bf16 { unsigned short bits; };

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

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
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
decode_1x1x16x1x256x16_k16_k2_bf16_f32(
    const bf16* __restrict__ q,
    const bf16* __restrict__ k,
    bf16* __restrict__ y0,
    float* __restrict__ lse,
    float* top_parts,
    float* total_parts,
    float* o_parts,
    int* arrived) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    bf16* q_sh = reinterpret_cast<bf16*>(shared);
    bf16* k_sh = reinterpret_cast<bf16*>(shared + 37376);
    float* top_sh = reinterpret_cast<float*>(shared + 112128);
    float* total_sh = reinterpret_cast<float*>(shared + 112640);
    float* top_sh2 = reinterpret_cast<float*>(shared + 113152);
    float* total_sh2 = reinterpret_cast<float*>(shared + 113664);
    float* o_sh = reinterpret_cast<float*>(shared);
    float* o_sh2 = reinterpret_cast<float*>(shared);
    alignas(16) float top[2];
    float total[2];
    alignas(16) float o[128];
    alignas(16) float s[8];
    alignas(16) bf16 q_fr[8];
    alignas(16) bf16 k_fr[8];
    alignas(16) bf16 part_a_fr[8];
    alignas(16) bf16 k_fr2[128];
    float top_chunk[2];
    float top_chunk2[2];
    float top_before_rf[2];
    float top_factor_rf[2];
    float top_finite_rf[2];
    float part_rf[8];
    float top_before[2];
    float top_factor_rf2[2];
    alignas(16) float top_part[2];
    float top_factor_rf3[2];
    alignas(16) float top_part2[2];
    float top_factor_rf4[2];
    float inverse_rf[2];
    alignas(16) bf16 y0_rf[128];
    float lse_rf[2];
    float other[1];
    float other2[1];
    float other3[1];
    float other4[1];
    float other5[1];
    float other6[1];
    float other7[1];
    alignas(16) float other8[2];
    float other9[1];
    float other10[1];
    float other11[1];
    float other12[1];
    float other13[1];
    const int way = block % 16;
    const int tile = block / 16;
    const int block_b = tile / 2;
    const int block_e = tile % 2;
    const int warp = thread / 32;
    const int lane = thread % 32;

    // Program(1, 1, 16, 1, 4096, 256, 576)(5 GL)(Block)

    // Program(1, 1, 16, 1, 128, 256, 576)(5 GL)(Warp)

    // load q to q_sh: Move(1, 1, 16, 1, 576)(GL, SH)(Warp)
    #pragma unroll
    for (int r2 = 0; r2 < 36; ++r2) {
        cp_async_16B(&q_sh[thread / 32 * 9344 + (lane + r2 * 32) / 72 * 584 + (lane + r2 * 32) % 72 * 8], &q[block_b * 9216 + lane * 8 + r2 * 256]);
    }

    // load k to k_sh: Move(1, 1, 16, 576)(GL, SH)(Warp)
    #pragma unroll
    for (int r = 0; r < 36; ++r) {
        cp_async_16B(&k_sh[thread / 32 * 18688 + (lane + r * 32) / 72 * 584 + (lane + r * 32) % 72 * 8], &k[block_b * 2359296 + way * 147456 + warp * 73728 + lane * 8 + r * 256]);
    }
    cp_async_commit();
    #pragma unroll
    for (int i6 = 0; i6 < 2; ++i6) {
        top[i6] = __int_as_float(0xff800000);
    }
    #pragma unroll
    for (int i7 = 0; i7 < 2; ++i7) {
        total[i7] = 0.0f;
    }
    #pragma unroll
    for (int i8 = 0; i8 < 128; ++i8) {
        o[i8] = 0.0f;
    }
    #pragma unroll 1
    for (int j = 0; j < 8; ++j) {
        cp_async_wait<0>();
        __syncwarp();  // q_sh is written before it is read
        if (j < 7) {

            // load k to k_sh: Move(1, 1, 16, 576)(GL, SH)(Warp)
            #pragma unroll
            for (int r = 0; r < 36; ++r) {
                cp_async_16B(&k_sh[(j + 1) % 2 * 9344 + thread / 32 * 18688 + (lane + r * 32) / 72 * 584 + (lane + r * 32) % 72 * 8], &k[block_b * 2359296 + way * 147456 + warp * 73728 + j * 9216 + lane * 8 + r * 256 + 9216]);
            }
        }
        cp_async_commit();

        // s: add by atoms

        // Init(0)(RF)(Warp)
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            s[i] = 0.0f;
        }
        #pragma unroll
        for (int k2 = 0; k2 < 36; ++k2) {

            // load q_sh to q_fr: Move(1, 1, 1, 16, 16)(SH, FR)(Warp)
            ldmatrix_x4(&q_fr[0], &q_sh[thread / 32 * 9344 + thread % 16 * 584 + k2 * 16 + thread / 16 % 2 * 8]);

            // load k_sh to k_fr: Move(1, 1, 16, 16)(SH, FR)(Warp)
            ldmatrix_x4(&k_fr[0], &k_sh[j % 2 * 9344 + thread / 32 * 18688 + k2 * 16 + thread / 8 % 2 * 8 + thread % 8 * 584 + thread / 16 % 2 * 4672]);
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                mma_m16n8k16_f32_bf16(&s[n * 4], &q_fr[0], &k_fr[n * 4]);
            }
        }

        // top: max over j
        #pragma unroll
        for (int i2 = 0; i2 < 2; ++i2) {
            top_chunk[i2] = __int_as_float(0xff800000);
        }
        #pragma unroll
        for (int g = 0; g < 2; ++g) {
            #pragma unroll
            for (int j2 = 0; j2 < 4; ++j2) {
                top_chunk[g] = fmaxf_nan(top_chunk[g], s[g * 2 + j2 % 2 + j2 / 2 * 4]);
            }
        }
        #pragma unroll
        for (int i3 = 0; i3 < 2; ++i3) {
            shuffle_4B(&other[0], &top_chunk[i3], thread % 32 ^ 2);
            top_chunk[i3] = fmaxf_nan(top_chunk[i3], other[0]);
        }
        #pragma unroll
        for (int i4 = 0; i4 < 2; ++i4) {
            shuffle_4B(&other2[0], &top_chunk[i4], thread % 32 ^ 1);
            top_chunk[i4] = fmaxf_nan(top_chunk[i4], other2[0]);
        }
        #pragma unroll
        for (int i5 = 0; i5 < 2; ++i5) {
            top_chunk2[i5] = __fmul_rn(top_chunk[i5], 0.060112294f);
        }

        // top_before: f32 in top_before_rf
        #pragma unroll
        for (int g2 = 0; g2 < 2; ++g2) {
            top_before_rf[g2] = top[g2];
        }
        #pragma unroll
        for (int g3 = 0; g3 < 2; ++g3) {
            top[g3] = fmaxf_nan(top[g3], top_chunk2[g3]);
        }

        // top_factor: f32 in top_factor_rf
        #pragma unroll
        for (int g4 = 0; g4 < 2; ++g4) {
            top_factor_rf[g4] = top_before_rf[g4] == __int_as_float(0xff800000) ? 0.0f : exp2_approx(top_before_rf[g4] - top[g4]);
        }

        // top_finite: f32 in top_finite_rf
        #pragma unroll
        for (int g5 = 0; g5 < 2; ++g5) {
            top_finite_rf[g5] = top[g5] == __int_as_float(0xff800000) ? 0.0f : top[g5];
        }

        // part: f32 in part_rf
        #pragma unroll
        for (int g6 = 0; g6 < 2; ++g6) {
            #pragma unroll
            for (int j3 = 0; j3 < 4; ++j3) {
                part_rf[g6 * 2 + j3 % 2 + j3 / 2 * 4] = exp2_approx(fmaf(s[g6 * 2 + j3 % 2 + j3 / 2 * 4], 0.060112294f, -top_finite_rf[g6]));
            }
        }

        // total: add over j
        #pragma unroll
        for (int g8 = 0; g8 < 2; ++g8) {
            total[g8] = __fmul_rn(total[g8], top_factor_rf[g8]);
        }
        #pragma unroll
        for (int g7 = 0; g7 < 2; ++g7) {
            #pragma unroll
            for (int j4 = 0; j4 < 4; ++j4) {
                total[g7] = total[g7] + part_rf[g7 * 2 + j4 % 2 + j4 / 2 * 4];
            }
        }

        // part_a: bf16 in part_a_fr
        #pragma unroll
        for (int g9 = 0; g9 < 2; ++g9) {
            #pragma unroll
            for (int j5 = 0; j5 < 4; ++j5) {
                part_a_fr[g9 * 2 + j5 % 2 + j5 / 2 * 4] = float_to_bf16(part_rf[g9 * 2 + j5 % 2 + j5 / 2 * 4]);
            }
        }

        // o: what was summed is corrected
        #pragma unroll
        for (int g10 = 0; g10 < 2; ++g10) {
            #pragma unroll
            for (int e = 0; e < 64; ++e) {
                o[g10 * 2 + e % 2 + e / 2 * 4] = __fmul_rn(o[g10 * 2 + e % 2 + e / 2 * 4], top_factor_rf[g10]);
            }
        }

        // o: add by atoms
        #pragma unroll
        for (int k11 = 0; k11 < 1; ++k11) {

            // load k_sh to k_fr2: Move(1, 1, 16, 256)(SH, FR)(Warp)
            #pragma unroll
            for (int n7 = 0; n7 < 16; ++n7) {
                ldmatrix_x4_trans(&k_fr2[n7 * 8], &k_sh[j % 2 * 9344 + thread / 32 * 18688 + k11 * 9344 + thread % 16 * 584 + block_e * 256 + n7 * 16 + thread / 16 % 2 * 8]);
            }
            #pragma unroll
            for (int n5 = 0; n5 < 32; ++n5) {
                mma_m16n8k16_f32_bf16(&o[n5 * 4], &part_a_fr[k11 * 8], &k_fr2[n5 * 4]);
            }
        }
    }

    // top: max over j: units meet
    #pragma unroll
    for (int i13 = 0; i13 < 2; ++i13) {
        top_before[i13] = top[i13];
    }

    // top over 2 warps
    #pragma unroll
    for (int i9 = 0; i9 < 2; ++i9) {
        top_sh[thread / 32 * 64 + i9 * 32 + thread % 32] = top[i9];
    }
    #pragma unroll
    for (int i11 = 0; i11 < 2; ++i11) {
        top[i11] = __int_as_float(0xff800000);
    }
    __syncthreads();  // top_sh is written before it is read
    #pragma unroll
    for (int i10 = 0; i10 < 2; ++i10) {
        #pragma unroll
        for (int w = 0; w < 2; ++w) {
            other3[0] = top_sh[w * 64 + i10 * 32 + thread % 32];
            top[i10] = fmaxf_nan(top[i10], other3[0]);
        }
    }
    #pragma unroll
    for (int i12 = 0; i12 < 2; ++i12) {
        top_factor_rf2[i12] = top_before[i12] == __int_as_float(0xff800000) ? 0.0f : exp2_approx(top_before[i12] - top[i12]);
    }

    // total: add over j: units meet
    #pragma unroll
    for (int g11 = 0; g11 < 2; ++g11) {
        total[g11] = __fmul_rn(total[g11], top_factor_rf2[g11]);
    }
    #pragma unroll
    for (int i14 = 0; i14 < 2; ++i14) {
        shuffle_4B(&other4[0], &total[i14], thread % 32 ^ 2);
        total[i14] = total[i14] + other4[0];
    }
    #pragma unroll
    for (int i15 = 0; i15 < 2; ++i15) {
        shuffle_4B(&other5[0], &total[i15], thread % 32 ^ 1);
        total[i15] = total[i15] + other5[0];
    }

    // total over 2 warps
    #pragma unroll
    for (int i16 = 0; i16 < 2; ++i16) {
        total_sh[thread / 32 * 64 + i16 * 32 + thread % 32] = total[i16];
    }
    #pragma unroll
    for (int i18 = 0; i18 < 2; ++i18) {
        total[i18] = 0.0f;
    }
    __syncthreads();  // total_sh is written before it is read
    #pragma unroll
    for (int i17 = 0; i17 < 2; ++i17) {
        #pragma unroll
        for (int w2 = 0; w2 < 2; ++w2) {
            other6[0] = total_sh[w2 * 64 + i17 * 32 + thread % 32];
            total[i17] = total[i17] + other6[0];
        }
    }

    // o: add over j: units meet
    #pragma unroll
    for (int g12 = 0; g12 < 2; ++g12) {
        #pragma unroll
        for (int e2 = 0; e2 < 64; ++e2) {
            o[g12 * 2 + e2 % 2 + e2 / 2 * 4] = __fmul_rn(o[g12 * 2 + e2 % 2 + e2 / 2 * 4], top_factor_rf2[g12]);
        }
    }

    // o over 2 warps
    #pragma unroll
    for (int i19 = 0; i19 < 128; ++i19) {
        o_sh[thread / 32 * 4096 + i19 * 32 + thread % 32] = o[i19];
    }
    #pragma unroll
    for (int i21 = 0; i21 < 128; ++i21) {
        o[i21] = 0.0f;
    }
    __syncthreads();  // o_sh is written before it is read
    #pragma unroll 1
    for (int w3 = 0; w3 < 2; ++w3) {
        #pragma unroll
        for (int i20 = 0; i20 < 128; ++i20) {
            other7[0] = o_sh[w3 * 4096 + i20 * 32 + thread % 32];
            o[i20] = o[i20] + other7[0];
        }
    }

    // top, total, o over 16 blocks
    if (thread / 32 == 0) {
        copy_8B(&top_parts[tile * 1024 + way * 64 + thread % 32 * 2], &top[0]);
    }
    if (thread / 32 == 0) {
        #pragma unroll
        for (int i27 = 0; i27 < 2; ++i27) {
            copy_4B(&total_parts[tile * 1024 + way * 64 + i27 * 32 + thread % 32], &total[i27]);
        }
    }
    if (thread / 32 == 0) {
        #pragma unroll
        for (int i33 = 0; i33 < 128; ++i33) {
            copy_4B(&o_parts[tile * 65536 + way * 4096 + i33 * 32 + thread % 32], &o[i33]);
        }
    }
    __syncthreads();  // all threads have written top_parts and total_parts and o_parts
    const int last = count_in(&arrived[tile], 16);
    if (last) {

        // top, total, o over 16 blocks: the last block combines them
        #pragma unroll
        for (int i23 = 0; i23 < 2; ++i23) {
            top[i23] = __int_as_float(0xff800000);
        }
        #pragma unroll
        for (int u = 0; u < 8; ++u) {
            copy_8B(&other8[0], &top_parts[tile * 1024 + u * 128 + thread * 2]);
            #pragma unroll
            for (int i22 = 0; i22 < 2; ++i22) {
                top[i22] = fmaxf_nan(top[i22], other8[i22]);
            }
        }

        // top over 2 warps
        #pragma unroll
        for (int i24 = 0; i24 < 2; ++i24) {
            top_sh2[thread / 32 * 64 + i24 * 32 + thread % 32] = top[i24];
        }
        #pragma unroll
        for (int i26 = 0; i26 < 2; ++i26) {
            top[i26] = __int_as_float(0xff800000);
        }
        __syncthreads();  // top_sh2 is written before it is read
        #pragma unroll
        for (int i25 = 0; i25 < 2; ++i25) {
            #pragma unroll
            for (int w4 = 0; w4 < 2; ++w4) {
                other9[0] = top_sh2[w4 * 64 + i25 * 32 + thread % 32];
                top[i25] = fmaxf_nan(top[i25], other9[0]);
            }
        }
        #pragma unroll
        for (int i29 = 0; i29 < 2; ++i29) {
            total[i29] = 0.0f;
        }
        #pragma unroll
        for (int u2 = 0; u2 < 8; ++u2) {
            copy_8B(&top_part[0], &top_parts[tile * 1024 + u2 * 128 + thread * 2]);
            #pragma unroll
            for (int i28 = 0; i28 < 2; ++i28) {
                top_factor_rf3[i28] = top_part[i28] == __int_as_float(0xff800000) ? 0.0f : exp2_approx(top_part[i28] - top[i28]);
            }
            #pragma unroll
            for (int g13 = 0; g13 < 2; ++g13) {
                copy_4B(&other10[0], &total_parts[tile * 1024 + u2 * 128 + thread / 32 * 64 + g13 * 32 + thread % 32]);
                other10[0] = __fmul_rn(other10[0], top_factor_rf3[g13]);
                total[g13] = total[g13] + other10[0];
            }
        }

        // total over 2 warps
        #pragma unroll
        for (int i30 = 0; i30 < 2; ++i30) {
            total_sh2[thread / 32 * 64 + i30 * 32 + thread % 32] = total[i30];
        }
        #pragma unroll
        for (int i32 = 0; i32 < 2; ++i32) {
            total[i32] = 0.0f;
        }
        __syncthreads();  // total_sh2 is written before it is read
        #pragma unroll
        for (int i31 = 0; i31 < 2; ++i31) {
            #pragma unroll
            for (int w5 = 0; w5 < 2; ++w5) {
                other11[0] = total_sh2[w5 * 64 + i31 * 32 + thread % 32];
                total[i31] = total[i31] + other11[0];
            }
        }
        #pragma unroll
        for (int i35 = 0; i35 < 128; ++i35) {
            o[i35] = 0.0f;
        }
        #pragma unroll 1
        for (int w6 = 0; w6 < 8; ++w6) {
            copy_8B(&top_part2[0], &top_parts[tile * 1024 + w6 * 128 + thread * 2]);
            #pragma unroll
            for (int i34 = 0; i34 < 2; ++i34) {
                top_factor_rf4[i34] = top_part2[i34] == __int_as_float(0xff800000) ? 0.0f : exp2_approx(top_part2[i34] - top[i34]);
            }
            #pragma unroll
            for (int g14 = 0; g14 < 2; ++g14) {
                #pragma unroll
                for (int e3 = 0; e3 < 64; ++e3) {
                    copy_4B(&other12[0], &o_parts[tile * 65536 + w6 * 8192 + thread / 32 * 4096 + g14 * 64 + e3 % 2 * 32 + e3 / 2 * 128 + thread % 32]);
                    other12[0] = __fmul_rn(other12[0], top_factor_rf4[g14]);
                    o[g14 * 2 + e3 % 2 + e3 / 2 * 4] = o[g14 * 2 + e3 % 2 + e3 / 2 * 4] + other12[0];
                }
            }
        }

        // o over 2 warps
        #pragma unroll
        for (int i36 = 0; i36 < 128; ++i36) {
            o_sh2[thread / 32 * 4096 + i36 * 32 + thread % 32] = o[i36];
        }
        #pragma unroll
        for (int i38 = 0; i38 < 128; ++i38) {
            o[i38] = 0.0f;
        }
        __syncthreads();  // o_sh2 is written before it is read
        #pragma unroll 1
        for (int w7 = 0; w7 < 2; ++w7) {
            #pragma unroll
            for (int i37 = 0; i37 < 128; ++i37) {
                other13[0] = o_sh2[w7 * 4096 + i37 * 32 + thread % 32];
                o[i37] = o[i37] + other13[0];
            }
        }

        // inverse: f32 in inverse_rf
        #pragma unroll
        for (int g15 = 0; g15 < 2; ++g15) {
            inverse_rf[g15] = total[g15] <= 0.0f ? 0.0f : 1.0f / total[g15];
        }

        // y0: bf16 in y0_rf
        #pragma unroll
        for (int g16 = 0; g16 < 2; ++g16) {
            #pragma unroll
            for (int e4 = 0; e4 < 64; ++e4) {
                y0_rf[g16 * 2 + e4 % 2 + e4 / 2 * 4] = float_to_bf16(__fmul_rn(o[g16 * 2 + e4 % 2 + e4 / 2 * 4], inverse_rf[g16]));
            }
        }

        // store y0: Move(1, 1, 16, 1, 256)(RF, GL)(Warp)
        if (warp == 0) {
            #pragma unroll
            for (int g17 = 0; g17 < 2; ++g17) {
                #pragma unroll
                for (int e5 = 0; e5 < 32; ++e5) {
                    copy_4B(&y0[block_b * 8192 + thread / 4 % 8 * 512 + g17 * 4096 + block_e * 256 + thread % 4 * 2 + e5 * 8], &y0_rf[g17 * 2 + e5 * 4]);
                }
            }
        }

        // lse: f32 in lse_rf
        #pragma unroll
        for (int g18 = 0; g18 < 2; ++g18) {
            lse_rf[g18] = __fmul_rn(top[g18] + log2f(total[g18]), 0.6931472f);
        }

        // store lse: Move(1, 1, 16, 1)(RF, GL)(Warp)
        if (warp * 64 + thread % 4 == 0 && block_e == 0) {
            #pragma unroll
            for (int g19 = 0; g19 < 2; ++g19) {
                copy_4B(&lse[block_b * 16 + thread / 4 % 8 + g19 * 8], &lse_rf[g19]);
            }
        }
    }
}

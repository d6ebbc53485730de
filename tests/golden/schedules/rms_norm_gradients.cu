struct bf16 { unsigned short bits; };

__device__ __forceinline__ float bf16_to_float(bf16 x) {
    float y;
    asm("mov.b32 %0, {%1, %2};" : "=f"(y) : "h"(static_cast<unsigned short>(0)), "h"(x.bits));
    return y;
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

__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}

template <int pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void cp_async_or_zero_16B(void* dst, const void* src, bool read) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(src), "r"(read ? 16 : 0) : "memory");
}

__device__ __forceinline__ void shuffle_4B(void* dst, const void* src, int lane) {
    *static_cast<unsigned*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned*>(src), lane);
}

__device__ __forceinline__ int count_in(int* counter, int count) {
    unsigned before = 0;
    if (threadIdx.x == 0) {
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
            : "=r"(before) : "l"(__cvta_generic_to_global(counter)), "r"(count - 1) : "memory");
    }
    return __syncthreads_or(threadIdx.x == 0 && (int)before == count - 1);
}

extern "C" __global__ void __launch_bounds__(512)
with_sums_4096x1_k132_k2_k8_bf16_f32(
    const bf16* __restrict__ x,
    const bf16* __restrict__ dy,
    const bf16* __restrict__ gain,
    bf16* __restrict__ y0,
    float* __restrict__ y1,
    float* by_gain_parts,
    int* arrived,
    float* by_gain_parts_of_groups,
    int* arrived2) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    bf16* x_sh = reinterpret_cast<bf16*>(shared);
    bf16* dy_sh = reinterpret_cast<bf16*>(shared + 32768);
    float* mean_sum_sh = reinterpret_cast<float*>(shared + 65536);
    float* mean_sum2_sh = reinterpret_cast<float*>(shared + 65664);
    float* by_gain_sh = reinterpret_cast<float*>(shared + 65792);
    float* by_gain_sh2 = reinterpret_cast<float*>(shared);
    float* by_gain_sh3 = reinterpret_cast<float*>(shared);
    alignas(16) bf16 gain_rf[16];
    alignas(16) float by_gain[16];
    alignas(16) bf16 x_rf[16];
    alignas(16) bf16 dy_rf[16];
    float g_rf[16];
    float mean_sum[1];
    float mean_sum2[1];
    float deviation_rf[1];
    float slope_rf[1];
    alignas(16) bf16 y0_rf[16];
    float part[1];
    float other[1];
    float other2[1];
    float other3[1];
    float other4[1];
    float other5[1];
    float other6[1];
    float other7[1];
    float other8[1];
    float other9[1];
    float other10[1];
    float other11[1];
    float other12[1];
    float other13[1];
    float other14[1];
    float other15[1];
    float other16[1];
    float other17[1];
    float other18[1];
    float other19[1];
    alignas(16) float other20[16];
    float other21[1];
    alignas(16) float other22[16];
    float other23[1];
    const int group_warp__8_ = thread / 256;
    const int warp = thread / 32 % 8;
    const int lane = thread % 32;

    // Program(12288, 4096)(5 GL)(Block)

    // Program(47, 4096)(5 GL)(Group(Warp, 8))

    // Program(47, 512)(5 GL)(Warp)

    // load gain to gain_rf: Move(512)(GL, RF)(Warp)
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        copy_16B(&gain_rf[r * 8], &gain[warp * 512 + lane * 8 + r * 256]);
    }

    // load x to x_sh: Move(1, 512)(GL, SH)(Warp)
    #pragma unroll
    for (int r4 = 0; r4 < 2; ++r4) {
        cp_async_or_zero_16B(&x_sh[thread / 32 * 1024 + lane * 8 + r4 * 256], &x[block * 385024 + group_warp__8_ * 192512 + warp * 512 + lane * 8 + r4 * 256], block * 2 + group_warp__8_ < 262);
    }

    // load dy to dy_sh: Move(1, 512)(GL, SH)(Warp)
    #pragma unroll
    for (int r5 = 0; r5 < 2; ++r5) {
        cp_async_or_zero_16B(&dy_sh[thread / 32 * 1024 + lane * 8 + r5 * 256], &dy[block * 385024 + group_warp__8_ * 192512 + warp * 512 + lane * 8 + r5 * 256], block * 2 + group_warp__8_ < 262);
    }
    cp_async_commit();
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        by_gain[i] = 0.0f;
    }
    #pragma unroll 1
    for (int m = 0; m < 47; ++m) {
        cp_async_wait<0>();
        __syncwarp();  // x_sh is written before it is read
        if (m < 46) {

            // load x to x_sh: Move(1, 512)(GL, SH)(Warp)
            #pragma unroll
            for (int r4 = 0; r4 < 2; ++r4) {
                cp_async_or_zero_16B(&x_sh[(m + 1) % 2 * 512 + thread / 32 * 1024 + lane * 8 + r4 * 256], &x[block * 385024 + group_warp__8_ * 192512 + m * 4096 + warp * 512 + lane * 8 + r4 * 256 + 4096], block * 94 + group_warp__8_ * 47 + m < 12287);
            }

            // load dy to dy_sh: Move(1, 512)(GL, SH)(Warp)
            #pragma unroll
            for (int r5 = 0; r5 < 2; ++r5) {
                cp_async_or_zero_16B(&dy_sh[(m + 1) % 2 * 512 + thread / 32 * 1024 + lane * 8 + r5 * 256], &dy[block * 385024 + group_warp__8_ * 192512 + m * 4096 + warp * 512 + lane * 8 + r5 * 256 + 4096], block * 94 + group_warp__8_ * 47 + m < 12287);
            }
        }
        cp_async_commit();

        // load x_sh to x_rf: Move(1, 512)(SH, RF)(Warp)
        #pragma unroll
        for (int r2 = 0; r2 < 2; ++r2) {
            copy_16B(&x_rf[r2 * 8], &x_sh[m % 2 * 512 + thread / 32 * 1024 + lane * 8 + r2 * 256]);
        }

        // load dy_sh to dy_rf: Move(1, 512)(SH, RF)(Warp)
        #pragma unroll
        for (int r3 = 0; r3 < 2; ++r3) {
            copy_16B(&dy_rf[r3 * 8], &dy_sh[m % 2 * 512 + thread / 32 * 1024 + lane * 8 + r3 * 256]);
        }

        // g: f32 in g_rf
        #pragma unroll
        for (int n = 0; n < 16; ++n) {
            g_rf[n] = __fmul_rn(bf16_to_float(dy_rf[n]), bf16_to_float(gain_rf[n]));
        }

        // mean_sum: add over n
        mean_sum[0] = 0.0f;
        #pragma unroll
        for (int n2 = 0; n2 < 16; ++n2) {
            mean_sum[0] = fmaf(g_rf[n2], bf16_to_float(x_rf[n2]), mean_sum[0]);
        }

        // mean_sum2: add over n
        mean_sum2[0] = 0.0f;
        #pragma unroll
        for (int n3 = 0; n3 < 16; ++n3) {
            part[0] = bf16_to_float(x_rf[n3]);
            mean_sum2[0] = fmaf(part[0], part[0], mean_sum2[0]);
        }
        shuffle_4B(&other[0], &mean_sum[0], thread % 32 ^ 16);
        mean_sum[0] = mean_sum[0] + other[0];
        shuffle_4B(&other2[0], &mean_sum[0], thread % 32 ^ 8);
        mean_sum[0] = mean_sum[0] + other2[0];
        shuffle_4B(&other3[0], &mean_sum[0], thread % 32 ^ 4);
        mean_sum[0] = mean_sum[0] + other3[0];
        shuffle_4B(&other4[0], &mean_sum[0], thread % 32 ^ 2);
        mean_sum[0] = mean_sum[0] + other4[0];
        shuffle_4B(&other5[0], &mean_sum[0], thread % 32 ^ 1);
        mean_sum[0] = mean_sum[0] + other5[0];

        // mean_sum over 8 warps
        if (thread % 32 == 0) {
            mean_sum_sh[thread / 32 + m % 2 * 16] = mean_sum[0];
        }
        shuffle_4B(&other10[0], &mean_sum2[0], thread % 32 ^ 16);
        mean_sum2[0] = mean_sum2[0] + other10[0];
        shuffle_4B(&other11[0], &mean_sum2[0], thread % 32 ^ 8);
        mean_sum2[0] = mean_sum2[0] + other11[0];
        shuffle_4B(&other12[0], &mean_sum2[0], thread % 32 ^ 4);
        mean_sum2[0] = mean_sum2[0] + other12[0];
        shuffle_4B(&other13[0], &mean_sum2[0], thread % 32 ^ 2);
        mean_sum2[0] = mean_sum2[0] + other13[0];
        shuffle_4B(&other14[0], &mean_sum2[0], thread % 32 ^ 1);
        mean_sum2[0] = mean_sum2[0] + other14[0];

        // mean_sum2 over 8 warps
        if (thread % 32 == 0) {
            mean_sum2_sh[thread / 32 + m % 2 * 16] = mean_sum2[0];
        }

        // mean_sum over 8 warps, read
        mean_sum[0] = 0.0f;
        __syncthreads();  // mean_sum_sh is written before it is read
        other6[0] = mean_sum_sh[thread / 256 * 8 + thread % 8 + m % 2 * 16];
        mean_sum[0] = mean_sum[0] + other6[0];
        shuffle_4B(&other7[0], &mean_sum[0], thread % 32 ^ 4);
        mean_sum[0] = mean_sum[0] + other7[0];
        shuffle_4B(&other8[0], &mean_sum[0], thread % 32 ^ 2);
        mean_sum[0] = mean_sum[0] + other8[0];
        shuffle_4B(&other9[0], &mean_sum[0], thread % 32 ^ 1);
        mean_sum[0] = mean_sum[0] + other9[0];

        // mean_sum2 over 8 warps, read
        mean_sum2[0] = 0.0f;
        other15[0] = mean_sum2_sh[thread / 256 * 8 + thread % 8 + m % 2 * 16];
        mean_sum2[0] = mean_sum2[0] + other15[0];
        shuffle_4B(&other16[0], &mean_sum2[0], thread % 32 ^ 4);
        mean_sum2[0] = mean_sum2[0] + other16[0];
        shuffle_4B(&other17[0], &mean_sum2[0], thread % 32 ^ 2);
        mean_sum2[0] = mean_sum2[0] + other17[0];
        shuffle_4B(&other18[0], &mean_sum2[0], thread % 32 ^ 1);
        mean_sum2[0] = mean_sum2[0] + other18[0];

        // deviation: f32 in deviation_rf
        deviation_rf[0] = rsqrtf(fmaf(mean_sum2[0], 0.00024414062f, 1e-06f));

        // slope: f32 in slope_rf
        slope_rf[0] = __fmul_rn(__fmul_rn(__fmul_rn(mean_sum[0], 0.00024414062f), deviation_rf[0]), deviation_rf[0]);

        // y0: bf16 in y0_rf
        #pragma unroll
        for (int n4 = 0; n4 < 16; ++n4) {
            y0_rf[n4] = float_to_bf16(__fmul_rn(fmaf(-bf16_to_float(x_rf[n4]), slope_rf[0], g_rf[n4]), deviation_rf[0]));
        }

        // store y0: Move(1, 512)(RF, GL)(Warp)
        #pragma unroll
        for (int n5 = 0; n5 < 2; ++n5) {
            if (block * 94 + group_warp__8_ * 47 + m < 12288) copy_16B(&y0[block * 385024 + group_warp__8_ * 192512 + m * 4096 + warp * 512 + lane * 8 + n5 * 256], &y0_rf[n5 * 8]);
        }

        // by_gain: add over m
        #pragma unroll
        for (int n6 = 0; n6 < 16; ++n6) {
            if (block * 94 + group_warp__8_ * 47 + m < 12288) by_gain[n6] = fmaf(bf16_to_float(dy_rf[n6]), __fmul_rn(bf16_to_float(x_rf[n6]), deviation_rf[0]), by_gain[n6]);
        }
    }

    // by_gain over 2 warps
    #pragma unroll
    for (int i2 = 0; i2 < 16; ++i2) {
        by_gain_sh[thread / 32 % 8 * 1024 + thread / 256 * 512 + i2 * 32 + thread % 32] = by_gain[i2];
    }
    #pragma unroll
    for (int i4 = 0; i4 < 16; ++i4) {
        by_gain[i4] = 0.0f;
    }
    __syncthreads();  // by_gain_sh is written before it is read
    #pragma unroll
    for (int i3 = 0; i3 < 16; ++i3) {
        #pragma unroll
        for (int w = 0; w < 2; ++w) {
            other19[0] = by_gain_sh[thread / 32 % 8 * 1024 + w * 512 + i3 * 32 + thread % 32];
            by_gain[i3] = by_gain[i3] + other19[0];
        }
    }

    // by_gain over 132 blocks
    if (thread / 256 == 0) {
        #pragma unroll
        for (int i5 = 0; i5 < 4; ++i5) {
            copy_16B(&by_gain_parts[block * 4096 + thread / 32 % 8 * 512 + i5 * 128 + thread % 32 * 4], &by_gain[i5 * 4]);
        }
    }
    __syncthreads();  // all threads have written by_gain_parts
    const int last = count_in(&arrived[block / 12], 12);
    if (last) {

        // by_gain of a group of 12 blocks
        #pragma unroll
        for (int i7 = 0; i7 < 16; ++i7) {
            by_gain[i7] = 0.0f;
        }
        #pragma unroll 1
        for (int w2 = 0; w2 < 2; ++w2) {
            #pragma unroll
            for (int u = 0; u < 4; ++u) {
                if (w2 * 8 + u * 2 + thread / 256 < 12) {
                    #pragma unroll
                    for (int v = 0; v < 4; ++v) {
                        copy_16B(&other20[v * 4], &by_gain_parts[block / 12 * 49152 + w2 * 32768 + u * 8192 + thread / 32 * 512 + v * 128 + thread % 32 * 4]);
                    }
                    #pragma unroll
                    for (int i6 = 0; i6 < 16; ++i6) {
                        by_gain[i6] = by_gain[i6] + other20[i6];
                    }
                }
            }
        }

        // by_gain over 2 warps
        #pragma unroll
        for (int i8 = 0; i8 < 16; ++i8) {
            by_gain_sh2[thread / 32 % 8 * 1024 + thread / 256 * 512 + i8 * 32 + thread % 32] = by_gain[i8];
        }
        #pragma unroll
        for (int i10 = 0; i10 < 16; ++i10) {
            by_gain[i10] = 0.0f;
        }
        __syncthreads();  // by_gain_sh2 is written before it is read
        #pragma unroll
        for (int i9 = 0; i9 < 16; ++i9) {
            #pragma unroll
            for (int w3 = 0; w3 < 2; ++w3) {
                other21[0] = by_gain_sh2[thread / 32 % 8 * 1024 + w3 * 512 + i9 * 32 + thread % 32];
                by_gain[i9] = by_gain[i9] + other21[0];
            }
        }
        if (thread / 256 == 0) {
            #pragma unroll
            for (int i11 = 0; i11 < 4; ++i11) {
                copy_16B(&by_gain_parts_of_groups[block / 12 * 4096 + thread / 32 % 8 * 512 + i11 * 128 + thread % 32 * 4], &by_gain[i11 * 4]);
            }
        }
        __syncthreads();  // all threads have written by_gain_parts_of_groups
        const int last2 = count_in(&arrived2[0], 11);
        if (last2) {

            // by_gain of 11 groups
            #pragma unroll
            for (int i13 = 0; i13 < 16; ++i13) {
                by_gain[i13] = 0.0f;
            }
            #pragma unroll 1
            for (int w4 = 0; w4 < 2; ++w4) {
                #pragma unroll
                for (int u2 = 0; u2 < 4; ++u2) {
                    if (w4 * 8 + u2 * 2 + thread / 256 < 11) {
                        #pragma unroll
                        for (int v2 = 0; v2 < 4; ++v2) {
                            copy_16B(&other22[v2 * 4], &by_gain_parts_of_groups[w4 * 32768 + u2 * 8192 + thread / 32 * 512 + v2 * 128 + thread % 32 * 4]);
                        }
                        #pragma unroll
                        for (int i12 = 0; i12 < 16; ++i12) {
                            by_gain[i12] = by_gain[i12] + other22[i12];
                        }
                    }
                }
            }

            // by_gain over 2 warps
            #pragma unroll
            for (int i14 = 0; i14 < 16; ++i14) {
                by_gain_sh3[thread / 32 % 8 * 1024 + thread / 256 * 512 + i14 * 32 + thread % 32] = by_gain[i14];
            }
            #pragma unroll
            for (int i16 = 0; i16 < 16; ++i16) {
                by_gain[i16] = 0.0f;
            }
            __syncthreads();  // by_gain_sh3 is written before it is read
            #pragma unroll
            for (int i15 = 0; i15 < 16; ++i15) {
                #pragma unroll
                for (int w5 = 0; w5 < 2; ++w5) {
                    other23[0] = by_gain_sh3[thread / 32 % 8 * 1024 + w5 * 512 + i15 * 32 + thread % 32];
                    by_gain[i15] = by_gain[i15] + other23[0];
                }
            }

            // store y1: Move(512)(RF, GL)(Warp)
            if (group_warp__8_ == 0) {
                #pragma unroll
                for (int n7 = 0; n7 < 4; ++n7) {
                    copy_16B(&y1[warp * 512 + lane * 8 + n7 % 2 * 4 + n7 / 2 * 256], &by_gain[n7 * 4]);
                }
            }
        }
    }
}

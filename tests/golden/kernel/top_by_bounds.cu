struct bf16 { unsigned short bits; };

__device__ __forceinline__ float bf16_to_float(bf16 x) {
    return __uint_as_float(x.bits << 16);
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

__device__ __forceinline__ void copy_or_zero_16B(void* dst, const void* src, bool read) {
    uint4 value = {};
    if (read) value = *static_cast<const uint4*>(src);
    *static_cast<uint4*>(dst) = value;
}

__device__ __forceinline__ void shuffle_4B(void* dst, const void* src, int lane) {
    *static_cast<unsigned*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned*>(src), lane);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

extern "C" __global__ void __launch_bounds__(32, 1)
row_1x1024_k1_bf16_i32(
    const bf16* __restrict__ x,
    bf16* __restrict__ y0,
    int* __restrict__ y1) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    float top_0[1];
    float top_1[1];
    int top_2[1];
    int top_3[1];
    alignas(16) bf16 x_rf[32];
    alignas(16) bf16 y0_rf[2];
    alignas(16) int y1_rf[2];
    float bound[1];
    float largest[4];
    float reach[1];
    float best[1];
    float other[1];
    float next[1];
    float next2[1];
    int next3[1];
    int next4[1];
    float part[1];
    float part2[1];
    float part3[1];
    float part4[1];
    int counts[1];
    float part5[1];
    int counts2[1];
    int counts3[1];
    float other2[1];
    float other3[1];
    int other4[1];
    int other5[1];
    float next5[1];
    float next6[1];
    int next7[1];
    int next8[1];
    float next9[1];
    float next10[1];
    int next11[1];
    int next12[1];
    float other6[1];
    float other7[1];
    int other8[1];
    int other9[1];
    float next13[1];
    float next14[1];
    int next15[1];
    int next16[1];
    float next17[1];
    float next18[1];
    int next19[1];
    int next20[1];
    float other10[1];
    float other11[1];
    int other12[1];
    int other13[1];
    float next21[1];
    float next22[1];
    int next23[1];
    int next24[1];
    float next25[1];
    float next26[1];
    int next27[1];
    int next28[1];
    float other14[1];
    float other15[1];
    int other16[1];
    int other17[1];
    float next29[1];
    float next30[1];
    int next31[1];
    int next32[1];
    float next33[1];
    float next34[1];
    int next35[1];
    int next36[1];
    float other18[1];
    float other19[1];
    int other20[1];
    int other21[1];
    float next37[1];
    float next38[1];
    int next39[1];
    int next40[1];
    float next41[1];
    float next42[1];
    int next43[1];
    int next44[1];

    // Program(1, 2, 32000)(GL, GL, GL)(Block)
    top_0[0] = __int_as_float(0xff800000);
    top_1[0] = __int_as_float(0xff800000);
    top_2[0] = 2147483647;
    top_3[0] = 2147483647;
    bound[0] = __int_as_float(0xff800000);
    #pragma unroll 1
    for (int n = 0; n < 32; ++n) {

        // Program(1, 2, 1024)(GL, GL, GL)(Warp)

        // load x to x_rf: Move(1, 1024)(GL, RF)(Warp)
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            copy_or_zero_16B(&x_rf[r * 8], &x[block * 32000 + n * 1024 + thread * 8 + r * 256], n * 128 + thread + r * 32 < 4000);
        }

        // top: top over n
        if (n < 31) {
            #pragma unroll
            for (int g = 0; g < 4; ++g) {
                largest[g] = __int_as_float(0xff800000);
                #pragma unroll
                for (int e = 0; e < 8; ++e) {
                    largest[g] = fmaxf_nan(bf16_to_float(x_rf[g * 8 + e]), largest[g]);
                }
                largest[g] = largest[g];
            }
        }
        if (n > 30) {
            #pragma unroll
            for (int g = 0; g < 4; ++g) {
                largest[g] = __int_as_float(0xff800000);
                #pragma unroll
                for (int e = 0; e < 8; ++e) {
                    largest[g] = fmaxf_nan(bf16_to_float(x_rf[g * 8 + e]), largest[g]);
                }
                largest[g] = (n * 128 + thread + g * 32 < 4000) != 0 ? largest[g] : __int_as_float(0xff800000);
            }
        }
        reach[0] = __int_as_float(0xff800000);
        #pragma unroll
        for (int g2 = 0; g2 < 4; ++g2) {
            reach[0] = fmaxf_nan(reach[0], largest[g2]);
        }
        counts3[0] = reach[0] < bound[0] ? 0 : 1;
        const int any3 = __any_sync(0xffffffff, counts3[0]);
        if (any3 == 1) {
            best[0] = fmaxf_nan(reach[0], top_0[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 1);
            best[0] = (thread % 2 == thread / 2 % 2) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 2);
            best[0] = (thread / 2 % 2 == thread / 4 % 2) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 1);
            best[0] = (thread % 2 == thread / 4 % 2) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 4);
            best[0] = (thread / 4 % 2 == thread / 8 % 2) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 2);
            best[0] = (thread / 2 % 2 == thread / 8 % 2) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 1);
            best[0] = (thread % 2 == thread / 8 % 2) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 8);
            best[0] = (thread / 8 % 2 == thread / 16) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 4);
            best[0] = (thread / 4 % 2 == thread / 16) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 2);
            best[0] = (thread / 2 % 2 == thread / 16) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 1);
            best[0] = (thread % 2 == thread / 16) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 16);
            best[0] = (thread / 16 == 0) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 8);
            best[0] = (thread / 8 % 2 == 0) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 4);
            best[0] = (thread / 4 % 2 == 0) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 2);
            best[0] = (thread / 2 % 2 == 0) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], thread ^ 1);
            best[0] = (thread % 2 == 0) != 0 ? fmaxf_nan(best[0], other[0]) : fminf_nan(best[0], other[0]);
            shuffle_4B(&other[0], &best[0], 1);
            bound[0] = fmaxf_nan(bound[0], other[0]);
            #pragma unroll
            for (int g3 = 0; g3 < 4; ++g3) {
                counts2[0] = largest[g3] < bound[0] ? 0 : 1;
                const int any2 = __any_sync(0xffffffff, counts2[0]);
                if (any2 == 1) {
                    #pragma unroll
                    for (int e2 = 0; e2 < 8; ++e2) {
                        part5[0] = bf16_to_float(x_rf[g3 * 8 + e2]);
                        counts[0] = part5[0] < bound[0] ? 0 : (n * 128 + thread + g3 * 32 < 4000) != 0 ? ((!(part5[0] <= top_1[0]) & top_1[0] == top_1[0]) | (part5[0] == top_1[0] & (n * 1024 + thread * 8 + e2 + g3 * 256) < top_3[0]) ? 1 : 0) : 0;
                        const int any = __any_sync(0xffffffff, counts[0]);
                        if (any == 1) {
                            if (n * 128 + thread + g3 * 32 < 4000) part[0] = bf16_to_float(x_rf[g3 * 8 + e2]);
                            if (n * 128 + thread + g3 * 32 < 4000) next[0] = (!(part[0] <= top_0[0]) & top_0[0] == top_0[0]) | (part[0] == top_0[0] & (n * 1024 + thread * 8 + e2 + g3 * 256) < top_2[0]) ? part[0] : top_0[0];
                            if (n * 128 + thread + g3 * 32 < 4000) part2[0] = bf16_to_float(x_rf[g3 * 8 + e2]);
                            if (n * 128 + thread + g3 * 32 < 4000) next2[0] = (!(part2[0] <= top_1[0]) & top_1[0] == top_1[0]) | (part2[0] == top_1[0] & (n * 1024 + thread * 8 + e2 + g3 * 256) < top_3[0]) ? ((!(part2[0] <= top_0[0]) & top_0[0] == top_0[0]) | (part2[0] == top_0[0] & (n * 1024 + thread * 8 + e2 + g3 * 256) < top_2[0]) ? top_0[0] : part2[0]) : top_1[0];
                            if (n * 128 + thread + g3 * 32 < 4000) part3[0] = bf16_to_float(x_rf[g3 * 8 + e2]);
                            if (n * 128 + thread + g3 * 32 < 4000) next3[0] = (!(part3[0] <= top_0[0]) & top_0[0] == top_0[0]) | (part3[0] == top_0[0] & (n * 1024 + thread * 8 + e2 + g3 * 256) < top_2[0]) ? (n * 1024 + thread * 8 + e2 + g3 * 256) : top_2[0];
                            if (n * 128 + thread + g3 * 32 < 4000) part4[0] = bf16_to_float(x_rf[g3 * 8 + e2]);
                            if (n * 128 + thread + g3 * 32 < 4000) next4[0] = (!(part4[0] <= top_1[0]) & top_1[0] == top_1[0]) | (part4[0] == top_1[0] & (n * 1024 + thread * 8 + e2 + g3 * 256) < top_3[0]) ? ((!(part4[0] <= top_0[0]) & top_0[0] == top_0[0]) | (part4[0] == top_0[0] & (n * 1024 + thread * 8 + e2 + g3 * 256) < top_2[0]) ? top_2[0] : (n * 1024 + thread * 8 + e2 + g3 * 256)) : top_3[0];
                            if (n * 128 + thread + g3 * 32 < 4000) top_0[0] = next[0];
                            if (n * 128 + thread + g3 * 32 < 4000) top_1[0] = next2[0];
                            if (n * 128 + thread + g3 * 32 < 4000) top_2[0] = next3[0];
                            if (n * 128 + thread + g3 * 32 < 4000) top_3[0] = next4[0];
                        }
                    }
                }
            }
        }
    }
    shuffle_4B(&other2[0], &top_0[0], thread ^ 16);
    shuffle_4B(&other3[0], &top_1[0], thread ^ 16);
    shuffle_4B(&other4[0], &top_2[0], thread ^ 16);
    shuffle_4B(&other5[0], &top_3[0], thread ^ 16);
    next5[0] = (!(other3[0] <= top_0[0]) & top_0[0] == top_0[0]) | (other3[0] == top_0[0] & other5[0] < top_2[0]) ? other3[0] : top_0[0];
    next6[0] = (!(other2[0] <= top_1[0]) & top_1[0] == top_1[0]) | (other2[0] == top_1[0] & other4[0] < top_3[0]) ? other2[0] : top_1[0];
    next7[0] = (!(other3[0] <= top_0[0]) & top_0[0] == top_0[0]) | (other3[0] == top_0[0] & other5[0] < top_2[0]) ? other5[0] : top_2[0];
    next8[0] = (!(other2[0] <= top_1[0]) & top_1[0] == top_1[0]) | (other2[0] == top_1[0] & other4[0] < top_3[0]) ? other4[0] : top_3[0];
    top_0[0] = next5[0];
    top_1[0] = next6[0];
    top_2[0] = next7[0];
    top_3[0] = next8[0];
    next9[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_1[0] : top_0[0];
    next10[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_0[0] : top_1[0];
    next11[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_3[0] : top_2[0];
    next12[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_2[0] : top_3[0];
    top_0[0] = next9[0];
    top_1[0] = next10[0];
    top_2[0] = next11[0];
    top_3[0] = next12[0];
    shuffle_4B(&other6[0], &top_0[0], thread ^ 8);
    shuffle_4B(&other7[0], &top_1[0], thread ^ 8);
    shuffle_4B(&other8[0], &top_2[0], thread ^ 8);
    shuffle_4B(&other9[0], &top_3[0], thread ^ 8);
    next13[0] = (!(other7[0] <= top_0[0]) & top_0[0] == top_0[0]) | (other7[0] == top_0[0] & other9[0] < top_2[0]) ? other7[0] : top_0[0];
    next14[0] = (!(other6[0] <= top_1[0]) & top_1[0] == top_1[0]) | (other6[0] == top_1[0] & other8[0] < top_3[0]) ? other6[0] : top_1[0];
    next15[0] = (!(other7[0] <= top_0[0]) & top_0[0] == top_0[0]) | (other7[0] == top_0[0] & other9[0] < top_2[0]) ? other9[0] : top_2[0];
    next16[0] = (!(other6[0] <= top_1[0]) & top_1[0] == top_1[0]) | (other6[0] == top_1[0] & other8[0] < top_3[0]) ? other8[0] : top_3[0];
    top_0[0] = next13[0];
    top_1[0] = next14[0];
    top_2[0] = next15[0];
    top_3[0] = next16[0];
    next17[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_1[0] : top_0[0];
    next18[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_0[0] : top_1[0];
    next19[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_3[0] : top_2[0];
    next20[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_2[0] : top_3[0];
    top_0[0] = next17[0];
    top_1[0] = next18[0];
    top_2[0] = next19[0];
    top_3[0] = next20[0];
    shuffle_4B(&other10[0], &top_0[0], thread ^ 4);
    shuffle_4B(&other11[0], &top_1[0], thread ^ 4);
    shuffle_4B(&other12[0], &top_2[0], thread ^ 4);
    shuffle_4B(&other13[0], &top_3[0], thread ^ 4);
    next21[0] = (!(other11[0] <= top_0[0]) & top_0[0] == top_0[0]) | (other11[0] == top_0[0] & other13[0] < top_2[0]) ? other11[0] : top_0[0];
    next22[0] = (!(other10[0] <= top_1[0]) & top_1[0] == top_1[0]) | (other10[0] == top_1[0] & other12[0] < top_3[0]) ? other10[0] : top_1[0];
    next23[0] = (!(other11[0] <= top_0[0]) & top_0[0] == top_0[0]) | (other11[0] == top_0[0] & other13[0] < top_2[0]) ? other13[0] : top_2[0];
    next24[0] = (!(other10[0] <= top_1[0]) & top_1[0] == top_1[0]) | (other10[0] == top_1[0] & other12[0] < top_3[0]) ? other12[0] : top_3[0];
    top_0[0] = next21[0];
    top_1[0] = next22[0];
    top_2[0] = next23[0];
    top_3[0] = next24[0];
    next25[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_1[0] : top_0[0];
    next26[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_0[0] : top_1[0];
    next27[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_3[0] : top_2[0];
    next28[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_2[0] : top_3[0];
    top_0[0] = next25[0];
    top_1[0] = next26[0];
    top_2[0] = next27[0];
    top_3[0] = next28[0];
    shuffle_4B(&other14[0], &top_0[0], thread ^ 2);
    shuffle_4B(&other15[0], &top_1[0], thread ^ 2);
    shuffle_4B(&other16[0], &top_2[0], thread ^ 2);
    shuffle_4B(&other17[0], &top_3[0], thread ^ 2);
    next29[0] = (!(other15[0] <= top_0[0]) & top_0[0] == top_0[0]) | (other15[0] == top_0[0] & other17[0] < top_2[0]) ? other15[0] : top_0[0];
    next30[0] = (!(other14[0] <= top_1[0]) & top_1[0] == top_1[0]) | (other14[0] == top_1[0] & other16[0] < top_3[0]) ? other14[0] : top_1[0];
    next31[0] = (!(other15[0] <= top_0[0]) & top_0[0] == top_0[0]) | (other15[0] == top_0[0] & other17[0] < top_2[0]) ? other17[0] : top_2[0];
    next32[0] = (!(other14[0] <= top_1[0]) & top_1[0] == top_1[0]) | (other14[0] == top_1[0] & other16[0] < top_3[0]) ? other16[0] : top_3[0];
    top_0[0] = next29[0];
    top_1[0] = next30[0];
    top_2[0] = next31[0];
    top_3[0] = next32[0];
    next33[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_1[0] : top_0[0];
    next34[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_0[0] : top_1[0];
    next35[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_3[0] : top_2[0];
    next36[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_2[0] : top_3[0];
    top_0[0] = next33[0];
    top_1[0] = next34[0];
    top_2[0] = next35[0];
    top_3[0] = next36[0];
    shuffle_4B(&other18[0], &top_0[0], thread ^ 1);
    shuffle_4B(&other19[0], &top_1[0], thread ^ 1);
    shuffle_4B(&other20[0], &top_2[0], thread ^ 1);
    shuffle_4B(&other21[0], &top_3[0], thread ^ 1);
    next37[0] = (!(other19[0] <= top_0[0]) & top_0[0] == top_0[0]) | (other19[0] == top_0[0] & other21[0] < top_2[0]) ? other19[0] : top_0[0];
    next38[0] = (!(other18[0] <= top_1[0]) & top_1[0] == top_1[0]) | (other18[0] == top_1[0] & other20[0] < top_3[0]) ? other18[0] : top_1[0];
    next39[0] = (!(other19[0] <= top_0[0]) & top_0[0] == top_0[0]) | (other19[0] == top_0[0] & other21[0] < top_2[0]) ? other21[0] : top_2[0];
    next40[0] = (!(other18[0] <= top_1[0]) & top_1[0] == top_1[0]) | (other18[0] == top_1[0] & other20[0] < top_3[0]) ? other20[0] : top_3[0];
    top_0[0] = next37[0];
    top_1[0] = next38[0];
    top_2[0] = next39[0];
    top_3[0] = next40[0];
    next41[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_1[0] : top_0[0];
    next42[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_0[0] : top_1[0];
    next43[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_3[0] : top_2[0];
    next44[0] = (!(top_1[0] <= top_0[0]) & top_0[0] == top_0[0]) | (top_1[0] == top_0[0] & top_3[0] < top_2[0]) ? top_2[0] : top_3[0];
    top_0[0] = next41[0];
    top_1[0] = next42[0];
    top_2[0] = next43[0];
    top_3[0] = next44[0];

    // y0: bf16 in y0_rf
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        y0_rf[k] = float_to_bf16((k == 0) != 0 ? top_0[0] : top_1[0]);
    }

    // store y0: Move(1, 2)(RF, GL)(Block)
    if (thread == 0) {
        copy_4B(&y0[block * 2], &y0_rf[0]);
    }

    // y1: i32 in y1_rf
    #pragma unroll
    for (int k4 = 0; k4 < 2; ++k4) {
        y1_rf[k4] = (k4 == 0) != 0 ? top_2[0] : top_3[0];
    }

    // store y1: Move(1, 2)(RF, GL)(Block)
    if (thread == 0) {
        copy_8B(&y1[block * 2], &y1_rf[0]);
    }
}

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

template <typename T>
__device__ __forceinline__ unsigned pair_at(const T* place) {
    return *reinterpret_cast<const unsigned*>(place);
}

template <typename T>
__device__ __forceinline__ void put_pair(T* place, unsigned pair) {
    *reinterpret_cast<unsigned*>(place) = pair;
}

__device__ __forceinline__ unsigned max_bf16_pair(unsigned x, unsigned y) {
    unsigned z;
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
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

__device__ __forceinline__ void cp_async_or_zero_16B(void* dst, const void* src, bool read) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(src), "r"(read ? 16 : 0) : "memory");
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
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

extern "C" __global__ void __launch_bounds__(32, 24)
row_1x1024_k1_bf16_i32(
    const bf16* __restrict__ x,
    bf16* __restrict__ y0,
    int* __restrict__ y1) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    bf16* x_sh = reinterpret_cast<bf16*>(shared);
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
    float highest[1];
    float queue[8];
    int left[1];
    float front[1];
    int place[1];
    int bit[1];
    float next[1];
    float next2[1];
    int next3[1];
    int next4[1];
    int counts[1];
    int counts2[1];
    float other[1];
    bf16 half2[4];
    bf16 half3[2];
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

    // load x to x_sh: Move(1, 1024)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 4; ++r3) {
        cp_async_16B(&x_sh[thread * 8 + r3 * 256], &x[block * 32000 + thread * 8 + r3 * 256]);
    }
    cp_async_commit();

    // load x to x_sh: Move(1, 1024)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 4; ++r3) {
        cp_async_16B(&x_sh[thread * 8 + r3 * 256 + 1024], &x[block * 32000 + thread * 8 + r3 * 256 + 1024]);
    }
    cp_async_commit();
    top_0[0] = __int_as_float(0xff800000);
    top_1[0] = __int_as_float(0xff800000);
    top_2[0] = 2147483647;
    top_3[0] = 2147483647;
    bound[0] = __int_as_float(0xff800000);
    #pragma unroll 1
    for (int n = 0; n < 32; ++n) {
        cp_async_wait<1>();
        __syncthreads();  // x_sh is written before it is read
        if (n < 30) {

            // load x to x_sh: Move(1, 1024)(GL, SH)(Block)
            #pragma unroll
            for (int r3 = 0; r3 < 4; ++r3) {
                cp_async_or_zero_16B(&x_sh[(n + 2) % 3 * 1024 + thread * 8 + r3 * 256], &x[block * 32000 + n * 1024 + thread * 8 + r3 * 256 + 2048], n * 128 + thread + r3 * 32 < 3744);
            }
        }
        cp_async_commit();

        // Program(1, 2, 1024)(SH, GL, GL)(Warp)

        // load x_sh to x_rf: Move(1, 1024)(SH, RF)(Warp)
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            copy_16B(&x_rf[r * 8], &x_sh[n % 3 * 1024 + thread * 8 + r * 256]);
        }

        // top: top over n
        #pragma unroll
        for (int g = 0; g < 4; ++g) {
            largest[g] = __int_as_float(0xff800000);
            #pragma unroll
            for (int e2 = 0; e2 < 2; ++e2) {
                put_pair(&half2[e2 * 2], max_bf16_pair(pair_at(&x_rf[g * 8 + e2 * 2]), pair_at(&x_rf[g * 8 + e2 * 2 + 4])));
            }
            #pragma unroll
            for (int e3 = 0; e3 < 1; ++e3) {
                put_pair(&half3[e3 * 2], max_bf16_pair(pair_at(&half2[e3 * 2]), pair_at(&half2[e3 * 2 + 2])));
            }
            #pragma unroll
            for (int e4 = 0; e4 < 2; ++e4) {
                largest[g] = fmaxf_nan(bf16_to_float(half3[e4]), largest[g]);
            }
            largest[g] = (n * 128 + thread + g * 32 < 4000) != 0 ? largest[g] : __int_as_float(0xff800000);
        }
        reach[0] = __int_as_float(0xff800000);
        #pragma unroll
        for (int g2 = 0; g2 < 4; ++g2) {
            reach[0] = fmaxf_nan(reach[0], largest[g2]);
        }
        counts3[0] = reach[0] < bound[0] ? 0 : 1;
        const int any4 = __any_sync(0xffffffff, counts3[0]);
        if (any4 == 1) {
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
            #pragma unroll 1
            for (int g3 = 0; g3 < 4; ++g3) {
                #pragma unroll
                for (int g4 = 0; g4 < 4; ++g4) {
                    if (g3 == g4) {
                        highest[0] = largest[g4];
                    }
                }
                counts2[0] = highest[0] < bound[0] ? 0 : 1;
                const int any3 = __any_sync(0xffffffff, counts2[0]);
                if (any3 == 1) {
                    left[0] = 0;
                    #pragma unroll
                    for (int g4 = 0; g4 < 4; ++g4) {
                        if (g3 == g4) {
                            queue[0] = bf16_to_float(x_rf[g4 * 8]);
                            left[0] = left[0] + (queue[0] < bound[0] ? 0 : 1) * (n * 128 + thread + g4 * 32 < 4000);
                            queue[1] = bf16_to_float(x_rf[g4 * 8 + 1]);
                            left[0] = left[0] + (queue[1] < bound[0] ? 0 : 2) * (n * 128 + thread + g4 * 32 < 4000);
                            queue[2] = bf16_to_float(x_rf[g4 * 8 + 2]);
                            left[0] = left[0] + (queue[2] < bound[0] ? 0 : 4) * (n * 128 + thread + g4 * 32 < 4000);
                            queue[3] = bf16_to_float(x_rf[g4 * 8 + 3]);
                            left[0] = left[0] + (queue[3] < bound[0] ? 0 : 8) * (n * 128 + thread + g4 * 32 < 4000);
                            queue[4] = bf16_to_float(x_rf[g4 * 8 + 4]);
                            left[0] = left[0] + (queue[4] < bound[0] ? 0 : 16) * (n * 128 + thread + g4 * 32 < 4000);
                            queue[5] = bf16_to_float(x_rf[g4 * 8 + 5]);
                            left[0] = left[0] + (queue[5] < bound[0] ? 0 : 32) * (n * 128 + thread + g4 * 32 < 4000);
                            queue[6] = bf16_to_float(x_rf[g4 * 8 + 6]);
                            left[0] = left[0] + (queue[6] < bound[0] ? 0 : 64) * (n * 128 + thread + g4 * 32 < 4000);
                            queue[7] = bf16_to_float(x_rf[g4 * 8 + 7]);
                            left[0] = left[0] + (queue[7] < bound[0] ? 0 : 128) * (n * 128 + thread + g4 * 32 < 4000);
                        }
                    }
                    #pragma unroll 1
                    for (int trip = 0; trip < 8; ++trip) {
                        const int any = __any_sync(0xffffffff, left[0]);
                        if (any == 0) break;
                        front[0] = __int_as_float(0xff800000);
                        place[0] = 2147483647;
                        bit[0] = 0;
                        front[0] = left[0] < 1 ? front[0] : queue[0];
                        place[0] = left[0] < 1 ? place[0] : (n * 1024 + thread * 8 + g3 * 256);
                        bit[0] = left[0] < 1 ? bit[0] : 1;
                        front[0] = left[0] < 2 ? front[0] : queue[1];
                        place[0] = left[0] < 2 ? place[0] : (n * 1024 + thread * 8 + g3 * 256 + 1);
                        bit[0] = left[0] < 2 ? bit[0] : 2;
                        front[0] = left[0] < 4 ? front[0] : queue[2];
                        place[0] = left[0] < 4 ? place[0] : (n * 1024 + thread * 8 + g3 * 256 + 2);
                        bit[0] = left[0] < 4 ? bit[0] : 4;
                        front[0] = left[0] < 8 ? front[0] : queue[3];
                        place[0] = left[0] < 8 ? place[0] : (n * 1024 + thread * 8 + g3 * 256 + 3);
                        bit[0] = left[0] < 8 ? bit[0] : 8;
                        front[0] = left[0] < 16 ? front[0] : queue[4];
                        place[0] = left[0] < 16 ? place[0] : (n * 1024 + thread * 8 + g3 * 256 + 4);
                        bit[0] = left[0] < 16 ? bit[0] : 16;
                        front[0] = left[0] < 32 ? front[0] : queue[5];
                        place[0] = left[0] < 32 ? place[0] : (n * 1024 + thread * 8 + g3 * 256 + 5);
                        bit[0] = left[0] < 32 ? bit[0] : 32;
                        front[0] = left[0] < 64 ? front[0] : queue[6];
                        place[0] = left[0] < 64 ? place[0] : (n * 1024 + thread * 8 + g3 * 256 + 6);
                        bit[0] = left[0] < 64 ? bit[0] : 64;
                        front[0] = left[0] < 128 ? front[0] : queue[7];
                        place[0] = left[0] < 128 ? place[0] : (n * 1024 + thread * 8 + g3 * 256 + 7);
                        bit[0] = left[0] < 128 ? bit[0] : 128;
                        left[0] = left[0] - bit[0];
                        counts[0] = (!(front[0] <= top_1[0]) & top_1[0] == top_1[0]) | (front[0] == top_1[0] & place[0] < top_3[0]) ? 1 : 0;
                        const int any2 = __any_sync(0xffffffff, counts[0]);
                        if (any2 == 1) {
                            next[0] = (!(front[0] <= top_0[0]) & top_0[0] == top_0[0]) | (front[0] == top_0[0] & place[0] < top_2[0]) ? front[0] : top_0[0];
                            next2[0] = (!(front[0] <= top_1[0]) & top_1[0] == top_1[0]) | (front[0] == top_1[0] & place[0] < top_3[0]) ? ((!(front[0] <= top_0[0]) & top_0[0] == top_0[0]) | (front[0] == top_0[0] & place[0] < top_2[0]) ? top_0[0] : front[0]) : top_1[0];
                            next3[0] = (!(front[0] <= top_0[0]) & top_0[0] == top_0[0]) | (front[0] == top_0[0] & place[0] < top_2[0]) ? place[0] : top_2[0];
                            next4[0] = (!(front[0] <= top_1[0]) & top_1[0] == top_1[0]) | (front[0] == top_1[0] & place[0] < top_3[0]) ? ((!(front[0] <= top_0[0]) & top_0[0] == top_0[0]) | (front[0] == top_0[0] & place[0] < top_2[0]) ? top_2[0] : place[0]) : top_3[0];
                            top_0[0] = next[0];
                            top_1[0] = next2[0];
                            top_2[0] = next3[0];
                            top_3[0] = next4[0];
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

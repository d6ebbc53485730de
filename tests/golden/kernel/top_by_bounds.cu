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
row_1x2048_k1_bf16_i32(
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
    alignas(16) bf16 x_rf[64];
    alignas(16) bf16 y0_rf[2];
    alignas(16) int y1_rf[2];
    float kept[1];
    int kept_at[1];
    float bound[1];
    int bound_at[1];
    float largest[8];
    float queue[8];
    float reach[1];
    int place[1];
    int counts[1];
    int pending[1];
    bf16 narrow[8];
    float came[1];
    int came_at[1];
    int behind[1];
    float ahead[1];
    int ahead_at[1];
    int passed[1];
    float last[1];
    int last_at[1];
    int taken[1];
    bf16 half2[4];
    bf16 half3[2];
    float other[1];
    int higher[1];

    // Program(1, 2, 32000)(GL, GL, GL)(Block)

    // load x to x_sh: Move(1, 2048)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 8; ++r3) {
        cp_async_16B(&x_sh[thread * 8 + r3 * 256], &x[block * 32000 + thread * 8 + r3 * 256]);
    }
    cp_async_commit();

    // load x to x_sh: Move(1, 2048)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 8; ++r3) {
        cp_async_16B(&x_sh[thread * 8 + r3 * 256 + 2048], &x[block * 32000 + thread * 8 + r3 * 256 + 2048]);
    }
    cp_async_commit();
    kept[0] = __int_as_float(0xff800000);
    kept_at[0] = 2147483647;
    bound[0] = __int_as_float(0xff800000);
    bound_at[0] = 2147483647;
    #pragma unroll 1
    for (int n = 0; n < 16; ++n) {
        cp_async_wait<1>();
        __syncthreads();  // x_sh is written before it is read
        if (n < 14) {

            // load x to x_sh: Move(1, 2048)(GL, SH)(Block)
            #pragma unroll
            for (int r3 = 0; r3 < 8; ++r3) {
                cp_async_or_zero_16B(&x_sh[(n + 2) % 3 * 2048 + thread * 8 + r3 * 256], &x[block * 32000 + n * 2048 + thread * 8 + r3 * 256 + 4096], n * 256 + thread + r3 * 32 < 3488);
            }
        }
        cp_async_commit();

        // Program(1, 2, 2048)(SH, GL, GL)(Warp)

        // load x_sh to x_rf: Move(1, 2048)(SH, RF)(Warp)
        #pragma unroll
        for (int r = 0; r < 8; ++r) {
            copy_16B(&x_rf[r * 8], &x_sh[n % 3 * 2048 + thread * 8 + r * 256]);
        }

        // top: top over n
        #pragma unroll
        for (int g = 0; g < 8; ++g) {
            largest[g] = __int_as_float(0xff800000);
            #pragma unroll
            for (int e3 = 0; e3 < 2; ++e3) {
                put_pair(&half2[e3 * 2], max_bf16_pair(pair_at(&x_rf[g * 8 + e3 * 2]), pair_at(&x_rf[g * 8 + e3 * 2 + 4])));
            }
            #pragma unroll
            for (int e4 = 0; e4 < 1; ++e4) {
                put_pair(&half3[e4 * 2], max_bf16_pair(pair_at(&half2[e4 * 2]), pair_at(&half2[e4 * 2 + 2])));
            }
            #pragma unroll
            for (int e5 = 0; e5 < 2; ++e5) {
                largest[g] = fmaxf_nan(bf16_to_float(half3[e5]), largest[g]);
            }
            largest[g] = (n * 256 + thread + g * 32 < 4000) != 0 ? largest[g] : __int_as_float(0xff800000);
        }
        reach[0] = __int_as_float(0xff800000);
        #pragma unroll
        for (int g2 = 0; g2 < 8; ++g2) {
            reach[0] = fmaxf_nan(reach[0], largest[g2]);
        }
        place[0] = (n * 2048 + thread * 8);
        counts[0] = (!(reach[0] <= bound[0]) & bound[0] == bound[0]) | ((reach[0] == bound[0] | (!(reach[0] == reach[0]) & !(bound[0] == bound[0]))) & place[0] < bound_at[0]) ? 1 : 0;
        const int count = __popc(__ballot_sync(0xffffffff, counts[0]));
        if (count > 0) {
            if (count > 1) {
                shuffle_4B(&other[0], &reach[0], thread ^ 1);
                reach[0] = (thread % 2 == thread / 2 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 2);
                reach[0] = (thread / 2 % 2 == thread / 4 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 1);
                reach[0] = (thread % 2 == thread / 4 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 4);
                reach[0] = (thread / 4 % 2 == thread / 8 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 2);
                reach[0] = (thread / 2 % 2 == thread / 8 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 1);
                reach[0] = (thread % 2 == thread / 8 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 8);
                reach[0] = (thread / 8 % 2 == thread / 16) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 4);
                reach[0] = (thread / 4 % 2 == thread / 16) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 2);
                reach[0] = (thread / 2 % 2 == thread / 16) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 1);
                reach[0] = (thread % 2 == thread / 16) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 16);
                reach[0] = (thread / 16 == 0) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 8);
                reach[0] = (thread / 8 % 2 == 0) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 4);
                reach[0] = (thread / 4 % 2 == 0) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 2);
                reach[0] = (thread / 2 % 2 == 0) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread ^ 1);
                reach[0] = (thread % 2 == 0) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], 1);
                higher[0] = bound[0] < other[0] ? 1 : 0;
                bound[0] = higher[0] != 0 ? other[0] : bound[0];
                bound_at[0] = higher[0] != 0 ? 2147483647 : bound_at[0];
            }
            pending[0] = 0;
            #pragma unroll
            for (int g3 = 0; g3 < 8; ++g3) {
                counts[0] = !(largest[g3] < bound[0]) & (!(largest[g3] == bound[0]) | (n * 2048 + thread * 8 + g3 * 256) < bound_at[0]) ? 1 : 0;
                const int any2 = __any_sync(0xffffffff, counts[0]);
                pending[0] = (thread == g3) != 0 ? any2 : pending[0];
            }
            #pragma unroll 1
            for (int trip = 0; trip < 8; ++trip) {
                const int found = __clz(__brev(__ballot_sync(0xffffffff, pending[0])));
                if (found == 32) break;
                if (found != 32) {
                    pending[0] = (thread == found) != 0 ? 0 : pending[0];
                    const int now = min(found, 7);
                    #pragma unroll
                    for (int g4 = 0; g4 < 8; ++g4) {
                        if (now == g4) {
                            #pragma unroll
                            for (int e = 0; e < 4; ++e) {
                                put_pair(&narrow[e * 2], max_bf16_pair(pair_at(&x_rf[g4 * 8 + e * 2]), pair_at(&x_rf[g4 * 8 + e * 2])));
                            }
                        }
                    }
                    #pragma unroll
                    for (int e = 0; e < 8; ++e) {
                        queue[e] = bf16_to_float(narrow[e]);
                    }
                    #pragma unroll
                    for (int e = 0; e < 8; ++e) {
                        counts[0] = !(queue[e] < bound[0]) & (!(queue[e] == bound[0]) | (n * 2048 + thread * 8 + now * 256) < bound_at[0]) ? 1 : 0;
                        counts[0] = counts[0] * (n * 256 + thread + now * 32 < 4000);
                        const int any = __any_sync(0xffffffff, counts[0]);
                        if (any == 1) {
                            place[0] = (n * 2048 + thread * 8 + e + now * 256);
                            #pragma unroll 1
                            for (int trip2 = 0; trip2 < 32; ++trip2) {
                                const int first = __clz(__brev(__ballot_sync(0xffffffff, counts[0])));
                                if (first == 32) break;
                                if (first != 32) {
                                    shuffle_4B(&came[0], &queue[e], first);
                                    shuffle_4B(&came_at[0], &place[0], first);
                                    counts[0] = (thread == first) != 0 ? 0 : counts[0];
                                    behind[0] = (!(came[0] <= kept[0]) & kept[0] == kept[0]) | ((came[0] == kept[0] | (!(came[0] == came[0]) & !(kept[0] == kept[0]))) & came_at[0] < kept_at[0]) ? 1 : 0;
                                    shuffle_4B(&ahead[0], &kept[0], (thread + 31) % 32);
                                    shuffle_4B(&ahead_at[0], &kept_at[0], (thread + 31) % 32);
                                    shuffle_4B(&passed[0], &behind[0], (thread + 31) % 32);
                                    kept[0] = behind[0] != 0 ? (((thread > 0) != 0 ? passed[0] : 0) != 0 ? ahead[0] : came[0]) : kept[0];
                                    kept_at[0] = behind[0] != 0 ? (((thread > 0) != 0 ? passed[0] : 0) != 0 ? ahead_at[0] : came_at[0]) : kept_at[0];
                                }
                            }
                            shuffle_4B(&last[0], &kept[0], 1);
                            shuffle_4B(&last_at[0], &kept_at[0], 1);
                            taken[0] = (!(last[0] <= bound[0]) & bound[0] == bound[0]) | ((last[0] == bound[0] | (!(last[0] == last[0]) & !(bound[0] == bound[0]))) & last_at[0] < bound_at[0]) ? 1 : 0;
                            bound[0] = taken[0] != 0 ? last[0] : bound[0];
                            bound_at[0] = taken[0] != 0 ? last_at[0] : bound_at[0];
                        }
                    }
                }
            }
        }
    }
    shuffle_4B(&top_0[0], &kept[0], 0);
    shuffle_4B(&top_2[0], &kept_at[0], 0);
    shuffle_4B(&top_1[0], &kept[0], 1);
    shuffle_4B(&top_3[0], &kept_at[0], 1);

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

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

__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}

__device__ __forceinline__ unsigned shared_address(const void* place) {
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(shared_address(barrier)), "r"(count) : "memory");
}

__device__ __forceinline__ void mbarrier_expect(unsigned long long* barrier, int nbytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
        : : "r"(shared_address(barrier)), "r"(nbytes) : "memory");
}

__device__ __forceinline__ void mbarrier_wait(unsigned long long* barrier, int parity) {
    const unsigned address = shared_address(barrier);
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(done) : "r"(address), "r"(parity) : "memory");
    } while (!done);
}

__device__ __forceinline__ void cluster_meet() {
    asm volatile("barrier.cluster.arrive.relaxed;" : : : "memory");
    asm volatile("barrier.cluster.wait.acquire;" : : : "memory");
}

__device__ __forceinline__ int cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
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

__device__ __forceinline__ void send_4B(void* dst, const void* src, unsigned long long* barrier, int rank) {
    const unsigned* words = static_cast<const unsigned*>(src);
    asm volatile("{ .reg .b32 place, counter; mapa.shared::cluster.u32 place, %0, %2; "
        "mapa.shared::cluster.u32 counter, %1, %2; "
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [place], %3, [counter]; }"
        : : "r"(shared_address(dst)), "r"(shared_address(barrier)), "r"(rank), "r"(words[0]) : "memory");
}

extern "C" __global__ void __launch_bounds__(512, 1) __cluster_dims__(8, 1, 1)
row_1x16384_k8_k16_bf16_i32(
    const bf16* __restrict__ x,
    bf16* __restrict__ y0,
    int* __restrict__ y1) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    const int rank = cluster_rank();
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    __builtin_assume(rank >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    bf16* x_sh = reinterpret_cast<bf16*>(shared);
    float* kept_sh = reinterpret_cast<float*>(shared + 98304);
    int* kept_at_sh = reinterpret_cast<int*>(shared + 98816);
    float* kept_cluster = reinterpret_cast<float*>(shared + 99328);
    int* kept_at_cluster = reinterpret_cast<int*>(shared + 99584);
    unsigned long long* kept_cluster_full = reinterpret_cast<unsigned long long*>(shared + 99840);
    float top_0[1];
    float top_1[1];
    float top_2[1];
    float top_3[1];
    float top_4[1];
    float top_5[1];
    float top_6[1];
    float top_7[1];
    int top_8[1];
    int top_9[1];
    int top_10[1];
    int top_11[1];
    int top_12[1];
    int top_13[1];
    int top_14[1];
    int top_15[1];
    alignas(16) bf16 x_rf[32];
    alignas(16) bf16 y0_rf[8];
    alignas(16) int y1_rf[8];
    float kept[1];
    int kept_at[1];
    float bound[1];
    int bound_at[1];
    float largest[4];
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
    float other2[1];
    int other_at[1];
    int taken2[1];
    int taken3[1];
    int taken4[1];
    int taken5[1];
    int taken6[1];
    int taken7[1];
    int taken8[1];
    int taken9[1];
    int taken10[1];
    int taken11[1];
    int taken12[1];
    int taken13[1];
    int taken14[1];
    int taken15[1];
    int taken16[1];
    int taken17[1];
    int taken18[1];
    int taken19[1];
    int taken20[1];
    int taken21[1];
    float other3[1];
    int other_at2[1];
    float other4[1];
    int other_at3[1];
    int taken22[1];
    int taken23[1];
    int taken24[1];
    int taken25[1];
    int taken26[1];
    int taken27[1];
    int taken28[1];
    int taken29[1];
    int taken30[1];
    int taken31[1];
    int taken32[1];
    int taken33[1];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 1; ++i) {
            mbarrier_init(&kept_cluster_full[i], 1);
        }
    }
    fence_barrier_init();  // others use the barriers, and bulk copies do
    cluster_meet();  // barriers are initialised before peers use them
    const int cluster_m = block / 8;
    const int warp = thread / 32;
    const int lane = thread % 32;

    // Program(1, 8, 1000000)(GL, GL, GL)(Block)

    // load x to x_sh: Move(1, 16384)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 4; ++r3) {
        cp_async_16B(&x_sh[thread * 8 + r3 * 4096], &x[cluster_m * 1000000 + rank * 125184 + thread * 8 + r3 * 4096]);
    }
    cp_async_commit();

    // load x to x_sh: Move(1, 16384)(GL, SH)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 4; ++r3) {
        cp_async_16B(&x_sh[thread * 8 + r3 * 4096 + 16384], &x[cluster_m * 1000000 + rank * 125184 + thread * 8 + r3 * 4096 + 16384]);
    }
    cp_async_commit();
    kept[0] = __int_as_float(0xff800000);
    kept_at[0] = 2147483647;
    bound[0] = __int_as_float(0xff800000);
    bound_at[0] = 2147483647;
    #pragma unroll 1
    for (int n = 0; n < 8; ++n) {
        cp_async_wait<1>();
        __syncthreads();  // x_sh is written before it is read
        if (n < 6) {

            // load x to x_sh: Move(1, 16384)(GL, SH)(Block)
            #pragma unroll
            for (int r3 = 0; r3 < 4; ++r3) {
                cp_async_or_zero_16B(&x_sh[(n + 2) % 3 * 16384 + thread * 8 + r3 * 4096], &x[cluster_m * 1000000 + rank * 125184 + n * 16384 + thread * 8 + r3 * 4096 + 32768], rank * 15648 + n * 2048 + thread + r3 * 512 < 120904 && n * 2048 + thread + r3 * 512 < 11552);
            }
        }
        cp_async_commit();

        // Program(1, 8, 1024)(SH, GL, GL)(Warp)

        // load x_sh to x_rf: Move(1, 1024)(SH, RF)(Warp)
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            copy_16B(&x_rf[r * 8], &x_sh[n % 3 * 16384 + warp * 1024 + lane * 8 + r * 256]);
        }

        // top: top over n
        #pragma unroll
        for (int g = 0; g < 4; ++g) {
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
            largest[g] = (rank * 15648 + n * 2048 + warp * 128 + lane + g * 32 < 125000 && n * 2048 + warp * 128 + lane + g * 32 < 15648) != 0 ? largest[g] : __int_as_float(0xff800000);
        }
        reach[0] = __int_as_float(0xff800000);
        #pragma unroll
        for (int g2 = 0; g2 < 4; ++g2) {
            reach[0] = fmaxf_nan(reach[0], largest[g2]);
        }
        place[0] = (rank * 125184 + n * 16384 + warp * 1024 + lane * 8);
        counts[0] = (!(reach[0] <= bound[0]) & bound[0] == bound[0]) | ((reach[0] == bound[0] | (!(reach[0] == reach[0]) & !(bound[0] == bound[0]))) & place[0] < bound_at[0]) ? 1 : 0;
        const int count = __popc(__ballot_sync(0xffffffff, counts[0]));
        if (count > 0) {
            if (count > 7) {
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 1);
                reach[0] = (thread % 2 == thread / 2 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 2);
                reach[0] = (thread / 2 % 2 == thread / 4 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 1);
                reach[0] = (thread % 2 == thread / 4 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 4);
                reach[0] = (thread / 4 % 2 == thread / 8 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 2);
                reach[0] = (thread / 2 % 2 == thread / 8 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 1);
                reach[0] = (thread % 2 == thread / 8 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 8);
                reach[0] = (thread / 8 % 2 == thread / 16 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 4);
                reach[0] = (thread / 4 % 2 == thread / 16 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 2);
                reach[0] = (thread / 2 % 2 == thread / 16 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 1);
                reach[0] = (thread % 2 == thread / 16 % 2) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 16);
                reach[0] = (thread / 16 % 2 == 0) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 8);
                reach[0] = (thread / 8 % 2 == 0) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 4);
                reach[0] = (thread / 4 % 2 == 0) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 2);
                reach[0] = (thread / 2 % 2 == 0) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], thread % 32 ^ 1);
                reach[0] = (thread % 2 == 0) != 0 ? fmaxf_nan(reach[0], other[0]) : fminf_nan(reach[0], other[0]);
                shuffle_4B(&other[0], &reach[0], 7);
                higher[0] = bound[0] < other[0] ? 1 : 0;
                bound[0] = higher[0] != 0 ? other[0] : bound[0];
                bound_at[0] = higher[0] != 0 ? 2147483647 : bound_at[0];
            }
            pending[0] = 0;
            #pragma unroll
            for (int g3 = 0; g3 < 4; ++g3) {
                counts[0] = !(largest[g3] < bound[0]) & (!(largest[g3] == bound[0]) | (rank * 125184 + n * 16384 + warp * 1024 + lane * 8 + g3 * 256) < bound_at[0]) ? 1 : 0;
                const int any2 = __any_sync(0xffffffff, counts[0]);
                pending[0] = (thread % 32 == g3) != 0 ? any2 : pending[0];
            }
            #pragma unroll 1
            for (int trip = 0; trip < 4; ++trip) {
                const int found = __clz(__brev(__ballot_sync(0xffffffff, pending[0])));
                if (found == 32) break;
                if (found != 32) {
                    pending[0] = (thread % 32 == found) != 0 ? 0 : pending[0];
                    const int now = min(found, 3);
                    #pragma unroll
                    for (int g4 = 0; g4 < 4; ++g4) {
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
                        counts[0] = !(queue[e] < bound[0]) & (!(queue[e] == bound[0]) | (rank * 125184 + n * 16384 + warp * 1024 + lane * 8 + now * 256) < bound_at[0]) ? 1 : 0;
                        counts[0] = counts[0] * (rank * 15648 + n * 2048 + warp * 128 + lane + now * 32 < 125000 && n * 2048 + warp * 128 + lane + now * 32 < 15648);
                        const int any = __any_sync(0xffffffff, counts[0]);
                        if (any == 1) {
                            place[0] = (rank * 125184 + n * 16384 + warp * 1024 + lane * 8 + e + now * 256);
                            #pragma unroll 1
                            for (int trip2 = 0; trip2 < 32; ++trip2) {
                                const int first = __clz(__brev(__ballot_sync(0xffffffff, counts[0])));
                                if (first == 32) break;
                                if (first != 32) {
                                    shuffle_4B(&came[0], &queue[e], first);
                                    shuffle_4B(&came_at[0], &place[0], first);
                                    counts[0] = (thread % 32 == first) != 0 ? 0 : counts[0];
                                    behind[0] = (!(came[0] <= kept[0]) & kept[0] == kept[0]) | ((came[0] == kept[0] | (!(came[0] == came[0]) & !(kept[0] == kept[0]))) & came_at[0] < kept_at[0]) ? 1 : 0;
                                    shuffle_4B(&ahead[0], &kept[0], (thread + 31) % 32);
                                    shuffle_4B(&ahead_at[0], &kept_at[0], (thread + 31) % 32);
                                    shuffle_4B(&passed[0], &behind[0], (thread + 31) % 32);
                                    kept[0] = behind[0] != 0 ? (((thread % 32 > 0) != 0 ? passed[0] : 0) != 0 ? ahead[0] : came[0]) : kept[0];
                                    kept_at[0] = behind[0] != 0 ? (((thread % 32 > 0) != 0 ? passed[0] : 0) != 0 ? ahead_at[0] : came_at[0]) : kept_at[0];
                                }
                            }
                            shuffle_4B(&last[0], &kept[0], 7);
                            shuffle_4B(&last_at[0], &kept_at[0], 7);
                            taken[0] = (!(last[0] <= bound[0]) & bound[0] == bound[0]) | ((last[0] == bound[0] | (!(last[0] == last[0]) & !(bound[0] == bound[0]))) & last_at[0] < bound_at[0]) ? 1 : 0;
                            bound[0] = taken[0] != 0 ? last[0] : bound[0];
                            bound_at[0] = taken[0] != 0 ? last_at[0] : bound_at[0];
                        }
                    }
                }
            }
        }
    }

    // top over 16 warps
    if (thread % 32 < 8) {
        kept_sh[thread / 32 * 8 + thread % 32] = kept[0];
        kept_at_sh[thread / 32 * 8 + thread % 32] = kept_at[0];
    }
    __syncthreads();  // kept_sh is written before it is read
    kept[0] = kept_sh[thread % 32];
    kept_at[0] = kept_at_sh[thread % 32];
    other2[0] = kept_sh[(thread % 32 ^ 7) + 32];
    other_at[0] = kept_at_sh[(thread % 32 ^ 7) + 32];
    taken2[0] = (!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0;
    kept[0] = taken2[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken2[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 4);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 4);
    taken3[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread / 4 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken3[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken3[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 2);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 2);
    taken4[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread / 2 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken4[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken4[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 1);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 1);
    taken5[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken5[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken5[0] != 0 ? other_at[0] : kept_at[0];
    other2[0] = kept_sh[(thread % 32 ^ 7) + 64];
    other_at[0] = kept_at_sh[(thread % 32 ^ 7) + 64];
    taken6[0] = (!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0;
    kept[0] = taken6[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken6[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 4);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 4);
    taken7[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread / 4 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken7[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken7[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 2);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 2);
    taken8[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread / 2 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken8[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken8[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 1);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 1);
    taken9[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken9[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken9[0] != 0 ? other_at[0] : kept_at[0];
    other2[0] = kept_sh[(thread % 32 ^ 7) + 96];
    other_at[0] = kept_at_sh[(thread % 32 ^ 7) + 96];
    taken10[0] = (!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0;
    kept[0] = taken10[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken10[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 4);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 4);
    taken11[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread / 4 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken11[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken11[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 2);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 2);
    taken12[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread / 2 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken12[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken12[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 1);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 1);
    taken13[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken13[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken13[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 15);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 15);
    taken14[0] = (!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0;
    kept[0] = taken14[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken14[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 4);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 4);
    taken15[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread / 4 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken15[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken15[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 2);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 2);
    taken16[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread / 2 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken16[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken16[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 1);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 1);
    taken17[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken17[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken17[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 23);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 23);
    taken18[0] = (!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0;
    kept[0] = taken18[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken18[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 4);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 4);
    taken19[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread / 4 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken19[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken19[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 2);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 2);
    taken20[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread / 2 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken20[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken20[0] != 0 ? other_at[0] : kept_at[0];
    shuffle_4B(&other2[0], &kept[0], thread % 32 ^ 1);
    shuffle_4B(&other_at[0], &kept_at[0], thread % 32 ^ 1);
    taken21[0] = ((!(other2[0] <= kept[0]) & kept[0] == kept[0]) | ((other2[0] == kept[0] | (!(other2[0] == other2[0]) & !(kept[0] == kept[0]))) & other_at[0] < kept_at[0]) ? 1 : 0) == ((thread % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken21[0] != 0 ? other2[0] : kept[0];
    kept_at[0] = taken21[0] != 0 ? other_at[0] : kept_at[0];

    // top over 8 blocks of a cluster
    shuffle_4B(&other3[0], &kept[0], thread % 8);
    shuffle_4B(&other_at2[0], &kept_at[0], thread % 8);
    kept[0] = other3[0];
    kept_at[0] = other_at2[0];
    if (thread == 0) {
        mbarrier_expect(&kept_cluster_full[0], 512);
    }
    __syncwarp();  // the warp has read the states of the trip before
    if (thread / 32 == 0) {
        #pragma unroll
        for (int peer = 0; peer < 2; ++peer) {
            send_4B(&kept_cluster[rank * 8 + thread % 8], &kept[0], &kept_cluster_full[0], peer * 4 + thread / 8 % 4);
            send_4B(&kept_at_cluster[rank * 8 + thread % 8], &kept_at[0], &kept_cluster_full[0], peer * 4 + thread / 8 % 4);
        }
    }
    mbarrier_wait(&kept_cluster_full[0], 0);
    kept[0] = kept_cluster[thread % 32];
    kept_at[0] = kept_at_cluster[thread % 32];
    other4[0] = kept_cluster[(thread % 32 ^ 7) + 32];
    other_at3[0] = kept_at_cluster[(thread % 32 ^ 7) + 32];
    taken22[0] = (!(other4[0] <= kept[0]) & kept[0] == kept[0]) | ((other4[0] == kept[0] | (!(other4[0] == other4[0]) & !(kept[0] == kept[0]))) & other_at3[0] < kept_at[0]) ? 1 : 0;
    kept[0] = taken22[0] != 0 ? other4[0] : kept[0];
    kept_at[0] = taken22[0] != 0 ? other_at3[0] : kept_at[0];
    shuffle_4B(&other4[0], &kept[0], thread % 32 ^ 4);
    shuffle_4B(&other_at3[0], &kept_at[0], thread % 32 ^ 4);
    taken23[0] = ((!(other4[0] <= kept[0]) & kept[0] == kept[0]) | ((other4[0] == kept[0] | (!(other4[0] == other4[0]) & !(kept[0] == kept[0]))) & other_at3[0] < kept_at[0]) ? 1 : 0) == ((thread / 4 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken23[0] != 0 ? other4[0] : kept[0];
    kept_at[0] = taken23[0] != 0 ? other_at3[0] : kept_at[0];
    shuffle_4B(&other4[0], &kept[0], thread % 32 ^ 2);
    shuffle_4B(&other_at3[0], &kept_at[0], thread % 32 ^ 2);
    taken24[0] = ((!(other4[0] <= kept[0]) & kept[0] == kept[0]) | ((other4[0] == kept[0] | (!(other4[0] == other4[0]) & !(kept[0] == kept[0]))) & other_at3[0] < kept_at[0]) ? 1 : 0) == ((thread / 2 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken24[0] != 0 ? other4[0] : kept[0];
    kept_at[0] = taken24[0] != 0 ? other_at3[0] : kept_at[0];
    shuffle_4B(&other4[0], &kept[0], thread % 32 ^ 1);
    shuffle_4B(&other_at3[0], &kept_at[0], thread % 32 ^ 1);
    taken25[0] = ((!(other4[0] <= kept[0]) & kept[0] == kept[0]) | ((other4[0] == kept[0] | (!(other4[0] == other4[0]) & !(kept[0] == kept[0]))) & other_at3[0] < kept_at[0]) ? 1 : 0) == ((thread % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken25[0] != 0 ? other4[0] : kept[0];
    kept_at[0] = taken25[0] != 0 ? other_at3[0] : kept_at[0];
    shuffle_4B(&other4[0], &kept[0], thread % 32 ^ 15);
    shuffle_4B(&other_at3[0], &kept_at[0], thread % 32 ^ 15);
    taken26[0] = (!(other4[0] <= kept[0]) & kept[0] == kept[0]) | ((other4[0] == kept[0] | (!(other4[0] == other4[0]) & !(kept[0] == kept[0]))) & other_at3[0] < kept_at[0]) ? 1 : 0;
    kept[0] = taken26[0] != 0 ? other4[0] : kept[0];
    kept_at[0] = taken26[0] != 0 ? other_at3[0] : kept_at[0];
    shuffle_4B(&other4[0], &kept[0], thread % 32 ^ 4);
    shuffle_4B(&other_at3[0], &kept_at[0], thread % 32 ^ 4);
    taken27[0] = ((!(other4[0] <= kept[0]) & kept[0] == kept[0]) | ((other4[0] == kept[0] | (!(other4[0] == other4[0]) & !(kept[0] == kept[0]))) & other_at3[0] < kept_at[0]) ? 1 : 0) == ((thread / 4 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken27[0] != 0 ? other4[0] : kept[0];
    kept_at[0] = taken27[0] != 0 ? other_at3[0] : kept_at[0];
    shuffle_4B(&other4[0], &kept[0], thread % 32 ^ 2);
    shuffle_4B(&other_at3[0], &kept_at[0], thread % 32 ^ 2);
    taken28[0] = ((!(other4[0] <= kept[0]) & kept[0] == kept[0]) | ((other4[0] == kept[0] | (!(other4[0] == other4[0]) & !(kept[0] == kept[0]))) & other_at3[0] < kept_at[0]) ? 1 : 0) == ((thread / 2 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken28[0] != 0 ? other4[0] : kept[0];
    kept_at[0] = taken28[0] != 0 ? other_at3[0] : kept_at[0];
    shuffle_4B(&other4[0], &kept[0], thread % 32 ^ 1);
    shuffle_4B(&other_at3[0], &kept_at[0], thread % 32 ^ 1);
    taken29[0] = ((!(other4[0] <= kept[0]) & kept[0] == kept[0]) | ((other4[0] == kept[0] | (!(other4[0] == other4[0]) & !(kept[0] == kept[0]))) & other_at3[0] < kept_at[0]) ? 1 : 0) == ((thread % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken29[0] != 0 ? other4[0] : kept[0];
    kept_at[0] = taken29[0] != 0 ? other_at3[0] : kept_at[0];
    shuffle_4B(&other4[0], &kept[0], thread % 32 ^ 23);
    shuffle_4B(&other_at3[0], &kept_at[0], thread % 32 ^ 23);
    taken30[0] = (!(other4[0] <= kept[0]) & kept[0] == kept[0]) | ((other4[0] == kept[0] | (!(other4[0] == other4[0]) & !(kept[0] == kept[0]))) & other_at3[0] < kept_at[0]) ? 1 : 0;
    kept[0] = taken30[0] != 0 ? other4[0] : kept[0];
    kept_at[0] = taken30[0] != 0 ? other_at3[0] : kept_at[0];
    shuffle_4B(&other4[0], &kept[0], thread % 32 ^ 4);
    shuffle_4B(&other_at3[0], &kept_at[0], thread % 32 ^ 4);
    taken31[0] = ((!(other4[0] <= kept[0]) & kept[0] == kept[0]) | ((other4[0] == kept[0] | (!(other4[0] == other4[0]) & !(kept[0] == kept[0]))) & other_at3[0] < kept_at[0]) ? 1 : 0) == ((thread / 4 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken31[0] != 0 ? other4[0] : kept[0];
    kept_at[0] = taken31[0] != 0 ? other_at3[0] : kept_at[0];
    shuffle_4B(&other4[0], &kept[0], thread % 32 ^ 2);
    shuffle_4B(&other_at3[0], &kept_at[0], thread % 32 ^ 2);
    taken32[0] = ((!(other4[0] <= kept[0]) & kept[0] == kept[0]) | ((other4[0] == kept[0] | (!(other4[0] == other4[0]) & !(kept[0] == kept[0]))) & other_at3[0] < kept_at[0]) ? 1 : 0) == ((thread / 2 % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken32[0] != 0 ? other4[0] : kept[0];
    kept_at[0] = taken32[0] != 0 ? other_at3[0] : kept_at[0];
    shuffle_4B(&other4[0], &kept[0], thread % 32 ^ 1);
    shuffle_4B(&other_at3[0], &kept_at[0], thread % 32 ^ 1);
    taken33[0] = ((!(other4[0] <= kept[0]) & kept[0] == kept[0]) | ((other4[0] == kept[0] | (!(other4[0] == other4[0]) & !(kept[0] == kept[0]))) & other_at3[0] < kept_at[0]) ? 1 : 0) == ((thread % 2 == 0) != 0 ? 1 : 0) ? 1 : 0;
    kept[0] = taken33[0] != 0 ? other4[0] : kept[0];
    kept_at[0] = taken33[0] != 0 ? other_at3[0] : kept_at[0];
    shuffle_4B(&top_0[0], &kept[0], 0);
    shuffle_4B(&top_8[0], &kept_at[0], 0);
    shuffle_4B(&top_1[0], &kept[0], 1);
    shuffle_4B(&top_9[0], &kept_at[0], 1);
    shuffle_4B(&top_2[0], &kept[0], 2);
    shuffle_4B(&top_10[0], &kept_at[0], 2);
    shuffle_4B(&top_3[0], &kept[0], 3);
    shuffle_4B(&top_11[0], &kept_at[0], 3);
    shuffle_4B(&top_4[0], &kept[0], 4);
    shuffle_4B(&top_12[0], &kept_at[0], 4);
    shuffle_4B(&top_5[0], &kept[0], 5);
    shuffle_4B(&top_13[0], &kept_at[0], 5);
    shuffle_4B(&top_6[0], &kept[0], 6);
    shuffle_4B(&top_14[0], &kept_at[0], 6);
    shuffle_4B(&top_7[0], &kept[0], 7);
    shuffle_4B(&top_15[0], &kept_at[0], 7);

    // y0: bf16 in y0_rf
    #pragma unroll
    for (int k = 0; k < 8; ++k) {
        y0_rf[k] = float_to_bf16((k == 0) != 0 ? top_0[0] : (k == 1) != 0 ? top_1[0] : (k == 2) != 0 ? top_2[0] : (k == 3) != 0 ? top_3[0] : (k == 4) != 0 ? top_4[0] : (k == 5) != 0 ? top_5[0] : (k == 6) != 0 ? top_6[0] : top_7[0]);
    }

    // store y0: Move(1, 8)(RF, GL)(Block)
    if (rank * 15648 + warp * 128 + lane == 0) {
        copy_16B(&y0[cluster_m * 8], &y0_rf[0]);
    }

    // y1: i32 in y1_rf
    #pragma unroll
    for (int k4 = 0; k4 < 8; ++k4) {
        y1_rf[k4] = (k4 == 0) != 0 ? top_8[0] : (k4 == 1) != 0 ? top_9[0] : (k4 == 2) != 0 ? top_10[0] : (k4 == 3) != 0 ? top_11[0] : (k4 == 4) != 0 ? top_12[0] : (k4 == 5) != 0 ? top_13[0] : (k4 == 6) != 0 ? top_14[0] : top_15[0];
    }

    // store y1: Move(1, 8)(RF, GL)(Block)
    if (rank * 15648 + warp * 128 + lane == 0) {
        #pragma unroll
        for (int k6 = 0; k6 < 2; ++k6) {
            copy_16B(&y1[cluster_m * 8 + k6 * 4], &y1_rf[k6 * 4]);
        }
    }
}

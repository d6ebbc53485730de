struct half { unsigned short bits; };
struct alignas(64) TensorMap { unsigned long long words[16]; };

__device__ __forceinline__ float half_to_float(half x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

__device__ __forceinline__ half float_to_half(float x) {
    half y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}

__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}

template <int pending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory");
}

__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}

__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" : : "l"(map) : "memory");
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

__device__ __forceinline__ void mbarrier_arrive_at(unsigned long long* barrier, int rank) {
    asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; "
        "mbarrier.arrive.shared::cluster.b64 _, [remote]; }"
        : : "r"(shared_address(barrier)), "r"(rank) : "memory");
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

template <int count>
__device__ __forceinline__ void registers_increase() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(count));
}

template <int count>
__device__ __forceinline__ void registers_decrease() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(count));
}

__device__ __forceinline__ void tma_load_2d_multicast(
    void* dst, const TensorMap* map, unsigned long long* barrier, unsigned short peers, int c0, int c1) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%3, %4}], [%2], %5;"
        : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(map), "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))),
            "r"(c0), "r"(c1), "h"(peers) : "memory");
}

__device__ __forceinline__ void tma_load_2d(
    void* dst, const TensorMap* map, unsigned long long* barrier, int c0, int c1) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4}], [%2];"
        : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(map), "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))),
            "r"(c0), "r"(c1) : "memory");
}

template <int mode, int lead, int stride>
__device__ __forceinline__ unsigned long long wgmma_operand(const void* panel, unsigned shift) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(panel));
    const unsigned low = (((address & 0x3ffff) >> 4) + (shift >> 4)) | (lead >> 4) << 16;
    const unsigned high = (stride >> 4) | mode << 30;
    unsigned long long operand;
    asm("mov.b64 %0, {%1, %2};" : "=l"(operand) : "r"(low), "r"(high));
    return operand;
}

template <int a_major, int b_major>
__device__ __forceinline__ void wgmma_m64n128k16_f32_f16(
    void* c_registers, unsigned long long a, unsigned long long b, int accumulate) {
    float* d = static_cast<float*>(c_registers);
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1, %67, %68; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "r"(accumulate), "n"(a_major), "n"(b_major));
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
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

extern "C" __global__ void __launch_bounds__(512, 1) __cluster_dims__(6, 1, 1)
wgmma_192x64_k6_f16(
    const half* __restrict__ x,
    const half* __restrict__ w,
    const half* __restrict__ b,
    const half* __restrict__ r,
    const half* __restrict__ g,
    const half* __restrict__ s,
    half* __restrict__ y,
    const __grid_constant__ TensorMap x_map,
    const __grid_constant__ TensorMap w_map) {
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    const int rank = cluster_rank();
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    __builtin_assume(rank >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* x_sh = reinterpret_cast<half*>(shared);
    half* w_sh = reinterpret_cast<half*>(shared + 98304);
    float* mean_sum_cluster = reinterpret_cast<float*>(shared + 163840);
    float* square_sum_cluster = reinterpret_cast<float*>(shared + 168448);
    unsigned long long* full = reinterpret_cast<unsigned long long*>(shared + 173056);
    unsigned long long* empty = reinterpret_cast<unsigned long long*>(shared + 173088);
    unsigned long long* mean_sum_cluster_full = reinterpret_cast<unsigned long long*>(shared + 173120);
    unsigned long long* square_sum_cluster_full = reinterpret_cast<unsigned long long*>(shared + 173128);
    alignas(16) float product[64];
    alignas(16) half b_rf[32];
    alignas(16) half r_rf[64];
    alignas(16) half g_rf[32];
    alignas(16) half s_rf[32];
    float z_rf[64];
    float mean_sum[2];
    float mean_rf[2];
    float square_sum[2];
    alignas(16) half y_rf[64];
    float other[1];
    float other2[1];
    float other3[1];
    float part[1];
    float other4[1];
    float other5[1];
    float other6[1];
    if (threadIdx.x == 0) {
        prefetch_map(&x_map);
        prefetch_map(&w_map);
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; ++i) {
            mbarrier_init(&full[i], 1);
        }
        for (int i = 0; i < 4; ++i) {
            mbarrier_init(&empty[i], 18);
        }
        for (int i = 0; i < 1; ++i) {
            mbarrier_init(&mean_sum_cluster_full[i], 1);
        }
        for (int i = 0; i < 1; ++i) {
            mbarrier_init(&square_sum_cluster_full[i], 1);
        }
    }
    fence_barrier_init();  // others use the barriers, and bulk copies do
    cluster_meet();  // barriers are initialised before peers use them
    const int warp_of_block = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    if (warp_of_block < 4) {  // load
        const int thread = threadIdx.x;
        __builtin_assume(thread >= 0);
        registers_decrease<32>();
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        const int cluster_m = block / 6;
        if (thread == 0) {

            // Program(192, 768, 768)(7 GL)(Block)
            #pragma unroll 1
            for (int k = 0; k < 12; ++k) {
                mbarrier_wait(&empty[ring_slot], 1 - ring_parity);
                mbarrier_expect(&full[ring_slot], 40960);

                // load x to x_sh: Move(192, 64)(GL, SH)(Block)
                tma_load_2d_multicast(&x_sh[ring_slot * 12288 + rank * 2048], &x_map, &full[ring_slot], 63, k * 64, cluster_m * 192 + rank * 32);

                // load w to w_sh: Move(128, 64)(GL, SH)(Block)
                tma_load_2d(&w_sh[ring_slot * 8192], &w_map, &full[ring_slot], k * 64, rank * 128);
                if (++ring_slot == 4) ring_slot = 0, ring_parity ^= 1;
            }
            #pragma unroll 1
            for (int slot = 0; slot < 4; ++slot) {
                mbarrier_wait(&empty[ring_slot], 1 - ring_parity);
                if (++ring_slot == 4) ring_slot = 0, ring_parity ^= 1;
            }
        }
    } else {  // math
        const int thread = threadIdx.x - 128;
        __builtin_assume(thread >= 0);
        registers_increase<160>();
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        const int cluster_m = block / 6;
        const int warpgroup = __shfl_sync(0xffffffff, thread / 128, 0);

        // Program(192, 768, 768)(7 GL)(Block)
        #pragma unroll
        for (int i = 0; i < 64; ++i) {
            product[i] = 0.0f;
        }
        #pragma unroll 1
        for (int k = 0; k < 12; ++k) {
            mbarrier_wait(&full[ring_slot], ring_parity);
            wgmma_fence();  // accumulators are registers

            // product: add by atoms
            #pragma unroll
            for (int k2 = 0; k2 < 4; ++k2) {
                wgmma_m64n128k16_f32_f16<0, 0>(&product[0], wgmma_operand<1, 16, 1024>(&x_sh[ring_slot * 12288 + warpgroup * 4096], k2 * 32), wgmma_operand<1, 16, 1024>(&w_sh[ring_slot * 8192], k2 * 32), 1);
            }
            wgmma_commit();
            wgmma_wait<1>();
            if (thread % 128 < 6 && k > 0) {
                mbarrier_arrive_at(&empty[ring_slot < 1 ? ring_slot + 3 : ring_slot - 1], thread % 128);
            }
            if (++ring_slot == 4) ring_slot = 0, ring_parity ^= 1;
        }
        wgmma_wait<0>();
        if (thread % 128 < 6) {
            mbarrier_arrive_at(&empty[ring_slot < 1 ? ring_slot + 3 : ring_slot - 1], thread % 128);
        }

        // load b to b_rf: Move(128)(GL, RF)(Block)
        #pragma unroll
        for (int n13 = 0; n13 < 16; ++n13) {
            copy_4B(&b_rf[n13 * 2], &b[rank * 128 + thread % 4 * 2 + n13 * 8]);
        }

        // load r to r_rf: Move(192, 128)(GL, RF)(Block)
        #pragma unroll
        for (int m10 = 0; m10 < 2; ++m10) {
            #pragma unroll
            for (int n12 = 0; n12 < 16; ++n12) {
                copy_4B(&r_rf[m10 * 32 + n12 * 2], &r[cluster_m * 147456 + warpgroup * 49152 + thread / 4 % 8 * 768 + thread / 32 % 4 * 12288 + m10 * 6144 + rank * 128 + thread % 4 * 2 + n12 * 8]);
            }
        }

        // z: f32 in z_rf
        #pragma unroll
        for (int m4 = 0; m4 < 2; ++m4) {
            #pragma unroll
            for (int n5 = 0; n5 < 32; ++n5) {
                z_rf[m4 * 2 + n5 % 2 + n5 / 2 * 4] = product[m4 * 2 + n5 % 2 + n5 / 2 * 4] + half_to_float(b_rf[n5]) + half_to_float(r_rf[m4 * 32 + n5]);
            }
        }

        // mean_sum: add over n
        #pragma unroll
        for (int i2 = 0; i2 < 2; ++i2) {
            mean_sum[i2] = 0.0f;
        }
        #pragma unroll
        for (int m5 = 0; m5 < 2; ++m5) {
            #pragma unroll
            for (int n6 = 0; n6 < 32; ++n6) {
                mean_sum[m5] = mean_sum[m5] + z_rf[m5 * 2 + n6 % 2 + n6 / 2 * 4];
            }
        }
        #pragma unroll
        for (int i3 = 0; i3 < 2; ++i3) {
            shuffle_4B(&other[0], &mean_sum[i3], thread % 32 ^ 2);
            mean_sum[i3] = mean_sum[i3] + other[0];
        }
        #pragma unroll
        for (int i4 = 0; i4 < 2; ++i4) {
            shuffle_4B(&other2[0], &mean_sum[i4], thread % 32 ^ 1);
            mean_sum[i4] = mean_sum[i4] + other2[0];
        }

        // mean_sum over 6 blocks of a cluster
        if (thread == 0) {
            mbarrier_expect(&mean_sum_cluster_full[0], 4608);
        }
        __syncwarp();  // the warp has read the states of the trip before
        #pragma unroll
        for (int peer = 0; peer < 2; ++peer) {
            if (peer * 4 + thread % 4 < 6) {
                #pragma unroll
                for (int i5 = 0; i5 < 2; ++i5) {
                    send_4B(&mean_sum_cluster[rank * 192 + thread / 32 * 16 + i5 * 8 + thread / 4 % 8], &mean_sum[i5], &mean_sum_cluster_full[0], peer * 4 + thread % 4);
                }
            }
        }
        #pragma unroll
        for (int i6 = 0; i6 < 2; ++i6) {
            mean_sum[i6] = 0.0f;
        }
        mbarrier_wait(&mean_sum_cluster_full[0], 0);
        #pragma unroll
        for (int i7 = 0; i7 < 2; ++i7) {
            #pragma unroll
            for (int peer2 = 0; peer2 < 6; ++peer2) {
                other3[0] = mean_sum_cluster[peer2 * 192 + thread / 32 * 16 + i7 * 8 + thread / 4 % 8];
                mean_sum[i7] = mean_sum[i7] + other3[0];
            }
        }

        // mean: f32 in mean_rf
        #pragma unroll
        for (int m6 = 0; m6 < 2; ++m6) {
            mean_rf[m6] = __fmul_rn(mean_sum[m6], 0.0013020834f);
        }

        // square_sum: add over n
        #pragma unroll
        for (int i8 = 0; i8 < 2; ++i8) {
            square_sum[i8] = 0.0f;
        }
        #pragma unroll
        for (int m7 = 0; m7 < 2; ++m7) {
            #pragma unroll
            for (int n7 = 0; n7 < 32; ++n7) {
                part[0] = z_rf[m7 * 2 + n7 % 2 + n7 / 2 * 4] - mean_rf[m7];
                square_sum[m7] = fmaf(part[0], part[0], square_sum[m7]);
            }
        }
        #pragma unroll
        for (int i9 = 0; i9 < 2; ++i9) {
            shuffle_4B(&other4[0], &square_sum[i9], thread % 32 ^ 2);
            square_sum[i9] = square_sum[i9] + other4[0];
        }
        #pragma unroll
        for (int i10 = 0; i10 < 2; ++i10) {
            shuffle_4B(&other5[0], &square_sum[i10], thread % 32 ^ 1);
            square_sum[i10] = square_sum[i10] + other5[0];
        }

        // square_sum over 6 blocks of a cluster
        if (thread == 0) {
            mbarrier_expect(&square_sum_cluster_full[0], 4608);
        }
        __syncwarp();  // the warp has read the states of the trip before
        #pragma unroll
        for (int peer3 = 0; peer3 < 2; ++peer3) {
            if (peer3 * 4 + thread % 4 < 6) {
                #pragma unroll
                for (int i11 = 0; i11 < 2; ++i11) {
                    send_4B(&square_sum_cluster[rank * 192 + thread / 32 * 16 + i11 * 8 + thread / 4 % 8], &square_sum[i11], &square_sum_cluster_full[0], peer3 * 4 + thread % 4);
                }
            }
        }
        #pragma unroll
        for (int i12 = 0; i12 < 2; ++i12) {
            square_sum[i12] = 0.0f;
        }
        mbarrier_wait(&square_sum_cluster_full[0], 0);
        #pragma unroll
        for (int i13 = 0; i13 < 2; ++i13) {
            #pragma unroll
            for (int peer4 = 0; peer4 < 6; ++peer4) {
                other6[0] = square_sum_cluster[peer4 * 192 + thread / 32 * 16 + i13 * 8 + thread / 4 % 8];
                square_sum[i13] = square_sum[i13] + other6[0];
            }
        }

        // load g to g_rf: Move(128)(GL, RF)(Block)
        #pragma unroll
        for (int n11 = 0; n11 < 16; ++n11) {
            copy_4B(&g_rf[n11 * 2], &g[rank * 128 + thread % 4 * 2 + n11 * 8]);
        }

        // load s to s_rf: Move(128)(GL, RF)(Block)
        #pragma unroll
        for (int n10 = 0; n10 < 16; ++n10) {
            copy_4B(&s_rf[n10 * 2], &s[rank * 128 + thread % 4 * 2 + n10 * 8]);
        }

        // y: f16 in y_rf
        #pragma unroll
        for (int m8 = 0; m8 < 2; ++m8) {
            #pragma unroll
            for (int n8 = 0; n8 < 32; ++n8) {
                y_rf[m8 * 32 + n8] = float_to_half(fmaf(__fmul_rn(z_rf[m8 * 2 + n8 % 2 + n8 / 2 * 4] - mean_rf[m8], rsqrtf(fmaf(square_sum[m8], 0.0013020834f, 1e-05f))), half_to_float(g_rf[n8]), half_to_float(s_rf[n8])));
            }
        }

        // store y: Move(192, 128)(RF, GL)(Block)
        #pragma unroll
        for (int m9 = 0; m9 < 2; ++m9) {
            #pragma unroll
            for (int n9 = 0; n9 < 16; ++n9) {
                copy_4B(&y[cluster_m * 147456 + warpgroup * 49152 + thread / 4 % 8 * 768 + thread / 32 % 4 * 12288 + m9 * 6144 + rank * 128 + thread % 4 * 2 + n9 * 8], &y_rf[m9 * 32 + n9 * 2]);
            }
        }
    }
}

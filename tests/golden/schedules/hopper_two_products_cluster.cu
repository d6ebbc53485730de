struct half { unsigned short bits; };
struct alignas(64) TensorMap { unsigned long long words[16]; };

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

__device__ __forceinline__ float divide_quick(float x, float y) {
    float z;
    asm("div.full.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
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

__device__ __forceinline__ void bulk_commit() {
    asm volatile("cp.async.bulk.commit_group;" : : : "memory");
}

template <int pending>
__device__ __forceinline__ void bulk_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(pending) : "memory");
}

__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}

__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" : : "l"(map) : "memory");
}

__device__ __forceinline__ void prefetch_line(const void* place) {
    asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(place)) : "memory");
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

__device__ __forceinline__ void mbarrier_arrive(unsigned long long* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive_release_at(unsigned long long* barrier, int rank) {
    asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; "
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]; }"
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

__device__ __forceinline__ void mbarrier_wait_cluster(unsigned long long* barrier, int parity) {
    const unsigned address = shared_address(barrier);
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
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

template <int number, int threads>
__device__ __forceinline__ void barrier_sync() {
    asm volatile("bar.sync %0, %1;" : : "n"(number), "n"(threads) : "memory");
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
__device__ __forceinline__ void wgmma_m64n24k16_f32_f16(
    void* c_registers, unsigned long long a, unsigned long long b, int accumulate) {
    float* d = static_cast<float*>(c_registers);
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %14, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11}, %12, %13, p, 1, 1, %15, %16; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
        : "l"(a), "l"(b), "r"(accumulate), "n"(a_major), "n"(b_major));
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void load_peer_16B(void* dst, const void* src, int rank) {
    unsigned* words = static_cast<unsigned*>(dst);
    asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %4, %5; "
        "ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [remote]; }"
        : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(shared_address(src)), "r"(rank) : "memory");
}

__device__ __forceinline__ void stmatrix_x2(void* row, const void* registers) {
    const unsigned* s = static_cast<const unsigned*>(registers);
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};"
        : : "r"(address), "r"(s[0]), "r"(s[1]) : "memory");
}

__device__ __forceinline__ void tma_store_2d(
    const TensorMap* map, const void* src, int c0, int c1) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
        : : "l"(map), "r"(static_cast<unsigned>(__cvta_generic_to_shared(src))), "r"(c0), "r"(c1) : "memory");
}

extern "C" __global__ void __launch_bounds__(256) __cluster_dims__(3, 1, 1)
hopper_64x24x64_k3_f16_f32(
    const half* __restrict__ X,
    const half* __restrict__ W,
    const half* __restrict__ U,
    half* __restrict__ Y,
    const __grid_constant__ TensorMap X_map,
    const __grid_constant__ TensorMap W_map,
    const __grid_constant__ TensorMap U_map,
    const __grid_constant__ TensorMap Y_map) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    const int rank = cluster_rank();
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    __builtin_assume(rank >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* x_sh = reinterpret_cast<half*>(shared);
    half* w_sh = reinterpret_cast<half*>(shared + 16384);
    half* u_sh = reinterpret_cast<half*>(shared + 22528);
    float* p_sh = reinterpret_cast<float*>(shared + 28672);
    float* q_sh = reinterpret_cast<float*>(shared + 34816);
    half* p_sh2 = reinterpret_cast<half*>(shared + 40960);
    unsigned long long* full = reinterpret_cast<unsigned long long*>(shared + 44032);
    unsigned long long* empty = reinterpret_cast<unsigned long long*>(shared + 44048);
    unsigned long long* summed = reinterpret_cast<unsigned long long*>(shared + 44064);
    unsigned long long* taken = reinterpret_cast<unsigned long long*>(shared + 44072);
    alignas(16) float p[12];
    alignas(16) float q[12];
    alignas(16) float p_sum[12];
    alignas(16) float q_sum[12];
    alignas(16) float p_vec[4];
    alignas(16) half p_sh2_packed[4];
    if (threadIdx.x == 0) {
        prefetch_map(&X_map);
        prefetch_map(&W_map);
        prefetch_map(&U_map);
        prefetch_map(&Y_map);
    }
    if (thread > 127) {
        const int first_tile = block / 3;
        const int first_tile_n = first_tile;
        if (thread < 160) {
            const int line = thread * 2 + first_tile % 2 - 256;
            if (line < 24) {
                prefetch_line(&X[rank * 128 + line * 328]);  // it is read soon
            }
        }
        if (thread > 159 && thread < 184) {
            const int line2 = thread - 160;
            prefetch_line(&W[rank * 128 + first_tile_n * 7872 + line2 * 328]);  // it is read soon
        }
        if (thread > 183 && thread < 208) {
            const int line3 = thread - 184;
            prefetch_line(&U[rank * 128 + first_tile_n * 7872 + line3 * 328]);  // it is read soon
        }
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(&full[i], 1);
        }
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(&empty[i], 1);
        }
        for (int i = 0; i < 1; ++i) {
            mbarrier_init(&summed[i], 12);
        }
        for (int i = 0; i < 1; ++i) {
            mbarrier_init(&taken[i], 4);
        }
    }
    fence_barrier_init();  // others use the barriers, and bulk copies do
    cluster_meet();  // barriers are initialised before peers use them
    const int warp_of_block = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    if (warp_of_block < 4) {  // load
        const int thread = threadIdx.x;
        __builtin_assume(thread >= 0);
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        if (thread == 0) {
            #pragma unroll 1
            for (int trip = 0; trip * (blocks / 3) + block / 3 < 3; ++trip) {

                // MatMul(64, 24, 328)(4 GL)(Block)
                const int tile = block / 3 + trip * (blocks / 3);
                const int tile_m = 0;
                const int tile_n = tile;
                #pragma unroll 1
                for (int k = 0; k < 2; ++k) {
                    mbarrier_wait(&empty[ring_slot], 1 - ring_parity);
                    mbarrier_expect(&full[ring_slot], 14336);

                    // load X to x_sh: Move(64, 64)(GL, SH)(Block)
                    tma_load_2d(&x_sh[ring_slot * 4096], &X_map, &full[ring_slot], rank * 128 + k * 64, tile_m * 64);

                    // load W to w_sh: Move(64, 24)(GL, SH)(Block)
                    tma_load_2d(&w_sh[ring_slot * 1536], &W_map, &full[ring_slot], rank * 128 + k * 64, tile_n * 24);

                    // load U to u_sh: Move(64, 24)(GL, SH)(Block)
                    tma_load_2d(&u_sh[ring_slot * 1536], &U_map, &full[ring_slot], rank * 128 + k * 64, tile_n * 24);
                    if (++ring_slot == 2) ring_slot = 0, ring_parity ^= 1;
                }
            }
        }
    } else {  // math
        const int thread = threadIdx.x - 128;
        __builtin_assume(thread >= 0);
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        const int warp = __shfl_sync(0xffffffff, thread / 32, 0);
        #pragma unroll 1
        for (int trip = 0; trip * (blocks / 3) + block / 3 < 3; ++trip) {

            // MatMul(64, 24, 328)(4 GL)(Block)
            const int tile = block / 3 + trip * (blocks / 3);
            const int tile_m = 0;
            const int tile_n = tile;
            #pragma unroll 1
            for (int k = 0; k < 2; ++k) {
                mbarrier_wait(&full[ring_slot], ring_parity);
                wgmma_fence();  // accumulators are registers

                // MatMul(64, 24, 64)(3 SH, 2 FR)(Warpgroup)
                #pragma unroll
                for (int k2 = 0; k2 < 4; ++k2) {
                    wgmma_m64n24k16_f32_f16<0, 0>(&p[0], wgmma_operand<1, 16, 1024>(&x_sh[ring_slot * 4096], k2 * 32), wgmma_operand<1, 16, 1024>(&w_sh[ring_slot * 1536], k2 * 32), k != 0 || k2 != 0);
                    wgmma_m64n24k16_f32_f16<0, 0>(&q[0], wgmma_operand<1, 16, 1024>(&x_sh[ring_slot * 4096], k2 * 32), wgmma_operand<1, 16, 1024>(&u_sh[ring_slot * 1536], k2 * 32), k != 0 || k2 != 0);
                }
                wgmma_commit();
                wgmma_wait<1>();
                if (thread == 0 && k > 0) {
                    mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 1 : ring_slot - 1]);
                }
                if (++ring_slot == 2) ring_slot = 0, ring_parity ^= 1;
            }
            wgmma_wait<0>();
            if (thread == 0) {
                mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 1 : ring_slot - 1]);
            }

            // Reduce(3)(FR)(Cluster)
            #pragma unroll
            for (int i7 = 0; i7 < 3; ++i7) {
                copy_16B(&p_sh[i7 * 512 + thread * 4], &p[i7 * 4]);
            }
            #pragma unroll
            for (int i8 = 0; i8 < 3; ++i8) {
                copy_16B(&q_sh[i8 * 512 + thread * 4], &q[i8 * 4]);
            }
            __syncwarp();  // the warp has written its sums
            if (thread % 32 < 1) {
                mbarrier_arrive_release_at(&summed[0], thread % 32);
            }
            if (rank < 1) {
                mbarrier_wait_cluster(&summed[0], trip % 2);
                #pragma unroll
                for (int i3 = 0; i3 < 3; ++i3) {
                    load_peer_16B(&p_sum[i3 * 4], &p_sh[i3 * 512 + thread * 4], rank);
                }
                #pragma unroll
                for (int w = 0; w < 2; ++w) {
                    #pragma unroll
                    for (int i4 = 0; i4 < 3; ++i4) {
                        load_peer_16B(&p_vec[0], &p_sh[i4 * 512 + thread * 4], (rank + w + 1) % 3);
                        #pragma unroll
                        for (int e = 0; e < 4; ++e) {
                            p_sum[i4 * 4 + e] = p_sum[i4 * 4 + e] + p_vec[e];
                        }
                    }
                }
                #pragma unroll
                for (int i5 = 0; i5 < 3; ++i5) {
                    load_peer_16B(&q_sum[i5 * 4], &q_sh[i5 * 512 + thread * 4], rank);
                }
                #pragma unroll
                for (int w2 = 0; w2 < 2; ++w2) {
                    #pragma unroll
                    for (int i6 = 0; i6 < 3; ++i6) {
                        load_peer_16B(&p_vec[0], &q_sh[i6 * 512 + thread * 4], (rank + w2 + 1) % 3);
                        #pragma unroll
                        for (int e2 = 0; e2 < 4; ++e2) {
                            q_sum[i6 * 4 + e2] = q_sum[i6 * 4 + e2] + p_vec[e2];
                        }
                    }
                }
            }
            if (rank < 1) {

                // Pointwise(FR)(Block)
                #pragma unroll
                for (int n22 = 0; n22 < 3; ++n22) {
                    #pragma unroll
                    for (int m3 = 0; m3 < 2; ++m3) {
                        #pragma unroll
                        for (int n5 = 0; n5 < 2; ++n5) {
                            p_sum[n22 * 4 + m3 * 2 + n5] = __fmul_rn(divide_quick(p_sum[n22 * 4 + m3 * 2 + n5], 1.0f + exp2_approx(fminf_nan(__fmul_rn(p_sum[n22 * 4 + m3 * 2 + n5], -1.442695f), 115.4156f))), q_sum[n22 * 4 + m3 * 2 + n5]);
                        }
                    }
                }

                // store Y: Move(64, 24)(FR, GL)(Block)
                if (thread == 0) {
                    bulk_wait_read<0>();
                }
                barrier_sync<0, 128>();  // p_sh2 is read before it is overwritten

                // load p_sum to p_sh2: Move(64, 24)(FR, SH)(Warpgroup)
                #pragma unroll
                for (int n6 = 0; n6 < 3; ++n6) {
                    #pragma unroll
                    for (int e3 = 0; e3 < 4; ++e3) {
                        p_sh2_packed[e3] = float_to_half(p_sum[n6 * 4 + e3]);
                    }
                    stmatrix_x2(&p_sh2[warp * 384 + thread % 16 * 24 + n6 * 8], &p_sh2_packed[0]);
                }
                fence_proxy_async();  // p_sh2 is written before a bulk store reads it
                barrier_sync<0, 128>();  // p_sh2 is written before it is read
                if (thread < 1) {
                    tma_store_2d(&Y_map, &p_sh2[0], tile_n * 24, tile_m * 64);
                }
                if (thread == 0) {
                    bulk_commit();
                }
                if (thread % 32 < 3) {
                    mbarrier_arrive_release_at(&taken[0], thread % 32);
                }
            }
            mbarrier_wait_cluster(&taken[0], trip % 2);
        }
        bulk_wait_read<0>();
    }
}

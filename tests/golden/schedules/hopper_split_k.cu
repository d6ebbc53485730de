struct bf16 { unsigned short bits; };
struct alignas(64) TensorMap { unsigned long long words[16]; };

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

__device__ __forceinline__ void mbarrier_wait(unsigned long long* barrier, int parity) {
    const unsigned address = shared_address(barrier);
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(done) : "r"(address), "r"(parity) : "memory");
    } while (!done);
}

template <int number, int threads>
__device__ __forceinline__ void barrier_sync() {
    asm volatile("bar.sync %0, %1;" : : "n"(number), "n"(threads) : "memory");
}

template <int number, int threads>
__device__ __forceinline__ void barrier_arrive() {
    asm volatile("bar.arrive %0, %1;" : : "n"(number), "n"(threads) : "memory");
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
__device__ __forceinline__ void wgmma_m64n16k16_f32_bf16(
    void* c_registers, unsigned long long a, unsigned long long b, int accumulate) {
    float* d = static_cast<float*>(c_registers);
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, %11, %12; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "l"(a), "l"(b), "r"(accumulate), "n"(a_major), "n"(b_major));
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ int count_in(int* counter, int count, bool first, int barrier, int threads) {
    unsigned before = 0;
    if (first) {
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
            : "=r"(before) : "l"(__cvta_generic_to_global(counter)), "r"(count - 1) : "memory");
    }
    const int last = first && (int)before == count - 1;
    int any;
    asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; "
        "barrier.red.or.pred q, %2, %3, p; selp.s32 %0, 1, 0, q; }"
        : "=r"(any) : "r"(last), "r"(barrier), "r"(threads) : "memory");
    return any;
}

__device__ __forceinline__ void stmatrix_x4_trans(void* row, const void* registers) {
    const unsigned* s = static_cast<const unsigned*>(registers);
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
        : : "r"(address), "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3]) : "memory");
}

__device__ __forceinline__ void tma_store_2d(
    const TensorMap* map, const void* src, int c0, int c1) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
        : : "l"(map), "r"(static_cast<unsigned>(__cvta_generic_to_shared(src))), "r"(c0), "r"(c1) : "memory");
}

extern "C" __global__ void __launch_bounds__(256)
gemm_64x16x64_k2_bf16_f32(
    const bf16* __restrict__ A,
    const bf16* __restrict__ B,
    bf16* __restrict__ C,
    const __grid_constant__ TensorMap B_map,
    const __grid_constant__ TensorMap A_map,
    const __grid_constant__ TensorMap C_map,
    float* partial,
    int* arrived) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    bf16* b_sh = reinterpret_cast<bf16*>(shared);
    bf16* a_sh = reinterpret_cast<bf16*>(shared + 32768);
    bf16* acc_sh = reinterpret_cast<bf16*>(shared + 40960);
    unsigned long long* full = reinterpret_cast<unsigned long long*>(shared + 43008);
    unsigned long long* empty = reinterpret_cast<unsigned long long*>(shared + 43040);
    alignas(16) float acc[8];
    alignas(16) bf16 acc_sh_packed[8];
    alignas(16) float other[8];
    if (threadIdx.x == 0) {
        prefetch_map(&B_map);
        prefetch_map(&A_map);
        prefetch_map(&C_map);
    }
    if (thread > 127) {
        const int first_item = block;
        const int first_way = first_item % 2;
        const int first_tile = first_item / 2;
        const int first_tile_m = first_tile;
        if (thread < 192) {
            const int line = thread - 128;
            prefetch_line(&B[first_tile_m * 262144 + first_way * 2048 + line * 4096]);  // it is read soon
        }
        if (thread > 191 && thread < 196) {
            const int line2 = thread * 4 + first_tile % 4 - 768;
            prefetch_line(&A[first_way * 2048 + line2 * 4096]);  // it is read soon
        }
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; ++i) {
            mbarrier_init(&full[i], 1);
        }
        for (int i = 0; i < 4; ++i) {
            mbarrier_init(&empty[i], 1);
        }
    }
    fence_barrier_init();  // others use the barriers, and bulk copies do
    const int warp_of_block = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    if (warp_of_block < 4) {  // load
        const int thread = threadIdx.x;
        __builtin_assume(thread >= 0);
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        barrier_arrive<7, 256>();  // barriers are initialised before they are used
        if (thread == 0) {
            #pragma unroll 1
            for (int trip = 0; trip * blocks + block < 128; ++trip) {

                // MatMul(64, 16, 4096)(GL, GL, GL)(Block)
                const int item = block + trip * blocks;
                const int way = item % 2;
                const int tile = item / 2;
                const int tile_m = tile;
                const int tile_n = 0;
                #pragma unroll 1
                for (int k = 0; k < 32; ++k) {
                    mbarrier_wait(&empty[ring_slot], 1 - ring_parity);
                    mbarrier_expect(&full[ring_slot], 10240);

                    // load B to b_sh: Move(64, 64)(GL, SH)(Block)
                    tma_load_2d(&b_sh[ring_slot * 4096], &B_map, &full[ring_slot], way * 2048 + k * 64, tile_m * 64);

                    // load A to a_sh: Move(64, 16)(GL, SH)(Block)
                    tma_load_2d(&a_sh[ring_slot * 1024], &A_map, &full[ring_slot], way * 2048 + k * 64, tile_n * 16);
                    if (++ring_slot == 4) ring_slot = 0, ring_parity ^= 1;
                }
            }
        }
    } else {  // math
        const int thread = threadIdx.x - 128;
        __builtin_assume(thread >= 0);
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        barrier_sync<7, 256>();  // barriers are initialised before they are used
        const int warp = __shfl_sync(0xffffffff, thread / 32, 0);
        #pragma unroll 1
        for (int trip = 0; trip * blocks + block < 128; ++trip) {

            // MatMul(64, 16, 4096)(GL, GL, GL)(Block)
            const int item = block + trip * blocks;
            const int way = item % 2;
            const int tile = item / 2;
            const int tile_m = tile;
            const int tile_n = 0;
            #pragma unroll 1
            for (int k = 0; k < 32; ++k) {
                mbarrier_wait(&full[ring_slot], ring_parity);
                wgmma_fence();  // accumulators are registers

                // MatMul(64, 16, 64)(SH, SH, FR)(Warpgroup)
                #pragma unroll
                for (int k2 = 0; k2 < 4; ++k2) {
                    wgmma_m64n16k16_f32_bf16<0, 0>(&acc[0], wgmma_operand<1, 16, 1024>(&b_sh[ring_slot * 4096], k2 * 32), wgmma_operand<1, 16, 1024>(&a_sh[ring_slot * 1024], k2 * 32), k != 0 || k2 != 0);
                }
                wgmma_commit();
                wgmma_wait<1>();
                if (thread == 0 && k > 0) {
                    mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 3 : ring_slot - 1]);
                }
                if (++ring_slot == 4) ring_slot = 0, ring_parity ^= 1;
            }
            wgmma_wait<0>();
            if (thread == 0) {
                mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 3 : ring_slot - 1]);
            }

            // Reduce(2)(FR)(Blocks)
            #pragma unroll
            for (int i2 = 0; i2 < 2; ++i2) {
                copy_16B(&partial[tile * 2048 + way * 1024 + i2 * 512 + thread * 4], &acc[i2 * 4]);
            }
            barrier_sync<0, 128>();  // all threads have written partial
            const int last = count_in(&arrived[tile], 2, thread == 0, 0, 128);
            if (last) {

                // Reduce: sum of 2 Blocks
                #pragma unroll
                for (int i4 = 0; i4 < 8; ++i4) {
                    acc[i4] = 0.0f;
                }
                #pragma unroll
                for (int u = 0; u < 2; ++u) {
                    #pragma unroll
                    for (int v = 0; v < 2; ++v) {
                        copy_16B(&other[v * 4], &partial[tile * 2048 + u * 1024 + v * 512 + thread * 4]);
                    }
                    #pragma unroll
                    for (int i3 = 0; i3 < 8; ++i3) {
                        acc[i3] = acc[i3] + other[i3];
                    }
                }

                // store C: Move(64, 16)(FR, GL)(Block)
                if (thread == 0) {
                    bulk_wait_read<0>();
                }
                barrier_sync<0, 128>();  // acc_sh is read before it is overwritten

                // load acc to acc_sh: Move(64, 16)(FR, SH)(Warpgroup)
                #pragma unroll
                for (int e = 0; e < 8; ++e) {
                    acc_sh_packed[e] = float_to_bf16(acc[e]);
                }
                stmatrix_x4_trans(&acc_sh[thread % 8 * 64 + thread / 16 % 2 * 512 + (warp * 2 + thread / 8 % 2 ^ thread % 8) * 8], &acc_sh_packed[0]);
                fence_proxy_async();  // acc_sh is written before a bulk store reads it
                barrier_sync<0, 128>();  // acc_sh is written before it is read
                if (thread < 1) {
                    tma_store_2d(&C_map, &acc_sh[0], tile_m * 64, tile_n * 16);
                }
                if (thread == 0) {
                    bulk_commit();
                }
            }
        }
        bulk_wait_read<0>();
    }
}

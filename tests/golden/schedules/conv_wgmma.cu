struct half { unsigned short bits; };
struct alignas(64) TensorMap { unsigned long long words[16]; };

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

template <int number, int threads>
__device__ __forceinline__ void barrier_sync() {
    asm volatile("bar.sync %0, %1;" : : "n"(number), "n"(threads) : "memory");
}

template <int count>
__device__ __forceinline__ void registers_increase() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(count));
}

template <int count>
__device__ __forceinline__ void registers_decrease() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(count));
}

__device__ __forceinline__ void tma_load_4d_multicast(
    void* dst, const TensorMap* map, unsigned long long* barrier, unsigned short peers, int c0, int c1, int c2, int c3) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;"
        : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(map), "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))),
            "r"(c0), "r"(c1), "r"(c2), "r"(c3), "h"(peers) : "memory");
}

__device__ __forceinline__ void tma_load_4d(
    void* dst, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2, int c3) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2];"
        : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(map), "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))),
            "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
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
__device__ __forceinline__ void wgmma_m64n64k16_f32_f16(
    void* c_registers, unsigned long long a, unsigned long long b, int accumulate) {
    float* d = static_cast<float*>(c_registers);
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, %35, %36; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "r"(accumulate), "n"(a_major), "n"(b_major));
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

extern "C" __global__ void __launch_bounds__(384, 1) __cluster_dims__(2, 1, 1)
wgmma_8x4x4x64x1_f16(
    const half* __restrict__ x,
    const half* __restrict__ f,
    half* __restrict__ y,
    const __grid_constant__ TensorMap x_map,
    const __grid_constant__ TensorMap f_map) {
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    const int rank = cluster_rank();
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    __builtin_assume(rank >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* x_sh = reinterpret_cast<half*>(shared);
    half* f_sh = reinterpret_cast<half*>(shared + 131072);
    half* y_sh = reinterpret_cast<half*>(shared + 196608);
    unsigned long long* full = reinterpret_cast<unsigned long long*>(shared + 215040);
    unsigned long long* empty = reinterpret_cast<unsigned long long*>(shared + 215104);
    alignas(16) float product[32];
    alignas(16) half y_rf[32];
    if (threadIdx.x == 0) {
        prefetch_map(&x_map);
        prefetch_map(&f_map);
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 8; ++i) {
            mbarrier_init(&full[i], 1);
        }
        for (int i = 0; i < 8; ++i) {
            mbarrier_init(&empty[i], 4);
        }
    }
    fence_barrier_init();  // others use the barriers, and bulk copies do
    cluster_meet();  // barriers are initialised before peers use them
    const int warp_of_block = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    if (warp_of_block < 4) {  // load
        const int thread = threadIdx.x;
        __builtin_assume(thread >= 0);
        registers_decrease<24>();
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        if (thread == 0) {
            #pragma unroll 1
            for (int trip = 0; trip * (blocks / 2) + block / 2 < 196; ++trip) {

                // Program(8, 4, 4, 128, 3, 3, 128)(GL, GL, GL)(Cluster)
                const int tile = block / 2 + trip * (blocks / 2);
                const int tile_n = tile / 49;
                const int tile_p = tile / 7 % 7;
                const int tile_q = tile % 7;
                const int tile_k = 0;

                // Program(8, 4, 4, 64, 3, 3, 128)(GL, GL, GL)(Block)
                #pragma unroll 1
                for (int chunk = 0; chunk < 18; ++chunk) {
                    mbarrier_wait(&empty[ring_slot], 1 - ring_parity);
                    mbarrier_expect(&full[ring_slot], 24576);

                    // load x to x_sh: Move(8, 4, 4, 64)(GL, SH)(Block)
                    tma_load_4d_multicast(&x_sh[ring_slot * 8192 + rank * 4096], &x_map, &full[ring_slot], 3, chunk % 2 * 64, tile_q * 8 + chunk / 2 % 3 - 1, tile_p * 8 + chunk / 6 - 1, tile_n * 8 + rank * 4);

                    // load f to f_sh: Move(64, 1, 1, 64)(GL, SH)(Block)
                    tma_load_4d(&f_sh[ring_slot * 4096], &f_map, &full[ring_slot], chunk % 2 * 64, chunk / 2 % 3, chunk / 6, tile_k * 128 + rank * 64);
                    if (++ring_slot == 8) ring_slot = 0, ring_parity ^= 1;
                }
            }
            #pragma unroll 1
            for (int slot = 0; slot < 8; ++slot) {
                mbarrier_wait(&empty[ring_slot], 1 - ring_parity);
                if (++ring_slot == 8) ring_slot = 0, ring_parity ^= 1;
            }
        }
    } else {  // math
        const int thread = threadIdx.x - 128;
        __builtin_assume(thread >= 0);
        registers_increase<240>();
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        const int warpgroup = __shfl_sync(0xffffffff, thread / 128, 0);
        const int thread_p = __shfl_sync(0xffffffff, thread / 32 % 4, 0);
        const int thread_q = thread / 8 % 4;
        const int thread_k = thread % 8;
        #pragma unroll 1
        for (int trip = 0; trip * (blocks / 2) + block / 2 < 196; ++trip) {

            // Program(8, 4, 4, 128, 3, 3, 128)(GL, GL, GL)(Cluster)
            const int tile = block / 2 + trip * (blocks / 2);
            const int tile_n = tile / 49;
            const int tile_p = tile / 7 % 7;
            const int tile_q = tile % 7;
            const int tile_k = 0;

            // Program(8, 4, 4, 64, 3, 3, 128)(GL, GL, GL)(Block)
            #pragma unroll
            for (int i = 0; i < 32; ++i) {
                product[i] = 0.0f;
            }
            #pragma unroll 1
            for (int chunk = 0; chunk < 18; ++chunk) {
                mbarrier_wait(&full[ring_slot], ring_parity);
                wgmma_fence();  // accumulators are registers

                // product: add by atoms
                #pragma unroll
                for (int k = 0; k < 4; ++k) {
                    wgmma_m64n64k16_f32_f16<0, 0>(&product[0], wgmma_operand<1, 16, 1024>(&x_sh[ring_slot * 8192 + warpgroup * 4096], k * 32), wgmma_operand<1, 16, 1024>(&f_sh[ring_slot * 4096], k * 32), 1);
                }
                wgmma_commit();
                wgmma_wait<1>();
                if (thread % 128 < 2 && chunk > 0) {
                    mbarrier_arrive_at(&empty[ring_slot < 1 ? ring_slot + 7 : ring_slot - 1], thread % 128);
                }
                if (++ring_slot == 8) ring_slot = 0, ring_parity ^= 1;
            }
            wgmma_wait<0>();
            if (thread % 128 < 2) {
                mbarrier_arrive_at(&empty[ring_slot < 1 ? ring_slot + 7 : ring_slot - 1], thread % 128);
            }

            // y: f16 in y_rf
            #pragma unroll
            for (int p = 0; p < 2; ++p) {
                #pragma unroll
                for (int k2 = 0; k2 < 16; ++k2) {
                    y_rf[p * 2 + k2 % 2 + k2 / 2 * 4] = float_to_half(product[p * 2 + k2 % 2 + k2 / 2 * 4]);
                }
            }

            // store y: Move(8, 4, 4, 64)(RF, GL)(Block)

            // load y_rf to y_sh: Move(8, 4, 4, 64)(RF, SH)(Block)
            #pragma unroll
            for (int p2 = 0; p2 < 2; ++p2) {
                #pragma unroll
                for (int k3 = 0; k3 < 8; ++k3) {
                    copy_4B(&y_sh[warpgroup * 4608 + thread / 32 % 4 * 1152 + thread / 4 % 8 * 72 + p2 * 576 + thread % 4 * 2 + k3 * 8], &y_rf[p2 * 2 + k3 * 4]);
                }
            }
            barrier_sync<0, 256>();  // y_sh is written before it is read
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
                copy_16B(&y[tile_n * 802816 + r * 200704 + thread / 128 * 100352 + tile_p * 14336 + thread_p * 3584 + tile_q * 512 + thread_q * 128 + tile_k * 128 + rank * 64 + thread_k * 8], &y_sh[r * 2304 + thread / 128 * 1152 + thread_p * 288 + thread_q * 72 + thread_k * 8]);
            }
            barrier_sync<0, 256>();  // y_sh is read before it is overwritten
        }
    }
}

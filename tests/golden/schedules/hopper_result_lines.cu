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

template <int count>
__device__ __forceinline__ void registers_increase() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(count));
}

template <int count>
__device__ __forceinline__ void registers_decrease() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(count));
}

__device__ __forceinline__ void sync_threads(int barrier, int threads) {
    asm volatile("barrier.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
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

__device__ __forceinline__ void stmatrix_x4(void* row, const void* registers) {
    const unsigned* s = static_cast<const unsigned*>(registers);
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
        : : "r"(address), "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3]) : "memory");
}

__device__ __forceinline__ void copy_2B(void* dst, const void* src) {
    *static_cast<unsigned short*>(dst) = *static_cast<const unsigned short*>(src);
}

extern "C" __global__ void __launch_bounds__(384, 1)
gemm_128x64x64_f16_f32(
    const half* __restrict__ A,
    const half* __restrict__ B,
    half* __restrict__ C,
    const __grid_constant__ TensorMap A_map,
    const __grid_constant__ TensorMap B_map) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* a_sh = reinterpret_cast<half*>(shared);
    half* b_sh = reinterpret_cast<half*>(shared + 131072);
    half* acc_sh = reinterpret_cast<half*>(shared + 196608);
    unsigned long long* full = reinterpret_cast<unsigned long long*>(shared + 215040);
    unsigned long long* empty = reinterpret_cast<unsigned long long*>(shared + 215104);
    alignas(16) float acc[32];
    alignas(16) half acc_sh_packed[8];
    if (threadIdx.x == 0) {
        prefetch_map(&A_map);
        prefetch_map(&B_map);
    }
    if (thread > 127) {
        const int first_tile = block;
        const int first_tile_m = first_tile % 4;
        const int first_tile_n = first_tile / 4;
        if (thread < 160) {
            const int line = thread * 4 + first_tile_n % 4 - 512;
            prefetch_line(&A[first_tile_m * 32768 + line * 256]);  // it is read soon
        }
        if (thread > 159 && thread < 176) {
            const int line2 = thread * 4 + first_tile % 4 - 640;
            if (first_tile_n * 64 + line2 < 509) {
                prefetch_line(&B[first_tile_n * 16384 + line2 * 256]);  // it is read soon
            }
        }
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 8; ++i) {
            mbarrier_init(&full[i], 1);
        }
        for (int i = 0; i < 8; ++i) {
            mbarrier_init(&empty[i], 2);
        }
    }
    fence_barrier_init();  // others use the barriers, and bulk copies do
    const int warp_of_block = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    if (warp_of_block < 4) {  // load
        const int thread = threadIdx.x;
        __builtin_assume(thread >= 0);
        registers_decrease<24>();
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        barrier_arrive<7, 384>();  // barriers are initialised before they are used
        if (thread == 0) {
            #pragma unroll 1
            for (int trip = 0; trip * blocks + block < 32; ++trip) {

                // MatMul(128, 64, 256)(GL, GL, GL)(Block)
                const int tile = block + trip * blocks;
                const int tile_m = tile % 4;
                const int tile_n = tile / 4;
                #pragma unroll 1
                for (int k = 0; k < 4; ++k) {
                    mbarrier_wait(&empty[ring_slot], 1 - ring_parity);
                    mbarrier_expect(&full[ring_slot], 24576);

                    // load A to a_sh: Move(128, 64)(GL, SH)(Block)
                    tma_load_2d(&a_sh[ring_slot * 8192], &A_map, &full[ring_slot], k * 64, tile_m * 128);

                    // load B to b_sh: Move(64, 64)(GL, SH)(Block)
                    tma_load_2d(&b_sh[ring_slot * 4096], &B_map, &full[ring_slot], k * 64, tile_n * 64);
                    if (++ring_slot == 8) ring_slot = 0, ring_parity ^= 1;
                }
            }
        }
    } else {  // math
        const int thread = threadIdx.x - 128;
        __builtin_assume(thread >= 0);
        registers_increase<240>();
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        barrier_sync<7, 384>();  // barriers are initialised before they are used
        const int warpgroup = __shfl_sync(0xffffffff, thread / 128, 0);
        const int thread2 = thread % 128;
        const int thread_n = thread2 % 64;
        const int warp = __shfl_sync(0xffffffff, thread / 32 % 4, 0);
        #pragma unroll 1
        for (int trip = 0; trip * blocks + block < 32; ++trip) {

            // MatMul(128, 64, 256)(GL, GL, GL)(Block)
            const int tile = block + trip * blocks;
            const int tile_m = tile % 4;
            const int tile_n = tile / 4;
            #pragma unroll 1
            for (int k = 0; k < 4; ++k) {
                mbarrier_wait(&full[ring_slot], ring_parity);
                wgmma_fence();  // accumulators are registers

                // MatMul(64, 64, 64)(SH, SH, FR)(Warpgroup)
                #pragma unroll
                for (int k2 = 0; k2 < 4; ++k2) {
                    wgmma_m64n64k16_f32_f16<0, 0>(&acc[0], wgmma_operand<1, 16, 1024>(&a_sh[ring_slot * 8192 + warpgroup * 4096], k2 * 32), wgmma_operand<1, 16, 1024>(&b_sh[ring_slot * 4096], k2 * 32), k != 0 || k2 != 0);
                }
                wgmma_commit();
                wgmma_wait<1>();
                if (thread % 128 == 0 && k > 0) {
                    mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 7 : ring_slot - 1]);
                }
                if (++ring_slot == 8) ring_slot = 0, ring_parity ^= 1;
            }
            wgmma_wait<0>();
            if (thread % 128 == 0) {
                mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 7 : ring_slot - 1]);
            }

            // store C: Move(128, 64)(FR, GL)(Block)

            // load acc to acc_sh: Move(64, 64)(FR, SH)(Warpgroup)
            #pragma unroll
            for (int n3 = 0; n3 < 4; ++n3) {
                #pragma unroll
                for (int e = 0; e < 8; ++e) {
                    acc_sh_packed[e] = float_to_half(acc[n3 * 8 + e]);
                }
                stmatrix_x4(&acc_sh[thread / 128 * 4608 + warp * 1152 + thread % 16 * 72 + n3 * 16 + thread / 16 % 2 * 8], &acc_sh_packed[0]);
            }
            sync_threads(1 + thread / 128, 128);  // acc_sh is written before it is read
            #pragma unroll
            for (int r = 0; r < 32; ++r) {
                if (tile_n * 64 + thread_n < 509) copy_2B(&C[tile_m * 65152 + thread / 128 * 32576 + r * 1018 + thread2 / 64 * 509 + tile_n * 64 + thread_n], &acc_sh[thread / 128 * 4608 + r * 144 + thread2 / 64 * 72 + thread_n]);
            }
            sync_threads(1 + thread / 128, 128);  // acc_sh is read before it is overwritten
        }
    }
}

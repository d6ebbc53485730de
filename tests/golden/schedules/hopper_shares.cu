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

__device__ __forceinline__ void meet(int* counter, unsigned count, bool first, int barrier, int threads) {
    if (first) {
        const unsigned wrap = 2 * count - 1;
        unsigned there;
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
            : "=r"(there) : "l"(__cvta_generic_to_global(counter)), "r"(wrap) : "memory");
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                : "=r"(there) : "l"(__cvta_generic_to_global(counter)) : "memory");
        } while (there < count);
        asm volatile("red.relaxed.gpu.global.inc.u32 [%0], %1;"
            : : "l"(__cvta_generic_to_global(counter)), "r"(wrap) : "memory");
    }
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

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
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

extern "C" __global__ void __launch_bounds__(256)
gemm_64x64x64_k8_f16_f32(
    const half* __restrict__ A,
    const half* __restrict__ B,
    half* __restrict__ C,
    const __grid_constant__ TensorMap A_map,
    const __grid_constant__ TensorMap B_map,
    const __grid_constant__ TensorMap C_map,
    float* partial,
    int* arrived) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* a_sh = reinterpret_cast<half*>(shared);
    half* b_sh = reinterpret_cast<half*>(shared + 32768);
    half* sum_sh = reinterpret_cast<half*>(shared + 65536);
    unsigned long long* full = reinterpret_cast<unsigned long long*>(shared + 66560);
    unsigned long long* empty = reinterpret_cast<unsigned long long*>(shared + 66592);
    alignas(16) float acc[32];
    float sum[4];
    alignas(16) float acc_read[32];
    alignas(16) half sum_sh_packed[4];
    if (threadIdx.x == 0) {
        prefetch_map(&A_map);
        prefetch_map(&B_map);
        prefetch_map(&C_map);
    }
    if (thread > 127) {
        if (thread < 192) {
            const int line = thread - 128;
            prefetch_line(&A[block * 512 + line * 4096]);  // it is read soon
        }
        if (thread > 191) {
            const int line2 = thread - 192;
            prefetch_line(&B[block * 512 + line2 * 4096]);  // it is read soon
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

            // MatMul(64, 64, 4096)(GL, GL, GL)(Block)
            #pragma unroll 1
            for (int k = 0; k < 8; ++k) {
                mbarrier_wait(&empty[ring_slot], 1 - ring_parity);
                mbarrier_expect(&full[ring_slot], 16384);

                // load A to a_sh: Move(64, 64)(GL, SH)(Block)
                tma_load_2d(&a_sh[ring_slot * 4096], &A_map, &full[ring_slot], block * 512 + k * 64, 0);

                // load B to b_sh: Move(64, 64)(GL, SH)(Block)
                tma_load_2d(&b_sh[ring_slot * 4096], &B_map, &full[ring_slot], block * 512 + k * 64, 0);
                if (++ring_slot == 4) ring_slot = 0, ring_parity ^= 1;
            }
        }
    } else {  // math
        const int thread = threadIdx.x - 128;
        __builtin_assume(thread >= 0);
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        barrier_sync<7, 256>();  // barriers are initialised before they are used
        const int warp = __shfl_sync(0xffffffff, thread / 32, 0);

        // MatMul(64, 64, 4096)(GL, GL, GL)(Block)
        #pragma unroll 1
        for (int k = 0; k < 8; ++k) {
            mbarrier_wait(&full[ring_slot], ring_parity);
            wgmma_fence();  // accumulators are registers

            // MatMul(64, 64, 64)(SH, SH, FR)(Warpgroup)
            #pragma unroll
            for (int k2 = 0; k2 < 4; ++k2) {
                wgmma_m64n64k16_f32_f16<0, 0>(&acc[0], wgmma_operand<1, 16, 1024>(&a_sh[ring_slot * 4096], k2 * 32), wgmma_operand<1, 16, 1024>(&b_sh[ring_slot * 4096], k2 * 32), k != 0 || k2 != 0);
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

        // Reduce(8)(FR)(Blocks, a share each)
        #pragma unroll
        for (int i3 = 0; i3 < 8; ++i3) {
            copy_16B(&partial[block * 4096 + i3 * 512 + thread * 4], &acc[i3 * 4]);
        }
        barrier_sync<0, 128>();  // all threads have written partial
        meet(&arrived[0], 8, thread == 0, 0, 128);

        // Reduce: a share of the sum of 8 Blocks
        #pragma unroll
        for (int i2 = 0; i2 < 4; ++i2) {
            sum[i2] = 0.0f;
        }
        #pragma unroll
        for (int w = 0; w < 8; ++w) {
            copy_16B(&acc_read[w * 4], &partial[w * 4096 + block * 512 + thread * 4]);
        }
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            #pragma unroll
            for (int w2 = 0; w2 < 8; ++w2) {
                sum[r] = sum[r] + acc_read[w2 * 4 + r];
            }
        }

        // store C: Move(64, 8)(FR, GL)(Block)

        // load sum to sum_sh: Move(64, 8)(FR, SH)(Warpgroup)
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
            sum_sh_packed[e] = float_to_half(sum[e]);
        }
        stmatrix_x2(&sum_sh[warp * 128 + thread % 16 * 8], &sum_sh_packed[0]);
        fence_proxy_async();  // sum_sh is written before a bulk store reads it
        barrier_sync<0, 128>();  // sum_sh is written before it is read
        if (thread < 1) {
            tma_store_2d(&C_map, &sum_sh[0], block * 8, 0);
        }
        if (thread == 0) {
            bulk_commit();
        }
        bulk_wait_read<0>();
    }
}

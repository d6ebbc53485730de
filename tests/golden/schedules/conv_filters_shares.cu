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

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

extern "C" __global__ void __launch_bounds__(256)
filters_wgmma_64x1x1x64x1_k2_f16(
    const half* __restrict__ y,
    const half* __restrict__ x,
    half* __restrict__ out_y,
    const __grid_constant__ TensorMap y_map,
    const __grid_constant__ TensorMap x_map,
    float* product_parts,
    int* arrived) {
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* y_sh = reinterpret_cast<half*>(shared);
    half* x_sh = reinterpret_cast<half*>(shared + 8192);
    unsigned long long* full = reinterpret_cast<unsigned long long*>(shared + 16384);
    unsigned long long* empty = reinterpret_cast<unsigned long long*>(shared + 16400);
    alignas(16) float product[32];
    float product_share[16];
    alignas(16) half out_y_rf[16];
    alignas(16) float other[16];
    if (threadIdx.x == 0) {
        prefetch_map(&y_map);
        prefetch_map(&x_map);
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(&full[i], 1);
        }
        for (int i = 0; i < 2; ++i) {
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
        const int way = block % 2;
        const int tile = block / 2;
        const int block_k = tile / 4;
        const int block_r = tile / 2 % 2;
        const int block_s = tile % 2;
        if (thread == 0) {

            // Program(64, 1, 1, 64, 6, 4, 5)(GL, GL, GL)(Block)
            #pragma unroll 1
            for (int chunk = 0; chunk < 3; ++chunk) {
                mbarrier_wait(&empty[ring_slot], 1 - ring_parity);
                mbarrier_expect(&full[ring_slot], 8192);

                // load y to y_sh: Move(1, 4, 8, 64)(GL, SH)(Block)
                tma_load_4d(&y_sh[ring_slot * 2048], &y_map, &full[ring_slot], block_k * 64, 0, 0, way * 3 + chunk);

                // load x to x_sh: Move(1, 4, 8, 64)(GL, SH)(Block)
                tma_load_4d(&x_sh[ring_slot * 2048], &x_map, &full[ring_slot], 0, block_s, block_r, way * 3 + chunk);
                if (++ring_slot == 2) ring_slot = 0, ring_parity ^= 1;
            }
        }
    } else {  // math
        const int thread = threadIdx.x - 128;
        __builtin_assume(thread >= 0);
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        barrier_sync<7, 256>();  // barriers are initialised before they are used
        const int way = block % 2;
        const int tile = block / 2;
        const int block_k = tile / 4;
        const int block_r = tile / 2 % 2;
        const int block_s = tile % 2;

        // Program(64, 1, 1, 64, 6, 4, 5)(GL, GL, GL)(Block)
        #pragma unroll
        for (int i = 0; i < 32; ++i) {
            product[i] = 0.0f;
        }
        #pragma unroll 1
        for (int chunk = 0; chunk < 3; ++chunk) {
            mbarrier_wait(&full[ring_slot], ring_parity);
            wgmma_fence();  // accumulators are registers

            // product: add by atoms
            #pragma unroll
            for (int k = 0; k < 2; ++k) {
                wgmma_m64n64k16_f32_f16<1, 1>(&product[0], wgmma_operand<1, 16, 1024>(&y_sh[ring_slot * 2048], k * 2048), wgmma_operand<1, 16, 1024>(&x_sh[ring_slot * 2048], k * 2048), 1);
            }
            wgmma_commit();
            wgmma_wait<1>();
            if (thread == 0 && chunk > 0) {
                mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 1 : ring_slot - 1]);
            }
            if (++ring_slot == 2) ring_slot = 0, ring_parity ^= 1;
        }
        wgmma_wait<0>();
        if (thread == 0) {
            mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 1 : ring_slot - 1]);
        }

        // product over 2 blocks
        #pragma unroll
        for (int i4 = 0; i4 < 8; ++i4) {
            copy_16B(&product_parts[tile * 8192 + way * 4096 + thread / 32 * 1024 + i4 * 128 + thread % 32 * 4], &product[i4 * 4]);
        }
        barrier_sync<0, 128>();  // all threads have written product_parts
        meet(&arrived[tile], 2, thread == 0, 0, 128);

        // product over 2 blocks: a share of it
        #pragma unroll
        for (int i3 = 0; i3 < 16; ++i3) {
            product_share[i3] = 0.0f;
        }
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                copy_16B(&other[v * 4], &product_parts[tile * 8192 + u * 4096 + thread / 32 * 1024 + way * 512 + v * 128 + thread % 32 * 4]);
            }
            #pragma unroll
            for (int i2 = 0; i2 < 16; ++i2) {
                product_share[i2] = product_share[i2] + other[i2];
            }
        }

        // out_y: f16 in out_y_rf
        #pragma unroll
        for (int k2 = 0; k2 < 2; ++k2) {
            #pragma unroll
            for (int c = 0; c < 8; ++c) {
                out_y_rf[k2 * 2 + c % 2 + c / 2 * 4] = float_to_half(product_share[k2 * 2 + c % 2 + c / 2 * 4]);
            }
        }

        // store out_y: Move(64, 1, 1, 32)(RF, GL)(Block)
        #pragma unroll
        for (int k3 = 0; k3 < 2; ++k3) {
            #pragma unroll
            for (int c2 = 0; c2 < 4; ++c2) {
                copy_4B(&out_y[block_k * 16384 + thread / 4 % 8 * 256 + thread / 32 * 4096 + k3 * 2048 + block_r * 128 + block_s * 64 + way * 32 + thread % 4 * 2 + c2 * 8], &out_y_rf[k3 * 2 + c2 * 4]);
            }
        }
    }
}

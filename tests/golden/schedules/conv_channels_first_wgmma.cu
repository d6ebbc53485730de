struct half { unsigned short bits; };

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

__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
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

template <int count>
__device__ __forceinline__ void registers_increase() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(count));
}

template <int count>
__device__ __forceinline__ void registers_decrease() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(count));
}

__device__ __forceinline__ void copy_or_zero_2B(void* dst, const void* src, bool read) {
    unsigned short value = {};
    if (read) value = *static_cast<const unsigned short*>(src);
    *static_cast<unsigned short*>(dst) = value;
}

__device__ __forceinline__ void copy_2B(void* dst, const void* src) {
    *static_cast<unsigned short*>(dst) = *static_cast<const unsigned short*>(src);
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
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

extern "C" __global__ void __launch_bounds__(512, 1)
wgmma_2x8x8x64x1_f16(
    const half* __restrict__ x,
    const half* __restrict__ f,
    half* __restrict__ y) {
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* x_sh = reinterpret_cast<half*>(shared);
    half* f_sh = reinterpret_cast<half*>(shared + 65536);
    half* y_sh = reinterpret_cast<half*>(shared + 98304);
    unsigned long long* full = reinterpret_cast<unsigned long long*>(shared + 114688);
    unsigned long long* empty = reinterpret_cast<unsigned long long*>(shared + 114752);
    alignas(16) float product[32];
    alignas(16) half x_rf[16];
    alignas(16) half f_rf[8];
    half y_rf[32];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 8; ++i) {
            mbarrier_init(&full[i], 8);
        }
        for (int i = 0; i < 8; ++i) {
            mbarrier_init(&empty[i], 2);
        }
    }
    fence_barrier_init();  // others use the barriers, and bulk copies do
    const int warp_of_block = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    if (warp_of_block < 8) {  // load
        const int thread = threadIdx.x;
        __builtin_assume(thread >= 0);
        registers_decrease<88>();
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        barrier_sync<7, 512>();  // barriers are initialised before they are used
        const int thread_p_r = thread / 8 % 8;
        const int thread_q_s = thread % 8;
        const int thread_c = __shfl_sync(0xffffffff, thread / 64, 0);
        const int thread_k = thread / 4;
        const int thread_c2 = thread % 4;
        #pragma unroll 1
        for (int trip = 0; trip * blocks + block < 784; ++trip) {

            // Program(2, 8, 8, 64, 3, 3, 64)(GL, GL, GL)(Block)
            const int tile = block + trip * blocks;
            const int tile_n = tile / 49;
            const int tile_p = tile / 7 % 7;
            const int tile_q = tile % 7;
            const int tile_k = 0;

            // load x to x_rf: Move(2, 8, 8, 32)(GL, RF)(Block)
            #pragma unroll
            for (int r = 0; r < 2; ++r) {
                #pragma unroll
                for (int c = 0; c < 8; ++c) {
                    copy_or_zero_2B(&x_rf[r * 8 + c], &x[tile_n * 401408 + r * 200704 + tile_p * 448 + thread_p_r * 56 + tile_q * 8 + thread_q_s + thread_c * 25088 + c * 3136 - 57], tile_p * 8 + thread_p_r > 0 && tile_q * 8 + thread_q_s > 0);
                }
            }

            // load f to f_rf: Move(64, 1, 1, 32)(GL, RF)(Block)
            #pragma unroll
            for (int c3 = 0; c3 < 8; ++c3) {
                copy_2B(&f_rf[c3], &f[tile_k * 36864 + thread_k * 576 + thread_c2 * 72 + c3 * 9]);
            }
            #pragma unroll 1
            for (int chunk = 0; chunk < 18; ++chunk) {
                mbarrier_wait(&empty[ring_slot], 1 - ring_parity);

                // load x to x_sh: Move(2, 8, 8, 32)(GL, SH)(Block)
                #pragma unroll
                for (int n = 0; n < 2; ++n) {
                    copy_16B(&x_sh[ring_slot * 4096 + n * 2048 + thread_p_r * 256 + thread_q_s * 32 + (thread_c ^ thread_q_s / 2) * 8], &x_rf[n * 8]);
                }

                // load f to f_sh: Move(64, 1, 1, 32)(GL, SH)(Block)
                copy_16B(&f_sh[ring_slot * 2048 + thread_k * 32 + (thread_c2 ^ thread_k / 2 % 4) * 8], &f_rf[0]);
                fence_proxy_async();  // threads write the slot before products read it
                __syncwarp();  // the warp has written its part of the slot
                if (thread % 32 == 0) {
                    mbarrier_arrive(&full[ring_slot]);
                }
                if (++ring_slot == 8) ring_slot = 0, ring_parity ^= 1;
                if (chunk < 17) {

                    // load x to x_rf: Move(2, 8, 8, 32)(GL, RF)(Block)
                    #pragma unroll
                    for (int r = 0; r < 2; ++r) {
                        #pragma unroll
                        for (int c = 0; c < 8; ++c) {
                            copy_or_zero_2B(&x_rf[r * 8 + c], &x[tile_n * 401408 + r * 200704 + tile_p * 448 + (chunk + 1) / 6 * 56 + thread_p_r * 56 + tile_q * 8 + (chunk + 1) / 2 % 3 + thread_q_s + (chunk + 1) % 2 * 100352 + thread_c * 25088 + c * 3136 - 57], tile_p * 8 + (chunk + 1) / 6 + thread_p_r > 0 && tile_p * 8 + (chunk + 1) / 6 + thread_p_r < 57 && tile_q * 8 + (chunk + 1) / 2 % 3 + thread_q_s > 0 && tile_q * 8 + (chunk + 1) / 2 % 3 + thread_q_s < 57);
                        }
                    }
                }
                if (chunk < 17) {

                    // load f to f_rf: Move(64, 1, 1, 32)(GL, RF)(Block)
                    #pragma unroll
                    for (int c3 = 0; c3 < 8; ++c3) {
                        copy_2B(&f_rf[c3], &f[tile_k * 36864 + thread_k * 576 + (chunk + 1) / 2 + (chunk + 1) % 2 * 288 + thread_c2 * 72 + c3 * 9]);
                    }
                }
            }
        }
    } else {  // math
        const int thread = threadIdx.x - 256;
        __builtin_assume(thread >= 0);
        registers_increase<168>();
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        barrier_sync<7, 512>();  // barriers are initialised before they are used
        const int warpgroup = __shfl_sync(0xffffffff, thread / 128, 0);
        const int thread_q_s = thread % 8;
        #pragma unroll 1
        for (int trip = 0; trip * blocks + block < 784; ++trip) {

            // Program(2, 8, 8, 64, 3, 3, 64)(GL, GL, GL)(Block)
            const int tile = block + trip * blocks;
            const int tile_n = tile / 49;
            const int tile_p = tile / 7 % 7;
            const int tile_q = tile % 7;
            const int tile_k = 0;
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
                for (int k = 0; k < 2; ++k) {
                    wgmma_m64n64k16_f32_f16<0, 0>(&product[0], wgmma_operand<2, 16, 512>(&x_sh[ring_slot * 4096 + warpgroup * 2048], k * 32), wgmma_operand<2, 16, 512>(&f_sh[ring_slot * 2048], k * 32), 1);
                }
                wgmma_commit();
                wgmma_wait<0>();
                if (thread % 128 == 0) {
                    mbarrier_arrive(&empty[ring_slot]);
                }
                if (++ring_slot == 8) ring_slot = 0, ring_parity ^= 1;
            }

            // y: f16 in y_rf
            #pragma unroll
            for (int k2 = 0; k2 < 16; ++k2) {
                #pragma unroll
                for (int p = 0; p < 2; ++p) {
                    y_rf[k2 * 2 + p] = float_to_half(product[k2 % 2 + k2 / 2 * 4 + p * 2]);
                }
            }

            // store y: Move(2, 64, 8, 8)(RF, GL)(Block)

            // load y_rf to y_sh: Move(2, 64, 8, 8)(RF, SH)(Block)
            #pragma unroll
            for (int k3 = 0; k3 < 16; ++k3) {
                #pragma unroll
                for (int p3 = 0; p3 < 2; ++p3) {
                    copy_2B(&y_sh[warpgroup * 4096 + thread % 4 * 128 + k3 % 2 * 64 + k3 / 2 * 512 + thread / 32 % 4 * 16 + p3 * 8 + thread / 4 % 8], &y_rf[k3 * 2 + p3]);
                }
            }
            barrier_sync<0, 256>();  // y_sh is written before it is read
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
                copy_16B(&y[tile_n * 401408 + r * 100352 + tile_k * 200704 + thread / 8 * 3136 + tile_p * 448 + thread_q_s * 56 + tile_q * 8], &y_sh[r * 2048 + thread / 8 * 64 + thread_q_s * 8]);
            }
            barrier_sync<0, 256>();  // y_sh is read before it is overwritten
        }
    }
}

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

template <int count>
__device__ __forceinline__ void hold(float (&registers)[count]) {
    #pragma unroll
    for (int i = 0; i < count; ++i) asm volatile("" : "+f"(registers[i]) : : "memory");
}

template <int count>
__device__ __forceinline__ void hold(int (&registers)[count]) {
    #pragma unroll
    for (int i = 0; i < count; ++i) asm volatile("" : "+r"(registers[i]) : : "memory");
}

__device__ __forceinline__ void sync_threads(int barrier, int threads) {
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

__device__ __forceinline__ void tma_load_3d(
    void* dst, const TensorMap* map, unsigned long long* barrier, int c0, int c1, int c2) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5}], [%2];"
        : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(map), "r"(static_cast<unsigned>(__cvta_generic_to_shared(barrier))),
            "r"(c0), "r"(c1), "r"(c2) : "memory");
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

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

template <int b_major>
__device__ __forceinline__ void wgmma_m64n64k16_f32_f16_ra(
    void* c_registers, const void* a_registers, unsigned long long b, int accumulate) {
    float* d = static_cast<float*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, %38; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(b_major));
}

__device__ __forceinline__ void stmatrix_x4(void* row, const void* registers) {
    const unsigned* s = static_cast<const unsigned*>(registers);
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
        : : "r"(address), "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3]) : "memory");
}

__device__ __forceinline__ void tma_store_4d(
    const TensorMap* map, const void* src, int c0, int c1, int c2, int c3) {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
        : : "l"(map), "r"(static_cast<unsigned>(__cvta_generic_to_shared(src))), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}

extern "C" __global__ void __launch_bounds__(384, 1)
wgmma_1x1x128x64_f16(
    const half* __restrict__ q,
    const half* __restrict__ k,
    const half* __restrict__ v,
    const half* __restrict__ dy,
    const float* __restrict__ lse,
    const float* __restrict__ delta,
    half* __restrict__ y0,
    half* __restrict__ y1,
    const __grid_constant__ TensorMap k_map,
    const __grid_constant__ TensorMap v_map,
    const __grid_constant__ TensorMap q_map,
    const __grid_constant__ TensorMap dy_map,
    const __grid_constant__ TensorMap lse_map,
    const __grid_constant__ TensorMap delta_map,
    const __grid_constant__ TensorMap y0_map,
    const __grid_constant__ TensorMap y1_map) {
    const int block = blockIdx.x;
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* k_sh = reinterpret_cast<half*>(shared);
    half* v_sh = reinterpret_cast<half*>(shared + 16384);
    half* q_sh = reinterpret_cast<half*>(shared + 32768);
    half* dy_sh = reinterpret_cast<half*>(shared + 65536);
    float* lse_sh = reinterpret_cast<float*>(shared + 98304);
    float* delta_sh = reinterpret_cast<float*>(shared + 102400);
    half* y0_sh = reinterpret_cast<half*>(shared + 106496);
    half* y1_sh = reinterpret_cast<half*>(shared + 122880);
    unsigned long long* full = reinterpret_cast<unsigned long long*>(shared + 139264);
    unsigned long long* empty = reinterpret_cast<unsigned long long*>(shared + 139296);
    unsigned long long* k_sh_full = reinterpret_cast<unsigned long long*>(shared + 139328);
    unsigned long long* v_sh_full = reinterpret_cast<unsigned long long*>(shared + 139336);
    alignas(16) float dk[32];
    alignas(16) float dv[32];
    alignas(16) float s[32];
    alignas(16) float dp[32];
    alignas(16) half ds_a_fr[32];
    alignas(16) half p_a_fr[32];
    alignas(16) float lse_rf[16];
    alignas(16) float delta_rf[16];
    float p_rf[32];
    float ds_rf[32];
    alignas(16) half y0_rf[32];
    alignas(16) half y1_rf[32];
    if (threadIdx.x == 0) {
        prefetch_map(&k_map);
        prefetch_map(&v_map);
        prefetch_map(&q_map);
        prefetch_map(&dy_map);
        prefetch_map(&lse_map);
        prefetch_map(&delta_map);
        prefetch_map(&y0_map);
        prefetch_map(&y1_map);
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; ++i) {
            mbarrier_init(&full[i], 1);
        }
        for (int i = 0; i < 4; ++i) {
            mbarrier_init(&empty[i], 2);
        }
        for (int i = 0; i < 1; ++i) {
            mbarrier_init(&k_sh_full[i], 1);
        }
        for (int i = 0; i < 1; ++i) {
            mbarrier_init(&v_sh_full[i], 1);
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
        const int block_h = block / 4;
        const int block_j = block % 4;
        if (thread == 0) {

            // Program(1, 1, 128, 64, 500, 64)(8 GL)(Block)
            mbarrier_expect(&k_sh_full[0], 16384);

            // load k to k_sh: Move(1, 1, 128, 64)(GL, SH)(Block)
            tma_load_4d(&k_sh[0], &k_map, &k_sh_full[0], 0, block_j * 128, block_h, 0);
            mbarrier_expect(&v_sh_full[0], 16384);

            // load v to v_sh: Move(1, 1, 128, 64)(GL, SH)(Block)
            tma_load_4d(&v_sh[0], &v_map, &v_sh_full[0], 0, block_j * 128, block_h, 0);
            #pragma unroll 1
            for (int i = 0; i < 8 - block_j * 2; ++i) {
                mbarrier_wait(&empty[ring_slot], 1 - ring_parity);
                mbarrier_expect(&full[ring_slot], 16896);

                // load q to q_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
                tma_load_4d(&q_sh[ring_slot * 4096], &q_map, &full[ring_slot], 0, block_j * 128 + i * 64, block_h, 0);

                // load dy to dy_sh: Move(1, 1, 64, 64)(GL, SH)(Block)
                tma_load_4d(&dy_sh[ring_slot * 4096], &dy_map, &full[ring_slot], 0, block_j * 128 + i * 64, block_h, 0);

                // load lse to lse_sh: Move(1, 1, 64)(GL, SH)(Block)
                #pragma unroll
                for (int i2 = 0; i2 < 2; ++i2) {
                    tma_load_3d(&lse_sh[ring_slot * 256 + i2 * 32], &lse_map, &full[ring_slot], block_j * 128 + i * 64 + i2 * 32, block_h, 0);
                }

                // load delta to delta_sh: Move(1, 1, 64)(GL, SH)(Block)
                #pragma unroll
                for (int i3 = 0; i3 < 2; ++i3) {
                    tma_load_3d(&delta_sh[ring_slot * 256 + i3 * 32], &delta_map, &full[ring_slot], block_j * 128 + i * 64 + i3 * 32, block_h, 0);
                }
                if (++ring_slot == 4) ring_slot = 0, ring_parity ^= 1;
            }
        }
    } else {  // math
        const int thread = threadIdx.x - 128;
        __builtin_assume(thread >= 0);
        registers_increase<240>();
        int ring_slot = 0, ring_parity = 0;
        __builtin_assume(ring_slot >= 0);
        barrier_sync<7, 384>();  // barriers are initialised before they are used
        const int block_h = block / 4;
        const int block_j = block % 4;
        const int warpgroup = __shfl_sync(0xffffffff, thread / 128, 0);
        const int warp = __shfl_sync(0xffffffff, thread / 32 % 4, 0);
        const int thread2 = thread % 128;

        // Program(1, 1, 128, 64, 500, 64)(8 GL)(Block)
        #pragma unroll
        for (int i8 = 0; i8 < 32; ++i8) {
            dk[i8] = 0.0f;
        }
        #pragma unroll
        for (int i9 = 0; i9 < 32; ++i9) {
            dv[i9] = 0.0f;
        }
        const int whole = 7 - block_j * 2;
        mbarrier_wait(&k_sh_full[0], 0);
        mbarrier_wait(&v_sh_full[0], 0);
        #pragma unroll 1
        for (int i = 0; i < 8 - block_j * 2; ++i) {
            mbarrier_wait(&full[ring_slot], ring_parity);
            wgmma_fence();  // accumulators are registers

            // s: add by atoms
            #pragma unroll
            for (int k2 = 0; k2 < 4; ++k2) {
                wgmma_m64n64k16_f32_f16<0, 0>(&s[0], wgmma_operand<1, 16, 1024>(&k_sh[warpgroup * 4096], k2 * 32), wgmma_operand<1, 16, 1024>(&q_sh[ring_slot * 4096], k2 * 32), k2 != 0);
            }
            wgmma_commit();

            // load lse_sh to lse_rf: Move(1, 1, 64)(SH, RF)(Warpgroup)
            #pragma unroll
            for (int i7 = 0; i7 < 8; ++i7) {
                copy_8B(&lse_rf[i7 * 2], &lse_sh[ring_slot * 256 + i7 * 8 + (thread % 4 ^ i7 / 4 * 2) * 2]);
            }
            wgmma_wait<0>();
            hold(s);

            // p: f32 in p_rf
            if (i > 1 && i < whole) {
                #pragma unroll
                for (int j = 0; j < 2; ++j) {
                    #pragma unroll
                    for (int i2 = 0; i2 < 16; ++i2) {
                        p_rf[j * 2 + i2 % 2 + i2 / 2 * 4] = exp2_approx(fmaf(s[j * 2 + i2 % 2 + i2 / 2 * 4], 0.18033688f, -__fmul_rn(lse_rf[i2], 1.442695f)));
                    }
                }
            }
            if (i < 2 || whole <= i) {
                #pragma unroll
                for (int j = 0; j < 2; ++j) {
                    #pragma unroll
                    for (int i2 = 0; i2 < 16; ++i2) {
                        p_rf[j * 2 + i2 % 2 + i2 / 2 * 4] = exp2_approx((warpgroup * 64 + thread / 4 % 8 + thread / 32 % 4 * 16 + j * 8 <= i * 64 + thread % 4 * 2 + i2 % 2 + i2 / 2 * 8) != 0 ? fmaf(s[j * 2 + i2 % 2 + i2 / 2 * 4], 0.18033688f, -__fmul_rn(lse_rf[i2], 1.442695f)) : __int_as_float(0xff800000));
                    }
                }
            }

            // dp: add by atoms
            #pragma unroll
            for (int k3 = 0; k3 < 4; ++k3) {
                wgmma_m64n64k16_f32_f16<0, 0>(&dp[0], wgmma_operand<1, 16, 1024>(&v_sh[warpgroup * 4096], k3 * 32), wgmma_operand<1, 16, 1024>(&dy_sh[ring_slot * 4096], k3 * 32), k3 != 0);
            }
            wgmma_commit();

            // load delta_sh to delta_rf: Move(1, 1, 64)(SH, RF)(Warpgroup)
            #pragma unroll
            for (int i6 = 0; i6 < 8; ++i6) {
                copy_8B(&delta_rf[i6 * 2], &delta_sh[ring_slot * 256 + i6 * 8 + (thread % 4 ^ i6 / 4 * 2) * 2]);
            }
            wgmma_wait<0>();
            hold(dp);

            // ds: f32 in ds_rf
            #pragma unroll
            for (int j2 = 0; j2 < 2; ++j2) {
                #pragma unroll
                for (int i3 = 0; i3 < 16; ++i3) {
                    ds_rf[j2 * 2 + i3 % 2 + i3 / 2 * 4] = __fmul_rn(p_rf[j2 * 2 + i3 % 2 + i3 / 2 * 4], dp[j2 * 2 + i3 % 2 + i3 / 2 * 4] - delta_rf[i3]);
                }
            }

            // ds_a: f16 in ds_a_fr
            #pragma unroll
            for (int j3 = 0; j3 < 2; ++j3) {
                #pragma unroll
                for (int i4 = 0; i4 < 16; ++i4) {
                    ds_a_fr[j3 * 2 + i4 % 2 + i4 / 2 * 4] = float_to_half((block_j * 128 + warpgroup * 64 + thread / 4 % 8 + thread / 32 % 4 * 16 + j3 * 8 < 500 && block_j * 64 + i * 32 + thread % 4 + i4 / 2 * 4 < 250) != 0 ? ds_rf[j3 * 2 + i4 % 2 + i4 / 2 * 4] : 0.0f);
                }
            }
            wgmma_fence();  // sums and A are registers, written before

            // dk: add by atoms
            #pragma unroll
            for (int k4 = 0; k4 < 4; ++k4) {
                wgmma_m64n64k16_f32_f16_ra<1>(&dk[0], &ds_a_fr[k4 * 8], wgmma_operand<1, 16, 1024>(&q_sh[ring_slot * 4096], k4 * 2048), 1);
            }
            wgmma_commit();

            // p_a: f16 in p_a_fr
            #pragma unroll
            for (int j4 = 0; j4 < 2; ++j4) {
                #pragma unroll
                for (int i5 = 0; i5 < 16; ++i5) {
                    p_a_fr[j4 * 2 + i5 % 2 + i5 / 2 * 4] = float_to_half((block_j * 128 + warpgroup * 64 + thread / 4 % 8 + thread / 32 % 4 * 16 + j4 * 8 < 500 && block_j * 64 + i * 32 + thread % 4 + i5 / 2 * 4 < 250) != 0 ? p_rf[j4 * 2 + i5 % 2 + i5 / 2 * 4] : 0.0f);
                }
            }
            wgmma_fence();  // sums and A are registers, written before

            // dv: add by atoms
            #pragma unroll
            for (int k7 = 0; k7 < 4; ++k7) {
                wgmma_m64n64k16_f32_f16_ra<1>(&dv[0], &p_a_fr[k7 * 8], wgmma_operand<1, 16, 1024>(&dy_sh[ring_slot * 4096], k7 * 2048), 1);
            }
            wgmma_commit();
            fence_proxy_async();  // the slot is read before a bulk copy overwrites it
            sync_threads(1 + thread / 128, 128);  // all threads have read the slot
            wgmma_wait<0>();
            if (thread % 128 == 0) {
                mbarrier_arrive(&empty[ring_slot]);
            }
            if (++ring_slot == 4) ring_slot = 0, ring_parity ^= 1;
        }

        // y0: f16 in y0_rf
        #pragma unroll
        for (int j5 = 0; j5 < 2; ++j5) {
            #pragma unroll
            for (int d = 0; d < 16; ++d) {
                y0_rf[j5 * 2 + d % 2 + d / 2 * 4] = float_to_half(__fmul_rn(dk[j5 * 2 + d % 2 + d / 2 * 4], 0.125f));
            }
        }

        // store y0: Move(1, 1, 128, 64)(RF, GL)(Block)

        // load y0_rf to y0_sh: Move(1, 1, 64, 64)(RF, SH)(Warpgroup)
        #pragma unroll
        for (int d2 = 0; d2 < 4; ++d2) {
            stmatrix_x4(&y0_sh[thread / 128 * 4096 + warp * 1024 + thread % 16 * 64 + (d2 * 2 + thread / 16 % 2 ^ thread % 8) * 8], &y0_rf[d2 * 8]);
        }
        fence_proxy_async();  // y0_sh is written before a bulk store reads it
        sync_threads(1 + thread / 128, 128);  // y0_sh is written before it is read
        if (thread2 < 1) {
            tma_store_4d(&y0_map, &y0_sh[thread / 128 * 4096], 0, block_j * 128 + thread / 128 * 64, block_h, 0);
        }
        if (thread % 128 == 0) {
            bulk_commit();
        }

        // y1: f16 in y1_rf
        #pragma unroll
        for (int j7 = 0; j7 < 2; ++j7) {
            #pragma unroll
            for (int e = 0; e < 16; ++e) {
                y1_rf[j7 * 2 + e % 2 + e / 2 * 4] = float_to_half(dv[j7 * 2 + e % 2 + e / 2 * 4]);
            }
        }

        // store y1: Move(1, 1, 128, 64)(RF, GL)(Block)

        // load y1_rf to y1_sh: Move(1, 1, 64, 64)(RF, SH)(Warpgroup)
        #pragma unroll
        for (int e2 = 0; e2 < 4; ++e2) {
            stmatrix_x4(&y1_sh[thread / 128 * 4096 + warp * 1024 + thread % 16 * 64 + (e2 * 2 + thread / 16 % 2 ^ thread % 8) * 8], &y1_rf[e2 * 8]);
        }
        fence_proxy_async();  // y1_sh is written before a bulk store reads it
        sync_threads(1 + thread / 128, 128);  // y1_sh is written before it is read
        if (thread2 < 1) {
            tma_store_4d(&y1_map, &y1_sh[thread / 128 * 4096], 0, block_j * 128 + thread / 128 * 64, block_h, 0);
        }
        if (thread % 128 == 0) {
            bulk_commit();
        }
        bulk_wait_read<0>();
    }
}

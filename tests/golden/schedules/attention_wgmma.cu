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

__device__ __forceinline__ unsigned floats_to_half_pair(float low, float high) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

template <typename T>
__device__ __forceinline__ void put_pair(T* place, unsigned pair) {
    *reinterpret_cast<unsigned*>(place) = pair;
}

__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
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
__device__ __forceinline__ void wgmma_m64n112k16_f32_f16(
    void* c_registers, unsigned long long a, unsigned long long b, int accumulate) {
    float* d = static_cast<float*>(c_registers);
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %58, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n112k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55}, %56, %57, p, 1, 1, %59, %60; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
        : "l"(a), "l"(b), "r"(accumulate), "n"(a_major), "n"(b_major));
}

__device__ __forceinline__ void shuffle_4B(void* dst, const void* src, int lane) {
    *static_cast<unsigned*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned*>(src), lane);
}

template <int b_major>
__device__ __forceinline__ void wgmma_m64n128k16_f32_f16_ra(
    void* c_registers, const void* a_registers, unsigned long long b, int accumulate) {
    float* d = static_cast<float*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%64, %65, %66, %67}, %68, p, 1, 1, %70; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
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
wgmma_1x1x128x112_f16(
    const half* __restrict__ q,
    const half* __restrict__ k,
    const half* __restrict__ v,
    half* __restrict__ y,
    const __grid_constant__ TensorMap q_map,
    const __grid_constant__ TensorMap k_map,
    const __grid_constant__ TensorMap v_map,
    const __grid_constant__ TensorMap y_map) {
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* q_sh = reinterpret_cast<half*>(shared);
    half* k_sh = reinterpret_cast<half*>(shared + 65536);
    half* v_sh = reinterpret_cast<half*>(shared + 122880);
    half* y_sh = reinterpret_cast<half*>(shared + 180224);
    unsigned long long* k_full = reinterpret_cast<unsigned long long*>(shared + 212992);
    unsigned long long* k_empty = reinterpret_cast<unsigned long long*>(shared + 213008);
    unsigned long long* v_full = reinterpret_cast<unsigned long long*>(shared + 213024);
    unsigned long long* v_empty = reinterpret_cast<unsigned long long*>(shared + 213040);
    unsigned long long* q_sh_full = reinterpret_cast<unsigned long long*>(shared + 213056);
    unsigned long long* q_sh_empty = reinterpret_cast<unsigned long long*>(shared + 213072);
    float top[2];
    float total[2];
    alignas(16) float o[64];
    alignas(16) float s[56];
    alignas(16) half part_a_fr[56];
    float top_chunk[2];
    float top_chunk2[2];
    float top_before_rf[2];
    float top_factor_rf[2];
    float top_finite_rf[2];
    float part_rf[2];
    float total_chunk[2];
    alignas(16) half part_a_next[56];
    float inverse_rf[2];
    alignas(16) half y_rf[64];
    float other[1];
    float other2[1];
    float other3[1];
    float other4[1];
    float wide[2];
    float wide2[2];
    int outgrown[1];
    int failed[1];
    int trusting[1];
    int beyond[1];
    float other5[1];
    float other6[1];
    if (threadIdx.x == 0) {
        prefetch_map(&q_map);
        prefetch_map(&k_map);
        prefetch_map(&v_map);
        prefetch_map(&y_map);
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(&k_full[i], 1);
        }
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(&k_empty[i], 2);
        }
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(&v_full[i], 1);
        }
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(&v_empty[i], 2);
        }
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(&q_sh_full[i], 1);
        }
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(&q_sh_empty[i], 2);
        }
    }
    fence_barrier_init();  // others use the barriers, and bulk copies do
    const int warp_of_block = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
    if (warp_of_block < 4) {  // load
        const int thread = threadIdx.x;
        __builtin_assume(thread >= 0);
        registers_decrease<24>();
        int k_ring_slot = 0, k_ring_parity = 0;
        __builtin_assume(k_ring_slot >= 0);
        int v_ring_slot = 0, v_ring_parity = 0;
        __builtin_assume(v_ring_slot >= 0);
        int q_ring_slot = 0, q_ring_parity = 0;
        __builtin_assume(q_ring_slot >= 0);
        barrier_arrive<7, 384>();  // barriers are initialised before they are used
        if (thread == 0) {
            #pragma unroll 1
            for (int trip = 0; trip * blocks + block < 320; ++trip) {

                // Program(1, 1, 128, 1000, 128, 128)(4 GL)(Block)
                const int tile = block + trip * blocks;
                const int tile_b = 0;
                const int tile_h = tile / 160;
                const int tile_i = 159 - tile % 160;
                mbarrier_wait(&q_sh_empty[q_ring_slot], 1 - q_ring_parity);
                mbarrier_expect(&q_sh_full[q_ring_slot], 32768);

                // load q to q_sh: Move(1, 1, 128, 128)(GL, SH)(Block)
                #pragma unroll
                for (int d = 0; d < 2; ++d) {
                    tma_load_4d(&q_sh[q_ring_slot * 16384 + d * 8192], &q_map, &q_sh_full[q_ring_slot], d * 64, tile_i * 128, tile_h, tile_b);
                }
                if (++q_ring_slot == 2) q_ring_slot = 0, q_ring_parity ^= 1;
                #pragma unroll 1
                for (int j = 0; j < 9; ++j) {
                    mbarrier_wait(&k_empty[k_ring_slot], 1 - k_ring_parity);
                    mbarrier_expect(&k_full[k_ring_slot], 28672);

                    // load k to k_sh: Move(1, 1, 112, 128)(GL, SH)(Block)
                    #pragma unroll
                    for (int d = 0; d < 2; ++d) {
                        tma_load_4d(&k_sh[k_ring_slot * 14336 + d * 7168], &k_map, &k_full[k_ring_slot], d * 64, j * 112, tile_h, tile_b);
                    }
                    if (++k_ring_slot == 2) k_ring_slot = 0, k_ring_parity ^= 1;
                    mbarrier_wait(&v_empty[v_ring_slot], 1 - v_ring_parity);
                    mbarrier_expect(&v_full[v_ring_slot], 28672);

                    // load v to v_sh: Move(1, 1, 112, 128)(GL, SH)(Block)
                    #pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        tma_load_4d(&v_sh[v_ring_slot * 14336 + e * 7168], &v_map, &v_full[v_ring_slot], e * 64, j * 112, tile_h, tile_b);
                    }
                    if (++v_ring_slot == 2) v_ring_slot = 0, v_ring_parity ^= 1;
                }
            }
        }
    } else {  // math
        const int thread = threadIdx.x - 128;
        __builtin_assume(thread >= 0);
        registers_increase<240>();
        int k_ring_slot = 0, k_ring_parity = 0;
        __builtin_assume(k_ring_slot >= 0);
        int v_ring_slot = 0, v_ring_parity = 0;
        __builtin_assume(v_ring_slot >= 0);
        int q_ring_slot = 0, q_ring_parity = 0;
        __builtin_assume(q_ring_slot >= 0);
        barrier_sync<7, 384>();  // barriers are initialised before they are used
        const int warpgroup = __shfl_sync(0xffffffff, thread / 128, 0);
        const int warp = __shfl_sync(0xffffffff, thread / 32 % 4, 0);
        const int thread2 = thread % 128;
        #pragma unroll 1
        for (int trip = 0; trip * blocks + block < 320; ++trip) {

            // Program(1, 1, 128, 1000, 128, 128)(4 GL)(Block)
            const int tile = block + trip * blocks;
            const int tile_b = 0;
            const int tile_h = tile / 160;
            const int tile_i = 159 - tile % 160;
            #pragma unroll
            for (int i25 = 0; i25 < 2; ++i25) {
                top[i25] = __int_as_float(0xff800000);
            }
            #pragma unroll
            for (int i26 = 0; i26 < 2; ++i26) {
                total[i26] = 0.0f;
            }
            #pragma unroll
            for (int i27 = 0; i27 < 64; ++i27) {
                o[i27] = 0.0f;
            }
            mbarrier_wait(&k_full[k_ring_slot], k_ring_parity);
            mbarrier_wait(&q_sh_full[q_ring_slot], q_ring_parity);
            wgmma_fence();  // accumulators are registers

            // s: add by atoms
            #pragma unroll
            for (int k2 = 0; k2 < 8; ++k2) {
                wgmma_m64n112k16_f32_f16<0, 0>(&s[0], wgmma_operand<1, 16, 1024>(&q_sh[q_ring_slot * 16384 + warpgroup * 4096], k2 % 4 * 32 + k2 / 4 * 16384), wgmma_operand<1, 16, 1024>(&k_sh[k_ring_slot * 14336], k2 % 4 * 32 + k2 / 4 * 14336), k2 != 0);
            }
            wgmma_commit();
            wgmma_wait<0>();
            hold(s);
            if (thread % 128 == 0) {
                mbarrier_arrive(&k_empty[k_ring_slot]);
            }
            if (++k_ring_slot == 2) k_ring_slot = 0, k_ring_parity ^= 1;
            failed[0] = 0;

            // top: max over j
            #pragma unroll
            for (int i2 = 0; i2 < 2; ++i2) {
                top_chunk[i2] = __int_as_float(0xff800000);
            }
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                #pragma unroll
                for (int j2 = 0; j2 < 28; ++j2) {
                    top_chunk[i] = fmaxf_nan(top_chunk[i], s[i * 2 + j2 % 2 + j2 / 2 * 4]);
                }
            }
            #pragma unroll
            for (int i3 = 0; i3 < 2; ++i3) {
                shuffle_4B(&other[0], &top_chunk[i3], thread % 32 ^ 2);
                top_chunk[i3] = fmaxf_nan(top_chunk[i3], other[0]);
            }
            #pragma unroll
            for (int i4 = 0; i4 < 2; ++i4) {
                shuffle_4B(&other2[0], &top_chunk[i4], thread % 32 ^ 1);
                top_chunk[i4] = fmaxf_nan(top_chunk[i4], other2[0]);
            }
            #pragma unroll
            for (int i5 = 0; i5 < 2; ++i5) {
                top_chunk2[i5] = __fmul_rn(top_chunk[i5], 0.12751743f);
            }

            // top_before: f32 in top_before_rf
            #pragma unroll
            for (int i6 = 0; i6 < 2; ++i6) {
                top_before_rf[i6] = top[i6];
            }
            #pragma unroll
            for (int i7 = 0; i7 < 2; ++i7) {
                top[i7] = fmaxf_nan(top[i7], top_chunk2[i7]);
            }

            // top_factor: f32 in top_factor_rf
            #pragma unroll
            for (int i8 = 0; i8 < 2; ++i8) {
                top_factor_rf[i8] = top_before_rf[i8] == __int_as_float(0xff800000) ? 0.0f : exp2_approx(top_before_rf[i8] - top[i8]);
            }

            // top_finite: f32 in top_finite_rf
            #pragma unroll
            for (int i9 = 0; i9 < 2; ++i9) {
                top_finite_rf[i9] = top[i9] == __int_as_float(0xff800000) ? 0.0f : top[i9];
            }
            #pragma unroll
            for (int i16 = 0; i16 < 2; ++i16) {
                total[i16] = __fmul_rn(total[i16], top_factor_rf[i16]);
            }
            #pragma unroll
            for (int i13 = 0; i13 < 2; ++i13) {
                total_chunk[i13] = 0.0f;
            }
            #pragma unroll
            for (int i10 = 0; i10 < 2; ++i10) {
                #pragma unroll
                for (int j3 = 0; j3 < 14; ++j3) {

                    // part: f32 in part_rf
                    #pragma unroll
                    for (int e2 = 0; e2 < 2; ++e2) {
                        part_rf[e2] = exp2_approx(fmaf(s[i10 * 2 + e2 + j3 * 4], 0.12751743f, -top_finite_rf[i10]));
                    }

                    // total: add over j
                    #pragma unroll
                    for (int e3 = 0; e3 < 2; ++e3) {
                        total_chunk[i10] = total_chunk[i10] + part_rf[e3];
                    }

                    // part_a: f16 in part_a_next
                    #pragma unroll
                    for (int e4 = 0; e4 < 2; ++e4) {
                        wide2[e4] = 1 != 0 ? part_rf[e4] : 0.0f;
                    }
                    #pragma unroll
                    for (int e4 = 0; e4 < 1; ++e4) {
                        put_pair(&part_a_next[i10 * 2 + e4 * 2 + j3 * 4], floats_to_half_pair(wide2[e4 * 2], wide2[e4 * 2 + 1]));
                    }
                }
            }

            // total: the chunk's is added
            #pragma unroll
            for (int i12 = 0; i12 < 2; ++i12) {
                total[i12] = total[i12] + total_chunk[i12];
            }

            // o: what was summed is corrected
            #pragma unroll
            for (int i24 = 0; i24 < 2; ++i24) {
                #pragma unroll
                for (int e5 = 0; e5 < 32; ++e5) {
                    o[i24 * 2 + e5 % 2 + e5 / 2 * 4] = __fmul_rn(o[i24 * 2 + e5 % 2 + e5 / 2 * 4], top_factor_rf[i24]);
                }
            }

            // part_a_next to part_a_fr
            #pragma unroll
            for (int i14 = 0; i14 < 56; ++i14) {
                part_a_fr[i14] = part_a_next[i14];
            }
            #pragma unroll 1
            for (int j_pair = 0; j_pair < 4; ++j_pair) {
                mbarrier_wait(&k_full[k_ring_slot], k_ring_parity);
                wgmma_fence();  // accumulators are registers

                // s: add by atoms
                #pragma unroll
                for (int k2 = 0; k2 < 8; ++k2) {
                    wgmma_m64n112k16_f32_f16<0, 0>(&s[0], wgmma_operand<1, 16, 1024>(&q_sh[q_ring_slot * 16384 + warpgroup * 4096], k2 % 4 * 32 + k2 / 4 * 16384), wgmma_operand<1, 16, 1024>(&k_sh[k_ring_slot * 14336], k2 % 4 * 32 + k2 / 4 * 14336), k2 != 0);
                }
                wgmma_commit();
                mbarrier_wait(&v_full[v_ring_slot], v_ring_parity);
                wgmma_fence();  // sums and A are registers, written before

                // o: add by atoms
                #pragma unroll
                for (int k3 = 0; k3 < 7; ++k3) {
                    wgmma_m64n128k16_f32_f16_ra<1>(&o[0], &part_a_fr[k3 * 8], wgmma_operand<1, 14336, 1024>(&v_sh[v_ring_slot * 14336], k3 * 2048), 1);
                }
                wgmma_commit();
                trusting[0] = failed[0] < 1 ? 1 : 0;
                const int trusts = __any_sync(0xffffffff, trusting[0]);
                wgmma_wait<1>();
                hold(s);
                if (thread % 128 == 0) {
                    mbarrier_arrive(&k_empty[k_ring_slot]);
                }
                if (++k_ring_slot == 2) k_ring_slot = 0, k_ring_parity ^= 1;
                if (trusts == 1) {

                    // top: a chunk under the old value
                    #pragma unroll
                    for (int i23 = 0; i23 < 2; ++i23) {
                        top_finite_rf[i23] = top[i23];
                    }
                    #pragma unroll
                    for (int i13 = 0; i13 < 2; ++i13) {
                        total_chunk[i13] = 0.0f;
                    }
                    #pragma unroll
                    for (int i10 = 0; i10 < 2; ++i10) {
                        #pragma unroll
                        for (int j3 = 0; j3 < 14; ++j3) {

                            // part: f32 in part_rf
                            #pragma unroll
                            for (int e2 = 0; e2 < 2; ++e2) {
                                part_rf[e2] = exp2_approx(fmaf(s[i10 * 2 + e2 + j3 * 4], 0.12751743f, -top_finite_rf[i10]));
                            }

                            // total: add over j
                            #pragma unroll
                            for (int e3 = 0; e3 < 2; ++e3) {
                                total_chunk[i10] = total_chunk[i10] + part_rf[e3];
                            }

                            // part_a: f16 in part_a_next
                            #pragma unroll
                            for (int e4 = 0; e4 < 2; ++e4) {
                                wide2[e4] = part_rf[e4];
                            }
                            #pragma unroll
                            for (int e4 = 0; e4 < 1; ++e4) {
                                put_pair(&part_a_next[i10 * 2 + e4 * 2 + j3 * 4], floats_to_half_pair(wide2[e4 * 2], wide2[e4 * 2 + 1]));
                            }
                        }
                    }
                }
                outgrown[0] = (trusts == 1) != 0 ? (total_chunk[0] <= 32768.0f ? (total_chunk[1] <= 32768.0f ? 0 : 1) : 1) : 1;
                const int again = __any_sync(0xffffffff, outgrown[0]);
                if (again == 1) {
                    beyond[0] = (trusts == 1) != 0 ? (total_chunk[0] <= 32768.0f ? (total_chunk[1] <= 32768.0f ? 0 : 1) : 1) : 1;
                    const int far = __any_sync(0xffffffff, beyond[0]);
                    if (far == 0) {

                        // top: raised as the chunk's sums tell
                        #pragma unroll
                        for (int i18 = 0; i18 < 2; ++i18) {
                            top_chunk2[i18] = top[i18] + (total_chunk[i18] <= 1.0f ? 0.0f : total_chunk[i18] <= 16.0f ? 4.0f : total_chunk[i18] <= 256.0f ? 8.0f : total_chunk[i18] <= 4096.0f ? 12.0f : 15.0f);
                        }
                        #pragma unroll
                        for (int i19 = 0; i19 < 2; ++i19) {
                            shuffle_4B(&other3[0], &top_chunk2[i19], thread % 32 ^ 2);
                            top_chunk2[i19] = fmaxf_nan(top_chunk2[i19], other3[0]);
                        }
                        #pragma unroll
                        for (int i20 = 0; i20 < 2; ++i20) {
                            shuffle_4B(&other4[0], &top_chunk2[i20], thread % 32 ^ 1);
                            top_chunk2[i20] = fmaxf_nan(top_chunk2[i20], other4[0]);
                        }

                        // top_before: f32 in top_before_rf
                        #pragma unroll
                        for (int i6 = 0; i6 < 2; ++i6) {
                            top_before_rf[i6] = top[i6];
                        }
                        #pragma unroll
                        for (int i7 = 0; i7 < 2; ++i7) {
                            top[i7] = fmaxf_nan(top[i7], top_chunk2[i7]);
                        }

                        // top_factor: f32 in top_factor_rf
                        #pragma unroll
                        for (int i8 = 0; i8 < 2; ++i8) {
                            top_factor_rf[i8] = top_before_rf[i8] == __int_as_float(0xff800000) ? 0.0f : exp2_approx(top_before_rf[i8] - top[i8]);
                        }

                        // top_finite: f32 in top_finite_rf
                        #pragma unroll
                        for (int i9 = 0; i9 < 2; ++i9) {
                            top_finite_rf[i9] = top[i9] == __int_as_float(0xff800000) ? 0.0f : top[i9];
                        }
                        #pragma unroll
                        for (int i16 = 0; i16 < 2; ++i16) {
                            total[i16] = __fmul_rn(total[i16], top_factor_rf[i16]);
                        }
                        #pragma unroll
                        for (int i21 = 0; i21 < 2; ++i21) {
                            total_chunk[i21] = __fmul_rn(total_chunk[i21], top_factor_rf[i21]);
                        }
                        #pragma unroll
                        for (int i22 = 0; i22 < 2; ++i22) {
                            #pragma unroll
                            for (int j6 = 0; j6 < 14; ++j6) {
                                #pragma unroll
                                for (int e = 0; e < 2; ++e) {
                                    wide[e] = __fmul_rn(half_to_float(part_a_next[i22 * 2 + e + j6 * 4]), top_factor_rf[i22]);
                                }
                                #pragma unroll
                                for (int e = 0; e < 1; ++e) {
                                    put_pair(&part_a_next[i22 * 2 + e * 2 + j6 * 4], floats_to_half_pair(wide[e * 2], wide[e * 2 + 1]));
                                }
                            }
                        }
                    }
                    if (far == 1) {
                        failed[0] = failed[0] + 1;

                        // top: max over j
                        #pragma unroll
                        for (int i2 = 0; i2 < 2; ++i2) {
                            top_chunk[i2] = __int_as_float(0xff800000);
                        }
                        #pragma unroll
                        for (int i = 0; i < 2; ++i) {
                            #pragma unroll
                            for (int j2 = 0; j2 < 28; ++j2) {
                                top_chunk[i] = fmaxf_nan(top_chunk[i], s[i * 2 + j2 % 2 + j2 / 2 * 4]);
                            }
                        }
                        #pragma unroll
                        for (int i3 = 0; i3 < 2; ++i3) {
                            shuffle_4B(&other[0], &top_chunk[i3], thread % 32 ^ 2);
                            top_chunk[i3] = fmaxf_nan(top_chunk[i3], other[0]);
                        }
                        #pragma unroll
                        for (int i4 = 0; i4 < 2; ++i4) {
                            shuffle_4B(&other2[0], &top_chunk[i4], thread % 32 ^ 1);
                            top_chunk[i4] = fmaxf_nan(top_chunk[i4], other2[0]);
                        }
                        #pragma unroll
                        for (int i5 = 0; i5 < 2; ++i5) {
                            top_chunk2[i5] = __fmul_rn(top_chunk[i5], 0.12751743f);
                        }

                        // top_before: f32 in top_before_rf
                        #pragma unroll
                        for (int i6 = 0; i6 < 2; ++i6) {
                            top_before_rf[i6] = top[i6];
                        }
                        #pragma unroll
                        for (int i7 = 0; i7 < 2; ++i7) {
                            top[i7] = fmaxf_nan(top[i7], top_chunk2[i7]);
                        }

                        // top_factor: f32 in top_factor_rf
                        #pragma unroll
                        for (int i8 = 0; i8 < 2; ++i8) {
                            top_factor_rf[i8] = top_before_rf[i8] == __int_as_float(0xff800000) ? 0.0f : exp2_approx(top_before_rf[i8] - top[i8]);
                        }

                        // top_finite: f32 in top_finite_rf
                        #pragma unroll
                        for (int i9 = 0; i9 < 2; ++i9) {
                            top_finite_rf[i9] = top[i9] == __int_as_float(0xff800000) ? 0.0f : top[i9];
                        }
                        #pragma unroll
                        for (int i16 = 0; i16 < 2; ++i16) {
                            total[i16] = __fmul_rn(total[i16], top_factor_rf[i16]);
                        }
                        #pragma unroll
                        for (int i13 = 0; i13 < 2; ++i13) {
                            total_chunk[i13] = 0.0f;
                        }
                        #pragma unroll
                        for (int i10 = 0; i10 < 2; ++i10) {
                            #pragma unroll
                            for (int j3 = 0; j3 < 14; ++j3) {

                                // part: f32 in part_rf
                                #pragma unroll
                                for (int e2 = 0; e2 < 2; ++e2) {
                                    part_rf[e2] = exp2_approx(fmaf(s[i10 * 2 + e2 + j3 * 4], 0.12751743f, -top_finite_rf[i10]));
                                }

                                // total: add over j
                                #pragma unroll
                                for (int e3 = 0; e3 < 2; ++e3) {
                                    total_chunk[i10] = total_chunk[i10] + part_rf[e3];
                                }

                                // part_a: f16 in part_a_next
                                #pragma unroll
                                for (int e4 = 0; e4 < 2; ++e4) {
                                    wide2[e4] = 1 != 0 ? part_rf[e4] : 0.0f;
                                }
                                #pragma unroll
                                for (int e4 = 0; e4 < 1; ++e4) {
                                    put_pair(&part_a_next[i10 * 2 + e4 * 2 + j3 * 4], floats_to_half_pair(wide2[e4 * 2], wide2[e4 * 2 + 1]));
                                }
                            }
                        }
                    }
                }

                // total: the chunk's is added
                #pragma unroll
                for (int i12 = 0; i12 < 2; ++i12) {
                    total[i12] = total[i12] + total_chunk[i12];
                }
                wgmma_wait<0>();
                hold(o);
                if (thread % 128 == 0) {
                    mbarrier_arrive(&v_empty[v_ring_slot]);
                }
                if (++v_ring_slot == 2) v_ring_slot = 0, v_ring_parity ^= 1;
                if (again == 1) {

                    // o: what was summed is corrected
                    #pragma unroll
                    for (int i24 = 0; i24 < 2; ++i24) {
                        #pragma unroll
                        for (int e5 = 0; e5 < 32; ++e5) {
                            o[i24 * 2 + e5 % 2 + e5 / 2 * 4] = __fmul_rn(o[i24 * 2 + e5 % 2 + e5 / 2 * 4], top_factor_rf[i24]);
                        }
                    }
                }
                mbarrier_wait(&k_full[k_ring_slot], k_ring_parity);
                wgmma_fence();  // accumulators are registers

                // s: add by atoms
                #pragma unroll
                for (int k2 = 0; k2 < 8; ++k2) {
                    wgmma_m64n112k16_f32_f16<0, 0>(&s[0], wgmma_operand<1, 16, 1024>(&q_sh[q_ring_slot * 16384 + warpgroup * 4096], k2 % 4 * 32 + k2 / 4 * 16384), wgmma_operand<1, 16, 1024>(&k_sh[k_ring_slot * 14336], k2 % 4 * 32 + k2 / 4 * 14336), k2 != 0);
                }
                wgmma_commit();
                mbarrier_wait(&v_full[v_ring_slot], v_ring_parity);
                wgmma_fence();  // sums and A are registers, written before

                // o: add by atoms
                #pragma unroll
                for (int k3 = 0; k3 < 7; ++k3) {
                    wgmma_m64n128k16_f32_f16_ra<1>(&o[0], &part_a_next[k3 * 8], wgmma_operand<1, 14336, 1024>(&v_sh[v_ring_slot * 14336], k3 * 2048), 1);
                }
                wgmma_commit();
                trusting[0] = failed[0] < 1 ? 1 : 0;
                const int trusts2 = __any_sync(0xffffffff, trusting[0]);
                wgmma_wait<1>();
                hold(s);
                if (thread % 128 == 0) {
                    mbarrier_arrive(&k_empty[k_ring_slot]);
                }
                if (++k_ring_slot == 2) k_ring_slot = 0, k_ring_parity ^= 1;
                if (trusts2 == 1) {
                    if (j_pair < 3) {

                        // top: a chunk under the old value
                        #pragma unroll
                        for (int i23 = 0; i23 < 2; ++i23) {
                            top_finite_rf[i23] = top[i23];
                        }
                        #pragma unroll
                        for (int i13 = 0; i13 < 2; ++i13) {
                            total_chunk[i13] = 0.0f;
                        }
                        #pragma unroll
                        for (int i10 = 0; i10 < 2; ++i10) {
                            #pragma unroll
                            for (int j3 = 0; j3 < 14; ++j3) {

                                // part: f32 in part_rf
                                #pragma unroll
                                for (int e2 = 0; e2 < 2; ++e2) {
                                    part_rf[e2] = exp2_approx(fmaf(s[i10 * 2 + e2 + j3 * 4], 0.12751743f, -top_finite_rf[i10]));
                                }

                                // total: add over j
                                #pragma unroll
                                for (int e3 = 0; e3 < 2; ++e3) {
                                    total_chunk[i10] = total_chunk[i10] + part_rf[e3];
                                }

                                // part_a: f16 in part_a_next
                                #pragma unroll
                                for (int e4 = 0; e4 < 2; ++e4) {
                                    wide2[e4] = part_rf[e4];
                                }
                                #pragma unroll
                                for (int e4 = 0; e4 < 1; ++e4) {
                                    put_pair(&part_a_fr[i10 * 2 + e4 * 2 + j3 * 4], floats_to_half_pair(wide2[e4 * 2], wide2[e4 * 2 + 1]));
                                }
                            }
                        }
                    }
                    if (j_pair > 2) {

                        // top: a chunk under the old value
                        #pragma unroll
                        for (int i23 = 0; i23 < 2; ++i23) {
                            top_finite_rf[i23] = top[i23];
                        }
                        #pragma unroll
                        for (int i13 = 0; i13 < 2; ++i13) {
                            total_chunk[i13] = 0.0f;
                        }
                        #pragma unroll
                        for (int i10 = 0; i10 < 2; ++i10) {
                            #pragma unroll
                            for (int j3 = 0; j3 < 14; ++j3) {

                                // part: f32 in part_rf
                                #pragma unroll
                                for (int e2 = 0; e2 < 2; ++e2) {
                                    part_rf[e2] = exp2_approx(fmaf(s[i10 * 2 + e2 + j3 * 4], 0.12751743f, -top_finite_rf[i10]));
                                }

                                // total: add over j
                                #pragma unroll
                                for (int e3 = 0; e3 < 2; ++e3) {
                                    if (j_pair * 28 + j3 < 97) total_chunk[i10] = total_chunk[i10] + part_rf[e3];
                                }

                                // part_a: f16 in part_a_next
                                #pragma unroll
                                for (int e4 = 0; e4 < 2; ++e4) {
                                    wide2[e4] = (j_pair * 28 + j3 < 97) != 0 ? part_rf[e4] : 0.0f;
                                }
                                #pragma unroll
                                for (int e4 = 0; e4 < 1; ++e4) {
                                    put_pair(&part_a_fr[i10 * 2 + e4 * 2 + j3 * 4], floats_to_half_pair(wide2[e4 * 2], wide2[e4 * 2 + 1]));
                                }
                            }
                        }
                    }
                }
                outgrown[0] = (trusts2 == 1) != 0 ? (total_chunk[0] <= 32768.0f ? (total_chunk[1] <= 32768.0f ? 0 : 1) : 1) : 1;
                const int again2 = __any_sync(0xffffffff, outgrown[0]);
                if (again2 == 1) {
                    beyond[0] = (trusts2 == 1) != 0 ? (total_chunk[0] <= 32768.0f ? (total_chunk[1] <= 32768.0f ? 0 : 1) : 1) : 1;
                    const int far2 = __any_sync(0xffffffff, beyond[0]);
                    if (far2 == 0) {

                        // top: raised as the chunk's sums tell
                        #pragma unroll
                        for (int i18 = 0; i18 < 2; ++i18) {
                            top_chunk2[i18] = top[i18] + (total_chunk[i18] <= 1.0f ? 0.0f : total_chunk[i18] <= 16.0f ? 4.0f : total_chunk[i18] <= 256.0f ? 8.0f : total_chunk[i18] <= 4096.0f ? 12.0f : 15.0f);
                        }
                        #pragma unroll
                        for (int i19 = 0; i19 < 2; ++i19) {
                            shuffle_4B(&other3[0], &top_chunk2[i19], thread % 32 ^ 2);
                            top_chunk2[i19] = fmaxf_nan(top_chunk2[i19], other3[0]);
                        }
                        #pragma unroll
                        for (int i20 = 0; i20 < 2; ++i20) {
                            shuffle_4B(&other4[0], &top_chunk2[i20], thread % 32 ^ 1);
                            top_chunk2[i20] = fmaxf_nan(top_chunk2[i20], other4[0]);
                        }

                        // top_before: f32 in top_before_rf
                        #pragma unroll
                        for (int i6 = 0; i6 < 2; ++i6) {
                            top_before_rf[i6] = top[i6];
                        }
                        #pragma unroll
                        for (int i7 = 0; i7 < 2; ++i7) {
                            top[i7] = fmaxf_nan(top[i7], top_chunk2[i7]);
                        }

                        // top_factor: f32 in top_factor_rf
                        #pragma unroll
                        for (int i8 = 0; i8 < 2; ++i8) {
                            top_factor_rf[i8] = top_before_rf[i8] == __int_as_float(0xff800000) ? 0.0f : exp2_approx(top_before_rf[i8] - top[i8]);
                        }

                        // top_finite: f32 in top_finite_rf
                        #pragma unroll
                        for (int i9 = 0; i9 < 2; ++i9) {
                            top_finite_rf[i9] = top[i9] == __int_as_float(0xff800000) ? 0.0f : top[i9];
                        }
                        #pragma unroll
                        for (int i16 = 0; i16 < 2; ++i16) {
                            total[i16] = __fmul_rn(total[i16], top_factor_rf[i16]);
                        }
                        #pragma unroll
                        for (int i21 = 0; i21 < 2; ++i21) {
                            total_chunk[i21] = __fmul_rn(total_chunk[i21], top_factor_rf[i21]);
                        }
                        #pragma unroll
                        for (int i22 = 0; i22 < 2; ++i22) {
                            #pragma unroll
                            for (int j6 = 0; j6 < 14; ++j6) {
                                #pragma unroll
                                for (int e = 0; e < 2; ++e) {
                                    wide[e] = __fmul_rn(half_to_float(part_a_fr[i22 * 2 + e + j6 * 4]), top_factor_rf[i22]);
                                }
                                #pragma unroll
                                for (int e = 0; e < 1; ++e) {
                                    put_pair(&part_a_fr[i22 * 2 + e * 2 + j6 * 4], floats_to_half_pair(wide[e * 2], wide[e * 2 + 1]));
                                }
                            }
                        }
                    }
                    if (far2 == 1) {
                        failed[0] = failed[0] + 1;

                        // top: max over j
                        #pragma unroll
                        for (int i2 = 0; i2 < 2; ++i2) {
                            top_chunk[i2] = __int_as_float(0xff800000);
                        }
                        #pragma unroll
                        for (int i = 0; i < 2; ++i) {
                            #pragma unroll
                            for (int j2 = 0; j2 < 28; ++j2) {
                                if (j_pair * 28 + j2 / 2 < 97) top_chunk[i] = fmaxf_nan(top_chunk[i], s[i * 2 + j2 % 2 + j2 / 2 * 4]);
                            }
                        }
                        #pragma unroll
                        for (int i3 = 0; i3 < 2; ++i3) {
                            shuffle_4B(&other[0], &top_chunk[i3], thread % 32 ^ 2);
                            top_chunk[i3] = fmaxf_nan(top_chunk[i3], other[0]);
                        }
                        #pragma unroll
                        for (int i4 = 0; i4 < 2; ++i4) {
                            shuffle_4B(&other2[0], &top_chunk[i4], thread % 32 ^ 1);
                            top_chunk[i4] = fmaxf_nan(top_chunk[i4], other2[0]);
                        }
                        #pragma unroll
                        for (int i5 = 0; i5 < 2; ++i5) {
                            top_chunk2[i5] = __fmul_rn(top_chunk[i5], 0.12751743f);
                        }

                        // top_before: f32 in top_before_rf
                        #pragma unroll
                        for (int i6 = 0; i6 < 2; ++i6) {
                            top_before_rf[i6] = top[i6];
                        }
                        #pragma unroll
                        for (int i7 = 0; i7 < 2; ++i7) {
                            top[i7] = fmaxf_nan(top[i7], top_chunk2[i7]);
                        }

                        // top_factor: f32 in top_factor_rf
                        #pragma unroll
                        for (int i8 = 0; i8 < 2; ++i8) {
                            top_factor_rf[i8] = top_before_rf[i8] == __int_as_float(0xff800000) ? 0.0f : exp2_approx(top_before_rf[i8] - top[i8]);
                        }

                        // top_finite: f32 in top_finite_rf
                        #pragma unroll
                        for (int i9 = 0; i9 < 2; ++i9) {
                            top_finite_rf[i9] = top[i9] == __int_as_float(0xff800000) ? 0.0f : top[i9];
                        }
                        #pragma unroll
                        for (int i16 = 0; i16 < 2; ++i16) {
                            total[i16] = __fmul_rn(total[i16], top_factor_rf[i16]);
                        }
                        #pragma unroll
                        for (int i13 = 0; i13 < 2; ++i13) {
                            total_chunk[i13] = 0.0f;
                        }
                        #pragma unroll
                        for (int i10 = 0; i10 < 2; ++i10) {
                            #pragma unroll
                            for (int j3 = 0; j3 < 14; ++j3) {

                                // part: f32 in part_rf
                                #pragma unroll
                                for (int e2 = 0; e2 < 2; ++e2) {
                                    part_rf[e2] = exp2_approx(fmaf(s[i10 * 2 + e2 + j3 * 4], 0.12751743f, -top_finite_rf[i10]));
                                }

                                // total: add over j
                                #pragma unroll
                                for (int e3 = 0; e3 < 2; ++e3) {
                                    if (j_pair * 28 + j3 < 97) total_chunk[i10] = total_chunk[i10] + part_rf[e3];
                                }

                                // part_a: f16 in part_a_next
                                #pragma unroll
                                for (int e4 = 0; e4 < 2; ++e4) {
                                    wide2[e4] = (j_pair * 28 + j3 < 97) != 0 ? part_rf[e4] : 0.0f;
                                }
                                #pragma unroll
                                for (int e4 = 0; e4 < 1; ++e4) {
                                    put_pair(&part_a_fr[i10 * 2 + e4 * 2 + j3 * 4], floats_to_half_pair(wide2[e4 * 2], wide2[e4 * 2 + 1]));
                                }
                            }
                        }
                    }
                }

                // total: the chunk's is added
                #pragma unroll
                for (int i12 = 0; i12 < 2; ++i12) {
                    total[i12] = total[i12] + total_chunk[i12];
                }
                wgmma_wait<0>();
                hold(o);
                if (thread % 128 == 0) {
                    mbarrier_arrive(&v_empty[v_ring_slot]);
                }
                if (++v_ring_slot == 2) v_ring_slot = 0, v_ring_parity ^= 1;
                if (again2 == 1) {

                    // o: what was summed is corrected
                    #pragma unroll
                    for (int i24 = 0; i24 < 2; ++i24) {
                        #pragma unroll
                        for (int e5 = 0; e5 < 32; ++e5) {
                            o[i24 * 2 + e5 % 2 + e5 / 2 * 4] = __fmul_rn(o[i24 * 2 + e5 % 2 + e5 / 2 * 4], top_factor_rf[i24]);
                        }
                    }
                }
            }
            mbarrier_wait(&v_full[v_ring_slot], v_ring_parity);
            wgmma_fence();  // sums and A are registers, written before

            // o: add by atoms
            #pragma unroll
            for (int k3 = 0; k3 < 7; ++k3) {
                wgmma_m64n128k16_f32_f16_ra<1>(&o[0], &part_a_fr[k3 * 8], wgmma_operand<1, 14336, 1024>(&v_sh[v_ring_slot * 14336], k3 * 2048), 1);
            }
            wgmma_commit();
            wgmma_wait<0>();
            hold(o);
            if (thread % 128 == 0) {
                mbarrier_arrive(&v_empty[v_ring_slot]);
            }
            if (++v_ring_slot == 2) v_ring_slot = 0, v_ring_parity ^= 1;
            #pragma unroll
            for (int i28 = 0; i28 < 2; ++i28) {
                shuffle_4B(&other5[0], &total[i28], thread % 32 ^ 2);
                total[i28] = total[i28] + other5[0];
            }
            #pragma unroll
            for (int i29 = 0; i29 < 2; ++i29) {
                shuffle_4B(&other6[0], &total[i29], thread % 32 ^ 1);
                total[i29] = total[i29] + other6[0];
            }

            // inverse: f32 in inverse_rf
            #pragma unroll
            for (int i30 = 0; i30 < 2; ++i30) {
                inverse_rf[i30] = total[i30] <= 0.0f ? 0.0f : 1.0f / total[i30];
            }

            // y: f16 in y_rf
            #pragma unroll
            for (int i31 = 0; i31 < 2; ++i31) {
                #pragma unroll
                for (int e6 = 0; e6 < 32; ++e6) {
                    y_rf[i31 * 2 + e6 % 2 + e6 / 2 * 4] = float_to_half(__fmul_rn(o[i31 * 2 + e6 % 2 + e6 / 2 * 4], inverse_rf[i31]));
                }
            }

            // store y: Move(1, 1, 128, 128)(RF, GL)(Block)
            if (thread % 128 == 0) {
                bulk_wait_read<0>();
            }
            sync_threads(1 + thread / 128, 128);  // y_sh is read before it is overwritten

            // load y_rf to y_sh: Move(1, 1, 64, 128)(RF, SH)(Warpgroup)
            #pragma unroll
            for (int e7 = 0; e7 < 8; ++e7) {
                stmatrix_x4(&y_sh[thread / 128 * 8192 + warp * 1024 + thread % 16 * 64 + e7 / 4 * 4096 + (e7 % 4 * 2 + thread / 16 % 2 ^ thread % 8) * 8], &y_rf[e7 * 8]);
            }
            fence_proxy_async();  // y_sh is written before a bulk store reads it
            sync_threads(1 + thread / 128, 128);  // y_sh is written before it is read
            #pragma unroll
            for (int e10 = 0; e10 < 2; ++e10) {
                if (thread2 < 1) {
                    tma_store_4d(&y_map, &y_sh[thread / 128 * 8192 + e10 * 4096], e10 * 64, tile_i * 128 + thread / 128 * 64, tile_h, tile_b);
                }
            }
            if (thread % 128 == 0) {
                bulk_commit();
            }
            if (thread % 128 == 0) {
                mbarrier_arrive(&q_sh_empty[q_ring_slot]);
            }
            if (++q_ring_slot == 2) q_ring_slot = 0, q_ring_parity ^= 1;
        }
        bulk_wait_read<0>();
    }
}

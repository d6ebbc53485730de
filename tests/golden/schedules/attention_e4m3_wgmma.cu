struct bf16 { unsigned short bits; };
struct e4m3 { unsigned char bits; };
struct alignas(64) TensorMap { unsigned long long words[16]; };

__device__ __forceinline__ unsigned short floats_to_e4m3_pair(float low, float high) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}

template <typename T>
__device__ __forceinline__ void put_bytes(T* place, unsigned short pair) {
    *reinterpret_cast<unsigned short*>(place) = pair;
}

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

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
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

__device__ __forceinline__ void wgmma_m64n128k32_f32_e4m3(
    void* c_registers, unsigned long long a, unsigned long long b, int accumulate) {
    float* d = static_cast<float*>(c_registers);
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b), "r"(accumulate));
}

__device__ __forceinline__ void shuffle_4B(void* dst, const void* src, int lane) {
    *static_cast<unsigned*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned*>(src), lane);
}

__device__ __forceinline__ void regroup_bytes(void* dst, const void* src) {
    const unsigned* s = static_cast<const unsigned*>(src);
    unsigned* d = static_cast<unsigned*>(dst);
    const int lane = threadIdx.x % 4;
    const bool odd = lane % 2 != 0, last = lane >= 2;
    const unsigned one = __byte_perm(s[0], s[1], odd ? 0x7632 : 0x5410);
    const unsigned two = __byte_perm(s[0], s[1], odd ? 0x5410 : 0x7632);
    const unsigned x = __shfl_sync(0xffffffff, one, lane % 2 * 2 + lane / 2, 4);
    const unsigned y = __shfl_sync(0xffffffff, two, lane % 2 * 2 + (1 - lane / 2), 4);
    d[0] = __byte_perm(x, y, last ? 0x1054 : 0x5410);
    d[1] = __byte_perm(x, y, last ? 0x3276 : 0x7632);
}

__device__ __forceinline__ void wgmma_m64n128k32_f32_e4m3_ra(
    void* c_registers, const void* a_registers, unsigned long long b, int accumulate) {
    float* d = static_cast<float*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%64, %65, %66, %67}, %68, p, 1, 1; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
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
wgmma_1x1x128x128_e4m3_bf16_f32(
    const e4m3* __restrict__ q,
    const e4m3* __restrict__ k,
    const e4m3* __restrict__ v,
    const float* __restrict__ q_scale,
    const float* __restrict__ k_scale,
    const float* __restrict__ v_scale,
    bf16* __restrict__ y0,
    float* __restrict__ lse,
    const __grid_constant__ TensorMap q_map,
    const __grid_constant__ TensorMap k_map,
    const __grid_constant__ TensorMap v_map,
    const __grid_constant__ TensorMap y0_map) {
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    e4m3* q_sh = reinterpret_cast<e4m3*>(shared);
    e4m3* k_sh = reinterpret_cast<e4m3*>(shared + 32768);
    e4m3* v_sh = reinterpret_cast<e4m3*>(shared + 98304);
    bf16* y0_sh = reinterpret_cast<bf16*>(shared + 163840);
    unsigned long long* k_full = reinterpret_cast<unsigned long long*>(shared + 196608);
    unsigned long long* k_empty = reinterpret_cast<unsigned long long*>(shared + 196640);
    unsigned long long* v_full = reinterpret_cast<unsigned long long*>(shared + 196672);
    unsigned long long* v_empty = reinterpret_cast<unsigned long long*>(shared + 196704);
    unsigned long long* q_sh_full = reinterpret_cast<unsigned long long*>(shared + 196736);
    unsigned long long* q_sh_empty = reinterpret_cast<unsigned long long*>(shared + 196752);
    float q_rf[1];
    float k_rf[1];
    float worth_rf[1];
    float top[2];
    float total[2];
    alignas(16) float o[64];
    alignas(16) float s[64];
    alignas(16) e4m3 part_a_fr[64];
    alignas(16) e4m3 part_a_fr_summed[64];
    float top_unscaled[2];
    float top_chunk_rf[2];
    float top_before_rf[2];
    float top_factor_rf[2];
    float top_finite_rf[2];
    float part_rf[64];
    float v_rf[1];
    float inverse_rf[2];
    alignas(16) bf16 y0_rf[64];
    float lse_rf[2];
    float part[1];
    float other[1];
    float other2[1];
    float other3[1];
    float other4[1];
    if (threadIdx.x == 0) {
        prefetch_map(&q_map);
        prefetch_map(&k_map);
        prefetch_map(&v_map);
        prefetch_map(&y0_map);
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; ++i) {
            mbarrier_init(&k_full[i], 1);
        }
        for (int i = 0; i < 4; ++i) {
            mbarrier_init(&k_empty[i], 2);
        }
        for (int i = 0; i < 4; ++i) {
            mbarrier_init(&v_full[i], 1);
        }
        for (int i = 0; i < 4; ++i) {
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
            for (int trip = 0; trip * blocks + block < 512; ++trip) {

                // Program(1, 1, 128, 1024, 128, 128)(8 GL)(Block)
                const int tile = block + trip * blocks;
                const int tile_b = tile / 128;
                const int tile_h = tile / 8 % 16;
                const int tile_i = 7 - tile % 8;
                mbarrier_wait(&q_sh_empty[q_ring_slot], 1 - q_ring_parity);
                mbarrier_expect(&q_sh_full[q_ring_slot], 16384);

                // load q to q_sh: Move(1, 1, 128, 128)(GL, SH)(Block)
                tma_load_4d(&q_sh[q_ring_slot * 16384], &q_map, &q_sh_full[q_ring_slot], 0, tile_i * 128, tile_h, tile_b);
                if (++q_ring_slot == 2) q_ring_slot = 0, q_ring_parity ^= 1;
                #pragma unroll 1
                for (int j = 0; j < 8; ++j) {
                    mbarrier_wait(&k_empty[k_ring_slot], 1 - k_ring_parity);
                    mbarrier_expect(&k_full[k_ring_slot], 16384);

                    // load k to k_sh: Move(1, 1, 128, 128)(GL, SH)(Block)
                    tma_load_4d(&k_sh[k_ring_slot * 16384], &k_map, &k_full[k_ring_slot], 0, j * 128, tile_h, tile_b);
                    if (++k_ring_slot == 4) k_ring_slot = 0, k_ring_parity ^= 1;
                    mbarrier_wait(&v_empty[v_ring_slot], 1 - v_ring_parity);
                    mbarrier_expect(&v_full[v_ring_slot], 16384);

                    // load v to v_sh: Move(1, 1, 128, 128)(GL, SH)(Block)
                    tma_load_4d(&v_sh[v_ring_slot * 16384], &v_map, &v_full[v_ring_slot], j * 128, 0, tile_h, tile_b);
                    if (++v_ring_slot == 4) v_ring_slot = 0, v_ring_parity ^= 1;
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
        for (int trip = 0; trip * blocks + block < 512; ++trip) {

            // Program(1, 1, 128, 1024, 128, 128)(8 GL)(Block)
            const int tile = block + trip * blocks;
            const int tile_b = tile / 128;
            const int tile_h = tile / 8 % 16;
            const int tile_i = 7 - tile % 8;

            // load q_scale to q_rf: Move(1)(GL, RF)(Block)
            copy_4B(&q_rf[0], &q_scale[tile_h]);

            // load k_scale to k_rf: Move(1)(GL, RF)(Block)
            copy_4B(&k_rf[0], &k_scale[tile_h]);

            // worth: f32 in worth_rf
            part[0] = __fmul_rn(__fmul_rn(0.12751743f, q_rf[0]), k_rf[0]);
            worth_rf[0] = 0.0f <= part[0] ? fminf_nan(fmaxf_nan(part[0], 1e-30f), 1e+30f) : __int_as_float(0x7fc00000);
            #pragma unroll
            for (int i15 = 0; i15 < 2; ++i15) {
                top[i15] = __int_as_float(0xff800000);
            }
            #pragma unroll
            for (int i16 = 0; i16 < 2; ++i16) {
                total[i16] = 0.0f;
            }
            #pragma unroll
            for (int i17 = 0; i17 < 64; ++i17) {
                o[i17] = 0.0f;
            }
            mbarrier_wait(&k_full[k_ring_slot], k_ring_parity);
            mbarrier_wait(&q_sh_full[q_ring_slot], q_ring_parity);
            wgmma_fence();  // accumulators are registers

            // s: add by atoms
            #pragma unroll
            for (int k2 = 0; k2 < 4; ++k2) {
                wgmma_m64n128k32_f32_e4m3(&s[0], wgmma_operand<1, 16, 1024>(&q_sh[q_ring_slot * 16384 + warpgroup * 8192], k2 * 32), wgmma_operand<1, 16, 1024>(&k_sh[k_ring_slot * 16384], k2 * 32), k2 != 0);
            }
            wgmma_commit();
            wgmma_wait<0>();
            hold(s);
            if (thread % 128 == 0) {
                mbarrier_arrive(&k_empty[k_ring_slot]);
            }
            if (++k_ring_slot == 4) k_ring_slot = 0, k_ring_parity ^= 1;

            // top: max over j
            #pragma unroll
            for (int i2 = 0; i2 < 2; ++i2) {
                top_unscaled[i2] = __int_as_float(0xff800000);
            }
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                #pragma unroll
                for (int j2 = 0; j2 < 32; ++j2) {
                    top_unscaled[i] = fmaxf_nan(top_unscaled[i], s[i * 2 + j2 % 2 + j2 / 2 * 4]);
                }
            }
            #pragma unroll
            for (int i3 = 0; i3 < 2; ++i3) {
                shuffle_4B(&other[0], &top_unscaled[i3], thread % 32 ^ 2);
                top_unscaled[i3] = fmaxf_nan(top_unscaled[i3], other[0]);
            }
            #pragma unroll
            for (int i4 = 0; i4 < 2; ++i4) {
                shuffle_4B(&other2[0], &top_unscaled[i4], thread % 32 ^ 1);
                top_unscaled[i4] = fmaxf_nan(top_unscaled[i4], other2[0]);
            }

            // top_chunk: f32 in top_chunk_rf
            #pragma unroll
            for (int i5 = 0; i5 < 2; ++i5) {
                top_chunk_rf[i5] = __fmul_rn(top_unscaled[i5], worth_rf[0]);
            }

            // top_before: f32 in top_before_rf
            #pragma unroll
            for (int i6 = 0; i6 < 2; ++i6) {
                top_before_rf[i6] = top[i6];
            }
            #pragma unroll
            for (int i7 = 0; i7 < 2; ++i7) {
                top[i7] = fmaxf_nan(top[i7], top_chunk_rf[i7]);
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

            // part: f32 in part_rf
            #pragma unroll
            for (int i10 = 0; i10 < 2; ++i10) {
                #pragma unroll
                for (int j3 = 0; j3 < 32; ++j3) {
                    part_rf[i10 * 2 + j3 % 2 + j3 / 2 * 4] = exp2_approx(fmaf(s[i10 * 2 + j3 % 2 + j3 / 2 * 4], worth_rf[0], -(top_finite_rf[i10] - 8.0f)));
                }
            }

            // total: add over j
            #pragma unroll
            for (int i12 = 0; i12 < 2; ++i12) {
                total[i12] = __fmul_rn(total[i12], top_factor_rf[i12]);
            }
            #pragma unroll
            for (int i11 = 0; i11 < 2; ++i11) {
                #pragma unroll
                for (int j4 = 0; j4 < 32; ++j4) {
                    total[i11] = total[i11] + part_rf[i11 * 2 + j4 % 2 + j4 / 2 * 4];
                }
            }

            // part_a: e4m3 in part_a_fr_summed
            #pragma unroll
            for (int i13 = 0; i13 < 2; ++i13) {
                #pragma unroll
                for (int j5 = 0; j5 < 16; ++j5) {
                    put_bytes(&part_a_fr_summed[i13 * 4 + j5 % 2 * 2 + j5 / 2 * 8], floats_to_e4m3_pair(part_rf[i13 * 2 + j5 * 4], part_rf[i13 * 2 + j5 * 4 + 1]));
                }
            }

            // o: what was summed is corrected
            #pragma unroll
            for (int i14 = 0; i14 < 2; ++i14) {
                #pragma unroll
                for (int e = 0; e < 32; ++e) {
                    o[i14 * 2 + e % 2 + e / 2 * 4] = __fmul_rn(o[i14 * 2 + e % 2 + e / 2 * 4], top_factor_rf[i14]);
                }
            }

            // part_a_fr_summed to part_a_fr: exchanged between lanes
            #pragma unroll
            for (int r = 0; r < 8; ++r) {
                regroup_bytes(&part_a_fr[r * 8], &part_a_fr_summed[r * 8]);
            }
            #pragma unroll 1
            for (int j = 0; j < 7; ++j) {
                mbarrier_wait(&k_full[k_ring_slot], k_ring_parity);
                wgmma_fence();  // accumulators are registers

                // s: add by atoms
                #pragma unroll
                for (int k2 = 0; k2 < 4; ++k2) {
                    wgmma_m64n128k32_f32_e4m3(&s[0], wgmma_operand<1, 16, 1024>(&q_sh[q_ring_slot * 16384 + warpgroup * 8192], k2 * 32), wgmma_operand<1, 16, 1024>(&k_sh[k_ring_slot * 16384], k2 * 32), k2 != 0);
                }
                wgmma_commit();
                mbarrier_wait(&v_full[v_ring_slot], v_ring_parity);
                wgmma_fence();  // sums and A are registers, written before

                // o: add by atoms
                #pragma unroll
                for (int k3 = 0; k3 < 4; ++k3) {
                    wgmma_m64n128k32_f32_e4m3_ra(&o[0], &part_a_fr[k3 * 16], wgmma_operand<1, 16, 1024>(&v_sh[v_ring_slot * 16384], k3 * 32), 1);
                }
                wgmma_commit();
                wgmma_wait<1>();
                hold(s);
                if (thread % 128 == 0) {
                    mbarrier_arrive(&k_empty[k_ring_slot]);
                }
                if (++k_ring_slot == 4) k_ring_slot = 0, k_ring_parity ^= 1;

                // top: max over j
                #pragma unroll
                for (int i2 = 0; i2 < 2; ++i2) {
                    top_unscaled[i2] = __int_as_float(0xff800000);
                }
                #pragma unroll
                for (int i = 0; i < 2; ++i) {
                    #pragma unroll
                    for (int j2 = 0; j2 < 32; ++j2) {
                        top_unscaled[i] = fmaxf_nan(top_unscaled[i], s[i * 2 + j2 % 2 + j2 / 2 * 4]);
                    }
                }
                #pragma unroll
                for (int i3 = 0; i3 < 2; ++i3) {
                    shuffle_4B(&other[0], &top_unscaled[i3], thread % 32 ^ 2);
                    top_unscaled[i3] = fmaxf_nan(top_unscaled[i3], other[0]);
                }
                #pragma unroll
                for (int i4 = 0; i4 < 2; ++i4) {
                    shuffle_4B(&other2[0], &top_unscaled[i4], thread % 32 ^ 1);
                    top_unscaled[i4] = fmaxf_nan(top_unscaled[i4], other2[0]);
                }

                // top_chunk: f32 in top_chunk_rf
                #pragma unroll
                for (int i5 = 0; i5 < 2; ++i5) {
                    top_chunk_rf[i5] = __fmul_rn(top_unscaled[i5], worth_rf[0]);
                }

                // top_before: f32 in top_before_rf
                #pragma unroll
                for (int i6 = 0; i6 < 2; ++i6) {
                    top_before_rf[i6] = top[i6];
                }
                #pragma unroll
                for (int i7 = 0; i7 < 2; ++i7) {
                    top[i7] = fmaxf_nan(top[i7], top_chunk_rf[i7]);
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

                // part: f32 in part_rf
                #pragma unroll
                for (int i10 = 0; i10 < 2; ++i10) {
                    #pragma unroll
                    for (int j3 = 0; j3 < 32; ++j3) {
                        part_rf[i10 * 2 + j3 % 2 + j3 / 2 * 4] = exp2_approx(fmaf(s[i10 * 2 + j3 % 2 + j3 / 2 * 4], worth_rf[0], -(top_finite_rf[i10] - 8.0f)));
                    }
                }

                // total: add over j
                #pragma unroll
                for (int i12 = 0; i12 < 2; ++i12) {
                    total[i12] = __fmul_rn(total[i12], top_factor_rf[i12]);
                }
                #pragma unroll
                for (int i11 = 0; i11 < 2; ++i11) {
                    #pragma unroll
                    for (int j4 = 0; j4 < 32; ++j4) {
                        total[i11] = total[i11] + part_rf[i11 * 2 + j4 % 2 + j4 / 2 * 4];
                    }
                }

                // part_a: e4m3 in part_a_fr_summed
                #pragma unroll
                for (int i13 = 0; i13 < 2; ++i13) {
                    #pragma unroll
                    for (int j5 = 0; j5 < 16; ++j5) {
                        put_bytes(&part_a_fr_summed[i13 * 4 + j5 % 2 * 2 + j5 / 2 * 8], floats_to_e4m3_pair(part_rf[i13 * 2 + j5 * 4], part_rf[i13 * 2 + j5 * 4 + 1]));
                    }
                }
                wgmma_wait<0>();
                hold(o);
                if (thread % 128 == 0) {
                    mbarrier_arrive(&v_empty[v_ring_slot]);
                }
                if (++v_ring_slot == 4) v_ring_slot = 0, v_ring_parity ^= 1;

                // o: what was summed is corrected
                #pragma unroll
                for (int i14 = 0; i14 < 2; ++i14) {
                    #pragma unroll
                    for (int e = 0; e < 32; ++e) {
                        o[i14 * 2 + e % 2 + e / 2 * 4] = __fmul_rn(o[i14 * 2 + e % 2 + e / 2 * 4], top_factor_rf[i14]);
                    }
                }

                // part_a_fr_summed to part_a_fr: exchanged between lanes
                #pragma unroll
                for (int r = 0; r < 8; ++r) {
                    regroup_bytes(&part_a_fr[r * 8], &part_a_fr_summed[r * 8]);
                }
            }
            mbarrier_wait(&v_full[v_ring_slot], v_ring_parity);
            wgmma_fence();  // sums and A are registers, written before

            // o: add by atoms
            #pragma unroll
            for (int k3 = 0; k3 < 4; ++k3) {
                wgmma_m64n128k32_f32_e4m3_ra(&o[0], &part_a_fr[k3 * 16], wgmma_operand<1, 16, 1024>(&v_sh[v_ring_slot * 16384], k3 * 32), 1);
            }
            wgmma_commit();
            wgmma_wait<0>();
            hold(o);
            if (thread % 128 == 0) {
                mbarrier_arrive(&v_empty[v_ring_slot]);
            }
            if (++v_ring_slot == 4) v_ring_slot = 0, v_ring_parity ^= 1;
            #pragma unroll
            for (int i18 = 0; i18 < 2; ++i18) {
                shuffle_4B(&other3[0], &total[i18], thread % 32 ^ 2);
                total[i18] = total[i18] + other3[0];
            }
            #pragma unroll
            for (int i19 = 0; i19 < 2; ++i19) {
                shuffle_4B(&other4[0], &total[i19], thread % 32 ^ 1);
                total[i19] = total[i19] + other4[0];
            }

            // inverse: f32 in inverse_rf
            #pragma unroll
            for (int i20 = 0; i20 < 2; ++i20) {
                inverse_rf[i20] = total[i20] <= 0.0f ? 0.0f : 1.0f / total[i20];
            }

            // load v_scale to v_rf: Move(1)(GL, RF)(Block)
            copy_4B(&v_rf[0], &v_scale[tile_h]);

            // y0: bf16 in y0_rf
            #pragma unroll
            for (int i21 = 0; i21 < 2; ++i21) {
                #pragma unroll
                for (int e2 = 0; e2 < 32; ++e2) {
                    y0_rf[i21 * 2 + e2 % 2 + e2 / 2 * 4] = float_to_bf16(__fmul_rn(__fmul_rn(o[i21 * 2 + e2 % 2 + e2 / 2 * 4], inverse_rf[i21]), v_rf[0]));
                }
            }

            // store y0: Move(1, 1, 128, 128)(RF, GL)(Block)
            if (thread % 128 == 0) {
                bulk_wait_read<0>();
            }
            sync_threads(1 + thread / 128, 128);  // y0_sh is read before it is overwritten

            // load y0_rf to y0_sh: Move(1, 1, 64, 128)(RF, SH)(Warpgroup)
            #pragma unroll
            for (int e3 = 0; e3 < 8; ++e3) {
                stmatrix_x4(&y0_sh[thread / 128 * 8192 + warp * 1024 + thread % 16 * 64 + e3 / 4 * 4096 + (e3 % 4 * 2 + thread / 16 % 2 ^ thread % 8) * 8], &y0_rf[e3 * 8]);
            }
            fence_proxy_async();  // y0_sh is written before a bulk store reads it
            sync_threads(1 + thread / 128, 128);  // y0_sh is written before it is read
            #pragma unroll
            for (int e6 = 0; e6 < 2; ++e6) {
                if (thread2 < 1) {
                    tma_store_4d(&y0_map, &y0_sh[thread / 128 * 8192 + e6 * 4096], e6 * 64, tile_i * 128 + thread / 128 * 64, tile_h, tile_b);
                }
            }
            if (thread % 128 == 0) {
                bulk_commit();
            }

            // lse: f32 in lse_rf
            #pragma unroll
            for (int i23 = 0; i23 < 2; ++i23) {
                lse_rf[i23] = __fmul_rn(top[i23] + log2f(total[i23]) - 8.0f, 0.6931472f);
            }

            // store lse: Move(1, 1, 128)(RF, GL)(Block)
            if (thread % 4 == 0) {
                #pragma unroll
                for (int i24 = 0; i24 < 2; ++i24) {
                    copy_4B(&lse[tile_b * 16384 + tile_h * 1024 + tile_i * 128 + warpgroup * 64 + thread / 4 % 8 + thread / 32 % 4 * 16 + i24 * 8], &lse_rf[i24]);
                }
            }
            if (thread % 128 == 0) {
                mbarrier_arrive(&q_sh_empty[q_ring_slot]);
            }
            if (++q_ring_slot == 2) q_ring_slot = 0, q_ring_parity ^= 1;
        }
        bulk_wait_read<0>();
    }
}

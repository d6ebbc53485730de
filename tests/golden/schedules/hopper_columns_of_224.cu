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
__device__ __forceinline__ void wgmma_m64n224k16_f32_f16(
    void* c_registers, unsigned long long a, unsigned long long b, int accumulate) {
    float* d = static_cast<float*>(c_registers);
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %114, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n224k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111}, %112, %113, p, 1, 1, %115, %116; }"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]), "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
        : "l"(a), "l"(b), "r"(accumulate), "n"(a_major), "n"(b_major));
}

__device__ __forceinline__ void stmatrix_x4(void* row, const void* registers) {
    const unsigned* s = static_cast<const unsigned*>(registers);
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
        : : "r"(address), "r"(s[0]), "r"(s[1]), "r"(s[2]), "r"(s[3]) : "memory");
}

__device__ __forceinline__ void tma_store_2d(
    const TensorMap* map, const void* src, int c0, int c1) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
        : : "l"(map), "r"(static_cast<unsigned>(__cvta_generic_to_shared(src))), "r"(c0), "r"(c1) : "memory");
}

extern "C" __global__ void __launch_bounds__(384, 1)
gemm_128x224x64_f16_f32(
    const half* __restrict__ A,
    const half* __restrict__ B,
    half* __restrict__ C,
    const __grid_constant__ TensorMap A_map,
    const __grid_constant__ TensorMap B_map,
    const __grid_constant__ TensorMap C_map) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* a_sh = reinterpret_cast<half*>(shared);
    half* b_sh = reinterpret_cast<half*>(shared + 65536);
    half* acc_sh = reinterpret_cast<half*>(shared + 196608);
    unsigned long long* full = reinterpret_cast<unsigned long long*>(shared + 212992);
    unsigned long long* empty = reinterpret_cast<unsigned long long*>(shared + 213024);
    alignas(16) float acc[112];
    alignas(16) half acc_sh_packed[8];
    if (threadIdx.x == 0) {
        prefetch_map(&A_map);
        prefetch_map(&B_map);
        prefetch_map(&C_map);
    }
    if (thread > 127) {
        const int first_tile = block;
        const int first_tile_m = first_tile / 144 * 8 + first_tile % 8;
        const int first_tile_n = first_tile / 8 % 18;
        if (thread < 160) {
            const int line = thread * 4 + first_tile_n % 4 - 512;
            prefetch_line(&A[first_tile_m * 524288 + line * 4096]);  // it is read soon
        }
        if (thread > 159 && thread < 224) {
            const int line2 = thread * 4 + first_tile % 4 - 640;
            prefetch_line(&B[first_tile_n * 224 + line2 / 64 * 64 + line2 % 64 * 4032]);  // it is read soon
        }
    }
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; ++i) {
            mbarrier_init(&full[i], 1);
        }
        for (int i = 0; i < 4; ++i) {
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
            for (int trip = 0; trip * blocks + block < 576; ++trip) {

                // MatMul(128, 224, 4096)(GL, GL, GL)(Block)
                const int tile = block + trip * blocks;
                const int tile_m = tile / 144 * 8 + tile % 8;
                const int tile_n = tile / 8 % 18;
                #pragma unroll 1
                for (int k = 0; k < 64; ++k) {
                    mbarrier_wait(&empty[ring_slot], 1 - ring_parity);
                    mbarrier_expect(&full[ring_slot], 49152);

                    // load A to a_sh: Move(128, 64)(GL, SH)(Block)
                    tma_load_2d(&a_sh[ring_slot * 8192], &A_map, &full[ring_slot], k * 64, tile_m * 128);

                    // load B to b_sh: Move(64, 224)(GL, SH)(Block)
                    #pragma unroll
                    for (int n = 0; n < 4; ++n) {
                        tma_load_2d(&b_sh[ring_slot * 16384 + n * 4096], &B_map, &full[ring_slot], tile_n * 224 + n * 64, k * 64);
                    }
                    if (++ring_slot == 4) ring_slot = 0, ring_parity ^= 1;
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
        const int warp = __shfl_sync(0xffffffff, thread / 32 % 4, 0);
        const int thread2 = thread % 128;
        #pragma unroll 1
        for (int trip = 0; trip * blocks + block < 576; ++trip) {

            // MatMul(128, 224, 4096)(GL, GL, GL)(Block)
            const int tile = block + trip * blocks;
            const int tile_m = tile / 144 * 8 + tile % 8;
            const int tile_n = tile / 8 % 18;
            #pragma unroll 1
            for (int k = 0; k < 64; ++k) {
                mbarrier_wait(&full[ring_slot], ring_parity);
                wgmma_fence();  // accumulators are registers

                // MatMul(64, 224, 64)(SH, SH, FR)(Warpgroup)
                #pragma unroll
                for (int k2 = 0; k2 < 4; ++k2) {
                    wgmma_m64n224k16_f32_f16<0, 1>(&acc[0], wgmma_operand<1, 16, 1024>(&a_sh[ring_slot * 8192 + warpgroup * 4096], k2 * 32), wgmma_operand<1, 8192, 1024>(&b_sh[ring_slot * 16384], k2 * 2048), k != 0 || k2 != 0);
                }
                wgmma_commit();
                wgmma_wait<1>();
                if (thread % 128 == 0 && k > 0) {
                    mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 3 : ring_slot - 1]);
                }
                if (++ring_slot == 4) ring_slot = 0, ring_parity ^= 1;
            }
            wgmma_wait<0>();
            if (thread % 128 == 0) {
                mbarrier_arrive(&empty[ring_slot < 1 ? ring_slot + 3 : ring_slot - 1]);
            }

            // store C: Move(128, 224)(FR, GL)(Block)
            #pragma unroll
            for (int n3 = 0; n3 < 7; ++n3) {
                if (thread % 128 == 0 && n3 == 0) {
                    bulk_wait_read<0>();
                }
                if (thread % 128 == 0 && n3 != 0) {
                    bulk_wait_read<1>();
                }
                sync_threads(1 + thread / 128, 128);  // acc_sh is read before it is overwritten

                // load acc to acc_sh: Move(64, 32)(FR, SH)(Warpgroup)
                #pragma unroll
                for (int n4 = 0; n4 < 2; ++n4) {
                    #pragma unroll
                    for (int e = 0; e < 8; ++e) {
                        acc_sh_packed[e] = float_to_half(acc[n3 * 16 + n4 * 8 + e]);
                    }
                    stmatrix_x4(&acc_sh[n3 % 2 * 2048 + thread / 128 * 4096 + warp * 512 + thread % 16 * 32 + (n4 * 2 + thread / 16 % 2 ^ thread / 2 % 4) * 8], &acc_sh_packed[0]);
                }
                fence_proxy_async();  // acc_sh is written before a bulk store reads it
                sync_threads(1 + thread / 128, 128);  // acc_sh is written before it is read
                if (thread2 < 1) {
                    tma_store_2d(&C_map, &acc_sh[n3 % 2 * 2048 + thread / 128 * 4096], tile_n * 224 + n3 * 32, tile_m * 128 + thread / 128 * 64);
                }
                if (thread % 128 == 0) {
                    bulk_commit();
                }
            }
        }
        bulk_wait_read<0>();
    }
}

struct bf16 { unsigned short bits; };

__device__ __forceinline__ float bf16_to_float(bf16 x) {
    float y;
    asm("mov.b32 %0, {%1, %2};" : "=f"(y) : "h"(static_cast<unsigned short>(0)), "h"(x.bits));
    return y;
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

__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}

template <int pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
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

__device__ __forceinline__ void mbarrier_expect(unsigned long long* barrier, int nbytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
        : : "r"(shared_address(barrier)), "r"(nbytes) : "memory");
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

__device__ __forceinline__ void cp_async_16B(void* dst, const void* src) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(src) : "memory");
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void shuffle_4B(void* dst, const void* src, int lane) {
    *static_cast<unsigned*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned*>(src), lane);
}

__device__ __forceinline__ void send_4B(void* dst, const void* src, unsigned long long* barrier, int rank) {
    const unsigned* words = static_cast<const unsigned*>(src);
    asm volatile("{ .reg .b32 place, counter; mapa.shared::cluster.u32 place, %0, %2; "
        "mapa.shared::cluster.u32 counter, %1, %2; "
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [place], %3, [counter]; }"
        : : "r"(shared_address(dst)), "r"(shared_address(barrier)), "r"(rank), "r"(words[0]) : "memory");
}

extern "C" __global__ void __launch_bounds__(512, 1) __cluster_dims__(2, 1, 1)
row_1_k2_k16_bf16(
    const bf16* __restrict__ x,
    const bf16* __restrict__ gain,
    bf16* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    const int rank = cluster_rank();
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    __builtin_assume(rank >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    bf16* x_sh = reinterpret_cast<bf16*>(shared);
    bf16* gain_sh = reinterpret_cast<bf16*>(shared + 65536);
    float* mean_sum_sh = reinterpret_cast<float*>(shared + 98304);
    float* mean_sum_cluster = reinterpret_cast<float*>(shared + 98432);
    unsigned long long* mean_sum_cluster_full = reinterpret_cast<unsigned long long*>(shared + 98448);
    alignas(16) bf16 x_rf[32];
    alignas(16) bf16 gain_rf[32];
    float mean_sum[1];
    float deviation_rf[1];
    alignas(16) bf16 y_rf[32];
    float part[1];
    float other[1];
    float other2[1];
    float other3[1];
    float other4[1];
    float other5[1];
    float other6[1];
    float other7[1];
    float other8[1];
    float other9[1];
    float other10[1];
    float other11[1];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(&mean_sum_cluster_full[i], 1);
        }
    }
    fence_barrier_init();  // others use the barriers, and bulk copies do
    cluster_meet();  // barriers are initialised before peers use them
    const int warp = thread / 32;
    const int lane = thread % 32;

    // load gain to gain_sh: Move(1024)(GL, SH)(Warp)
    #pragma unroll
    for (int r7 = 0; r7 < 4; ++r7) {
        cp_async_16B(&gain_sh[thread / 32 * 1024 + lane * 8 + r7 * 256], &gain[rank * 16384 + warp * 1024 + lane * 8 + r7 * 256]);
    }

    // load x to x_sh: Move(1, 1024)(GL, SH)(Warp)
    #pragma unroll
    for (int r6 = 0; r6 < 4; ++r6) {
        cp_async_16B(&x_sh[thread / 32 * 2048 + lane * 8 + r6 * 256], &x[block / 2 * 32768 + rank * 16384 + warp * 1024 + lane * 8 + r6 * 256]);
    }
    cp_async_commit();
    #pragma unroll 1
    for (int trip = 0; trip * (blocks / 2) + block / 2 < 4096; ++trip) {

        // Program(1, 32768)(GL, GL, GL)(Block)
        const int tile = block / 2 + trip * (blocks / 2);
        const int tile_m = tile;

        // Program(1, 1024)(GL, GL, GL)(Warp)
        cp_async_wait<0>();
        if (trip < (4095 - block / 2) / (blocks / 2)) {

            // load x to x_sh: Move(1, 1024)(GL, SH)(Warp)
            #pragma unroll
            for (int r6 = 0; r6 < 4; ++r6) {
                cp_async_16B(&x_sh[(trip + 1) % 2 * 1024 + thread / 32 * 2048 + lane * 8 + r6 * 256], &x[block / 2 * 32768 + (long long)trip * (blocks / 2) * 32768 + blocks / 2 * 32768 + rank * 16384 + warp * 1024 + lane * 8 + r6 * 256]);
            }
        }
        cp_async_commit();

        // load x_sh to x_rf: Move(1, 1024)(SH, RF)(Warp)
        __syncwarp();  // x_sh is written before it is read
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            copy_16B(&x_rf[r * 8], &x_sh[trip % 2 * 1024 + thread / 32 * 2048 + lane * 8 + r * 256]);
        }

        // mean_sum: add over n
        mean_sum[0] = 0.0f;
        #pragma unroll
        for (int n = 0; n < 32; ++n) {
            part[0] = bf16_to_float(x_rf[n]);
            mean_sum[0] = fmaf(part[0], part[0], mean_sum[0]);
        }
        shuffle_4B(&other[0], &mean_sum[0], thread % 32 ^ 16);
        mean_sum[0] = mean_sum[0] + other[0];
        shuffle_4B(&other2[0], &mean_sum[0], thread % 32 ^ 8);
        mean_sum[0] = mean_sum[0] + other2[0];
        shuffle_4B(&other3[0], &mean_sum[0], thread % 32 ^ 4);
        mean_sum[0] = mean_sum[0] + other3[0];
        shuffle_4B(&other4[0], &mean_sum[0], thread % 32 ^ 2);
        mean_sum[0] = mean_sum[0] + other4[0];
        shuffle_4B(&other5[0], &mean_sum[0], thread % 32 ^ 1);
        mean_sum[0] = mean_sum[0] + other5[0];

        // mean_sum over 16 warps
        if (thread % 32 == 0) {
            mean_sum_sh[thread / 32 + trip % 2 * 16] = mean_sum[0];
        }
        mean_sum[0] = 0.0f;
        __syncthreads();  // mean_sum_sh is written before it is read
        other6[0] = mean_sum_sh[thread % 16 + trip % 2 * 16];
        mean_sum[0] = mean_sum[0] + other6[0];
        shuffle_4B(&other7[0], &mean_sum[0], thread % 32 ^ 8);
        mean_sum[0] = mean_sum[0] + other7[0];
        shuffle_4B(&other8[0], &mean_sum[0], thread % 32 ^ 4);
        mean_sum[0] = mean_sum[0] + other8[0];
        shuffle_4B(&other9[0], &mean_sum[0], thread % 32 ^ 2);
        mean_sum[0] = mean_sum[0] + other9[0];
        shuffle_4B(&other10[0], &mean_sum[0], thread % 32 ^ 1);
        mean_sum[0] = mean_sum[0] + other10[0];

        // mean_sum over 2 blocks of a cluster
        if (thread == 0) {
            mbarrier_expect(&mean_sum_cluster_full[trip % 2], 8);
        }
        __syncwarp();  // the warp has read the states of the trip before
        if (thread / 32 == 0) {
            if (thread % 32 < 2) {
                send_4B(&mean_sum_cluster[rank + trip % 2 * 2], &mean_sum[0], &mean_sum_cluster_full[trip % 2], thread % 32);
            }
        }
        mean_sum[0] = 0.0f;
        mbarrier_wait(&mean_sum_cluster_full[trip % 2], trip / 2 % 2);
        #pragma unroll
        for (int peer = 0; peer < 2; ++peer) {
            other11[0] = mean_sum_cluster[peer + trip % 2 * 2];
            mean_sum[0] = mean_sum[0] + other11[0];
        }

        // deviation: f32 in deviation_rf
        deviation_rf[0] = rsqrtf(fmaf(mean_sum[0], 3.0517578e-05f, 1e-06f));

        // load gain_sh to gain_rf: Move(1024)(SH, RF)(Warp)
        #pragma unroll
        for (int n4 = 0; n4 < 4; ++n4) {
            copy_16B(&gain_rf[n4 * 8], &gain_sh[thread / 32 * 1024 + lane * 8 + n4 * 256]);
        }

        // y: bf16 in y_rf
        #pragma unroll
        for (int n2 = 0; n2 < 32; ++n2) {
            y_rf[n2] = float_to_bf16(__fmul_rn(__fmul_rn(bf16_to_float(x_rf[n2]), deviation_rf[0]), bf16_to_float(gain_rf[n2])));
        }

        // store y: Move(1, 1024)(RF, GL)(Warp)
        #pragma unroll
        for (int n3 = 0; n3 < 4; ++n3) {
            copy_16B(&y[tile_m * 32768 + rank * 16384 + warp * 1024 + lane * 8 + n3 * 256], &y_rf[n3 * 8]);
        }
    }
}

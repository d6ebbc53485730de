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

__device__ __forceinline__ unsigned shared_address(const void* place) {
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;" : : : "memory");
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

__device__ __forceinline__ void load_peer_4B(void* dst, const void* src, int rank) {
    unsigned* words = static_cast<unsigned*>(dst);
    asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %1, %2; "
        "ld.shared::cluster.u32 %0, [remote]; }"
        : "=r"(words[0]) : "r"(shared_address(src)), "r"(rank) : "memory");
}

extern "C" __global__ void __launch_bounds__(512, 1) __cluster_dims__(4, 1, 1)
row_1_k4_k16_bf16(
    const bf16* __restrict__ x,
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
    float* total_sh = reinterpret_cast<float*>(shared + 65536);
    float* cumsum_total_cluster = reinterpret_cast<float*>(shared + 67584);
    alignas(16) bf16 x_rf[32];
    float cumsum_rf[32];
    alignas(16) bf16 y_rf[32];
    float cumsum_total[1];
    float total[1];
    float sum[1];
    float other[1];
    float front[1];
    float front2[1];
    float other2[1];
    float front3[1];
    float other3[1];
    const int warp = thread / 32;
    const int lane = thread % 32;

    // load x to x_sh: Move(1, 1024)(GL, SH)(Warp)
    #pragma unroll
    for (int r6 = 0; r6 < 4; ++r6) {
        cp_async_16B(&x_sh[thread / 32 * 2048 + lane * 8 + r6 * 256], &x[block / 4 * 65536 + rank * 16384 + warp * 1024 + lane * 8 + r6 * 256]);
    }
    cp_async_commit();
    #pragma unroll 1
    for (int trip = 0; trip * (blocks / 4) + block / 4 < 4096; ++trip) {

        // Program(1, 65536)(GL, GL)(Block)
        const int tile = block / 4 + trip * (blocks / 4);
        const int tile_m = tile;

        // Program(1, 1024)(GL, GL)(Warp)
        cp_async_wait<0>();
        if (trip < (4095 - block / 4) / (blocks / 4)) {

            // load x to x_sh: Move(1, 1024)(GL, SH)(Warp)
            #pragma unroll
            for (int r6 = 0; r6 < 4; ++r6) {
                cp_async_16B(&x_sh[(trip + 1) % 2 * 1024 + thread / 32 * 2048 + lane * 8 + r6 * 256], &x[block / 4 * 65536 + (long long)trip * (blocks / 4) * 65536 + blocks / 4 * 65536 + rank * 16384 + warp * 1024 + lane * 8 + r6 * 256]);
            }
        }
        cp_async_commit();

        // load x_sh to x_rf: Move(1, 1024)(SH, RF)(Warp)
        __syncwarp();  // x_sh is written before it is read
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            copy_16B(&x_rf[r * 8], &x_sh[trip % 2 * 1024 + thread / 32 * 2048 + lane * 8 + r * 256]);
        }
        #pragma unroll
        for (int i = 0; i < 32; ++i) {
            cumsum_rf[i] = 0.0f;
        }

        // cumsum: f32 in cumsum_rf
        #pragma unroll
        for (int n = 0; n < 32; ++n) {
            cumsum_rf[n] = bf16_to_float(x_rf[n]);
        }

        // cumsum: running add over n
        cumsum_total[0] = 0.0f;
        total[0] = 0.0f;
        #pragma unroll
        for (int run = 0; run < 4; ++run) {
            #pragma unroll
            for (int e = 0; e < 7; ++e) {
                cumsum_rf[run * 8 + e + 1] = cumsum_rf[run * 8 + e] + cumsum_rf[run * 8 + e + 1];
            }
            sum[0] = cumsum_rf[run * 8 + 7];
            shuffle_4B(&other[0], &sum[0], (thread + 31) % 32);
            if (thread % 32 > 0) sum[0] = other[0] + sum[0];
            shuffle_4B(&other[0], &sum[0], (thread + 30) % 32);
            if (thread % 32 > 1) sum[0] = other[0] + sum[0];
            shuffle_4B(&other[0], &sum[0], (thread + 28) % 32);
            if (thread % 32 > 3) sum[0] = other[0] + sum[0];
            shuffle_4B(&other[0], &sum[0], (thread + 24) % 32);
            if (thread % 32 > 7) sum[0] = other[0] + sum[0];
            shuffle_4B(&other[0], &sum[0], (thread + 16) % 32);
            if (thread % 32 > 15) sum[0] = other[0] + sum[0];
            shuffle_4B(&other[0], &sum[0], (thread + 31) % 32);
            front[0] = total[0];
            if (thread % 32 > 0) front[0] = front[0] + other[0];
            shuffle_4B(&other[0], &sum[0], 31);
            total[0] = total[0] + other[0];
            #pragma unroll
            for (int e2 = 0; e2 < 8; ++e2) {
                cumsum_rf[run * 8 + e2] = front[0] + cumsum_rf[run * 8 + e2];
            }
        }

        // cumsum over 16 warps
        total_sh[thread] = total[0];
        front2[0] = cumsum_total[0];
        __syncthreads();  // total_sh is written before it is read
        #pragma unroll
        for (int w = 0; w < 16; ++w) {
            other2[0] = total_sh[w * 32 + thread % 32];
            if (w < thread / 32) front2[0] = front2[0] + other2[0];
            cumsum_total[0] = cumsum_total[0] + other2[0];
        }
        #pragma unroll
        for (int run2 = 0; run2 < 4; ++run2) {
            #pragma unroll
            for (int e3 = 0; e3 < 8; ++e3) {
                cumsum_rf[run2 * 8 + e3] = front2[0] + cumsum_rf[run2 * 8 + e3];
            }
        }

        // cumsum over 4 blocks of a cluster
        if (thread / 32 == 0) {
            cumsum_total_cluster[thread % 32] = cumsum_total[0];
        }
        front3[0] = 0.0f;
        cluster_sync();  // cumsum_total_cluster is written before peers read it
        #pragma unroll
        for (int peer = 0; peer < 4; ++peer) {
            load_peer_4B(&other3[0], &cumsum_total_cluster[thread % 32], peer);
            if (peer < rank) front3[0] = front3[0] + other3[0];
        }
        #pragma unroll
        for (int run3 = 0; run3 < 4; ++run3) {
            #pragma unroll
            for (int e4 = 0; e4 < 8; ++e4) {
                cumsum_rf[run3 * 8 + e4] = front3[0] + cumsum_rf[run3 * 8 + e4];
            }
        }

        // y: bf16 in y_rf
        #pragma unroll
        for (int n2 = 0; n2 < 32; ++n2) {
            y_rf[n2] = float_to_bf16(cumsum_rf[n2]);
        }

        // store y: Move(1, 1024)(RF, GL)(Warp)
        #pragma unroll
        for (int n3 = 0; n3 < 4; ++n3) {
            copy_16B(&y[tile_m * 65536 + rank * 16384 + warp * 1024 + lane * 8 + n3 * 256], &y_rf[n3 * 8]);
        }
        cluster_sync();  // cumsum_total_cluster is read before it is overwritten
    }
}

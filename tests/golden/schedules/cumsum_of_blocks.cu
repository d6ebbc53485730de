__device__ __forceinline__ void raise_flag(int* flag, bool first) {
    if (first) {
        asm volatile("st.release.gpu.global.s32 [%0], 1;" : : "l"(__cvta_generic_to_global(flag)) : "memory");
    }
}

__device__ __forceinline__ void lower_flag(int* flag, bool first, int barrier, int threads) {
    if (first) {
        int raised;
        do {
            asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                : "=r"(raised) : "l"(__cvta_generic_to_global(flag)) : "memory");
        } while (!raised);
        *flag = 0;
    }
    asm volatile("barrier.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void shuffle_4B(void* dst, const void* src, int lane) {
    *static_cast<unsigned*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned*>(src), lane);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

extern "C" __global__ void __launch_bounds__(512)
test_blocks_pass_their_sums_on_1_k64_k16_f32(
    const float* __restrict__ x,
    float* __restrict__ y,
    float* cumsum_total_parts,
    int* handed) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    float* total_sh = reinterpret_cast<float*>(shared);
    alignas(16) float x_rf[32];
    alignas(16) float y_rf[32];
    float cumsum_total[1];
    float total[1];
    float sum[1];
    float other[1];
    float front[1];
    float front2[1];
    float other2[1];
    float front3[1];
    const int way = block % 64;
    const int tile = block / 64;
    const int warp = thread / 32;
    const int lane = thread % 32;

    // Program(1, 1048576)(GL, GL)(Block)

    // Program(1, 1024)(GL, GL)(Warp)

    // load x to x_rf: Move(1, 1024)(GL, RF)(Warp)
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        copy_16B(&x_rf[r * 4], &x[tile * 1048576 + way * 16384 + warp * 1024 + lane * 4 + r * 128]);
    }
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        y_rf[i] = 0.0f;
    }

    // cumsum: f32 in y_rf
    #pragma unroll
    for (int n = 0; n < 32; ++n) {
        y_rf[n] = x_rf[n];
    }

    // cumsum: running add over n
    cumsum_total[0] = 0.0f;
    total[0] = 0.0f;
    #pragma unroll
    for (int run = 0; run < 8; ++run) {
        #pragma unroll
        for (int e = 0; e < 3; ++e) {
            y_rf[run * 4 + e + 1] = y_rf[run * 4 + e] + y_rf[run * 4 + e + 1];
        }
        sum[0] = y_rf[run * 4 + 3];
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
        for (int e2 = 0; e2 < 4; ++e2) {
            y_rf[run * 4 + e2] = front[0] + y_rf[run * 4 + e2];
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
    for (int run2 = 0; run2 < 8; ++run2) {
        #pragma unroll
        for (int e3 = 0; e3 < 4; ++e3) {
            y_rf[run2 * 4 + e3] = front2[0] + y_rf[run2 * 4 + e3];
        }
    }

    // cumsum over 64 blocks, one after the other
    front3[0] = 0.0f;
    if (way > 0) {
        lower_flag(&handed[tile * 64 + way - 1], thread == 0, 0, 512);
        copy_4B(&front3[0], &cumsum_total_parts[tile * 2048 + way * 32 + thread % 32 - 32]);
    }
    cumsum_total[0] = front3[0] + cumsum_total[0];
    if (way < 63) {
        if (thread / 32 == 0) copy_4B(&cumsum_total_parts[tile * 2048 + way * 32 + thread % 32], &cumsum_total[0]);
        __syncthreads();  // all threads have written cumsum_total_parts
        raise_flag(&handed[tile * 64 + way], thread == 0);
    }
    #pragma unroll
    for (int run3 = 0; run3 < 8; ++run3) {
        #pragma unroll
        for (int e4 = 0; e4 < 4; ++e4) {
            y_rf[run3 * 4 + e4] = front3[0] + y_rf[run3 * 4 + e4];
        }
    }

    // store y: Move(1, 1024)(RF, GL)(Warp)
    #pragma unroll
    for (int n2 = 0; n2 < 8; ++n2) {
        copy_16B(&y[tile * 1048576 + way * 16384 + warp * 1024 + lane * 4 + n2 * 128], &y_rf[n2 * 4]);
    }
}

__device__ __forceinline__ float fmaxf_nan(float x, float y) {
#if __CUDA_ARCH__ >= 800
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
#else
    return x != x || y != y ? x + y : fmaxf(x, y);
#endif
}

__device__ __forceinline__ void copy_or_zero_16B(void* dst, const void* src, bool read) {
    uint4 value = {};
    if (read) value = *static_cast<const uint4*>(src);
    *static_cast<uint4*>(dst) = value;
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

extern "C" __global__ void __launch_bounds__(256, 2)
gemm_64x64x8_f32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C,
    int M,
    int N,
    int K,
    float alpha) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    float* a_sh = reinterpret_cast<float*>(shared);
    float* b_sh = reinterpret_cast<float*>(shared + 2048);
    float a_rf[4];
    alignas(16) float b_rf[4];
    alignas(16) float acc[16];
    const int block_m = block / ((N / 4 + 15) / 16);
    const int block_n = block % ((N / 4 + 15) / 16);

    // Init acc 4x4 (Thread)
    #pragma unroll
    for (int m = 0; m < 16; ++m) {
        acc[m] = 0.0f;
    }

    // MatMul 64x64xK (Block)
    #pragma unroll 1
    for (int k0 = 0; k0 < K / 8; ++k0) {

        // load A 64x8 GL -> SH, zeros past row M
        if (thread < 128) {
            copy_or_zero_16B(&a_sh[thread * 4], &A[(long long)block_m * K * 64 + (long long)(thread / 2) * K + k0 * 8 + thread % 2 * 4], block_m * 64 + thread / 2 < M);
        }

        // load B 8x64 GL -> SH, zeros past column N
        if (thread < 128) copy_or_zero_16B(&b_sh[thread * 4], &B[(long long)k0 * N * 8 + (long long)(thread / 16) * N + block_n * 64 + thread % 16 * 4], block_n * 64 + thread % 16 * 4 < N);
        __syncthreads();  // a_sh and b_sh are written by other threads

        // MatMul 4x4x8 (Thread)
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            #pragma unroll
            for (int m = 0; m < 4; ++m) {
                copy_4B(&a_rf[m], &a_sh[thread / 16 * 32 + m * 8 + k]);
            }
            copy_16B(&b_rf[0], &b_sh[k * 64 + thread % 16 * 4]);
            #pragma unroll
            for (int m = 0; m < 4; ++m) {
                #pragma unroll
                for (int n = 0; n < 4; ++n) {
                    acc[m * 4 + n] = fmaf(a_rf[m], b_rf[n], acc[m * 4 + n]);
                }
            }
        }
        __syncthreads();  // the next chunk overwrites a_sh and b_sh
    }

    // relu and store C 4x4 RF -> GL (Thread)
    #pragma unroll
    for (int m = 0; m < 4; ++m) {
        #pragma unroll
        for (int n = 0; n < 4; ++n) {
            acc[m * 4 + n] = fmaxf_nan(__fmul_rn(alpha, acc[m * 4 + n]), 0.0f);
        }
        if (block_m * 64 + thread / 16 * 4 + m < M && block_n * 64 + thread % 16 * 4 < N) copy_16B(&C[(long long)block_m * N * 64 + (long long)(thread / 16) * N * 4 + (long long)m * N + block_n * 64 + thread % 16 * 4], &acc[m * 4]);
    }
}

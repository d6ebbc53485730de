__device__ __forceinline__ void copy_or_zero_4B(void* dst, const void* src, bool read) {
    unsigned value = {};
    if (read) value = *static_cast<const unsigned*>(src);
    *static_cast<unsigned*>(dst) = value;
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

extern "C" __global__ void __launch_bounds__(128)
sgemm_128x128x8_f32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C,
    int M,
    int K,
    int N) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    float* a_sh = reinterpret_cast<float*>(shared);
    float* b_sh = reinterpret_cast<float*>(shared + 8448);
    float acc[128];
    alignas(16) float a_rf[16];
    alignas(16) float b_rf[8];
    float a_rf2[8];
    float b_rf2[8];
    const int block_m = block / ((N + 127) / 128 * 8) * 8 + (long long)(block % ((N + 127) / 128 * 8) % min((M + 127) / 128 - block / ((N + 127) / 128 * 8) * 8, 8));
    const int block_n = block % ((N + 127) / 128 * 8) / min((M + 127) / 128 - block / ((N + 127) / 128 * 8) * 8, 8);
    const int warp = thread / 32;
    const int warp_m = warp / 2;
    const int warp_n = warp % 2;
    const int lane = thread % 32;
    const int lane_m = lane / 8;
    const int lane_n = lane % 8;

    // MatMul(128, 128, K)(GL, GL, GL)(Block)

    // Init(0)(RF)(Block)
    #pragma unroll
    for (int i = 0; i < 128; ++i) {
        acc[i] = 0.0f;
    }

    // load A to a_rf2: Move(128, 8)(GL, RF)(Block)
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        copy_or_zero_4B(&a_rf2[r], &A[(long long)block_m * K * 128 + (long long)r * K * 16 + (long long)(thread / 8) * K + lane_n], block_m * 128 + r * 16 + thread / 8 < M && lane_n < K);
    }

    // load A to a_sh: Move(128, 8)(GL, SH)(Block)
    #pragma unroll
    for (int m3 = 0; m3 < 8; ++m3) {
        copy_4B(&a_sh[thread / 8 + m3 * 16 + lane_n * 132], &a_rf2[m3]);
    }

    // load B to b_rf2: Move(8, 128)(GL, RF)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 8; ++r3) {
        copy_or_zero_4B(&b_rf2[r3], &B[(long long)r3 * N + block_n * 128 + thread], r3 < K && block_n * 128 + thread < N);
    }

    // load B to b_sh: Move(8, 128)(GL, SH)(Block)
    #pragma unroll
    for (int k3 = 0; k3 < 8; ++k3) {
        copy_4B(&b_sh[k3 * 132 + thread], &b_rf2[k3]);
    }
    __syncthreads();  // a_sh is written before it is read
    #pragma unroll 1
    for (int k = 0; k < (K + 7) / 8; ++k) {
        if (k + 1 < (K + 7) / 8) {

            // load A to a_rf2: Move(128, 8)(GL, RF)(Block)
            #pragma unroll
            for (int r = 0; r < 8; ++r) {
                copy_or_zero_4B(&a_rf2[r], &A[(long long)block_m * K * 128 + (long long)r * K * 16 + (long long)(thread / 8) * K + k * 8 + lane_n + 8], block_m * 128 + r * 16 + thread / 8 < M && k * 8 + lane_n + 8 < K);
            }

            // load B to b_rf2: Move(8, 128)(GL, RF)(Block)
            #pragma unroll
            for (int r3 = 0; r3 < 8; ++r3) {
                copy_or_zero_4B(&b_rf2[r3], &B[(long long)k * N * 8 + (long long)r3 * N + (long long)N * 8 + block_n * 128 + thread], k * 8 + r3 + 8 < K && block_n * 128 + thread < N);
            }
        }

        // MatMul(64, 64, 8)(SH, SH, RF)(Warp)

        // MatMul(16, 8, 8)(SH, SH, RF)(Thread)
        #pragma unroll
        for (int k2 = 0; k2 < 8; ++k2) {

            // load a_sh to a_rf: Move(16, 1)(SH, RF)(Thread)
            #pragma unroll
            for (int m2 = 0; m2 < 4; ++m2) {
                copy_16B(&a_rf[m2 * 4], &a_sh[k % 2 * 1056 + warp_m * 64 + lane_m * 4 + m2 * 16 + k2 * 132]);
            }

            // load b_sh to b_rf: Move(1, 8)(SH, RF)(Thread)
            #pragma unroll
            for (int n2 = 0; n2 < 2; ++n2) {
                copy_16B(&b_rf[n2 * 4], &b_sh[k % 2 * 1056 + k2 * 132 + warp_n * 64 + lane_n * 4 + n2 * 32]);
            }
            #pragma unroll
            for (int m = 0; m < 16; ++m) {
                #pragma unroll
                for (int step = 0; step < 8; ++step) {
                    const int n = m % 2 == 0 ? step : 7 - step;
                    acc[m * 8 + n] = fmaf(a_rf[m], b_rf[n], acc[m * 8 + n]);
                }
            }
        }
        if (k + 1 < (K + 7) / 8) {

            // load A to a_sh: Move(128, 8)(GL, SH)(Block)
            #pragma unroll
            for (int m3 = 0; m3 < 8; ++m3) {
                copy_4B(&a_sh[(k + 1) % 2 * 1056 + thread / 8 + m3 * 16 + lane_n * 132], &a_rf2[m3]);
            }

            // load B to b_sh: Move(8, 128)(GL, SH)(Block)
            #pragma unroll
            for (int k3 = 0; k3 < 8; ++k3) {
                copy_4B(&b_sh[(k + 1) % 2 * 1056 + k3 * 132 + thread], &b_rf2[k3]);
            }
        }
        __syncthreads();  // a_sh is written before it is read
    }

    // store C: Move(128, 128)(RF, GL)(Block)
    #pragma unroll
    for (int m5 = 0; m5 < 16; ++m5) {
        #pragma unroll
        for (int n4 = 0; n4 < 8; ++n4) {
            if (block_m * 128 + warp_m * 64 + lane_m * 4 + m5 % 4 + m5 / 4 * 16 < M && block_n * 128 + warp_n * 64 + lane_n * 4 + n4 % 4 + n4 / 4 * 32 < N) copy_4B(&C[(long long)block_m * N * 128 + (long long)warp_m * N * 64 + (long long)lane_m * N * 4 + (long long)(m5 % 4) * N + (long long)(m5 / 4) * N * 16 + block_n * 128 + warp_n * 64 + lane_n * 4 + n4 % 4 + n4 / 4 * 32], &acc[m5 * 8 + n4]);
        }
    }
}

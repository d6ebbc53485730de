__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

extern "C" __global__ void __launch_bounds__(512)
ways_32x32x32_per8_f32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    float* a_sh = reinterpret_cast<float*>(shared);
    float* b_sh = reinterpret_cast<float*>(shared + 8192);
    float* acc_sh = reinterpret_cast<float*>(shared);
    alignas(16) float acc[8];
    float a_rf[4];
    alignas(16) float b_rf[2];
    alignas(16) float a_rf2[4];
    alignas(16) float b_rf2[4];
    alignas(16) float sum[2];
    alignas(16) float acc_vec[2];
    const int block_m = block / 2;
    const int block_n = block % 2;
    const int way = thread / 128;
    const int warp = thread / 32 % 4;
    const int warp_m = warp / 2;
    const int warp_n = warp % 2;
    const int lane = thread % 32;
    const int lane_m = lane / 8;
    const int lane_n = lane % 8;
    const int thread_m = thread / 8;

    // MatMul(32, 32, 96)(GL, GL, GL)(Block)

    // Init(0)(RF)(Block)
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        acc[i] = 0.0f;
    }

    // load A to a_rf2: Move(32, 32)(GL, RF)(Block)
    if (thread < 256) {
        copy_16B(&a_rf2[0], &A[block_m * 3072 + thread_m * 96 + lane_n * 4]);
    }

    // load A to a_sh: Move(32, 32)(GL, SH)(Block)
    if (thread < 256) {
        copy_16B(&a_sh[thread_m * 32 + lane_n * 4], &a_rf2[0]);
    }

    // load B to b_rf2: Move(32, 32)(GL, RF)(Block)
    if (thread < 256) {
        copy_16B(&b_rf2[0], &B[thread_m * 64 + block_n * 32 + lane_n * 4]);
    }

    // load B to b_sh: Move(32, 32)(GL, SH)(Block)
    if (thread < 256) {
        copy_16B(&b_sh[thread_m * 32 + lane_n * 4], &b_rf2[0]);
    }
    __syncthreads();  // a_sh is written before it is read
    #pragma unroll 1
    for (int k = 0; k < 3; ++k) {
        if (k < 2) {

            // load A to a_rf2: Move(32, 32)(GL, RF)(Block)
            if (thread < 256) {
                copy_16B(&a_rf2[0], &A[block_m * 3072 + thread_m * 96 + k * 32 + lane_n * 4 + 32]);
            }

            // load B to b_rf2: Move(32, 32)(GL, RF)(Block)
            if (thread < 256) {
                copy_16B(&b_rf2[0], &B[k * 2048 + thread_m * 64 + block_n * 32 + lane_n * 4 + 2048]);
            }
        }

        // MatMul(32, 32, 8)(SH, SH, RF)(Warpgroup)

        // MatMul(16, 16, 8)(SH, SH, RF)(Warp)

        // MatMul(4, 2, 8)(SH, SH, RF)(Thread)
        #pragma unroll
        for (int k2 = 0; k2 < 8; ++k2) {

            // load a_sh to a_rf: Move(4, 1)(SH, RF)(Thread)
            #pragma unroll
            for (int m2 = 0; m2 < 4; ++m2) {
                copy_4B(&a_rf[m2], &a_sh[k % 2 * 1024 + warp_m * 512 + lane_m * 128 + m2 * 32 + way * 8 + k2]);
            }

            // load b_sh to b_rf: Move(1, 2)(SH, RF)(Thread)
            copy_8B(&b_rf[0], &b_sh[k % 2 * 1024 + way * 256 + k2 * 32 + warp_n * 16 + lane_n * 2]);
            #pragma unroll
            for (int m = 0; m < 4; ++m) {
                #pragma unroll
                for (int n = 0; n < 2; ++n) {
                    acc[m * 2 + n] = fmaf(a_rf[m], b_rf[n], acc[m * 2 + n]);
                }
            }
        }
        if (k < 2) {

            // load A to a_sh: Move(32, 32)(GL, SH)(Block)
            if (thread < 256) {
                copy_16B(&a_sh[(k + 1) % 2 * 1024 + thread_m * 32 + lane_n * 4], &a_rf2[0]);
            }

            // load B to b_sh: Move(32, 32)(GL, SH)(Block)
            if (thread < 256) {
                copy_16B(&b_sh[(k + 1) % 2 * 1024 + thread_m * 32 + lane_n * 4], &b_rf2[0]);
            }
        }
        __syncthreads();  // a_sh is written before it is read
    }

    // Reduce(4)(RF)(Warpgroup)
    #pragma unroll
    for (int p = 0; p < 4; ++p) {
        if (way != p) {
            copy_8B(&acc_sh[p * 768 + (way - p + 3) % 4 * 256 + thread % 128 * 2], &acc[p * 2]);
        }
    }
    #pragma unroll
    for (int p2 = 0; p2 < 4; ++p2) {
        if (way == p2) {
            #pragma unroll
            for (int i2 = 0; i2 < 2; ++i2) {
                sum[i2] = acc[p2 * 2 + i2];
            }
        }
    }
    __syncthreads();  // acc_sh is written before it is read
    #pragma unroll
    for (int s = 0; s < 3; ++s) {
        copy_8B(&acc_vec[0], &acc_sh[way * 768 + s * 256 + thread % 128 * 2]);
        #pragma unroll
        for (int e = 0; e < 2; ++e) {
            sum[e] = sum[e] + acc_vec[e];
        }
    }

    // store C: Move(32, 32)(RF, GL)(Block)
    copy_8B(&C[block_m * 2048 + warp_m * 1024 + lane_m * 256 + way * 64 + block_n * 32 + warp_n * 16 + lane_n * 2], &sum[0]);
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

extern "C" __global__ void __launch_bounds__(128)
sgemm_128x128x8_f32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C) {
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
    alignas(16) float a_rf2[8];
    alignas(16) float b_rf2[8];
    const int block_m = block % 4;
    const int block_n = block / 4;
    const int warp = thread / 32;
    const int warp_m = warp / 2;
    const int warp_n = warp % 2;
    const int lane = thread % 32;
    const int lane_m = lane / 8;
    const int lane_n = lane % 8;
    const int thread_k = thread % 2;

    // MatMul(128, 128, 512)(GL, GL, GL)(Block)

    // Init(0)(RF)(Block)
    #pragma unroll
    for (int i = 0; i < 128; ++i) {
        acc[i] = 0.0f;
    }

    // load A to a_rf2: Move(128, 8)(GL, RF)(Block)
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        copy_16B(&a_rf2[r * 4], &A[block_m * 65536 + r * 32768 + thread / 2 * 512 + thread_k * 4]);
    }

    // load A to a_sh: Move(128, 8)(GL, SH)(Block)
    #pragma unroll
    for (int k3 = 0; k3 < 4; ++k3) {
        #pragma unroll
        for (int m3 = 0; m3 < 2; ++m3) {
            copy_4B(&a_sh[thread / 2 + m3 * 64 + thread_k * 528 + k3 * 132], &a_rf2[k3 + m3 * 4]);
        }
    }

    // load B to b_rf2: Move(8, 128)(GL, RF)(Block)
    #pragma unroll
    for (int r3 = 0; r3 < 2; ++r3) {
        copy_16B(&b_rf2[r3 * 4], &B[r3 * 2048 + thread / 32 * 512 + block_n * 128 + lane * 4]);
    }

    // load B to b_sh: Move(8, 128)(GL, SH)(Block)
    #pragma unroll
    for (int k4 = 0; k4 < 2; ++k4) {
        copy_16B(&b_sh[thread / 32 * 132 + k4 * 528 + lane * 4], &b_rf2[k4 * 4]);
    }
    __syncthreads();  // a_sh is written before it is read
    #pragma unroll 1
    for (int k = 0; k < 64; ++k) {
        if (k < 63) {

            // load A to a_rf2: Move(128, 8)(GL, RF)(Block)
            #pragma unroll
            for (int r = 0; r < 2; ++r) {
                copy_16B(&a_rf2[r * 4], &A[block_m * 65536 + r * 32768 + thread / 2 * 512 + k * 8 + thread_k * 4 + 8]);
            }

            // load B to b_rf2: Move(8, 128)(GL, RF)(Block)
            #pragma unroll
            for (int r3 = 0; r3 < 2; ++r3) {
                copy_16B(&b_rf2[r3 * 4], &B[k * 4096 + r3 * 2048 + thread / 32 * 512 + block_n * 128 + lane * 4 + 4096]);
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
        if (k < 63) {

            // load A to a_sh: Move(128, 8)(GL, SH)(Block)
            #pragma unroll
            for (int k3 = 0; k3 < 4; ++k3) {
                #pragma unroll
                for (int m3 = 0; m3 < 2; ++m3) {
                    copy_4B(&a_sh[(k + 1) % 2 * 1056 + thread / 2 + m3 * 64 + thread_k * 528 + k3 * 132], &a_rf2[k3 + m3 * 4]);
                }
            }

            // load B to b_sh: Move(8, 128)(GL, SH)(Block)
            #pragma unroll
            for (int k4 = 0; k4 < 2; ++k4) {
                copy_16B(&b_sh[(k + 1) % 2 * 1056 + thread / 32 * 132 + k4 * 528 + lane * 4], &b_rf2[k4 * 4]);
            }
        }
        __syncthreads();  // a_sh is written before it is read
    }

    // store C: Move(128, 128)(RF, GL)(Block)
    #pragma unroll
    for (int m5 = 0; m5 < 16; ++m5) {
        #pragma unroll
        for (int n4 = 0; n4 < 8; ++n4) {
            copy_4B(&C[block_m * 65536 + warp_m * 32768 + lane_m * 2048 + m5 % 4 * 512 + m5 / 4 * 8192 + block_n * 128 + warp_n * 64 + lane_n * 4 + n4 % 4 + n4 / 4 * 32], &acc[m5 * 8 + n4]);
        }
    }
}

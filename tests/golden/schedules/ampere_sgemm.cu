__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}

template <int pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

__device__ __forceinline__ void cp_async_4B(void* dst, const void* src) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(src) : "memory");
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

extern "C" __global__ void __launch_bounds__(256, 2)
sgemm_128x128x16_f32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    float* a_sh = reinterpret_cast<float*>(shared);
    float* b_sh = reinterpret_cast<float*>(shared + 33792);
    float acc[64];
    alignas(16) float a_rf[8];
    alignas(16) float b_rf[8];
    const int block_m = block % 4;
    const int block_n = block / 4;
    const int warp = thread / 32;
    const int warp_m = warp / 4;
    const int warp_n = warp % 4;
    const int lane = thread % 32;
    const int lane_m = lane / 4;
    const int lane_n = lane % 4;
    const int thread_k = thread % 16;

    // MatMul(128, 128, 512)(GL, GL, GL)(Block)

    // Init(0)(RF)(Block)
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        acc[i] = 0.0f;
    }

    // load A to a_sh: Move(128, 16)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        cp_async_4B(&a_sh[r * 16 + thread / 16 + thread_k * 132], &A[block_m * 65536 + r * 8192 + thread / 16 * 512 + thread_k]);
    }

    // load B to b_sh: Move(16, 128)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 8; ++r2) {
        cp_async_4B(&b_sh[thread_k * 132 + r2 * 16 + thread / 16], &B[thread_k + block_n * 65536 + r2 * 8192 + thread / 16 * 512]);
    }
    cp_async_commit();

    // load A to a_sh: Move(128, 16)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        cp_async_4B(&a_sh[r * 16 + thread / 16 + thread_k * 132 + 2112], &A[block_m * 65536 + r * 8192 + thread / 16 * 512 + thread_k + 16]);
    }

    // load B to b_sh: Move(16, 128)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 8; ++r2) {
        cp_async_4B(&b_sh[thread_k * 132 + r2 * 16 + thread / 16 + 2112], &B[thread_k + block_n * 65536 + r2 * 8192 + thread / 16 * 512 + 16]);
    }
    cp_async_commit();

    // load A to a_sh: Move(128, 16)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        cp_async_4B(&a_sh[r * 16 + thread / 16 + thread_k * 132 + 4224], &A[block_m * 65536 + r * 8192 + thread / 16 * 512 + thread_k + 32]);
    }

    // load B to b_sh: Move(16, 128)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 8; ++r2) {
        cp_async_4B(&b_sh[thread_k * 132 + r2 * 16 + thread / 16 + 4224], &B[thread_k + block_n * 65536 + r2 * 8192 + thread / 16 * 512 + 32]);
    }
    cp_async_commit();
    #pragma unroll 1
    for (int k = 0; k < 32; ++k) {
        cp_async_wait<2>();
        __syncthreads();  // a_sh is written before it is read
        if (k < 29) {

            // load A to a_sh: Move(128, 16)(GL, SH)(Block)
            #pragma unroll
            for (int r = 0; r < 8; ++r) {
                cp_async_4B(&a_sh[(k + 3) % 4 * 2112 + r * 16 + thread / 16 + thread_k * 132], &A[block_m * 65536 + r * 8192 + thread / 16 * 512 + k * 16 + thread_k + 48]);
            }

            // load B to b_sh: Move(16, 128)(GL, SH)(Block)
            #pragma unroll
            for (int r2 = 0; r2 < 8; ++r2) {
                cp_async_4B(&b_sh[(k + 3) % 4 * 2112 + thread_k * 132 + r2 * 16 + thread / 16], &B[k * 16 + thread_k + block_n * 65536 + r2 * 8192 + thread / 16 * 512 + 48]);
            }
        }
        cp_async_commit();

        // MatMul(64, 32, 16)(SH, SH, RF)(Warp)

        // MatMul(8, 8, 16)(SH, SH, RF)(Thread)
        #pragma unroll
        for (int k2 = 0; k2 < 16; ++k2) {

            // load a_sh to a_rf: Move(8, 1)(SH, RF)(Thread)
            #pragma unroll
            for (int m2 = 0; m2 < 2; ++m2) {
                copy_16B(&a_rf[m2 * 4], &a_sh[k % 4 * 2112 + warp_m * 64 + lane_m * 4 + m2 * 32 + k2 * 132]);
            }

            // load b_sh to b_rf: Move(1, 8)(SH, RF)(Thread)
            #pragma unroll
            for (int n2 = 0; n2 < 2; ++n2) {
                copy_16B(&b_rf[n2 * 4], &b_sh[k % 4 * 2112 + k2 * 132 + warp_n * 32 + lane_n * 4 + n2 * 16]);
            }
            #pragma unroll
            for (int m = 0; m < 8; ++m) {
                #pragma unroll
                for (int step = 0; step < 8; ++step) {
                    const int n = m % 2 == 0 ? step : 7 - step;
                    acc[m * 8 + n] = fmaf(a_rf[m], b_rf[n], acc[m * 8 + n]);
                }
            }
        }
    }

    // store C: Move(128, 128)(RF, GL)(Block)
    #pragma unroll
    for (int m4 = 0; m4 < 8; ++m4) {
        #pragma unroll
        for (int n4 = 0; n4 < 8; ++n4) {
            copy_4B(&C[block_m * 65536 + warp_m * 32768 + lane_m * 2048 + m4 % 4 * 512 + m4 / 4 * 16384 + block_n * 128 + warp_n * 32 + lane_n * 4 + n4 % 4 + n4 / 4 * 16], &acc[m4 * 8 + n4]);
        }
    }
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

__device__ __forceinline__ int count_in(int* counter, int count) {
    unsigned before = 0;
    if (threadIdx.x == 0) {
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
            : "=r"(before) : "l"(__cvta_generic_to_global(counter)), "r"(count - 1) : "memory");
    }
    return __syncthreads_or(threadIdx.x == 0 && (int)before == count - 1);
}

extern "C" __global__ void __launch_bounds__(128)
atomics_32x32x8_k3_f32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C,
    float* partial,
    int* arrived) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    float* a_sh = reinterpret_cast<float*>(shared);
    float* b_sh = reinterpret_cast<float*>(shared + 2048);
    alignas(16) float acc[8];
    float a_rf[4];
    alignas(16) float b_rf[2];
    alignas(16) float a_rf2[4];
    alignas(16) float b_rf2[4];
    float zeros[1];
    const int way = block % 3;
    const int tile = block / 3;
    const int block_m = tile / 2;
    const int block_n = tile % 2;
    const int warp = thread / 32;
    const int warp_m = warp / 2;
    const int warp_n = warp % 2;
    const int lane = thread % 32;
    const int lane_m = lane / 8;
    const int lane_n = lane % 8;
    const int thread_m = thread / 2;
    const int thread_k = thread % 2;
    const int thread_k2 = thread / 8;

    // MatMul(32, 32, 96)(GL, GL, GL)(Block)

    // Init(0)(RF)(Block)
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        acc[i] = 0.0f;
    }

    // load A to a_rf2: Move(32, 8)(GL, RF)(Block)
    if (thread < 64) {
        copy_16B(&a_rf2[0], &A[block_m * 3072 + thread_m * 96 + way * 32 + thread_k * 4]);
    }

    // load A to a_sh: Move(32, 8)(GL, SH)(Block)
    if (thread < 64) {
        copy_16B(&a_sh[thread_m * 8 + thread_k * 4], &a_rf2[0]);
    }

    // load B to b_rf2: Move(8, 32)(GL, RF)(Block)
    if (thread < 64) {
        copy_16B(&b_rf2[0], &B[way * 2048 + thread_k2 * 64 + block_n * 32 + lane_n * 4]);
    }

    // load B to b_sh: Move(8, 32)(GL, SH)(Block)
    if (thread < 64) {
        copy_16B(&b_sh[thread_k2 * 32 + lane_n * 4], &b_rf2[0]);
    }
    __syncthreads();  // a_sh is written before it is read
    #pragma unroll 1
    for (int k = 0; k < 4; ++k) {
        if (k < 3) {

            // load A to a_rf2: Move(32, 8)(GL, RF)(Block)
            if (thread < 64) {
                copy_16B(&a_rf2[0], &A[block_m * 3072 + thread_m * 96 + way * 32 + k * 8 + thread_k * 4 + 8]);
            }

            // load B to b_rf2: Move(8, 32)(GL, RF)(Block)
            if (thread < 64) {
                copy_16B(&b_rf2[0], &B[way * 2048 + k * 512 + thread_k2 * 64 + block_n * 32 + lane_n * 4 + 512]);
            }
        }

        // MatMul(16, 16, 8)(SH, SH, RF)(Warp)

        // MatMul(4, 2, 8)(SH, SH, RF)(Thread)
        #pragma unroll
        for (int k2 = 0; k2 < 8; ++k2) {

            // load a_sh to a_rf: Move(4, 1)(SH, RF)(Thread)
            #pragma unroll
            for (int m2 = 0; m2 < 4; ++m2) {
                copy_4B(&a_rf[m2], &a_sh[k % 2 * 256 + warp_m * 128 + lane_m * 32 + m2 * 8 + k2]);
            }

            // load b_sh to b_rf: Move(1, 2)(SH, RF)(Thread)
            copy_8B(&b_rf[0], &b_sh[k % 2 * 256 + k2 * 32 + warp_n * 16 + lane_n * 2]);
            #pragma unroll
            for (int m = 0; m < 4; ++m) {
                #pragma unroll
                for (int n = 0; n < 2; ++n) {
                    acc[m * 2 + n] = fmaf(a_rf[m], b_rf[n], acc[m * 2 + n]);
                }
            }
        }
        if (k < 3) {

            // load A to a_sh: Move(32, 8)(GL, SH)(Block)
            if (thread < 64) {
                copy_16B(&a_sh[(k + 1) % 2 * 256 + thread_m * 8 + thread_k * 4], &a_rf2[0]);
            }

            // load B to b_sh: Move(8, 32)(GL, SH)(Block)
            if (thread < 64) {
                copy_16B(&b_sh[(k + 1) % 2 * 256 + thread_k2 * 32 + lane_n * 4], &b_rf2[0]);
            }
        }
        __syncthreads();  // a_sh is written before it is read
    }

    // Reduce(3)(RF)(Blocks)
    #pragma unroll
    for (int i2 = 0; i2 < 8; ++i2) {
        atomicAdd(&partial[tile * 1024 + i2 * 128 + thread], acc[i2]);
    }
    __syncthreads();  // all threads have written partial
    const int last = count_in(&arrived[tile], 3);
    if (last) {

        // Reduce: sum of 3 Blocks
        #pragma unroll
        for (int i3 = 0; i3 < 8; ++i3) {
            copy_4B(&acc[i3], &partial[tile * 1024 + i3 * 128 + thread]);
        }
        zeros[0] = 0.0f;
        #pragma unroll
        for (int i4 = 0; i4 < 8; ++i4) {
            copy_4B(&partial[tile * 1024 + i4 * 128 + thread], &zeros[0]);
        }

        // store C: Move(32, 32)(RF, GL)(Block)
        #pragma unroll
        for (int m4 = 0; m4 < 4; ++m4) {
            copy_8B(&C[block_m * 2048 + warp_m * 1024 + lane_m * 256 + m4 * 64 + block_n * 32 + warp_n * 16 + lane_n * 2], &acc[m4 * 2]);
        }
    }
}

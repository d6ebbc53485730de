__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

__device__ __forceinline__ void shuffle_4B(void* dst, const void* src, int lane) {
    *static_cast<unsigned*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned*>(src), lane);
}

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

extern "C" __global__ void __launch_bounds__(128)
lanes_16x16x32_k8_f32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    float* a_sh = reinterpret_cast<float*>(shared);
    float* b_sh = reinterpret_cast<float*>(shared + 2048);
    float acc[16];
    float a_rf[4];
    alignas(16) float b_rf[4];
    alignas(16) float sum[2];
    float other[1];
    float other2[1];
    float other3[1];
    const int warp = thread / 32;
    const int warp_m = warp / 2;
    const int warp_n = warp % 2;
    const int way = thread / 4 % 8;
    const int thread2 = thread % 4;
    const int thread_m = thread2 / 2;
    const int thread_n = thread2 % 2;
    const int thread_k = thread / 4;
    const int thread_m2 = thread / 8;
    const int thread_k2 = thread % 8;

    // MatMul(16, 16, 64)(GL, GL, GL)(Block)

    // Init(0)(RF)(Block)
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        acc[i] = 0.0f;
    }
    #pragma unroll 1
    for (int k = 0; k < 2; ++k) {

        // load A to a_sh: Move(16, 32)(GL, SH)(Block)
        copy_16B(&a_sh[thread_m2 * 32 + thread_k2 * 4], &A[thread_m2 * 64 + k * 32 + thread_k2 * 4]);

        // load B to b_sh: Move(32, 16)(GL, SH)(Block)
        copy_16B(&b_sh[thread_k * 16 + thread2 * 4], &B[k * 1024 + thread_k * 32 + block * 16 + thread2 * 4]);

        // MatMul(8, 8, 32)(SH, SH, RF)(Warp)

        // MatMul(8, 8, 4)(SH, SH, RF)(Lanes4)

        // MatMul(4, 4, 4)(SH, SH, RF)(Thread)
        __syncthreads();  // a_sh is written before it is read
        #pragma unroll
        for (int k2 = 0; k2 < 4; ++k2) {

            // load a_sh to a_rf: Move(4, 1)(SH, RF)(Thread)
            #pragma unroll
            for (int m2 = 0; m2 < 4; ++m2) {
                copy_4B(&a_rf[m2], &a_sh[warp_m * 256 + thread_m * 128 + m2 * 32 + way * 4 + k2]);
            }

            // load b_sh to b_rf: Move(1, 4)(SH, RF)(Thread)
            copy_16B(&b_rf[0], &b_sh[way * 64 + k2 * 16 + warp_n * 8 + thread_n * 4]);
            #pragma unroll
            for (int m = 0; m < 4; ++m) {
                #pragma unroll
                for (int n = 0; n < 4; ++n) {
                    acc[m * 4 + n] = fmaf(a_rf[m], b_rf[n], acc[m * 4 + n]);
                }
            }
        }
        __syncthreads();  // a_sh is read before it is overwritten
    }

    // Reduce(8)(RF)(Lanes4)
    #pragma unroll
    for (int i2 = 0; i2 < 16; ++i2) {
        shuffle_4B(&other[0], &acc[i2], thread % 32 ^ 16);
        acc[i2] = acc[i2] + other[0];
    }
    #pragma unroll
    for (int i3 = 0; i3 < 16; ++i3) {
        shuffle_4B(&other2[0], &acc[i3], thread % 32 ^ 8);
        acc[i3] = acc[i3] + other2[0];
    }
    #pragma unroll
    for (int i4 = 0; i4 < 16; ++i4) {
        shuffle_4B(&other3[0], &acc[i4], thread % 32 ^ 4);
        acc[i4] = acc[i4] + other3[0];
    }
    #pragma unroll
    for (int p = 0; p < 8; ++p) {
        if (way == p) {
            #pragma unroll
            for (int i5 = 0; i5 < 2; ++i5) {
                sum[i5] = acc[p % 4 * 4 + p / 4 * 2 + i5];
            }
        }
    }

    // store C: Move(16, 16)(RF, GL)(Block)
    copy_8B(&C[warp_m * 256 + thread_m * 128 + way % 4 * 32 + block * 16 + warp_n * 8 + thread_n * 4 + way / 4 * 2], &sum[0]);
}

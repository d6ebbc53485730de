__device__ __forceinline__ void copy_or_zero_16B(void* dst, const void* src, bool read) {
    uint4 value = {};
    if (read) value = *static_cast<const uint4*>(src);
    *static_cast<uint4*>(dst) = value;
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

extern "C" __global__ void __launch_bounds__(128)
plain_32x32x8_f32(
    const float* __restrict__ x,
    const float* __restrict__ W,
    const float* __restrict__ h,
    const float* __restrict__ U,
    float* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    float* x_sh = reinterpret_cast<float*>(shared);
    float* w_sh = reinterpret_cast<float*>(shared + 1024);
    float* h_sh = reinterpret_cast<float*>(shared);
    float* u_sh = reinterpret_cast<float*>(shared + 1024);
    alignas(16) float acc[8];
    float x_rf[4];
    alignas(16) float w_rf[2];
    float h_rf[4];
    alignas(16) float u_rf[2];
    const int block_m = block / 2;
    const int block_n = block % 2;
    const int warp = thread / 32;
    const int warp_m = warp / 2;
    const int warp_n = warp % 2;
    const int lane = thread % 32;
    const int lane_m = lane / 8;
    const int lane_n = lane % 8;
    const int thread_k = thread / 8;
    const int thread_m = thread / 2;
    const int thread_k2 = thread % 2;

    // MatMul(32, 32, 24)(5 GL)(Block)

    // Init(0)(RF)(Block)
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        acc[i] = 0.0f;
    }
    #pragma unroll 1
    for (int k = 0; k < 3; ++k) {

        // load x to x_sh: Move(32, 8)(GL, SH)(Block)
        if (thread < 64) {
            copy_or_zero_16B(&x_sh[thread_m * 8 + thread_k2 * 4], &x[block_m * 768 + thread_m * 24 + k * 8 + thread_k2 * 4], block_m * 32 + thread_m < 40);
        }

        // load W to w_sh: Move(8, 32)(GL, SH)(Block)
        if (thread < 64) {
            copy_or_zero_16B(&w_sh[thread_k * 32 + lane_n * 4], &W[k * 288 + thread_k * 36 + block_n * 32 + lane_n * 4], block_n * 8 + lane_n < 9);
        }

        // MatMul(16, 16, 8)(SH, SH, RF)(Warp)

        // MatMul(4, 2, 8)(SH, SH, RF)(Thread)
        __syncthreads();  // x_sh is written before it is read
        #pragma unroll
        for (int k2 = 0; k2 < 8; ++k2) {

            // load x_sh to x_rf: Move(4, 1)(SH, RF)(Thread)
            #pragma unroll
            for (int m2 = 0; m2 < 4; ++m2) {
                copy_4B(&x_rf[m2], &x_sh[warp_m * 128 + lane_m * 32 + m2 * 8 + k2]);
            }

            // load w_sh to w_rf: Move(1, 2)(SH, RF)(Thread)
            copy_8B(&w_rf[0], &w_sh[k2 * 32 + warp_n * 16 + lane_n * 2]);
            #pragma unroll
            for (int m = 0; m < 4; ++m) {
                #pragma unroll
                for (int n = 0; n < 2; ++n) {
                    acc[m * 2 + n] = fmaf(x_rf[m], w_rf[n], acc[m * 2 + n]);
                }
            }
        }
        __syncthreads();  // x_sh is read before it is overwritten
    }
    #pragma unroll 1
    for (int k3 = 0; k3 < 3; ++k3) {

        // load h to h_sh: Move(32, 8)(GL, SH)(Block)
        if (thread < 64) {
            copy_or_zero_16B(&h_sh[thread_m * 8 + thread_k2 * 4], &h[block_m * 768 + thread_m * 24 + k3 * 8 + thread_k2 * 4], block_m * 32 + thread_m < 40);
        }

        // load U to u_sh: Move(8, 32)(GL, SH)(Block)
        if (thread < 64) {
            copy_or_zero_16B(&u_sh[thread_k * 32 + lane_n * 4], &U[k3 * 288 + thread_k * 36 + block_n * 32 + lane_n * 4], block_n * 8 + lane_n < 9);
        }

        // MatMul(16, 16, 8)(SH, SH, RF)(Warp)

        // MatMul(4, 2, 8)(SH, SH, RF)(Thread)
        __syncthreads();  // h_sh is written before it is read
        #pragma unroll
        for (int k4 = 0; k4 < 8; ++k4) {

            // load h_sh to h_rf: Move(4, 1)(SH, RF)(Thread)
            #pragma unroll
            for (int m4 = 0; m4 < 4; ++m4) {
                copy_4B(&h_rf[m4], &h_sh[warp_m * 128 + lane_m * 32 + m4 * 8 + k4]);
            }

            // load u_sh to u_rf: Move(1, 2)(SH, RF)(Thread)
            copy_8B(&u_rf[0], &u_sh[k4 * 32 + warp_n * 16 + lane_n * 2]);
            #pragma unroll
            for (int m3 = 0; m3 < 4; ++m3) {
                #pragma unroll
                for (int n2 = 0; n2 < 2; ++n2) {
                    acc[m3 * 2 + n2] = fmaf(h_rf[m3], u_rf[n2], acc[m3 * 2 + n2]);
                }
            }
        }
        __syncthreads();  // h_sh is read before it is overwritten
    }

    // store y: Move(32, 32)(RF, GL)(Block)
    #pragma unroll
    for (int m6 = 0; m6 < 4; ++m6) {
        if (block_m * 32 + warp_m * 16 + lane_m * 4 + m6 < 40 && block_n * 16 + warp_n * 8 + lane_n < 18) copy_8B(&y[block_m * 1152 + warp_m * 576 + lane_m * 144 + m6 * 36 + block_n * 32 + warp_n * 16 + lane_n * 2], &acc[m6 * 2]);
    }
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

extern "C" __global__ void __launch_bounds__(256)
listing2_128x128x8_f32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    float* a_sh = reinterpret_cast<float*>(shared);
    float* b_sh = reinterpret_cast<float*>(shared + 4096);
    alignas(16) float acc[64];
    float a_rf[8];
    alignas(16) float b_rf[8];
    const int block_m = block / 4;
    const int block_n = block % 4;
    const int warp = thread / 32;
    const int warp_m = warp / 4;
    const int warp_n = warp % 4;
    const int lane = thread % 32;
    const int lane_m = lane / 4;
    const int lane_n = lane % 4;
    const int thread_m = thread / 2;
    const int thread_k = thread % 2;

    // MatMul(128, 128, 512)(GL, GL, GL)(Block)

    // Init(0)(RF)(Block)
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        acc[i] = 0.0f;
    }
    #pragma unroll 1
    for (int k = 0; k < 64; ++k) {

        // load A to a_sh: Move(128, 8)(GL, SH)(Block)
        copy_16B(&a_sh[thread_m * 8 + thread_k * 4], &A[block_m * 65536 + thread_m * 512 + k * 8 + thread_k * 4]);

        // load B to b_sh: Move(8, 128)(GL, SH)(Block)
        copy_16B(&b_sh[warp * 128 + lane * 4], &B[k * 4096 + warp * 512 + block_n * 128 + lane * 4]);

        // MatMul(64, 32, 8)(SH, SH, RF)(Warp)

        // MatMul(8, 8, 8)(SH, SH, RF)(Thread)
        __syncthreads();  // a_sh is written before it is read
        #pragma unroll
        for (int k2 = 0; k2 < 8; ++k2) {

            // load a_sh to a_rf: Move(8, 1)(SH, RF)(Thread)
            #pragma unroll
            for (int m2 = 0; m2 < 8; ++m2) {
                copy_4B(&a_rf[m2], &a_sh[warp_m * 512 + lane_m * 64 + m2 * 8 + k2]);
            }

            // load b_sh to b_rf: Move(1, 8)(SH, RF)(Thread)
            #pragma unroll
            for (int n2 = 0; n2 < 2; ++n2) {
                copy_16B(&b_rf[n2 * 4], &b_sh[k2 * 128 + warp_n * 32 + lane_n * 8 + n2 * 4]);
            }
            #pragma unroll
            for (int m = 0; m < 8; ++m) {
                #pragma unroll
                for (int n = 0; n < 8; ++n) {
                    acc[m * 8 + n] = fmaf(a_rf[m], b_rf[n], acc[m * 8 + n]);
                }
            }
        }
        __syncthreads();  // a_sh is read before it is overwritten
    }

    // store C: Move(128, 128)(RF, GL)(Block)
    #pragma unroll
    for (int m4 = 0; m4 < 8; ++m4) {
        #pragma unroll
        for (int n4 = 0; n4 < 2; ++n4) {
            copy_16B(&C[block_m * 65536 + warp_m * 32768 + lane_m * 4096 + m4 * 512 + block_n * 128 + warp_n * 32 + lane_n * 8 + n4 * 4], &acc[m4 * 8 + n4 * 4]);
        }
    }
}

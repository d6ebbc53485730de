struct half { unsigned short bits; };

__device__ __forceinline__ void copy_2B(void* dst, const void* src) {
    *static_cast<unsigned short*>(dst) = *static_cast<const unsigned short*>(src);
}

__device__ __forceinline__ half fma_f16(half a, half b, half c) {
    asm("fma.rn.f16 %0, %1, %2, %0;" : "+h"(c.bits) : "h"(a.bits), "h"(b.bits));
    return c;
}

extern "C" __global__ void __launch_bounds__(64)
figure_8_32x32x1_f16(
    const half* __restrict__ A,
    const half* __restrict__ B,
    half* __restrict__ C) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    half a_rf[1];
    half b_rf[1];
    half c_rf[1];
    const int block_m = block / 2;
    const int block_n = block % 2;
    const int thread_m = thread / 8;
    const int thread_n = thread % 8;

    // MatMul(32, 32, 32)(GL, GL, GL)(Block)

    // MatMul(4, 4, 32)(GL, GL, GL)(Thread)
    #pragma unroll 1
    for (int m = 0; m < 4; ++m) {
        #pragma unroll 1
        for (int n = 0; n < 4; ++n) {

            // Init(0)(GL)(Thread)
            C[block_m * 2048 + thread_m * 256 + m * 64 + block_n * 32 + thread_n * 4 + n] = half{0x0000};
            #pragma unroll 1
            for (int k = 0; k < 32; ++k) {

                // load A to a_rf
                copy_2B(&a_rf[0], &A[block_m * 1024 + thread_m * 128 + m * 32 + k]);

                // load B to b_rf
                copy_2B(&b_rf[0], &B[k * 64 + block_n * 32 + thread_n * 4 + n]);

                // load C to c_rf
                copy_2B(&c_rf[0], &C[block_m * 2048 + thread_m * 256 + m * 64 + block_n * 32 + thread_n * 4 + n]);
                c_rf[0] = fma_f16(a_rf[0], b_rf[0], c_rf[0]);

                // store c_rf to C
                copy_2B(&C[block_m * 2048 + thread_m * 256 + m * 64 + block_n * 32 + thread_n * 4 + n], &c_rf[0]);
            }
        }
    }
}

// Microkernel dot
__device__ __forceinline__ void dot(
    const float* A, int A_row, int A_col,
    const float* B, int B_row, int B_col,
    float* C, int C_row, int C_col,
    int M, int N, int K) {
    float sum = 0;
    for (int k = 0; k < K; ++k) sum = sum + A[k * A_col] * B[k * B_row];
    C[0] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
listing1_16x16_f32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    const int block_m = block / 32;
    const int block_n = block % 32;
    const int thread_m = thread / 16;
    const int thread_n = thread % 16;

    // MatMul(16, 16, 512)(GL, GL, GL)(Block)

    // MatMul(1, 1, 512)(GL, GL, GL)(Thread)

    // MatMul(1, 1, 512)(GL, GL, GL)(Thread) by dot
    dot(&A[block_m * 8192 + thread_m * 512], 512, 1, &B[block_n * 16 + thread_n], 512, 1, &C[block_m * 8192 + thread_m * 512 + block_n * 16 + thread_n], 512, 1, 1, 1, 512);
}

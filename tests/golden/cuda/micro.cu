// Microkernel dot
__device__ __forceinline__ void dot(
    const float* A, int A_row, int A_col,
    const float* B, int B_row, int B_col,
    float* C, int C_row, int C_col,
    int M, int N, int K) {
    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
        sum = fmaf(A[k * A_col], B[k * B_row], sum);
    C[0] += sum;
}

extern "C" __global__ void __launch_bounds__(128)
dot_128(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C,
    int N) {
    const int thread = threadIdx.x;
    __builtin_assume(thread >= 0);

    // MatMul 1x1x8 (Thread): microkernel dot
    if (N > 4) dot(&A[thread * 8], 8, 1, &B[3], N, 1, &C[(long long)thread * N + 3], N, 1, 1, 1, 8);
}

__device__ __forceinline__ void copy_or_zero_16B(void* dst, const void* src, bool read) {
    uint4 value = {};
    if (read) value = *static_cast<const uint4*>(src);
    *static_cast<uint4*>(dst) = value;
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

extern "C" __global__ void __launch_bounds__(256)
copy_f32(
    const float* __restrict__ src,
    float* __restrict__ dst,
    int M,
    int N) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    alignas(16) float part[4];
    const long long index = (long long)block * 1024 + thread * 4;
    const int row = index / N;
    const int column = index % N;

    // Move 1x4 GL -> RF (Thread): zeros past row M
    copy_or_zero_16B(&part[0], &src[(long long)row * N + column], row < M);

    // Move 1x4 RF -> GL (Thread)
    if (row < M + 8) copy_16B(&dst[(long long)row * N + column], &part[0]);
}

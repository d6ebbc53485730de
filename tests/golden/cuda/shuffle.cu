struct half { unsigned short bits; };

__device__ __forceinline__ void sync_threads(int barrier, int threads) {
    asm volatile("barrier.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void copy_2B(void* dst, const void* src) {
    *static_cast<unsigned short*>(dst) = *static_cast<const unsigned short*>(src);
}

__device__ __forceinline__ void shuffle_2B(void* dst, const void* src, int lane) {
    *static_cast<unsigned short*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned short*>(src), lane);
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

__device__ __forceinline__ void shuffle_8B(void* dst, const void* src, int lane) {
    *static_cast<unsigned long long*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned long long*>(src), lane);
}

extern "C" __global__ void __launch_bounds__(256)
reverse(
    const half* __restrict__ x_f16,
    half* __restrict__ y_f16,
    const float* __restrict__ x_f32,
    float* __restrict__ y_f32,
    const double* __restrict__ x_f64,
    double* __restrict__ y_f64) {
    const int thread = threadIdx.x;
    __builtin_assume(thread >= 0);
    half own_f16[1];
    half other_f16[1];
    float own_f32[1];
    float other_f32[1];
    double own_f64[1];
    double other_f64[1];
    const int lane = thread % 32;

    // reverse f16 (Warp)
    copy_2B(&own_f16[0], &x_f16[thread]);
    shuffle_2B(&other_f16[0], &own_f16[0], 31 - lane);
    copy_2B(&y_f16[thread], &other_f16[0]);

    // reverse f32 (Warp)
    copy_4B(&own_f32[0], &x_f32[thread]);
    shuffle_4B(&other_f32[0], &own_f32[0], 31 - lane);
    copy_4B(&y_f32[thread], &other_f32[0]);

    // reverse f64 (Warp)
    copy_8B(&own_f64[0], &x_f64[thread]);
    shuffle_8B(&other_f64[0], &own_f64[0], 31 - lane);
    copy_8B(&y_f64[thread], &other_f64[0]);
    __syncwarp();  // the warp's lanes meet
    sync_threads(1 + thread / 128, 128);  // the warpgroup's threads meet
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

extern "C" __global__ void __launch_bounds__(96)
pointwise_192_i64(
    const long long* __restrict__ x,
    const int* __restrict__ y,
    long long* __restrict__ out_y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    alignas(16) long long x_rf[2];
    alignas(16) int y_rf[2];
    alignas(16) long long out_y_rf[2];
    const int warp = thread / 32;
    const int lane = thread % 32;

    // Program(192)(GL, GL, GL)(Block)

    // load x to x_rf: Move(64)(GL, RF)(Warp)
    copy_16B(&x_rf[0], &x[block * 192 + warp * 64 + lane * 2]);

    // load y to y_rf: Move(64)(GL, RF)(Warp)
    copy_8B(&y_rf[0], &y[block * 192 + warp * 64 + lane * 2]);

    // out_y: i64 in out_y_rf
    #pragma unroll
    for (int mn = 0; mn < 2; ++mn) {
        out_y_rf[mn] = x_rf[mn] < (long long)y_rf[mn] ? x_rf[mn] : (long long)(x_rf[mn] == 9007199254740993LL ? -1 : y_rf[mn]);
    }

    // store out_y: Move(64)(RF, GL)(Warp)
    copy_16B(&out_y[block * 192 + warp * 64 + lane * 2], &out_y_rf[0]);
}

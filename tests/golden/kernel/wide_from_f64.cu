__device__ __forceinline__ long long double_to_longlong(double x) {
    return x == x ? __double2ll_rn(x) : 0;
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

extern "C" __global__ void __launch_bounds__(96)
pointwise_192_f64_i64(
    const double* __restrict__ x,
    long long* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    alignas(16) double x_rf[2];
    alignas(16) long long y_rf[2];
    const int warp = thread / 32;
    const int lane = thread % 32;

    // Program(192)(GL, GL)(Block)

    // load x to x_rf: Move(64)(GL, RF)(Warp)
    copy_16B(&x_rf[0], &x[block * 192 + warp * 64 + lane * 2]);

    // y: i64 in y_rf
    #pragma unroll
    for (int mn = 0; mn < 2; ++mn) {
        y_rf[mn] = double_to_longlong(x_rf[mn]);
    }

    // store y: Move(64)(RF, GL)(Warp)
    copy_16B(&y[block * 192 + warp * 64 + lane * 2], &y_rf[0]);
}

__device__ __forceinline__ int saturate_i32(long long x) {
    return (int)max(-2147483648LL, min(2147483647LL, x));
}

__device__ __forceinline__ void copy_or_zero_16B(void* dst, const void* src, bool read) {
    uint4 value = {};
    if (read) value = *static_cast<const uint4*>(src);
    *static_cast<uint4*>(dst) = value;
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

extern "C" __global__ void __launch_bounds__(256)
pointwise_256x2_i64(
    const long long* __restrict__ ids,
    const long long* __restrict__ table,
    long long* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    alignas(16) long long table_rf[2];
    alignas(16) long long y_rf[2];
    const int warp = thread / 32;
    const int warp_m = warp / 4;
    const int warp_n = warp % 4;
    const int lane = thread % 32;
    const int ids_at = max(-1073741824, min(saturate_i32(ids[block * 2 + warp_m]), 1073741823));

    // Program(2, 256)(GL, GL)(Block)

    // load table to table_rf: Move(1, 64)(GL, RF)(Warp)
    copy_or_zero_16B(&table_rf[0], &table[(long long)(ids_at < 0 ? ids_at + 70 : ids_at) * 136 + warp_n * 64 + lane * 2], (ids_at < 0 ? ids_at + 70 : ids_at) + 1 > 0 && (ids_at < 0 ? ids_at + 70 : ids_at) < 70 && warp_n * 32 + lane < 68);

    // y: i64 in y_rf
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        y_rf[n] = table_rf[n];
    }

    // store y: Move(1, 64)(RF, GL)(Warp)
    if (warp_n * 32 + lane < 68) copy_16B(&y[block * 272 + warp_m * 136 + warp_n * 64 + lane * 2], &y_rf[0]);
}

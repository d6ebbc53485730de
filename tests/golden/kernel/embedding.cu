struct bf16 { unsigned short bits; };

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

extern "C" __global__ void __launch_bounds__(256)
pointwise_1024x8_i32_bf16(
    const int* __restrict__ ids,
    const bf16* __restrict__ table,
    bf16* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    alignas(16) bf16 table_rf[32];
    alignas(16) bf16 y_rf[32];
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int ids_at = ids[block * 8 + warp];

    // Program(8, 1024)(GL, GL)(Block)

    // load table to table_rf: Move(1, 1024)(GL, RF)(Warp)
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        copy_16B(&table_rf[r * 8], &table[ids_at * 1024 + lane * 8 + r * 256]);
    }

    // y: bf16 in y_rf
    #pragma unroll
    for (int n = 0; n < 32; ++n) {
        y_rf[n] = table_rf[n];
    }

    // store y: Move(1, 1024)(RF, GL)(Warp)
    #pragma unroll
    for (int n3 = 0; n3 < 4; ++n3) {
        copy_16B(&y[block * 8192 + warp * 1024 + lane * 8 + n3 * 256], &y_rf[n3 * 8]);
    }
}

struct half { unsigned short bits; };

__device__ __forceinline__ void wmma_load_a_m16n16k16_row_f16(void* registers, const void* tile, int pitch) {
    unsigned* r = static_cast<unsigned*>(registers);
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]) : "l"(tile), "r"(pitch));
}

__device__ __forceinline__ void wmma_load_b_m16n16k16_col_f16(void* registers, const void* tile, int pitch) {
    unsigned* r = static_cast<unsigned*>(registers);
    asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]) : "l"(tile), "r"(pitch));
}

__device__ __forceinline__ void wmma_m16n16k16_row_col_f32_f16(void* c_registers, const void* a_registers, const void* b_registers) {
    float* d = static_cast<float*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    const unsigned* b = static_cast<const unsigned*>(b_registers);
    asm("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}, {%0, %1, %2, %3, %4, %5, %6, %7};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
}

__device__ __forceinline__ void wmma_store_d_m16n16k16_row_f32(void* tile, const void* registers, int pitch) {
    const float* r = static_cast<const float*>(registers);
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.f32 [%8], {%0, %1, %2, %3, %4, %5, %6, %7}, %9;"
        : : "f"(r[0]), "f"(r[1]), "f"(r[2]), "f"(r[3]), "f"(r[4]), "f"(r[5]), "f"(r[6]), "f"(r[7]), "l"(tile), "r"(pitch) : "memory");
}

extern "C" __global__ void __launch_bounds__(512)
listing3_64x64x16_f16_f32(
    const half* __restrict__ A,
    const half* __restrict__ B,
    float* __restrict__ C) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    alignas(16) float acc[8];
    alignas(16) half a_fr[16];
    alignas(16) half b_fr[16];
    const int block_m = block / 4;
    const int block_n = block % 4;
    const int warp = thread / 32;
    const int warp_m = warp / 4;
    const int warp_n = warp % 4;

    // MatMul(64, 64, 128)(GL, GL, GL)(Block)

    // Init(0)(FR)(Block)
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        acc[i] = 0.0f;
    }
    #pragma unroll 1
    for (int k = 0; k < 8; ++k) {

        // MatMul(16, 16, 16)(GL, GL, FR)(Warp)

        // load A to a_fr: Move(16, 16)(GL, FR)(Warp)
        wmma_load_a_m16n16k16_row_f16(&a_fr[0], A + block_m * 8192 + warp_m * 2048 + k * 16, 128);

        // load B to b_fr: Move(16, 16)(GL, FR)(Warp)
        wmma_load_b_m16n16k16_col_f16(&b_fr[0], B + k * 16 + block_n * 8192 + warp_n * 2048, 128);
        wmma_m16n16k16_row_col_f32_f16(&acc[0], &a_fr[0], &b_fr[0]);
    }

    // store C: Move(64, 64)(FR, GL)(Block)
    wmma_store_d_m16n16k16_row_f32(C + block_m * 16384 + warp_m * 4096 + block_n * 64 + warp_n * 16, &acc[0], 256);
}

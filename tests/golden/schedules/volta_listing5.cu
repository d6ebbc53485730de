struct half { unsigned short bits; };

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

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

extern "C" __global__ void __launch_bounds__(256)
listing5_128x128x128_f16_f32(
    const half* __restrict__ A,
    const half* __restrict__ B,
    float* __restrict__ C) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* a_sh = reinterpret_cast<half*>(shared);
    half* b_sh = reinterpret_cast<half*>(shared + 34816);
    float* acc_sh = reinterpret_cast<float*>(shared);
    alignas(16) float acc[64];
    alignas(16) half a_fr[64];
    alignas(16) half b_fr[32];
    const int block_m = block / 2;
    const int block_n = block % 2;
    const int warp = thread / 32;
    const int warp_m = warp / 4;
    const int warp_n = warp % 4;
    const int lane = thread % 32;
    const int lane_k = lane % 16;
    const int lane_n = lane / 16;

    // MatMul(128, 128, 128)(GL, GL, GL)(Block)

    // Init(0)(FR)(Block)
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        acc[i] = 0.0f;
    }
    #pragma unroll 1
    for (int k = 0; k < 1; ++k) {

        // load A to a_sh: Move(128, 128)(GL, SH)(Block)
        #pragma unroll
        for (int m3 = 0; m3 < 8; ++m3) {
            copy_16B(&a_sh[warp * 2176 + m3 * 272 + lane_n * 136 + lane_k * 8], &A[block_m * 16384 + warp * 2048 + m3 * 256 + lane_n * 128 + k * 128 + lane_k * 8]);
        }

        // load B to b_sh: Move(128, 128)(GL, SH)(Block)
        #pragma unroll
        for (int n4 = 0; n4 < 8; ++n4) {
            copy_16B(&b_sh[lane_k * 8 + warp * 2176 + n4 * 272 + lane_n * 136], &B[k * 128 + lane_k * 8 + block_n * 16384 + warp * 2048 + n4 * 256 + lane_n * 128]);
        }

        // MatMul(64, 32, 128)(SH, SH, FR)(Warp)
        __syncthreads();  // a_sh is written before it is read
        #pragma unroll
        for (int k2 = 0; k2 < 8; ++k2) {

            // load a_sh to a_fr: Move(64, 16)(SH, FR)(Warp)
            #pragma unroll
            for (int m2 = 0; m2 < 4; ++m2) {
                wmma_load_a_m16n16k16_row_f16(&a_fr[m2 * 16], a_sh + warp_m * 8704 + m2 * 2176 + k2 * 16, 136);
            }

            // load b_sh to b_fr: Move(16, 32)(SH, FR)(Warp)
            #pragma unroll
            for (int n3 = 0; n3 < 2; ++n3) {
                wmma_load_b_m16n16k16_col_f16(&b_fr[n3 * 16], b_sh + k2 * 16 + warp_n * 4352 + n3 * 2176, 136);
            }
            #pragma unroll
            for (int m = 0; m < 4; ++m) {
                #pragma unroll
                for (int n = 0; n < 2; ++n) {
                    wmma_m16n16k16_row_col_f32_f16(&acc[m * 16 + n * 8], &a_fr[m * 16], &b_fr[n * 16]);
                }
            }
        }
        __syncthreads();  // a_sh is read before it is overwritten
    }

    // store C: Move(128, 128)(FR, GL)(Block)

    // load acc to acc_sh: Move(128, 128)(FR, SH)(Block)
    #pragma unroll
    for (int m5 = 0; m5 < 4; ++m5) {
        #pragma unroll
        for (int n5 = 0; n5 < 2; ++n5) {
            wmma_store_d_m16n16k16_row_f32(acc_sh + warp_m * 8192 + m5 * 2048 + warp_n * 32 + n5 * 16, &acc[m5 * 16 + n5 * 8], 128);
        }
    }
    __syncthreads();  // acc_sh is written before it is read
    #pragma unroll
    for (int m4 = 0; m4 < 16; ++m4) {
        copy_16B(&C[block_m * 32768 + warp * 4096 + m4 * 256 + block_n * 128 + lane * 4], &acc_sh[warp * 2048 + m4 * 128 + lane * 4]);
    }
}

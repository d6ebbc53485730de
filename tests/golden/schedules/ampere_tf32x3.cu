struct tf32 { unsigned bits; };

__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}

template <int pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

__device__ __forceinline__ void cp_async_16B(void* dst, const void* src) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(src) : "memory");
}

__device__ __forceinline__ void ldmatrix_x4(void* registers, const void* row) {
    unsigned* d = static_cast<unsigned*>(registers);
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(address));
}

__device__ __forceinline__ void mma_m16n8k8_f32_tf32(void* c_registers, const void* a_registers, const void* b_registers) {
    float* d = static_cast<float*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    const unsigned* b = static_cast<const unsigned*>(b_registers);
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ unsigned tf32_high(unsigned x) {
    return (x + 0x1000u) & 0xffffe000u;
}

__device__ __forceinline__ unsigned tf32_low(unsigned x) {
    return __float_as_uint(__uint_as_float(x) - __uint_as_float(tf32_high(x)));
}

__device__ __forceinline__ void tf32x3_m16n8k8(void* c_registers, const void* a_registers, const void* b_registers) {
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    const unsigned* b = static_cast<const unsigned*>(b_registers);
    const unsigned a_high[] = {tf32_high(a[0]), tf32_high(a[1]), tf32_high(a[2]), tf32_high(a[3])};
    const unsigned a_low[] = {tf32_low(a[0]), tf32_low(a[1]), tf32_low(a[2]), tf32_low(a[3])};
    const unsigned b_high[] = {tf32_high(b[0]), tf32_high(b[1])};
    const unsigned b_low[] = {tf32_low(b[0]), tf32_low(b[1])};
    mma_m16n8k8_f32_tf32(c_registers, a_low, b_high);
    mma_m16n8k8_f32_tf32(c_registers, a_high, b_low);
    mma_m16n8k8_f32_tf32(c_registers, a_high, b_high);
}

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

extern "C" __global__ void __launch_bounds__(128)
gemm_64x64x16_f32(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    float* a_sh = reinterpret_cast<float*>(shared);
    float* b_sh = reinterpret_cast<float*>(shared + 16384);
    float* acc_sh = reinterpret_cast<float*>(shared);
    alignas(16) float acc[32];
    alignas(16) float a_fr[16];
    alignas(16) float b_fr[16];
    const int block_m = block % 4;
    const int block_n = block / 4;
    const int warp = thread / 32;
    const int warp_m = warp / 2;
    const int warp_n = warp % 2;
    const int thread_k = thread % 4;
    const int thread_n = thread % 16;

    // MatMul(64, 64, 64)(GL, GL, GL)(Block)

    // Init(0)(FR)(Block)
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        acc[i] = 0.0f;
    }

    // MatMul(32, 32, 16)(SH, SH, FR)(Warp)

    // load A to a_sh: Move(64, 16)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        cp_async_16B(&a_sh[r * 512 + thread / 4 * 16 + (thread_k ^ thread / 8 % 4) * 4], &A[block_m * 4096 + r * 2048 + thread / 4 * 64 + thread_k * 4]);
    }

    // load B to b_sh: Move(16, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 2; ++r2) {
        cp_async_16B(&b_sh[r2 * 512 + thread / 4 * 16 + (thread_k ^ thread / 8 % 4) * 4], &B[thread_k * 4 + block_n * 4096 + r2 * 2048 + thread / 4 * 64]);
    }
    cp_async_commit();

    // load A to a_sh: Move(64, 16)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        cp_async_16B(&a_sh[r * 512 + thread / 4 * 16 + (thread_k ^ thread / 8 % 4) * 4 + 1024], &A[block_m * 4096 + r * 2048 + thread / 4 * 64 + thread_k * 4 + 16]);
    }

    // load B to b_sh: Move(16, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 2; ++r2) {
        cp_async_16B(&b_sh[r2 * 512 + thread / 4 * 16 + (thread_k ^ thread / 8 % 4) * 4 + 1024], &B[thread_k * 4 + block_n * 4096 + r2 * 2048 + thread / 4 * 64 + 16]);
    }
    cp_async_commit();

    // load A to a_sh: Move(64, 16)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        cp_async_16B(&a_sh[r * 512 + thread / 4 * 16 + (thread_k ^ thread / 8 % 4) * 4 + 2048], &A[block_m * 4096 + r * 2048 + thread / 4 * 64 + thread_k * 4 + 32]);
    }

    // load B to b_sh: Move(16, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 2; ++r2) {
        cp_async_16B(&b_sh[r2 * 512 + thread / 4 * 16 + (thread_k ^ thread / 8 % 4) * 4 + 2048], &B[thread_k * 4 + block_n * 4096 + r2 * 2048 + thread / 4 * 64 + 32]);
    }
    cp_async_commit();
    cp_async_wait<2>();

    // load A to a_sh: Move(64, 16)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        cp_async_16B(&a_sh[r * 512 + thread / 4 * 16 + (thread_k ^ thread / 8 % 4) * 4 + 3072], &A[block_m * 4096 + r * 2048 + thread / 4 * 64 + thread_k * 4 + 48]);
    }

    // load B to b_sh: Move(16, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 2; ++r2) {
        cp_async_16B(&b_sh[r2 * 512 + thread / 4 * 16 + (thread_k ^ thread / 8 % 4) * 4 + 3072], &B[thread_k * 4 + block_n * 4096 + r2 * 2048 + thread / 4 * 64 + 48]);
    }
    cp_async_commit();

    // load a_sh to a_fr: Move(32, 8)(SH, FR)(Warp)
    __syncthreads();  // a_sh is written before it is read
    #pragma unroll
    for (int m4 = 0; m4 < 2; ++m4) {
        ldmatrix_x4(&a_fr[m4 * 4], &a_sh[warp_m * 512 + m4 * 256 + thread % 16 * 16 + (thread / 16 % 2 ^ thread / 2 % 4) * 4]);
    }

    // load b_sh to b_fr: Move(8, 32)(SH, FR)(Warp)
    #pragma unroll
    for (int n3 = 0; n3 < 2; ++n3) {
        ldmatrix_x4(&b_fr[n3 * 4], &b_sh[warp_n * 512 + n3 * 256 + thread % 8 * 16 + thread / 16 % 2 * 128 + (thread / 8 % 2 ^ thread / 2 % 4) * 4]);
    }
    #pragma unroll 1
    for (int k = 0; k < 3; ++k) {

        // load a_sh to a_fr: Move(32, 8)(SH, FR)(Warp)
        #pragma unroll
        for (int m4 = 0; m4 < 2; ++m4) {
            ldmatrix_x4(&a_fr[m4 * 4 + 8], &a_sh[k * 1024 + warp_m * 512 + m4 * 256 + thread % 16 * 16 + (thread / 16 % 2 + 2 ^ thread / 2 % 4) * 4]);
        }

        // load b_sh to b_fr: Move(8, 32)(SH, FR)(Warp)
        #pragma unroll
        for (int n3 = 0; n3 < 2; ++n3) {
            ldmatrix_x4(&b_fr[n3 * 4 + 8], &b_sh[k * 1024 + warp_n * 512 + n3 * 256 + thread % 8 * 16 + thread / 16 % 2 * 128 + (thread / 8 % 2 + 2 ^ thread / 2 % 4) * 4]);
        }
        #pragma unroll
        for (int m = 0; m < 2; ++m) {
            #pragma unroll
            for (int n = 0; n < 4; ++n) {
                tf32x3_m16n8k8(&acc[m * 16 + n * 4], &a_fr[m * 4], &b_fr[n * 2]);
            }
        }
        cp_async_wait<2>();
        cp_async_commit();

        // load a_sh to a_fr: Move(32, 8)(SH, FR)(Warp)
        __syncthreads();  // a_sh is written before it is read
        #pragma unroll
        for (int m4 = 0; m4 < 2; ++m4) {
            ldmatrix_x4(&a_fr[m4 * 4], &a_sh[k * 1024 + warp_m * 512 + m4 * 256 + thread % 16 * 16 + (thread / 16 % 2 ^ thread / 2 % 4) * 4 + 1024]);
        }

        // load b_sh to b_fr: Move(8, 32)(SH, FR)(Warp)
        #pragma unroll
        for (int n3 = 0; n3 < 2; ++n3) {
            ldmatrix_x4(&b_fr[n3 * 4], &b_sh[k * 1024 + warp_n * 512 + n3 * 256 + thread % 8 * 16 + thread / 16 % 2 * 128 + (thread / 8 % 2 ^ thread / 2 % 4) * 4 + 1024]);
        }
        #pragma unroll
        for (int m = 0; m < 2; ++m) {
            #pragma unroll
            for (int n = 0; n < 4; ++n) {
                tf32x3_m16n8k8(&acc[m * 16 + n * 4], &a_fr[m * 4 + 8], &b_fr[n * 2 + 8]);
            }
        }
    }

    // load a_sh to a_fr: Move(32, 8)(SH, FR)(Warp)
    #pragma unroll
    for (int m4 = 0; m4 < 2; ++m4) {
        ldmatrix_x4(&a_fr[m4 * 4 + 8], &a_sh[warp_m * 512 + m4 * 256 + thread % 16 * 16 + (thread / 16 % 2 + 2 ^ thread / 2 % 4) * 4 + 3072]);
    }

    // load b_sh to b_fr: Move(8, 32)(SH, FR)(Warp)
    #pragma unroll
    for (int n3 = 0; n3 < 2; ++n3) {
        ldmatrix_x4(&b_fr[n3 * 4 + 8], &b_sh[warp_n * 512 + n3 * 256 + thread % 8 * 16 + thread / 16 % 2 * 128 + (thread / 8 % 2 + 2 ^ thread / 2 % 4) * 4 + 3072]);
    }
    #pragma unroll
    for (int m = 0; m < 2; ++m) {
        #pragma unroll
        for (int n = 0; n < 4; ++n) {
            tf32x3_m16n8k8(&acc[m * 16 + n * 4], &a_fr[m * 4], &b_fr[n * 2]);
        }
    }
    #pragma unroll
    for (int m = 0; m < 2; ++m) {
        #pragma unroll
        for (int n = 0; n < 4; ++n) {
            tf32x3_m16n8k8(&acc[m * 16 + n * 4], &a_fr[m * 4 + 8], &b_fr[n * 2 + 8]);
        }
    }

    // store C: Move(64, 64)(FR, GL)(Block)

    // load acc to acc_sh: Move(64, 64)(FR, SH)(Block)
    __syncthreads();  // a_sh is read before acc_sh takes its place
    #pragma unroll
    for (int m7 = 0; m7 < 4; ++m7) {
        #pragma unroll
        for (int n6 = 0; n6 < 4; ++n6) {
            copy_8B(&acc_sh[warp_m * 2304 + thread / 4 % 8 * 72 + m7 * 576 + warp_n * 32 + thread % 4 * 2 + n6 * 8], &acc[m7 % 2 * 2 + m7 / 2 * 16 + n6 * 4]);
        }
    }
    __syncthreads();  // acc_sh is written before it is read
    #pragma unroll
    for (int r3 = 0; r3 < 8; ++r3) {
        copy_16B(&C[block_m * 16384 + r3 * 2048 + thread / 16 * 256 + block_n * 64 + thread_n * 4], &acc_sh[r3 * 576 + thread / 16 * 72 + thread_n * 4]);
    }
}

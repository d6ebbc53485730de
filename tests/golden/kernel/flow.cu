struct half { unsigned short bits; };

__device__ __forceinline__ half float_to_half(float x) {
    half y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

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

__device__ __forceinline__ void mma_m16n8k16_f32_f16(void* c_registers, const void* a_registers, const void* b_registers) {
    float* d = static_cast<float*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    const unsigned* b = static_cast<const unsigned*>(b_registers);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void cp_async_if_16B(void* dst, const void* src, bool write) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }"
        : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(src), "r"((int)write) : "memory");
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

extern "C" __global__ void __launch_bounds__(128)
gemm_32x32x32_f16_f32(
    const half* __restrict__ A,
    const half* __restrict__ B,
    half* __restrict__ C) {
    const int thread = threadIdx.x;
    __builtin_assume(thread >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* a_sh = reinterpret_cast<half*>(shared);
    half* b_sh = reinterpret_cast<half*>(shared + 7680);
    alignas(16) float acc[8];
    alignas(16) half a_fr[16];
    alignas(16) half b_fr[16];
    alignas(16) half C_vec[2];
    const int warp = thread / 32;
    const int warp_m = warp / 2;
    const int warp_n = warp % 2;
    const int thread_m = thread / 4;
    const int thread_k = thread % 4;

    // MatMul(32, 32, 256)(GL, GL, GL)(Block)

    // Init(0)(FR)(Block)
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        acc[i] = 0.0f;
    }

    // MatMul(16, 16, 32)(SH, SH, FR)(Warp)

    // load A to a_sh: Move(32, 32)(GL, SH)(Block)
    cp_async_16B(&a_sh[thread_m * 40 + thread_k * 8], &A[thread_m * 256 + thread_k * 8]);

    // load B to b_sh: Move(32, 32)(GL, SH)(Block)
    cp_async_16B(&b_sh[thread_m * 40 + thread_k * 8], &B[thread_m * 256 + thread_k * 8]);
    cp_async_commit();

    // load A to a_sh: Move(32, 32)(GL, SH)(Block)
    cp_async_16B(&a_sh[thread_m * 40 + thread_k * 8 + 1280], &A[thread_m * 256 + thread_k * 8 + 32]);

    // load B to b_sh: Move(32, 32)(GL, SH)(Block)
    cp_async_16B(&b_sh[thread_m * 40 + thread_k * 8 + 1280], &B[thread_m * 256 + thread_k * 8 + 32]);
    cp_async_commit();
    cp_async_wait<1>();

    // load A to a_sh: Move(32, 32)(GL, SH)(Block)
    cp_async_16B(&a_sh[thread_m * 40 + thread_k * 8 + 2560], &A[thread_m * 256 + thread_k * 8 + 64]);

    // load B to b_sh: Move(32, 32)(GL, SH)(Block)
    cp_async_16B(&b_sh[thread_m * 40 + thread_k * 8 + 2560], &B[thread_m * 256 + thread_k * 8 + 64]);
    cp_async_commit();

    // load a_sh to a_fr: Move(16, 16)(SH, FR)(Warp)
    __syncthreads();  // a_sh is written before it is read
    ldmatrix_x4(&a_fr[0], &a_sh[warp_m * 640 + thread % 16 * 40 + thread / 16 % 2 * 8]);

    // load b_sh to b_fr: Move(16, 16)(SH, FR)(Warp)
    ldmatrix_x4(&b_fr[0], &b_sh[thread / 8 % 2 * 8 + warp_n * 640 + thread % 8 * 40 + thread / 16 % 2 * 320]);
    #pragma unroll 1
    for (int k = 0; k < 7; ++k) {

        // load a_sh to a_fr: Move(16, 16)(SH, FR)(Warp)
        ldmatrix_x4(&a_fr[8], &a_sh[k % 3 * 1280 + warp_m * 640 + thread % 16 * 40 + thread / 16 % 2 * 8 + 16]);

        // load b_sh to b_fr: Move(16, 16)(SH, FR)(Warp)
        ldmatrix_x4(&b_fr[8], &b_sh[k % 3 * 1280 + thread / 8 % 2 * 8 + warp_n * 640 + thread % 8 * 40 + thread / 16 % 2 * 320 + 16]);
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            mma_m16n8k16_f32_f16(&acc[n * 4], &a_fr[0], &b_fr[n * 4]);
        }
        cp_async_wait<1>();

        // load A to a_sh: Move(32, 32)(GL, SH)(Block)
        __syncthreads();  // a_sh is read before it is overwritten
        cp_async_if_16B(&a_sh[k % 3 * 1280 + thread_m * 40 + thread_k * 8], &A[thread_m * 256 + k * 32 + thread_k * 8 + 96], k < 5);

        // load B to b_sh: Move(32, 32)(GL, SH)(Block)
        cp_async_if_16B(&b_sh[k % 3 * 1280 + thread_m * 40 + thread_k * 8], &B[thread_m * 256 + k * 32 + thread_k * 8 + 96], k < 5);
        cp_async_commit();

        // load a_sh to a_fr: Move(16, 16)(SH, FR)(Warp)
        ldmatrix_x4(&a_fr[0], &a_sh[(k + 1) % 3 * 1280 + warp_m * 640 + thread % 16 * 40 + thread / 16 % 2 * 8]);

        // load b_sh to b_fr: Move(16, 16)(SH, FR)(Warp)
        ldmatrix_x4(&b_fr[0], &b_sh[(k + 1) % 3 * 1280 + thread / 8 % 2 * 8 + warp_n * 640 + thread % 8 * 40 + thread / 16 % 2 * 320]);
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            mma_m16n8k16_f32_f16(&acc[n * 4], &a_fr[8], &b_fr[n * 4 + 8]);
        }
    }

    // load a_sh to a_fr: Move(16, 16)(SH, FR)(Warp)
    ldmatrix_x4(&a_fr[8], &a_sh[warp_m * 640 + thread % 16 * 40 + thread / 16 % 2 * 8 + 1296]);

    // load b_sh to b_fr: Move(16, 16)(SH, FR)(Warp)
    ldmatrix_x4(&b_fr[8], &b_sh[thread / 8 % 2 * 8 + warp_n * 640 + thread % 8 * 40 + thread / 16 % 2 * 320 + 1296]);
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        mma_m16n8k16_f32_f16(&acc[n * 4], &a_fr[0], &b_fr[n * 4]);
    }
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        mma_m16n8k16_f32_f16(&acc[n * 4], &a_fr[8], &b_fr[n * 4 + 8]);
    }

    // store C: Move(32, 32)(FR, GL)(Block)
    #pragma unroll
    for (int m4 = 0; m4 < 2; ++m4) {
        #pragma unroll
        for (int n5 = 0; n5 < 2; ++n5) {
            #pragma unroll
            for (int e = 0; e < 2; ++e) {
                C_vec[e] = float_to_half(acc[m4 * 2 + n5 * 4 + e]);
            }
            copy_4B(&C[warp_m * 512 + thread / 4 % 8 * 32 + m4 * 256 + warp_n * 16 + thread % 4 * 2 + n5 * 8], &C_vec[0]);
        }
    }
}

struct half { unsigned short bits; };

__device__ __forceinline__ unsigned floats_to_half_pair(float low, float high) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

template <typename T>
__device__ __forceinline__ void put_pair(T* place, unsigned pair) {
    *reinterpret_cast<unsigned*>(place) = pair;
}

__device__ __forceinline__ unsigned max_half_pair(unsigned x, unsigned y) {
    unsigned z;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
}

__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}

template <int pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
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

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

extern "C" __global__ void __launch_bounds__(64)
chain_32x32_3layers_f16_f32(
    const half* __restrict__ X,
    const half* __restrict__ W,
    half* __restrict__ Y,
    const float* __restrict__ b) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* w_sh = reinterpret_cast<half*>(shared);
    alignas(16) half x_fr[16];
    alignas(16) float acc[16];
    alignas(16) half w_fr[16];
    alignas(16) float b_vec[2];
    const int warp = thread / 32;
    const int thread_k = thread % 2;
    const int thread_n = thread / 2;

    // Layers(32, 32)(GL, GL)(Block)

    // load X to x_fr: Move(32, 32)(GL, FR)(Block)
    #pragma unroll
    for (int m7 = 0; m7 < 2; ++m7) {
        #pragma unroll
        for (int k11 = 0; k11 < 4; ++k11) {
            copy_4B(&x_fr[m7 * 2 + k11 * 4], &X[block * 1024 + warp * 512 + thread / 4 % 8 * 32 + m7 * 256 + thread % 4 * 2 + k11 * 8]);
        }
    }

    // load W to w_sh: Move(1, 16, 32)(GL, SH)(Block)
    cp_async_16B(&w_sh[thread_k * 8 + thread_n * 24], &W[thread_k * 8 + thread_n * 32]);
    cp_async_commit();

    // load W to w_sh: Move(1, 16, 32)(GL, SH)(Block)
    cp_async_16B(&w_sh[thread_k * 8 + thread_n * 24 + 768], &W[thread_k * 8 + thread_n * 32 + 16]);
    cp_async_commit();
    #pragma unroll 1
    for (int layer = 0; layer < 3; ++layer) {

        // MatMul(1, 32, 32, 32)(FR, GL, FR)(Block)

        // Init(0)(FR)(Block)
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            acc[i] = 0.0f;
        }
        #pragma unroll
        for (int k = 0; k < 2; ++k) {
            cp_async_wait<1>();
            __syncthreads();  // w_sh is written before it is read
            if (layer * 2 + k < 4) {

                // load W to w_sh: Move(1, 16, 32)(GL, SH)(Block)
                cp_async_16B(&w_sh[(layer * 2 + k + 2) % 3 * 768 + thread_k * 8 + thread_n * 24], &W[layer * 1024 + k * 16 + thread_k * 8 + thread_n * 32 + 1024]);
            }
            cp_async_commit();

            // MatMul(1, 16, 32, 16)(FR, SH, FR)(Warp)
            #pragma unroll
            for (int k2 = 0; k2 < 1; ++k2) {

                // load w_sh to w_fr: Move(1, 16, 32)(SH, FR)(Warp)
                #pragma unroll
                for (int n3 = 0; n3 < 2; ++n3) {
                    ldmatrix_x4(&w_fr[n3 * 8], &w_sh[(layer * 2 + k) % 3 * 768 + k2 * 16 + thread / 8 % 2 * 8 + n3 * 384 + thread % 8 * 24 + thread / 16 % 2 * 192]);
                }
                #pragma unroll
                for (int n = 0; n < 4; ++n) {
                    mma_m16n8k16_f32_f16(&acc[n * 4], &x_fr[k * 8 + k2 * 8], &w_fr[n * 4]);
                }
            }
        }

        // Pointwise(FR)(Block)
        #pragma unroll
        for (int n5 = 0; n5 < 4; ++n5) {
            #pragma unroll
            for (int m22 = 0; m22 < 2; ++m22) {
                copy_8B(&b_vec[0], &b[layer * 32 + n5 * 8 + thread % 4 * 2]);
                #pragma unroll
                for (int n22_in = 0; n22_in < 2; ++n22_in) {
                    acc[n5 * 4 + m22 * 2 + n22_in] = acc[n5 * 4 + m22 * 2 + n22_in] + b_vec[n22_in];
                }
            }
        }

        // store C: Move(32, 32)(FR, FR)(Block)
        #pragma unroll
        for (int m3 = 0; m3 < 2; ++m3) {
            #pragma unroll
            for (int n7 = 0; n7 < 4; ++n7) {
                put_pair(&x_fr[m3 * 2 + n7 * 4], max_half_pair(floats_to_half_pair(acc[m3 * 2 + n7 * 4], acc[m3 * 2 + n7 * 4 + 1]), 0x00000000));
            }
        }
    }

    // store Y: Move(32, 32)(FR, GL)(Block)
    #pragma unroll
    for (int m5 = 0; m5 < 2; ++m5) {
        #pragma unroll
        for (int n8 = 0; n8 < 4; ++n8) {
            copy_4B(&Y[block * 1024 + warp * 512 + thread / 4 % 8 * 32 + m5 * 256 + thread % 4 * 2 + n8 * 8], &x_fr[m5 * 2 + n8 * 4]);
        }
    }
}

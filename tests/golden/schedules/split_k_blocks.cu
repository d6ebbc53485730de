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

__device__ __forceinline__ void cp_async_or_zero_16B(void* dst, const void* src, bool read) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(src), "r"(read ? 16 : 0) : "memory");
}

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ int count_in(int* counter, int count) {
    unsigned before = 0;
    if (threadIdx.x == 0) {
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
            : "=r"(before) : "l"(__cvta_generic_to_global(counter)), "r"(count - 1) : "memory");
    }
    return __syncthreads_or(threadIdx.x == 0 && (int)before == count - 1);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

extern "C" __global__ void __launch_bounds__(256)
gemm_128x256x64_k3_f16_f32(
    const half* __restrict__ A,
    const half* __restrict__ B,
    half* __restrict__ C,
    float* partial,
    int* arrived) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* a_sh = reinterpret_cast<half*>(shared);
    half* b_sh = reinterpret_cast<half*>(shared + 32768);
    half* acc_sh = reinterpret_cast<half*>(shared);
    alignas(16) float acc[128];
    alignas(16) half a_fr[64];
    alignas(16) half b_fr[64];
    alignas(16) half acc_sh_vec[2];
    alignas(16) float other[4];
    const int way = block % 3;
    const int tile = block / 3;
    const int block_m = tile % 4;
    const int block_n = tile / 4;
    const int warp = thread / 32;
    const int warp_m = warp / 4;
    const int warp_n = warp % 4;
    const int thread_k = thread % 8;
    const int thread_n = thread % 32;

    // MatMul(128, 256, 4096)(GL, GL, GL)(Block)

    // Init(0)(FR)(Block)
    #pragma unroll
    for (int i = 0; i < 128; ++i) {
        acc[i] = 0.0f;
    }

    // MatMul(64, 64, 64)(SH, SH, FR)(Warp)

    // load A to a_sh: Move(128, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        cp_async_16B(&a_sh[r * 2048 + thread / 8 * 64 + (thread_k ^ thread / 8 % 8) * 8], &A[block_m * 524288 + r * 131072 + thread / 8 * 4096 + way * 1408 + thread_k * 8]);
    }

    // load B to b_sh: Move(64, 256)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 8; ++r2) {
        cp_async_16B(&b_sh[r2 * 2048 + thread / 8 * 64 + (thread_k ^ thread / 8 % 8) * 8], &B[way * 1408 + thread_k * 8 + block_n * 1048576 + r2 * 131072 + thread / 8 * 4096]);
    }
    cp_async_commit();
    cp_async_wait<0>();

    // load A to a_sh: Move(128, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        cp_async_16B(&a_sh[r * 2048 + thread / 8 * 64 + (thread_k ^ thread / 8 % 8) * 8 + 8192], &A[block_m * 524288 + r * 131072 + thread / 8 * 4096 + way * 1408 + thread_k * 8 + 64]);
    }

    // load B to b_sh: Move(64, 256)(GL, SH)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 8; ++r2) {
        cp_async_16B(&b_sh[r2 * 2048 + thread / 8 * 64 + (thread_k ^ thread / 8 % 8) * 8 + 16384], &B[way * 1408 + thread_k * 8 + block_n * 1048576 + r2 * 131072 + thread / 8 * 4096 + 64]);
    }
    cp_async_commit();

    // load a_sh to a_fr: Move(64, 16)(SH, FR)(Warp)
    __syncthreads();  // a_sh is written before it is read
    #pragma unroll
    for (int m4 = 0; m4 < 4; ++m4) {
        ldmatrix_x4(&a_fr[m4 * 8], &a_sh[warp_m * 4096 + m4 * 1024 + thread % 16 * 64 + (thread / 16 % 2 ^ thread % 8) * 8]);
    }

    // load b_sh to b_fr: Move(16, 64)(SH, FR)(Warp)
    #pragma unroll
    for (int n3 = 0; n3 < 4; ++n3) {
        ldmatrix_x4(&b_fr[n3 * 8], &b_sh[warp_n * 4096 + n3 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (thread / 8 % 2 ^ thread % 8) * 8]);
    }
    #pragma unroll 1
    for (int k = 0; k < 21; ++k) {
        #pragma unroll
        for (int k2 = 0; k2 < 3; ++k2) {

            // load a_sh to a_fr: Move(64, 16)(SH, FR)(Warp)
            #pragma unroll
            for (int m4 = 0; m4 < 4; ++m4) {
                ldmatrix_x4(&a_fr[(k2 + 1) % 2 * 32 + m4 * 8], &a_sh[k % 2 * 8192 + warp_m * 4096 + m4 * 1024 + thread % 16 * 64 + (k2 * 2 + thread / 16 % 2 + 2 ^ thread % 8) * 8]);
            }

            // load b_sh to b_fr: Move(16, 64)(SH, FR)(Warp)
            #pragma unroll
            for (int n3 = 0; n3 < 4; ++n3) {
                ldmatrix_x4(&b_fr[(k2 + 1) % 2 * 32 + n3 * 8], &b_sh[k % 2 * 16384 + warp_n * 4096 + n3 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (k2 * 2 + thread / 8 % 2 + 2 ^ thread % 8) * 8]);
            }
            #pragma unroll
            for (int m = 0; m < 4; ++m) {
                #pragma unroll
                for (int n = 0; n < 8; ++n) {
                    mma_m16n8k16_f32_f16(&acc[m * 32 + n * 4], &a_fr[k2 % 2 * 32 + m * 8], &b_fr[k2 % 2 * 32 + n * 4]);
                }
            }
        }
        cp_async_wait<0>();

        // load A to a_sh: Move(128, 64)(GL, SH)(Block)
        __syncthreads();  // a_sh is read before it is overwritten
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (k < 20) cp_async_or_zero_16B(&a_sh[k % 2 * 8192 + r * 2048 + thread / 8 * 64 + (thread_k ^ thread / 8 % 8) * 8], &A[block_m * 524288 + r * 131072 + thread / 8 * 4096 + way * 1408 + k * 64 + thread_k * 8 + 128], way * 176 + k * 8 + thread_k < 496);
        }

        // load B to b_sh: Move(64, 256)(GL, SH)(Block)
        #pragma unroll
        for (int r2 = 0; r2 < 8; ++r2) {
            if (k < 20) cp_async_or_zero_16B(&b_sh[k % 2 * 16384 + r2 * 2048 + thread / 8 * 64 + (thread_k ^ thread / 8 % 8) * 8], &B[way * 1408 + k * 64 + thread_k * 8 + block_n * 1048576 + r2 * 131072 + thread / 8 * 4096 + 128], way * 176 + k * 8 + thread_k < 496);
        }
        cp_async_commit();

        // load a_sh to a_fr: Move(64, 16)(SH, FR)(Warp)
        #pragma unroll
        for (int m4 = 0; m4 < 4; ++m4) {
            ldmatrix_x4(&a_fr[m4 * 8], &a_sh[(k + 1) % 2 * 8192 + warp_m * 4096 + m4 * 1024 + thread % 16 * 64 + (thread / 16 % 2 ^ thread % 8) * 8]);
        }

        // load b_sh to b_fr: Move(16, 64)(SH, FR)(Warp)
        #pragma unroll
        for (int n3 = 0; n3 < 4; ++n3) {
            ldmatrix_x4(&b_fr[n3 * 8], &b_sh[(k + 1) % 2 * 16384 + warp_n * 4096 + n3 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (thread / 8 % 2 ^ thread % 8) * 8]);
        }
        #pragma unroll
        for (int m = 0; m < 4; ++m) {
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                mma_m16n8k16_f32_f16(&acc[m * 32 + n * 4], &a_fr[m * 8 + 32], &b_fr[n * 4 + 32]);
            }
        }
    }
    #pragma unroll
    for (int k2 = 0; k2 < 3; ++k2) {

        // load a_sh to a_fr: Move(64, 16)(SH, FR)(Warp)
        #pragma unroll
        for (int m4 = 0; m4 < 4; ++m4) {
            ldmatrix_x4(&a_fr[(k2 + 1) % 2 * 32 + m4 * 8], &a_sh[warp_m * 4096 + m4 * 1024 + thread % 16 * 64 + (k2 * 2 + thread / 16 % 2 + 2 ^ thread % 8) * 8 + 8192]);
        }

        // load b_sh to b_fr: Move(16, 64)(SH, FR)(Warp)
        #pragma unroll
        for (int n3 = 0; n3 < 4; ++n3) {
            ldmatrix_x4(&b_fr[(k2 + 1) % 2 * 32 + n3 * 8], &b_sh[warp_n * 4096 + n3 * 1024 + thread % 8 * 64 + thread / 16 % 2 * 512 + (k2 * 2 + thread / 8 % 2 + 2 ^ thread % 8) * 8 + 16384]);
        }
        #pragma unroll
        for (int m = 0; m < 4; ++m) {
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                mma_m16n8k16_f32_f16(&acc[m * 32 + n * 4], &a_fr[k2 % 2 * 32 + m * 8], &b_fr[k2 % 2 * 32 + n * 4]);
            }
        }
    }
    #pragma unroll
    for (int m = 0; m < 4; ++m) {
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
            mma_m16n8k16_f32_f16(&acc[m * 32 + n * 4], &a_fr[m * 8 + 32], &b_fr[n * 4 + 32]);
        }
    }

    // Reduce(3)(FR)(Blocks)
    #pragma unroll
    for (int i2 = 0; i2 < 32; ++i2) {
        copy_16B(&partial[tile * 98304 + way * 32768 + i2 * 1024 + thread * 4], &acc[i2 * 4]);
    }
    __syncthreads();  // all threads have written partial
    const int last = count_in(&arrived[tile], 3);
    if (last) {

        // Reduce: sum of 3 Blocks
        #pragma unroll
        for (int i5 = 0; i5 < 128; ++i5) {
            acc[i5] = 0.0f;
        }
        #pragma unroll 1
        for (int w = 0; w < 3; ++w) {
            #pragma unroll
            for (int i3 = 0; i3 < 32; ++i3) {
                copy_16B(&other[0], &partial[tile * 98304 + w * 32768 + i3 * 1024 + thread * 4]);
                #pragma unroll
                for (int i4 = 0; i4 < 4; ++i4) {
                    acc[i3 * 4 + i4] = acc[i3 * 4 + i4] + other[i4];
                }
            }
        }

        // store C: Move(128, 256)(FR, GL)(Block)

        // load acc to acc_sh: Move(128, 256)(FR, SH)(Block)
        #pragma unroll
        for (int m7 = 0; m7 < 8; ++m7) {
            #pragma unroll
            for (int n6 = 0; n6 < 8; ++n6) {
                #pragma unroll
                for (int e = 0; e < 2; ++e) {
                    acc_sh_vec[e] = float_to_half(acc[m7 % 2 * 2 + m7 / 2 * 32 + n6 * 4 + e]);
                }
                copy_4B(&acc_sh[warp_m * 16896 + thread / 4 % 8 * 264 + m7 * 2112 + warp_n * 64 + thread % 4 * 2 + n6 * 8], &acc_sh_vec[0]);
            }
        }
        __syncthreads();  // acc_sh is written before it is read
        #pragma unroll
        for (int r3 = 0; r3 < 16; ++r3) {
            copy_16B(&C[block_m * 65536 + r3 * 4096 + thread / 32 * 512 + block_n * 256 + thread_n * 8], &acc_sh[r3 * 2112 + thread / 32 * 264 + thread_n * 8]);
        }
    }
}

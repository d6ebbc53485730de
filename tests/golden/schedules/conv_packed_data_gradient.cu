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

__device__ __forceinline__ void cp_async_or_zero_16B(void* dst, const void* src, bool read) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        : : "r"(static_cast<unsigned>(__cvta_generic_to_shared(dst))), "l"(src), "r"(read ? 16 : 0) : "memory");
}

__device__ __forceinline__ void copy_or_zero_2B(void* dst, const void* src, bool read) {
    unsigned short value = {};
    if (read) value = *static_cast<const unsigned short*>(src);
    *static_cast<unsigned short*>(dst) = value;
}

__device__ __forceinline__ void copy_2B(void* dst, const void* src) {
    *static_cast<unsigned short*>(dst) = *static_cast<const unsigned short*>(src);
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

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

extern "C" __global__ void __launch_bounds__(128)
images_mma_1x16x2x16x8x1_f16(
    const half* __restrict__ y,
    const half* __restrict__ f,
    half* __restrict__ out_y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    half* y_sh = reinterpret_cast<half*>(shared);
    half* f_sh = reinterpret_cast<half*>(shared + 77824);
    half* out_sh = reinterpret_cast<half*>(shared);
    alignas(16) float product[32];
    alignas(16) half y_fr[32];
    alignas(16) half f_fr[8];
    half f_rf[26];
    alignas(16) half out_y_rf[32];
    const int block_n = block / 49;
    const int block_h = block / 7 % 7;
    const int block_w = block % 7;
    const int warp = thread / 32;
    const int thread_k = thread % 8;
    const int thread_i = thread / 64;
    const int thread_w = thread / 4 % 16;
    const int thread_m = thread % 4;

    // Program(1, 16, 16, 2, 8, 4, 4, 64)(GL, GL, GL)(Block)

    // load y to y_sh: Move(1, 16, 19, 64)(GL, SH)(Block)
    #pragma unroll
    for (int r = 0; r < 19; ++r) {
        cp_async_or_zero_16B(&y_sh[r * 1024 + thread / 8 * 64 + (thread_k ^ thread / 8 % 8) * 8], &y[block_n * 802816 + block_h * 114688 + (r * 16 + thread / 8) / 19 * 7168 + block_w * 1024 + (r * 16 + thread / 8) % 19 * 64 + thread_k * 8 + 14272], block_h * 16 + (r * 16 + thread / 8) / 19 < 110 && block_w * 16 + (r * 16 + thread / 8) % 19 > 0 && block_w * 16 + (r * 16 + thread / 8) % 19 < 113);
    }
    cp_async_commit();

    // load f to f_rf: Move(64, 2, 26)(GL, RF)(Block)
    #pragma unroll
    for (int r2 = 0; r2 < 26; ++r2) {
        copy_or_zero_2B(&f_rf[r2], &f[r2 * 294 + (thread + r2 * 24) / 52 * 147 + (thread + r2 * 24) / 26 % 2 * 21 + (thread + r2 * 24) % 26 - 24], (thread + r2 * 24) / 26 % 2 > 0 && (thread + r2 * 24) % 26 > 2 && (thread + r2 * 24) % 26 < 24);
    }

    // load f to f_sh: Move(64, 2, 26)(GL, SH)(Block)
    #pragma unroll
    for (int r22 = 0; r22 < 26; ++r22) {
        copy_2B(&f_sh[r22 * 128 + thread], &f_rf[r22]);
    }
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        product[i] = 0.0f;
    }
    #pragma unroll 1
    for (int chunk = 0; chunk < 4; ++chunk) {
        cp_async_wait<0>();
        __syncthreads();  // y_sh is written before it is read
        if (chunk < 3) {

            // load y to y_sh: Move(1, 16, 19, 64)(GL, SH)(Block)
            #pragma unroll
            for (int r = 0; r < 19; ++r) {
                cp_async_or_zero_16B(&y_sh[(chunk + 1) % 2 * 19456 + r * 1024 + thread / 8 * 64 + (thread_k ^ thread / 8 % 8) * 8], &y[block_n * 802816 + block_h * 114688 - chunk * 7168 + (r * 16 + thread / 8) / 19 * 7168 + block_w * 1024 + (r * 16 + thread / 8) % 19 * 64 + thread_k * 8 + 7104], chunk < block_h * 16 + (r * 16 + thread / 8) / 19 + 2 && block_h * 16 + (r * 16 + thread / 8) / 19 < chunk + 111 && block_w * 16 + (r * 16 + thread / 8) % 19 > 0 && block_w * 16 + (r * 16 + thread / 8) % 19 < 113);
            }

            // load f to f_rf: Move(64, 2, 26)(GL, RF)(Block)
            #pragma unroll
            for (int r2 = 0; r2 < 26; ++r2) {
                copy_or_zero_2B(&f_rf[r2], &f[r2 * 294 + (thread + r2 * 24) / 52 * 147 + chunk * 42 + (thread + r2 * 24) / 26 % 2 * 21 + (thread + r2 * 24) % 26 + 18], (thread + r2 * 24) % 26 > 2 && (thread + r2 * 24) % 26 < 24);
            }
        }
        cp_async_commit();
        #pragma unroll 1
        for (int v = 0; v < 4; ++v) {

            // product: add by atoms
            #pragma unroll
            for (int k = 0; k < 4; ++k) {

                // load y_sh to y_fr: Move(1, 64, 16)(SH, FR)(Warp)
                #pragma unroll
                for (int m4 = 0; m4 < 4; ++m4) {
                    ldmatrix_x4(&y_fr[m4 * 8], &y_sh[chunk % 2 * 19456 + (warp * 4864 - v * 64 + m4 * 1216 + thread % 16 * 64 + k * 16 + thread / 16 % 2 * 8 + 192 ^ (warp * 4 - v + m4 * 3 + thread + 3) % 8 * 8)]);
                }

                // load f_sh to f_fr: Move(16, 16)(SH, FR)(Warp)
                #pragma unroll
                for (int k6 = 0; k6 < 4; ++k6) {
                    #pragma unroll
                    for (int n4 = 0; n4 < 2; ++n4) {
                        copy_2B(&f_fr[k6 + n4 * 4], &f_sh[chunk % 2 * 3328 + k * 832 + thread % 4 * 104 + k6 % 2 * 52 + k6 / 2 * 416 + v * 6 + thread / 4 % 8 + n4 * 26]);
                    }
                }
                #pragma unroll
                for (int m = 0; m < 4; ++m) {
                    #pragma unroll
                    for (int n = 0; n < 2; ++n) {
                        mma_m16n8k16_f32_f16(&product[m * 8 + n * 4], &y_fr[m * 8], &f_fr[n * 4]);
                    }
                }
            }
        }
        if (chunk < 3) {

            // load f to f_sh: Move(64, 2, 26)(GL, SH)(Block)
            #pragma unroll
            for (int r22 = 0; r22 < 26; ++r22) {
                copy_2B(&f_sh[(chunk + 1) % 2 * 3328 + r22 * 128 + thread], &f_rf[r22]);
            }
        }
    }

    // out_y: f16 in out_y_rf
    #pragma unroll
    for (int h = 0; h < 4; ++h) {
        #pragma unroll
        for (int i2 = 0; i2 < 2; ++i2) {
            #pragma unroll
            for (int w = 0; w < 2; ++w) {
                #pragma unroll
                for (int m8 = 0; m8 < 2; ++m8) {
                    out_y_rf[h * 8 + i2 * 4 + w * 2 + m8] = float_to_half(product[h * 8 + i2 * 4 + w * 2 + m8]);
                }
            }
        }
    }

    // store out_y: Move(1, 16, 2, 16, 8)(RF, GL)(Block)

    // load out_y_rf to out_sh: Move(1, 16, 2, 16, 8)(RF, SH)(Block)
    __syncthreads();  // y_sh is read before out_sh takes its place
    #pragma unroll
    for (int h3 = 0; h3 < 4; ++h3) {
        #pragma unroll
        for (int i3 = 0; i3 < 2; ++i3) {
            #pragma unroll
            for (int w3 = 0; w3 < 2; ++w3) {
                copy_4B(&out_sh[warp * 1024 + h3 * 256 + i3 * 128 + thread % 32 * 2 + w3 * 64], &out_y_rf[h3 * 8 + i3 * 4 + w3 * 2]);
            }
        }
    }
    __syncthreads();  // out_sh is written before it is read
    #pragma unroll
    for (int r3 = 0; r3 < 16; ++r3) {
        if (thread_m < 3) copy_4B(&out_y[block_n * 150528 + block_h * 21504 + r3 * 1344 + thread_i * 672 + block_w * 96 + thread_w * 6 + thread_m * 2], &out_sh[r3 * 256 + thread_i * 128 + thread_w * 8 + thread_m * 2]);
    }
}

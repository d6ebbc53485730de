struct half { unsigned short bits; };

__device__ __forceinline__ float half_to_float(half x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

__device__ __forceinline__ half float_to_half(float x) {
    half y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}

__device__ __forceinline__ void copy_or_zero_4B(void* dst, const void* src, bool read) {
    unsigned value = {};
    if (read) value = *static_cast<const unsigned*>(src);
    *static_cast<unsigned*>(dst) = value;
}

__device__ __forceinline__ void shuffle_4B(void* dst, const void* src, int lane) {
    *static_cast<unsigned*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned*>(src), lane);
}

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

__device__ __forceinline__ int count_in(int* counter, int count) {
    unsigned before = 0;
    if (threadIdx.x == 0) {
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
            : "=r"(before) : "l"(__cvta_generic_to_global(counter)), "r"(count - 1) : "memory");
    }
    return __syncthreads_or(threadIdx.x == 0 && (int)before == count - 1);
}

extern "C" __global__ void __launch_bounds__(384)
filters_16x1_k33_k48_f16(
    const half* __restrict__ y,
    const half* __restrict__ x,
    half* __restrict__ out_y,
    float* product_parts,
    int* arrived) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    float* product_sh = reinterpret_cast<float*>(shared);
    float* product_all = reinterpret_cast<float*>(shared + 27648);
    float* product_sh2 = reinterpret_cast<float*>(shared);
    float* product_all2 = reinterpret_cast<float*>(shared + 27648);
    alignas(16) float product[18];
    alignas(16) half y_rf[8];
    alignas(16) half x_rf[50];
    float other[1];
    float other2[1];
    float other3[1];
    float share[1];
    alignas(16) float other4[2];
    float other5[1];
    float share2[1];
    const int way = block % 33;
    const int tile = block / 33;
    const int lanes8 = thread / 8;
    const int thread2 = thread % 8;

    // Program(16, 3, 3, 1568, 2, 2)(GL, GL, GL)(Block)

    // Program(16, 3, 3, 1, 2, 2)(GL, GL, GL)(Lanes8)
    #pragma unroll
    for (int i = 0; i < 18; ++i) {
        product[i] = 0.0f;
    }
    #pragma unroll 1
    for (int m = 0; m < 1; ++m) {

        // load y to y_rf: Move(1, 2, 2, 2)(GL, RF)(Thread)
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            copy_or_zero_4B(&y_rf[r * 2], &y[(way * 48 + lanes8 + m) / 49 * 12544 + (way * 6 + (way * 6 + lanes8 + m) / 7) % 7 * 1792 + r / 2 * 896 + (way * 6 + lanes8 + m) % 7 * 128 + r % 2 * 64 + tile * 16 + thread2 * 2], (way * 48 + lanes8 + m) / 49 < 32);
        }

        // load x to x_rf: Move(1, 5, 5, 2)(GL, RF)(Thread)
        #pragma unroll
        for (int r2 = 0; r2 < 25; ++r2) {
            copy_or_zero_4B(&x_rf[r2 * 2], &x[(way * 48 + lanes8 + m) / 49 * 50176 + (way * 6 + (way * 6 + lanes8 + m) / 7) % 7 * 7168 + r2 / 5 * 1792 + (way * 6 + lanes8 + m) % 7 * 256 + r2 % 5 * 64 + tile * 16 + thread2 * 2 - 1856], (way * 48 + lanes8 + m) / 49 < 32 && (way * 6 + (way * 6 + lanes8 + m) / 7) % 7 * 4 + r2 / 5 > 0 && (way * 6 + lanes8 + m) % 7 * 4 + r2 % 5 > 0);
        }

        // product: add over m, p, q
        if (way * 48 + lanes8 + m < 1568) {
            #pragma unroll
            for (int k = 0; k < 2; ++k) {
                #pragma unroll
                for (int r3 = 0; r3 < 3; ++r3) {
                    #pragma unroll
                    for (int s = 0; s < 3; ++s) {
                        #pragma unroll
                        for (int p = 0; p < 2; ++p) {
                            #pragma unroll
                            for (int q = 0; q < 2; ++q) {
                                product[k * 9 + r3 * 3 + s] = fmaf(half_to_float(y_rf[k + p * 4 + q * 2]), half_to_float(x_rf[k + r3 * 10 + s * 2 + p * 20 + q * 4]), product[k * 9 + r3 * 3 + s]);
                            }
                        }
                    }
                }
            }
        }
    }
    #pragma unroll
    for (int i2 = 0; i2 < 18; ++i2) {
        shuffle_4B(&other[0], &product[i2], thread % 32 ^ 16);
        product[i2] = product[i2] + other[0];
    }
    #pragma unroll
    for (int i3 = 0; i3 < 18; ++i3) {
        shuffle_4B(&other2[0], &product[i3], thread % 32 ^ 8);
        product[i3] = product[i3] + other2[0];
    }

    // product over 12 warps
    #pragma unroll
    for (int i4 = 0; i4 < 18; ++i4) {
        product_sh[thread / 32 * 576 + i4 * 32 + thread % 32] = product[i4];
    }
    __syncthreads();  // product_sh is written before it is read
    #pragma unroll 1
    for (int k2 = 0; k2 < 2; ++k2) {
        share[0] = 0.0f;
        #pragma unroll
        for (int w = 0; w < 12; ++w) {
            other3[0] = product_sh[w * 576 + min(k2 * 12 + thread / 32, 17) * 32 + thread % 32];
            share[0] = share[0] + other3[0];
        }
        if (k2 * 12 + thread / 32 < 18) product_all[k2 * 384 + thread] = share[0];
    }
    __syncthreads();  // product_all is written before it is read
    #pragma unroll
    for (int i5 = 0; i5 < 18; ++i5) {
        product[i5] = product_all[i5 * 32 + thread % 32];
    }

    // product over 33 blocks
    if (thread / 32 == 0) {
        #pragma unroll
        for (int i6 = 0; i6 < 9; ++i6) {
            copy_8B(&product_parts[tile * 19008 + way * 576 + i6 * 64 + thread % 32 * 2], &product[i6 * 2]);
        }
    }
    __syncthreads();  // all threads have written product_parts
    const int last = count_in(&arrived[tile], 33);
    if (last) {

        // product over 33 blocks: the last block combines them
        #pragma unroll
        for (int i9 = 0; i9 < 18; ++i9) {
            product[i9] = 0.0f;
        }
        #pragma unroll
        for (int u = 0; u < 3; ++u) {
            if (u * 12 + thread / 32 < 33) {
                #pragma unroll
                for (int i7 = 0; i7 < 9; ++i7) {
                    copy_8B(&other4[0], &product_parts[tile * 19008 + u * 6912 + thread / 32 * 576 + i7 * 64 + thread % 32 * 2]);
                    #pragma unroll
                    for (int i8 = 0; i8 < 2; ++i8) {
                        product[i7 * 2 + i8] = product[i7 * 2 + i8] + other4[i8];
                    }
                }
            }
        }

        // product over 12 warps
        #pragma unroll
        for (int i10 = 0; i10 < 18; ++i10) {
            product_sh2[thread / 32 * 576 + i10 * 32 + thread % 32] = product[i10];
        }
        __syncthreads();  // product_sh2 is written before it is read
        #pragma unroll 1
        for (int k3 = 0; k3 < 2; ++k3) {
            share2[0] = 0.0f;
            #pragma unroll
            for (int w2 = 0; w2 < 12; ++w2) {
                other5[0] = product_sh2[w2 * 576 + min(k3 * 12 + thread / 32, 17) * 32 + thread % 32];
                share2[0] = share2[0] + other5[0];
            }
            if (k3 * 12 + thread / 32 < 18) product_all2[k3 * 384 + thread] = share2[0];
        }
        __syncthreads();  // product_all2 is written before it is read
        #pragma unroll
        for (int i11 = 0; i11 < 18; ++i11) {
            product[i11] = product_all2[i11 * 32 + thread % 32];
        }

        // out_y
        if (lanes8 == 0) {
            #pragma unroll
            for (int k4 = 0; k4 < 2; ++k4) {
                #pragma unroll
                for (int r4 = 0; r4 < 3; ++r4) {
                    #pragma unroll
                    for (int s2 = 0; s2 < 3; ++s2) {
                        out_y[tile * 144 + thread2 * 18 + k4 * 9 + r4 * 3 + s2] = float_to_half(product[k4 * 9 + r4 * 3 + s2]);
                    }
                }
            }
        }
    }
}

struct bf16 { unsigned short bits; };

__device__ __forceinline__ float bf16_to_float(bf16 x) {
    float y;
    asm("mov.b32 %0, {%1, %2};" : "=f"(y) : "h"(static_cast<unsigned short>(0)), "h"(x.bits));
    return y;
}

__device__ __forceinline__ void ld_no_allocate_16B(void* dst, const void* src) {
    uint4 value = {};
    asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
        : "+r"(value.x), "+r"(value.y), "+r"(value.z), "+r"(value.w) : "l"(__cvta_generic_to_global(src)) : "memory");
    *static_cast<uint4*>(dst) = value;
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

extern "C" __global__ void __launch_bounds__(512, 2)
reduction_256x8_k8_k16_bf16_f32(
    const bf16* __restrict__ x,
    float* __restrict__ y,
    float* sum_parts,
    int* arrived) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    const int blocks = gridDim.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    __builtin_assume(blocks >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    float* sum_sh = reinterpret_cast<float*>(shared);
    float* sum_all = reinterpret_cast<float*>(shared + 16384);
    float* sum_sh2 = reinterpret_cast<float*>(shared + 17408);
    float* sum_all2 = reinterpret_cast<float*>(shared + 33792);
    alignas(16) float sum[8];
    alignas(16) bf16 x_rf[64];
    float other[1];
    float share[1];
    alignas(16) float other2[8];
    float other3[1];
    float share2[1];
    const int way = block % 8;
    const int tile = block / 8;
    const int warp = thread / 32;
    const int lane = thread % 32;

    // Program(256, 8192)(GL, GL)(Block)

    // Program(256, 64)(GL, GL)(Warp)
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        sum[i] = 0.0f;
    }
    #pragma unroll 1
    for (int m = 0; m < 8; ++m) {

        // load x to x_rf: Move(8, 256)(GL, RF)(Warp)
        #pragma unroll
        for (int r = 0; r < 8; ++r) {
            ld_no_allocate_16B(&x_rf[r * 8], &x[way * 8388608 + warp * 524288 + m * 65536 + r * 8192 + tile * 256 + lane * 8]);
        }

        // sum: add over m
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
            #pragma unroll
            for (int m2 = 0; m2 < 8; ++m2) {
                sum[n] = sum[n] + bf16_to_float(x_rf[n + m2 * 8]);
            }
        }
    }

    // sum over 16 warps
    #pragma unroll
    for (int i2 = 0; i2 < 8; ++i2) {
        sum_sh[thread / 32 * 256 + i2 * 32 + thread % 32] = sum[i2];
    }
    share[0] = 0.0f;
    __syncthreads();  // sum_sh is written before it is read
    #pragma unroll
    for (int w = 0; w < 16; ++w) {
        other[0] = sum_sh[w * 256 + min(thread / 32, 7) * 32 + thread % 32];
        share[0] = share[0] + other[0];
    }
    if (thread / 32 < 8) sum_all[thread] = share[0];
    __syncthreads();  // sum_all is written before it is read
    #pragma unroll
    for (int i3 = 0; i3 < 8; ++i3) {
        sum[i3] = sum_all[i3 * 32 + thread % 32];
    }

    // sum over 8 blocks
    if (thread / 32 == 0) {
        #pragma unroll
        for (int i4 = 0; i4 < 2; ++i4) {
            copy_16B(&sum_parts[tile * 2048 + way * 256 + i4 * 128 + thread % 32 * 4], &sum[i4 * 4]);
        }
    }
    __syncthreads();  // all threads have written sum_parts
    const int last = count_in(&arrived[tile], 8);
    if (last) {

        // sum over 8 blocks: the last block combines them
        #pragma unroll
        for (int i6 = 0; i6 < 8; ++i6) {
            sum[i6] = 0.0f;
        }
        if (thread / 32 < 8) {
            #pragma unroll
            for (int v = 0; v < 2; ++v) {
                copy_16B(&other2[v * 4], &sum_parts[tile * 2048 + thread / 32 * 256 + v * 128 + thread % 32 * 4]);
            }
            #pragma unroll
            for (int i5 = 0; i5 < 8; ++i5) {
                sum[i5] = sum[i5] + other2[i5];
            }
        }

        // sum over 16 warps
        #pragma unroll
        for (int i7 = 0; i7 < 8; ++i7) {
            sum_sh2[thread / 32 * 256 + i7 * 32 + thread % 32] = sum[i7];
        }
        share2[0] = 0.0f;
        __syncthreads();  // sum_sh2 is written before it is read
        #pragma unroll
        for (int w2 = 0; w2 < 16; ++w2) {
            other3[0] = sum_sh2[w2 * 256 + min(thread / 32, 7) * 32 + thread % 32];
            share2[0] = share2[0] + other3[0];
        }
        if (thread / 32 < 8) sum_all2[thread] = share2[0];
        __syncthreads();  // sum_all2 is written before it is read
        #pragma unroll
        for (int i8 = 0; i8 < 8; ++i8) {
            sum[i8] = sum_all2[i8 * 32 + thread % 32];
        }

        // store y: Move(256)(RF, GL)(Warp)
        if (warp == 0) {
            #pragma unroll
            for (int n3 = 0; n3 < 2; ++n3) {
                copy_16B(&y[tile * 256 + lane * 8 + n3 * 4], &sum[n3 * 4]);
            }
        }
    }
}

struct bf16 { unsigned short bits; };

__device__ __forceinline__ float bf16_to_float(bf16 x) {
    float y;
    asm("mov.b32 %0, {%1, %2};" : "=f"(y) : "h"(static_cast<unsigned short>(0)), "h"(x.bits));
    return y;
}

__device__ __forceinline__ bf16 float_to_bf16(float x) {
    bf16 y;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
    const unsigned bits = __float_as_uint(x);
    y.bits = x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fff;
#endif
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

__device__ __forceinline__ void copy_16B(void* dst, const void* src) {
    *static_cast<uint4*>(dst) = *static_cast<const uint4*>(src);
}

__device__ __forceinline__ void shuffle_4B(void* dst, const void* src, int lane) {
    *static_cast<unsigned*>(dst) = __shfl_sync(0xffffffff, *static_cast<const unsigned*>(src), lane);
}

extern "C" __global__ void __launch_bounds__(1024, 1)
row_1x16384_k32_bf16(
    const bf16* __restrict__ x,
    bf16* __restrict__ y) {
    const int thread = threadIdx.x;
    const int block = blockIdx.x;
    __builtin_assume(thread >= 0);
    __builtin_assume(block >= 0);
    extern __shared__ __align__(1024) unsigned char shared[];
    bf16* x_sh = reinterpret_cast<bf16*>(shared);
    float* total_sh = reinterpret_cast<float*>(shared + 131072);
    alignas(16) bf16 x_rf[16];
    float cumsum_rf[16];
    alignas(16) bf16 y_rf[16];
    float cumsum_before[1];
    float total[1];
    float sum[1];
    float other[1];
    float front[1];
    float front2[1];
    float other2[1];
    const int warp = thread / 32;
    const int lane = thread % 32;

    // Program(1, 65536)(GL, GL)(Block)

    // load x to x_sh: Move(1, 65536)(GL, SH)(Block)
    #pragma unroll
    for (int r6 = 0; r6 < 8; ++r6) {
        cp_async_16B(&x_sh[thread * 8 + r6 * 8192], &x[block * 65536 + thread * 8 + r6 * 8192]);
    }
    cp_async_commit();
    cumsum_before[0] = 0.0f;
    cp_async_wait<0>();
    __syncthreads();  // x_sh is written before it is read
    #pragma unroll 1
    for (int n = 0; n < 4; ++n) {

        // Program(1, 512)(SH, GL)(Warp)

        // load x_sh to x_rf: Move(1, 512)(SH, RF)(Warp)
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            copy_16B(&x_rf[r * 8], &x_sh[n * 16384 + warp * 512 + lane * 8 + r * 256]);
        }
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            cumsum_rf[i] = 0.0f;
        }

        // cumsum: f32 in cumsum_rf
        #pragma unroll
        for (int n2 = 0; n2 < 16; ++n2) {
            cumsum_rf[n2] = bf16_to_float(x_rf[n2]);
        }

        // cumsum: running add over n
        total[0] = 0.0f;
        #pragma unroll
        for (int run = 0; run < 2; ++run) {
            #pragma unroll
            for (int e = 0; e < 7; ++e) {
                cumsum_rf[run * 8 + e + 1] = cumsum_rf[run * 8 + e] + cumsum_rf[run * 8 + e + 1];
            }
            sum[0] = cumsum_rf[run * 8 + 7];
            shuffle_4B(&other[0], &sum[0], (thread + 31) % 32);
            if (thread % 32 > 0) sum[0] = other[0] + sum[0];
            shuffle_4B(&other[0], &sum[0], (thread + 30) % 32);
            if (thread % 32 > 1) sum[0] = other[0] + sum[0];
            shuffle_4B(&other[0], &sum[0], (thread + 28) % 32);
            if (thread % 32 > 3) sum[0] = other[0] + sum[0];
            shuffle_4B(&other[0], &sum[0], (thread + 24) % 32);
            if (thread % 32 > 7) sum[0] = other[0] + sum[0];
            shuffle_4B(&other[0], &sum[0], (thread + 16) % 32);
            if (thread % 32 > 15) sum[0] = other[0] + sum[0];
            shuffle_4B(&other[0], &sum[0], (thread + 31) % 32);
            front[0] = total[0];
            if (thread % 32 > 0) front[0] = front[0] + other[0];
            shuffle_4B(&other[0], &sum[0], 31);
            total[0] = total[0] + other[0];
            #pragma unroll
            for (int e2 = 0; e2 < 8; ++e2) {
                cumsum_rf[run * 8 + e2] = front[0] + cumsum_rf[run * 8 + e2];
            }
        }

        // cumsum over 32 warps
        total_sh[thread] = total[0];
        front2[0] = cumsum_before[0];
        __syncthreads();  // total_sh is written before it is read
        #pragma unroll
        for (int w = 0; w < 32; ++w) {
            other2[0] = total_sh[w * 32 + thread % 32];
            if (w < thread / 32) front2[0] = front2[0] + other2[0];
            cumsum_before[0] = cumsum_before[0] + other2[0];
        }
        #pragma unroll
        for (int run2 = 0; run2 < 2; ++run2) {
            #pragma unroll
            for (int e3 = 0; e3 < 8; ++e3) {
                cumsum_rf[run2 * 8 + e3] = front2[0] + cumsum_rf[run2 * 8 + e3];
            }
        }

        // y: bf16 in y_rf
        #pragma unroll
        for (int n3 = 0; n3 < 16; ++n3) {
            y_rf[n3] = float_to_bf16(cumsum_rf[n3]);
        }

        // store y: Move(1, 512)(RF, GL)(Warp)
        #pragma unroll
        for (int n4 = 0; n4 < 2; ++n4) {
            copy_16B(&y[block * 65536 + n * 16384 + warp * 512 + lane * 8 + n4 * 256], &y_rf[n4 * 8]);
        }
        __syncthreads();  // total_sh is read before it is overwritten
    }
}

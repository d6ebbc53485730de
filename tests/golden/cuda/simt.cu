struct half { unsigned short bits; };
struct bf16 { unsigned short bits; };

__device__ __forceinline__ float half_to_float(half x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

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

__device__ __forceinline__ void copy_8B(void* dst, const void* src) {
    *static_cast<uint2*>(dst) = *static_cast<const uint2*>(src);
}

__device__ __forceinline__ void copy_4B(void* dst, const void* src) {
    *static_cast<unsigned*>(dst) = *static_cast<const unsigned*>(src);
}

__device__ __forceinline__ void copy_2B(void* dst, const void* src) {
    *static_cast<unsigned short*>(dst) = *static_cast<const unsigned short*>(src);
}

__device__ __forceinline__ void fma_f16x2(half a, const half* b, half* c) {
    const unsigned aa = a.bits * 0x10001u;
    asm("fma.rn.f16x2 %0, %1, %2, %0;"
        : "+r"(*reinterpret_cast<unsigned*>(c))
        : "r"(aa), "r"(*reinterpret_cast<const unsigned*>(b)));
}

__device__ __forceinline__ half fma_f16(half a, half b, half c) {
    asm("fma.rn.f16 %0, %1, %2, %0;" : "+h"(c.bits) : "h"(a.bits), "h"(b.bits));
    return c;
}

__device__ __forceinline__ bf16 fma_bf16(bf16 a, bf16 b, bf16 c) {
    asm("fma.rn.bf16 %0, %1, %2, %0;" : "+h"(c.bits) : "h"(a.bits), "h"(b.bits));
    return c;
}

__device__ __forceinline__ int dp4a_i8(const signed char* a, const signed char* b, int sum) {
    asm("dp4a.s32.s32 %0, %1, %2, %0;"
        : "+r"(sum)
        : "r"(*reinterpret_cast<const int*>(a)), "r"(*reinterpret_cast<const int*>(b)));
    return sum;
}

__device__ __forceinline__ int dp4a_u8(const unsigned char* a, const unsigned char* b, int sum) {
    asm("dp4a.u32.u32 %0, %1, %2, %0;"
        : "+r"(sum)
        : "r"(*reinterpret_cast<const int*>(a)), "r"(*reinterpret_cast<const int*>(b)));
    return sum;
}

__device__ __forceinline__ void copy_1B(void* dst, const void* src) {
    *static_cast<unsigned char*>(dst) = *static_cast<const unsigned char*>(src);
}

extern "C" __global__ void __launch_bounds__(1)
every_simt_atom(
    const double* __restrict__ fma_f64_a_gl,
    const double* __restrict__ fma_f64_b_gl,
    double* __restrict__ fma_f64_c_gl,
    const float* __restrict__ fma_f32_a_gl,
    const float* __restrict__ fma_f32_b_gl,
    float* __restrict__ fma_f32_c_gl,
    const half* __restrict__ fma_f16x2_a_gl,
    const half* __restrict__ fma_f16x2_b_gl,
    half* __restrict__ fma_f16x2_c_gl,
    const half* __restrict__ fma_f16_a_gl,
    const half* __restrict__ fma_f16_b_gl,
    half* __restrict__ fma_f16_c_gl,
    const bf16* __restrict__ fma_bf16_a_gl,
    const bf16* __restrict__ fma_bf16_b_gl,
    bf16* __restrict__ fma_bf16_c_gl,
    const bf16* __restrict__ fma_bf16_via_f32_a_gl,
    const bf16* __restrict__ fma_bf16_via_f32_b_gl,
    bf16* __restrict__ fma_bf16_via_f32_c_gl,
    const half* __restrict__ fma_f32_f16_a_gl,
    const half* __restrict__ fma_f32_f16_b_gl,
    float* __restrict__ fma_f32_f16_c_gl,
    const bf16* __restrict__ fma_f32_bf16_a_gl,
    const bf16* __restrict__ fma_f32_bf16_b_gl,
    float* __restrict__ fma_f32_bf16_c_gl,
    const signed char* __restrict__ dp4a_i8_a_gl,
    const signed char* __restrict__ dp4a_i8_b_gl,
    int* __restrict__ dp4a_i8_c_gl,
    const unsigned char* __restrict__ dp4a_u8_a_gl,
    const unsigned char* __restrict__ dp4a_u8_b_gl,
    int* __restrict__ dp4a_u8_c_gl,
    const int* __restrict__ imad_i32_a_gl,
    const int* __restrict__ imad_i32_b_gl,
    int* __restrict__ imad_i32_c_gl,
    const signed char* __restrict__ imad_i32_i8_a_gl,
    const signed char* __restrict__ imad_i32_i8_b_gl,
    int* __restrict__ imad_i32_i8_c_gl,
    const unsigned char* __restrict__ imad_i32_u8_a_gl,
    const unsigned char* __restrict__ imad_i32_u8_b_gl,
    int* __restrict__ imad_i32_u8_c_gl) {
    double fma_f64_a[1];
    double fma_f64_b[1];
    double fma_f64_c[1];
    float fma_f32_a[1];
    float fma_f32_b[1];
    float fma_f32_c[1];
    half fma_f16x2_a[1];
    alignas(16) half fma_f16x2_b[2];
    alignas(16) half fma_f16x2_c[2];
    half fma_f16_a[1];
    half fma_f16_b[1];
    half fma_f16_c[1];
    bf16 fma_bf16_a[1];
    bf16 fma_bf16_b[1];
    bf16 fma_bf16_c[1];
    bf16 fma_bf16_via_f32_a[1];
    bf16 fma_bf16_via_f32_b[1];
    bf16 fma_bf16_via_f32_c[1];
    half fma_f32_f16_a[1];
    half fma_f32_f16_b[1];
    float fma_f32_f16_c[1];
    bf16 fma_f32_bf16_a[1];
    bf16 fma_f32_bf16_b[1];
    float fma_f32_bf16_c[1];
    alignas(16) signed char dp4a_i8_a[4];
    alignas(16) signed char dp4a_i8_b[4];
    int dp4a_i8_c[1];
    alignas(16) unsigned char dp4a_u8_a[4];
    alignas(16) unsigned char dp4a_u8_b[4];
    int dp4a_u8_c[1];
    int imad_i32_a[1];
    int imad_i32_b[1];
    int imad_i32_c[1];
    signed char imad_i32_i8_a[1];
    signed char imad_i32_i8_b[1];
    int imad_i32_i8_c[1];
    unsigned char imad_i32_u8_a[1];
    unsigned char imad_i32_u8_b[1];
    int imad_i32_u8_c[1];

    // fma.f64 (Thread)
    copy_8B(&fma_f64_a[0], &fma_f64_a_gl[0]);
    copy_8B(&fma_f64_b[0], &fma_f64_b_gl[0]);
    copy_8B(&fma_f64_c[0], &fma_f64_c_gl[0]);
    fma_f64_c[0] = fma(fma_f64_a[0], fma_f64_b[0], fma_f64_c[0]);
    copy_8B(&fma_f64_c_gl[0], &fma_f64_c[0]);

    // fma.f32 (Thread)
    copy_4B(&fma_f32_a[0], &fma_f32_a_gl[0]);
    copy_4B(&fma_f32_b[0], &fma_f32_b_gl[0]);
    copy_4B(&fma_f32_c[0], &fma_f32_c_gl[0]);
    fma_f32_c[0] = fmaf(fma_f32_a[0], fma_f32_b[0], fma_f32_c[0]);
    copy_4B(&fma_f32_c_gl[0], &fma_f32_c[0]);

    // fma.f16x2 (Thread)
    copy_2B(&fma_f16x2_a[0], &fma_f16x2_a_gl[0]);
    copy_4B(&fma_f16x2_b[0], &fma_f16x2_b_gl[0]);
    copy_4B(&fma_f16x2_c[0], &fma_f16x2_c_gl[0]);
    fma_f16x2(fma_f16x2_a[0], &fma_f16x2_b[0], &fma_f16x2_c[0]);
    copy_4B(&fma_f16x2_c_gl[0], &fma_f16x2_c[0]);

    // fma.f16 (Thread)
    copy_2B(&fma_f16_a[0], &fma_f16_a_gl[0]);
    copy_2B(&fma_f16_b[0], &fma_f16_b_gl[0]);
    copy_2B(&fma_f16_c[0], &fma_f16_c_gl[0]);
    fma_f16_c[0] = fma_f16(fma_f16_a[0], fma_f16_b[0], fma_f16_c[0]);
    copy_2B(&fma_f16_c_gl[0], &fma_f16_c[0]);

    // fma.bf16 (Thread)
    copy_2B(&fma_bf16_a[0], &fma_bf16_a_gl[0]);
    copy_2B(&fma_bf16_b[0], &fma_bf16_b_gl[0]);
    copy_2B(&fma_bf16_c[0], &fma_bf16_c_gl[0]);
    fma_bf16_c[0] = fma_bf16(fma_bf16_a[0], fma_bf16_b[0], fma_bf16_c[0]);
    copy_2B(&fma_bf16_c_gl[0], &fma_bf16_c[0]);

    // fma.bf16.via.f32 (Thread)
    copy_2B(&fma_bf16_via_f32_a[0], &fma_bf16_via_f32_a_gl[0]);
    copy_2B(&fma_bf16_via_f32_b[0], &fma_bf16_via_f32_b_gl[0]);
    copy_2B(&fma_bf16_via_f32_c[0], &fma_bf16_via_f32_c_gl[0]);
    fma_bf16_via_f32_c[0] = float_to_bf16(fmaf(bf16_to_float(fma_bf16_via_f32_a[0]), bf16_to_float(fma_bf16_via_f32_b[0]), bf16_to_float(fma_bf16_via_f32_c[0])));
    copy_2B(&fma_bf16_via_f32_c_gl[0], &fma_bf16_via_f32_c[0]);

    // fma.f32.f16 (Thread)
    copy_2B(&fma_f32_f16_a[0], &fma_f32_f16_a_gl[0]);
    copy_2B(&fma_f32_f16_b[0], &fma_f32_f16_b_gl[0]);
    copy_4B(&fma_f32_f16_c[0], &fma_f32_f16_c_gl[0]);
    fma_f32_f16_c[0] = fmaf(half_to_float(fma_f32_f16_a[0]), half_to_float(fma_f32_f16_b[0]), fma_f32_f16_c[0]);
    copy_4B(&fma_f32_f16_c_gl[0], &fma_f32_f16_c[0]);

    // fma.f32.bf16 (Thread)
    copy_2B(&fma_f32_bf16_a[0], &fma_f32_bf16_a_gl[0]);
    copy_2B(&fma_f32_bf16_b[0], &fma_f32_bf16_b_gl[0]);
    copy_4B(&fma_f32_bf16_c[0], &fma_f32_bf16_c_gl[0]);
    fma_f32_bf16_c[0] = fmaf(bf16_to_float(fma_f32_bf16_a[0]), bf16_to_float(fma_f32_bf16_b[0]), fma_f32_bf16_c[0]);
    copy_4B(&fma_f32_bf16_c_gl[0], &fma_f32_bf16_c[0]);

    // dp4a.i8 (Thread)
    copy_4B(&dp4a_i8_a[0], &dp4a_i8_a_gl[0]);
    copy_4B(&dp4a_i8_b[0], &dp4a_i8_b_gl[0]);
    copy_4B(&dp4a_i8_c[0], &dp4a_i8_c_gl[0]);
    dp4a_i8_c[0] = dp4a_i8(&dp4a_i8_a[0], &dp4a_i8_b[0], dp4a_i8_c[0]);
    copy_4B(&dp4a_i8_c_gl[0], &dp4a_i8_c[0]);

    // dp4a.u8 (Thread)
    copy_4B(&dp4a_u8_a[0], &dp4a_u8_a_gl[0]);
    copy_4B(&dp4a_u8_b[0], &dp4a_u8_b_gl[0]);
    copy_4B(&dp4a_u8_c[0], &dp4a_u8_c_gl[0]);
    dp4a_u8_c[0] = dp4a_u8(&dp4a_u8_a[0], &dp4a_u8_b[0], dp4a_u8_c[0]);
    copy_4B(&dp4a_u8_c_gl[0], &dp4a_u8_c[0]);

    // imad.i32 (Thread)
    copy_4B(&imad_i32_a[0], &imad_i32_a_gl[0]);
    copy_4B(&imad_i32_b[0], &imad_i32_b_gl[0]);
    copy_4B(&imad_i32_c[0], &imad_i32_c_gl[0]);
    imad_i32_c[0] += imad_i32_a[0] * imad_i32_b[0];
    copy_4B(&imad_i32_c_gl[0], &imad_i32_c[0]);

    // imad.i32.i8 (Thread)
    copy_1B(&imad_i32_i8_a[0], &imad_i32_i8_a_gl[0]);
    copy_1B(&imad_i32_i8_b[0], &imad_i32_i8_b_gl[0]);
    copy_4B(&imad_i32_i8_c[0], &imad_i32_i8_c_gl[0]);
    imad_i32_i8_c[0] += imad_i32_i8_a[0] * imad_i32_i8_b[0];
    copy_4B(&imad_i32_i8_c_gl[0], &imad_i32_i8_c[0]);

    // imad.i32.u8 (Thread)
    copy_1B(&imad_i32_u8_a[0], &imad_i32_u8_a_gl[0]);
    copy_1B(&imad_i32_u8_b[0], &imad_i32_u8_b_gl[0]);
    copy_4B(&imad_i32_u8_c[0], &imad_i32_u8_c_gl[0]);
    imad_i32_u8_c[0] += imad_i32_u8_a[0] * imad_i32_u8_b[0];
    copy_4B(&imad_i32_u8_c_gl[0], &imad_i32_u8_c[0]);
}

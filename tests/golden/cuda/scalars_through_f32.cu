struct half { unsigned short bits; };
struct tf32 { unsigned bits; };
struct e4m3 { unsigned char bits; };
struct e5m2 { unsigned char bits; };

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

__device__ __forceinline__ half double_to_half(double x) {
    half y;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.bits) : "d"(x));
    return y;
}

__device__ __forceinline__ half int_to_half(int x) {
    half y;
    asm("cvt.rn.f16.s32 %0, %1;" : "=h"(y.bits) : "r"(x));
    return y;
}

__device__ __forceinline__ float tf32_to_float(tf32 x) {
    return __uint_as_float(x.bits & 0xffffe000);
}

__device__ __forceinline__ tf32 float_to_tf32(float x) {
    tf32 y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y.bits) : "f"(x));
    return y;
}

__device__ __forceinline__ float e4m3_to_float(e4m3 x) {
    unsigned pair;
    float y;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x.bits));
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)pair));
    return y;
}

__device__ __forceinline__ e4m3 float_to_e4m3(float x) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return e4m3{(unsigned char)pair};
}

__device__ __forceinline__ float e5m2_to_float(e5m2 x) {
    unsigned pair;
    float y;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x.bits));
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)pair));
    return y;
}

__device__ __forceinline__ e5m2 float_to_e5m2(float x) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return e5m2{(unsigned char)pair};
}

__device__ __forceinline__ tf32 double_to_tf32(double x) {
    const float near = __double2float_rz(x);
    return float_to_tf32((double)near == x ? near : __uint_as_float(__float_as_uint(near) | 1));
}

__device__ __forceinline__ tf32 int_to_tf32(int x) {
    const float near = __int2float_rz(x);
    return float_to_tf32((int)near == x ? near : __uint_as_float(__float_as_uint(near) | 1));
}

__device__ __forceinline__ e4m3 double_to_e4m3(double x) {
    const float near = __double2float_rz(x);
    return float_to_e4m3((double)near == x ? near : __uint_as_float(__float_as_uint(near) | 1));
}

__device__ __forceinline__ e4m3 int_to_e4m3(int x) {
    const float near = __int2float_rz(x);
    return float_to_e4m3((int)near == x ? near : __uint_as_float(__float_as_uint(near) | 1));
}

__device__ __forceinline__ e5m2 double_to_e5m2(double x) {
    const float near = __double2float_rz(x);
    return float_to_e5m2((double)near == x ? near : __uint_as_float(__float_as_uint(near) | 1));
}

__device__ __forceinline__ e5m2 int_to_e5m2(int x) {
    const float near = __int2float_rz(x);
    return float_to_e5m2((int)near == x ? near : __uint_as_float(__float_as_uint(near) | 1));
}

__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float inverse_quick(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float tanh_fitted(float x) {
    const float a = fabsf(x), t = __fmul_rn(x, x);
    const float p = fmaf(fmaf(-4.78118509e-2f, t, 1.32780224e-1f), t, -3.33319008e-1f);
    const float far = fmaf(-2.0f, inverse_quick(1.0f + exp2_approx(__fmul_rn(a, 2.88539008f))), 1.0f);
    return copysignf(a < 0.4f ? fmaf(__fmul_rn(p, t), a, a) : far, x);
}

__device__ __forceinline__ float normcdf_fitted(float x) {
    const float a = fabsf(x);
    float p = -4.25253290e-7f;
    p = fmaf(p, a, 7.06915807e-6f);
    p = fmaf(p, a, -1.32947289e-5f);
    p = fmaf(p, a, -6.07268070e-4f);
    p = fmaf(p, a, 7.74955051e-3f);
    p = fmaf(p, a, -5.30172735e-2f);
    p = fmaf(p, a, -4.59023476e-1f);
    p = fmaf(p, a, -1.15112877f);
    p = fmaf(p, a, -9.99999523e-1f);
    const float beyond = exp2_approx(p);
    return x < 0.0f ? beyond : 1.0f - beyond;
}

__device__ __forceinline__ float fmaxf_nan(float x, float y) {
#if __CUDA_ARCH__ >= 800
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
#else
    return x != x || y != y ? x + y : fmaxf(x, y);
#endif
}

__device__ __forceinline__ float fminf_nan(float x, float y) {
#if __CUDA_ARCH__ >= 800
    float z;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
#else
    return x != x || y != y ? x + y : fminf(x, y);
#endif
}

__device__ __forceinline__ double fmax_nan(double x, double y) {
    return x != x || y != y ? x + y : fmax(x, y);
}

__device__ __forceinline__ double fmin_nan(double x, double y) {
    return x != x || y != y ? x + y : fmin(x, y);
}

__device__ __forceinline__ int double_to_int(double x) {
    return x == x ? __double2int_rn(x) : 0;
}

__device__ __forceinline__ signed char saturate_i8(int x) {
    return max(-128, min(127, x));
}

extern "C" __global__ void __launch_bounds__(32)
scalars_through_f32(
    const double* __restrict__ x_f64,
    const float* __restrict__ x_f32,
    const half* __restrict__ x_f16,
    const int* __restrict__ x_i32,
    const signed char* __restrict__ x_i8,
    const tf32* __restrict__ x_tf32,
    const e4m3* __restrict__ x_e4m3,
    const e5m2* __restrict__ x_e5m2,
    double* __restrict__ y_f64,
    float* __restrict__ y_f32,
    half* __restrict__ y_f16,
    int* __restrict__ y_i32,
    signed char* __restrict__ y_i8,
    tf32* __restrict__ y_tf32,
    e4m3* __restrict__ y_e4m3,
    e5m2* __restrict__ y_e5m2,
    double p_f64,
    float p_f32,
    half p_f16,
    int p_i32,
    signed char p_i8,
    tf32 p_tf32,
    e4m3 p_e4m3,
    e5m2 p_e5m2) {
    // f64
    y_f64[0] = -x_f64[0];
    y_f64[1] = fabs(x_f64[0]);
    y_f64[2] = exp(x_f64[0]);
    y_f64[3] = log(x_f64[0]);
    y_f64[4] = tanh(x_f64[0]);
    y_f64[5] = sqrt(x_f64[0]);
    y_f64[6] = rsqrt(x_f64[0]);
    y_f64[7] = erf(x_f64[0]);
    y_f64[8] = normcdf(x_f64[0]);
    y_f64[9] = exp2(x_f64[0]);
    y_f64[10] = log2(x_f64[0]);
    y_f64[11] = log1p(x_f64[0]);
    y_f64[12] = expm1(x_f64[0]);
    y_f64[13] = floor(x_f64[0]);
    y_f64[14] = ceil(x_f64[0]);
    y_f64[15] = +x_f64[0];
    y_f64[16] = +x_f64[0];
    y_f64[17] = x_f64[0] + x_f64[1];
    y_f64[18] = x_f64[0] - x_f64[1];
    y_f64[19] = __dmul_rn(x_f64[0], x_f64[1]);
    y_f64[20] = x_f64[0] / x_f64[1];
    y_f64[21] = fmax_nan(x_f64[0], x_f64[1]);
    y_f64[22] = fmin_nan(x_f64[0], x_f64[1]);
    y_f64[23] = x_f64[0] < x_f64[1] ? 1.0 : 0.0;
    y_f64[24] = x_f64[0] <= x_f64[1] ? 1.0 : 0.0;
    y_f64[25] = x_f64[0] == x_f64[1] ? 1.0 : 0.0;
    y_f64[26] = pow(x_f64[0], x_f64[1]);
    y_f32[0] = (float)x_f64[0];
    y_f16[0] = double_to_half(x_f64[0]);
    y_i32[0] = double_to_int(x_f64[0]);
    y_i8[0] = saturate_i8(double_to_int(x_f64[0]));
    y_tf32[0] = double_to_tf32(x_f64[0]);
    y_e4m3[0] = double_to_e4m3(x_f64[0]);
    y_e5m2[0] = double_to_e5m2(x_f64[0]);
    y_f64[27] = x_f64[0] - (x_f64[0] + x_f64[1] - p_f64);
    y_f64[28] = __dmul_rn(x_f64[0], x_f64[1]) + -(-x_f64[0]);
    y_f64[29] = x_f64[0] / __dmul_rn(x_f64[0], x_f64[0] == x_f64[1] ? 1.0 : 0.0);
    y_f64[30] = x_f64[0] < x_f64[1] ? x_f64[0] : fabs(x_f64[1]);
    y_f64[31] = x_f64[0] != 0.0 ? -2.5 : 0.1;

    // f32
    y_f32[1] = -x_f32[0];
    y_f32[2] = fabsf(x_f32[0]);
    y_f32[3] = expf(x_f32[0]);
    y_f32[4] = logf(x_f32[0]);
    y_f32[5] = tanh_fitted(x_f32[0]);
    y_f32[6] = sqrtf(x_f32[0]);
    y_f32[7] = rsqrtf(x_f32[0]);
    y_f32[8] = erff(x_f32[0]);
    y_f32[9] = normcdf_fitted(x_f32[0]);
    y_f32[10] = exp2_approx(x_f32[0]);
    y_f32[11] = log2f(x_f32[0]);
    y_f32[12] = log1pf(x_f32[0]);
    y_f32[13] = expm1f(x_f32[0]);
    y_f32[14] = floorf(x_f32[0]);
    y_f32[15] = ceilf(x_f32[0]);
    y_f32[16] = +x_f32[0];
    y_f32[17] = +x_f32[0];
    y_f32[18] = x_f32[0] + x_f32[1];
    y_f32[19] = x_f32[0] - x_f32[1];
    y_f32[20] = __fmul_rn(x_f32[0], x_f32[1]);
    y_f32[21] = x_f32[0] / x_f32[1];
    y_f32[22] = fmaxf_nan(x_f32[0], x_f32[1]);
    y_f32[23] = fminf_nan(x_f32[0], x_f32[1]);
    y_f32[24] = x_f32[0] < x_f32[1] ? 1.0f : 0.0f;
    y_f32[25] = x_f32[0] <= x_f32[1] ? 1.0f : 0.0f;
    y_f32[26] = x_f32[0] == x_f32[1] ? 1.0f : 0.0f;
    y_f32[27] = powf(x_f32[0], x_f32[1]);
    y_f64[32] = (double)x_f32[0];
    y_f16[1] = float_to_half(x_f32[0]);
    y_i32[1] = __float2int_rn(x_f32[0]);
    y_i8[1] = saturate_i8(__float2int_rn(x_f32[0]));
    y_tf32[1] = float_to_tf32(x_f32[0]);
    y_e4m3[1] = float_to_e4m3(x_f32[0]);
    y_e5m2[1] = float_to_e5m2(x_f32[0]);
    y_f32[28] = x_f32[0] - (x_f32[0] + x_f32[1] - p_f32);
    y_f32[29] = __fmul_rn(x_f32[0], x_f32[1]) + -(-x_f32[0]);
    y_f32[30] = x_f32[0] / __fmul_rn(x_f32[0], x_f32[0] == x_f32[1] ? 1.0f : 0.0f);
    y_f32[31] = x_f32[0] < x_f32[1] ? x_f32[0] : fabsf(x_f32[1]);
    y_f32[32] = x_f32[0] != 0.0f ? -2.5f : 0.1f;

    // f16
    y_f16[2] = float_to_half(-half_to_float(x_f16[0]));
    y_f16[3] = float_to_half(fabsf(half_to_float(x_f16[0])));
    y_f16[4] = float_to_half(expf(half_to_float(x_f16[0])));
    y_f16[5] = float_to_half(logf(half_to_float(x_f16[0])));
    y_f16[6] = float_to_half(tanh_fitted(half_to_float(x_f16[0])));
    y_f16[7] = float_to_half(sqrtf(half_to_float(x_f16[0])));
    y_f16[8] = float_to_half(rsqrtf(half_to_float(x_f16[0])));
    y_f16[9] = float_to_half(erff(half_to_float(x_f16[0])));
    y_f16[10] = float_to_half(normcdf_fitted(half_to_float(x_f16[0])));
    y_f16[11] = float_to_half(exp2_approx(half_to_float(x_f16[0])));
    y_f16[12] = float_to_half(log2f(half_to_float(x_f16[0])));
    y_f16[13] = float_to_half(log1pf(half_to_float(x_f16[0])));
    y_f16[14] = float_to_half(expm1f(half_to_float(x_f16[0])));
    y_f16[15] = float_to_half(floorf(half_to_float(x_f16[0])));
    y_f16[16] = float_to_half(ceilf(half_to_float(x_f16[0])));
    y_f16[17] = float_to_half(+half_to_float(x_f16[0]));
    y_f16[18] = float_to_half(+half_to_float(x_f16[0]));
    y_f16[19] = float_to_half(half_to_float(x_f16[0]) + half_to_float(x_f16[1]));
    y_f16[20] = float_to_half(half_to_float(x_f16[0]) - half_to_float(x_f16[1]));
    y_f16[21] = float_to_half(half_to_float(x_f16[0]) * half_to_float(x_f16[1]));
    y_f16[22] = float_to_half(half_to_float(x_f16[0]) / half_to_float(x_f16[1]));
    y_f16[23] = float_to_half(fmaxf_nan(half_to_float(x_f16[0]), half_to_float(x_f16[1])));
    y_f16[24] = float_to_half(fminf_nan(half_to_float(x_f16[0]), half_to_float(x_f16[1])));
    y_f16[25] = half_to_float(x_f16[0]) < half_to_float(x_f16[1]) ? half{0x3c00} : half{0x0000};
    y_f16[26] = half_to_float(x_f16[0]) <= half_to_float(x_f16[1]) ? half{0x3c00} : half{0x0000};
    y_f16[27] = half_to_float(x_f16[0]) == half_to_float(x_f16[1]) ? half{0x3c00} : half{0x0000};
    y_f16[28] = float_to_half(powf(half_to_float(x_f16[0]), half_to_float(x_f16[1])));
    y_f64[33] = (double)half_to_float(x_f16[0]);
    y_f32[33] = half_to_float(x_f16[0]);
    y_i32[2] = __float2int_rn(half_to_float(x_f16[0]));
    y_i8[2] = saturate_i8(__float2int_rn(half_to_float(x_f16[0])));
    y_tf32[2] = float_to_tf32(half_to_float(x_f16[0]));
    y_e4m3[2] = float_to_e4m3(half_to_float(x_f16[0]));
    y_e5m2[2] = float_to_e5m2(half_to_float(x_f16[0]));
    y_f16[29] = float_to_half(half_to_float(x_f16[0]) - half_to_float(float_to_half(half_to_float(float_to_half(half_to_float(x_f16[0]) + half_to_float(x_f16[1]))) - half_to_float(p_f16))));
    y_f16[30] = float_to_half(half_to_float(float_to_half(half_to_float(x_f16[0]) * half_to_float(x_f16[1]))) + -(-half_to_float(x_f16[0])));
    y_f16[31] = float_to_half(half_to_float(x_f16[0]) / half_to_float(float_to_half(half_to_float(x_f16[0]) * (half_to_float(x_f16[0]) == half_to_float(x_f16[1]) ? 1.0f : 0.0f))));
    y_f16[32] = half_to_float(x_f16[0]) < half_to_float(x_f16[1]) ? x_f16[0] : float_to_half(fabsf(half_to_float(x_f16[1])));
    y_f16[33] = half_to_float(x_f16[0]) != 0.0f ? half{0xc100} : half{0x2e66};

    // i32
    y_i32[3] = -x_i32[0];
    y_i32[4] = abs(x_i32[0]);
    y_i32[5] = +x_i32[0];
    y_i32[6] = +x_i32[0];
    y_i32[7] = x_i32[0] + x_i32[1];
    y_i32[8] = x_i32[0] - x_i32[1];
    y_i32[9] = x_i32[0] * x_i32[1];
    y_i32[10] = x_i32[0] / x_i32[1];
    y_i32[11] = max(x_i32[0], x_i32[1]);
    y_i32[12] = min(x_i32[0], x_i32[1]);
    y_i32[13] = x_i32[0] < x_i32[1] ? 1 : 0;
    y_i32[14] = x_i32[0] <= x_i32[1] ? 1 : 0;
    y_i32[15] = x_i32[0] == x_i32[1] ? 1 : 0;
    y_f64[34] = (double)x_i32[0];
    y_f32[34] = (float)x_i32[0];
    y_f16[34] = int_to_half(x_i32[0]);
    y_i8[3] = saturate_i8(x_i32[0]);
    y_tf32[3] = int_to_tf32(x_i32[0]);
    y_e4m3[3] = int_to_e4m3(x_i32[0]);
    y_e5m2[3] = int_to_e5m2(x_i32[0]);
    y_i32[16] = x_i32[0] - (x_i32[0] + x_i32[1] - p_i32);
    y_i32[17] = x_i32[0] * x_i32[1] + -(-x_i32[0]);
    y_i32[18] = x_i32[0] / (x_i32[0] * (x_i32[0] == x_i32[1] ? 1 : 0));
    y_i32[19] = x_i32[0] < x_i32[1] ? x_i32[0] : abs(x_i32[1]);
    y_i32[20] = x_i32[0] != 0 ? 3 : 7;

    // i8
    y_i8[4] = -x_i8[0];
    y_i8[5] = abs(x_i8[0]);
    y_i8[6] = +x_i8[0];
    y_i8[7] = +x_i8[0];
    y_i8[8] = x_i8[0] + x_i8[1];
    y_i8[9] = x_i8[0] - x_i8[1];
    y_i8[10] = x_i8[0] * x_i8[1];
    y_i8[11] = x_i8[0] / x_i8[1];
    y_i8[12] = max(x_i8[0], x_i8[1]);
    y_i8[13] = min(x_i8[0], x_i8[1]);
    y_i8[14] = x_i8[0] < x_i8[1] ? 1 : 0;
    y_i8[15] = x_i8[0] <= x_i8[1] ? 1 : 0;
    y_i8[16] = x_i8[0] == x_i8[1] ? 1 : 0;
    y_f64[35] = (double)x_i8[0];
    y_f32[35] = (float)x_i8[0];
    y_f16[35] = float_to_half(x_i8[0]);
    y_i32[21] = x_i8[0];
    y_tf32[4] = float_to_tf32(x_i8[0]);
    y_e4m3[4] = float_to_e4m3(x_i8[0]);
    y_e5m2[4] = float_to_e5m2(x_i8[0]);
    y_i8[17] = x_i8[0] - (signed char)((signed char)(x_i8[0] + x_i8[1]) - p_i8);
    y_i8[18] = (signed char)(x_i8[0] * x_i8[1]) + (signed char)(-((signed char)(-x_i8[0])));
    y_i8[19] = x_i8[0] / (signed char)(x_i8[0] * (x_i8[0] == x_i8[1] ? 1 : 0));
    y_i8[20] = x_i8[0] < x_i8[1] ? x_i8[0] : (signed char)abs(x_i8[1]);
    y_i8[21] = x_i8[0] != 0 ? 3 : 7;

    // tf32
    y_tf32[5] = float_to_tf32(-tf32_to_float(x_tf32[0]));
    y_tf32[6] = float_to_tf32(fabsf(tf32_to_float(x_tf32[0])));
    y_tf32[7] = float_to_tf32(expf(tf32_to_float(x_tf32[0])));
    y_tf32[8] = float_to_tf32(logf(tf32_to_float(x_tf32[0])));
    y_tf32[9] = float_to_tf32(tanh_fitted(tf32_to_float(x_tf32[0])));
    y_tf32[10] = float_to_tf32(sqrtf(tf32_to_float(x_tf32[0])));
    y_tf32[11] = float_to_tf32(rsqrtf(tf32_to_float(x_tf32[0])));
    y_tf32[12] = float_to_tf32(erff(tf32_to_float(x_tf32[0])));
    y_tf32[13] = float_to_tf32(normcdf_fitted(tf32_to_float(x_tf32[0])));
    y_tf32[14] = float_to_tf32(exp2_approx(tf32_to_float(x_tf32[0])));
    y_tf32[15] = float_to_tf32(log2f(tf32_to_float(x_tf32[0])));
    y_tf32[16] = float_to_tf32(log1pf(tf32_to_float(x_tf32[0])));
    y_tf32[17] = float_to_tf32(expm1f(tf32_to_float(x_tf32[0])));
    y_tf32[18] = float_to_tf32(floorf(tf32_to_float(x_tf32[0])));
    y_tf32[19] = float_to_tf32(ceilf(tf32_to_float(x_tf32[0])));
    y_tf32[20] = float_to_tf32(+tf32_to_float(x_tf32[0]));
    y_tf32[21] = float_to_tf32(+tf32_to_float(x_tf32[0]));
    y_tf32[22] = float_to_tf32(tf32_to_float(x_tf32[0]) + tf32_to_float(x_tf32[1]));
    y_tf32[23] = float_to_tf32(tf32_to_float(x_tf32[0]) - tf32_to_float(x_tf32[1]));
    y_tf32[24] = float_to_tf32(tf32_to_float(x_tf32[0]) * tf32_to_float(x_tf32[1]));
    y_tf32[25] = float_to_tf32(tf32_to_float(x_tf32[0]) / tf32_to_float(x_tf32[1]));
    y_tf32[26] = float_to_tf32(fmaxf_nan(tf32_to_float(x_tf32[0]), tf32_to_float(x_tf32[1])));
    y_tf32[27] = float_to_tf32(fminf_nan(tf32_to_float(x_tf32[0]), tf32_to_float(x_tf32[1])));
    y_tf32[28] = tf32_to_float(x_tf32[0]) < tf32_to_float(x_tf32[1]) ? tf32{0x3f800000} : tf32{0x00000000};
    y_tf32[29] = tf32_to_float(x_tf32[0]) <= tf32_to_float(x_tf32[1]) ? tf32{0x3f800000} : tf32{0x00000000};
    y_tf32[30] = tf32_to_float(x_tf32[0]) == tf32_to_float(x_tf32[1]) ? tf32{0x3f800000} : tf32{0x00000000};
    y_tf32[31] = float_to_tf32(powf(tf32_to_float(x_tf32[0]), tf32_to_float(x_tf32[1])));
    y_f64[36] = (double)tf32_to_float(x_tf32[0]);
    y_f32[36] = tf32_to_float(x_tf32[0]);
    y_f16[36] = float_to_half(tf32_to_float(x_tf32[0]));
    y_i32[22] = __float2int_rn(tf32_to_float(x_tf32[0]));
    y_i8[22] = saturate_i8(__float2int_rn(tf32_to_float(x_tf32[0])));
    y_e4m3[5] = float_to_e4m3(tf32_to_float(x_tf32[0]));
    y_e5m2[5] = float_to_e5m2(tf32_to_float(x_tf32[0]));
    y_tf32[32] = float_to_tf32(tf32_to_float(x_tf32[0]) - tf32_to_float(float_to_tf32(tf32_to_float(float_to_tf32(tf32_to_float(x_tf32[0]) + tf32_to_float(x_tf32[1]))) - tf32_to_float(p_tf32))));
    y_tf32[33] = float_to_tf32(tf32_to_float(float_to_tf32(tf32_to_float(x_tf32[0]) * tf32_to_float(x_tf32[1]))) + -(-tf32_to_float(x_tf32[0])));
    y_tf32[34] = float_to_tf32(tf32_to_float(x_tf32[0]) / tf32_to_float(float_to_tf32(tf32_to_float(x_tf32[0]) * (tf32_to_float(x_tf32[0]) == tf32_to_float(x_tf32[1]) ? 1.0f : 0.0f))));
    y_tf32[35] = tf32_to_float(x_tf32[0]) < tf32_to_float(x_tf32[1]) ? x_tf32[0] : float_to_tf32(fabsf(tf32_to_float(x_tf32[1])));
    y_tf32[36] = tf32_to_float(x_tf32[0]) != 0.0f ? tf32{0xc0200000} : tf32{0x3dccc000};

    // e4m3
    y_e4m3[6] = float_to_e4m3(-e4m3_to_float(x_e4m3[0]));
    y_e4m3[7] = float_to_e4m3(fabsf(e4m3_to_float(x_e4m3[0])));
    y_e4m3[8] = float_to_e4m3(expf(e4m3_to_float(x_e4m3[0])));
    y_e4m3[9] = float_to_e4m3(logf(e4m3_to_float(x_e4m3[0])));
    y_e4m3[10] = float_to_e4m3(tanh_fitted(e4m3_to_float(x_e4m3[0])));
    y_e4m3[11] = float_to_e4m3(sqrtf(e4m3_to_float(x_e4m3[0])));
    y_e4m3[12] = float_to_e4m3(rsqrtf(e4m3_to_float(x_e4m3[0])));
    y_e4m3[13] = float_to_e4m3(erff(e4m3_to_float(x_e4m3[0])));
    y_e4m3[14] = float_to_e4m3(normcdf_fitted(e4m3_to_float(x_e4m3[0])));
    y_e4m3[15] = float_to_e4m3(exp2_approx(e4m3_to_float(x_e4m3[0])));
    y_e4m3[16] = float_to_e4m3(log2f(e4m3_to_float(x_e4m3[0])));
    y_e4m3[17] = float_to_e4m3(log1pf(e4m3_to_float(x_e4m3[0])));
    y_e4m3[18] = float_to_e4m3(expm1f(e4m3_to_float(x_e4m3[0])));
    y_e4m3[19] = float_to_e4m3(floorf(e4m3_to_float(x_e4m3[0])));
    y_e4m3[20] = float_to_e4m3(ceilf(e4m3_to_float(x_e4m3[0])));
    y_e4m3[21] = float_to_e4m3(+e4m3_to_float(x_e4m3[0]));
    y_e4m3[22] = float_to_e4m3(+e4m3_to_float(x_e4m3[0]));
    y_e4m3[23] = float_to_e4m3(e4m3_to_float(x_e4m3[0]) + e4m3_to_float(x_e4m3[1]));
    y_e4m3[24] = float_to_e4m3(e4m3_to_float(x_e4m3[0]) - e4m3_to_float(x_e4m3[1]));
    y_e4m3[25] = float_to_e4m3(e4m3_to_float(x_e4m3[0]) * e4m3_to_float(x_e4m3[1]));
    y_e4m3[26] = float_to_e4m3(e4m3_to_float(x_e4m3[0]) / e4m3_to_float(x_e4m3[1]));
    y_e4m3[27] = float_to_e4m3(fmaxf_nan(e4m3_to_float(x_e4m3[0]), e4m3_to_float(x_e4m3[1])));
    y_e4m3[28] = float_to_e4m3(fminf_nan(e4m3_to_float(x_e4m3[0]), e4m3_to_float(x_e4m3[1])));
    y_e4m3[29] = e4m3_to_float(x_e4m3[0]) < e4m3_to_float(x_e4m3[1]) ? e4m3{0x38} : e4m3{0x00};
    y_e4m3[30] = e4m3_to_float(x_e4m3[0]) <= e4m3_to_float(x_e4m3[1]) ? e4m3{0x38} : e4m3{0x00};
    y_e4m3[31] = e4m3_to_float(x_e4m3[0]) == e4m3_to_float(x_e4m3[1]) ? e4m3{0x38} : e4m3{0x00};
    y_e4m3[32] = float_to_e4m3(powf(e4m3_to_float(x_e4m3[0]), e4m3_to_float(x_e4m3[1])));
    y_f64[37] = (double)e4m3_to_float(x_e4m3[0]);
    y_f32[37] = e4m3_to_float(x_e4m3[0]);
    y_f16[37] = float_to_half(e4m3_to_float(x_e4m3[0]));
    y_i32[23] = __float2int_rn(e4m3_to_float(x_e4m3[0]));
    y_i8[23] = saturate_i8(__float2int_rn(e4m3_to_float(x_e4m3[0])));
    y_tf32[37] = float_to_tf32(e4m3_to_float(x_e4m3[0]));
    y_e5m2[6] = float_to_e5m2(e4m3_to_float(x_e4m3[0]));
    y_e4m3[33] = float_to_e4m3(e4m3_to_float(x_e4m3[0]) - e4m3_to_float(float_to_e4m3(e4m3_to_float(float_to_e4m3(e4m3_to_float(x_e4m3[0]) + e4m3_to_float(x_e4m3[1]))) - e4m3_to_float(p_e4m3))));
    y_e4m3[34] = float_to_e4m3(e4m3_to_float(float_to_e4m3(e4m3_to_float(x_e4m3[0]) * e4m3_to_float(x_e4m3[1]))) + -(-e4m3_to_float(x_e4m3[0])));
    y_e4m3[35] = float_to_e4m3(e4m3_to_float(x_e4m3[0]) / e4m3_to_float(float_to_e4m3(e4m3_to_float(x_e4m3[0]) * (e4m3_to_float(x_e4m3[0]) == e4m3_to_float(x_e4m3[1]) ? 1.0f : 0.0f))));
    y_e4m3[36] = e4m3_to_float(x_e4m3[0]) < e4m3_to_float(x_e4m3[1]) ? x_e4m3[0] : float_to_e4m3(fabsf(e4m3_to_float(x_e4m3[1])));
    y_e4m3[37] = e4m3_to_float(x_e4m3[0]) != 0.0f ? e4m3{0xc2} : e4m3{0x1d};

    // e5m2
    y_e5m2[7] = float_to_e5m2(-e5m2_to_float(x_e5m2[0]));
    y_e5m2[8] = float_to_e5m2(fabsf(e5m2_to_float(x_e5m2[0])));
    y_e5m2[9] = float_to_e5m2(expf(e5m2_to_float(x_e5m2[0])));
    y_e5m2[10] = float_to_e5m2(logf(e5m2_to_float(x_e5m2[0])));
    y_e5m2[11] = float_to_e5m2(tanh_fitted(e5m2_to_float(x_e5m2[0])));
    y_e5m2[12] = float_to_e5m2(sqrtf(e5m2_to_float(x_e5m2[0])));
    y_e5m2[13] = float_to_e5m2(rsqrtf(e5m2_to_float(x_e5m2[0])));
    y_e5m2[14] = float_to_e5m2(erff(e5m2_to_float(x_e5m2[0])));
    y_e5m2[15] = float_to_e5m2(normcdf_fitted(e5m2_to_float(x_e5m2[0])));
    y_e5m2[16] = float_to_e5m2(exp2_approx(e5m2_to_float(x_e5m2[0])));
    y_e5m2[17] = float_to_e5m2(log2f(e5m2_to_float(x_e5m2[0])));
    y_e5m2[18] = float_to_e5m2(log1pf(e5m2_to_float(x_e5m2[0])));
    y_e5m2[19] = float_to_e5m2(expm1f(e5m2_to_float(x_e5m2[0])));
    y_e5m2[20] = float_to_e5m2(floorf(e5m2_to_float(x_e5m2[0])));
    y_e5m2[21] = float_to_e5m2(ceilf(e5m2_to_float(x_e5m2[0])));
    y_e5m2[22] = float_to_e5m2(+e5m2_to_float(x_e5m2[0]));
    y_e5m2[23] = float_to_e5m2(+e5m2_to_float(x_e5m2[0]));
    y_e5m2[24] = float_to_e5m2(e5m2_to_float(x_e5m2[0]) + e5m2_to_float(x_e5m2[1]));
    y_e5m2[25] = float_to_e5m2(e5m2_to_float(x_e5m2[0]) - e5m2_to_float(x_e5m2[1]));
    y_e5m2[26] = float_to_e5m2(e5m2_to_float(x_e5m2[0]) * e5m2_to_float(x_e5m2[1]));
    y_e5m2[27] = float_to_e5m2(e5m2_to_float(x_e5m2[0]) / e5m2_to_float(x_e5m2[1]));
    y_e5m2[28] = float_to_e5m2(fmaxf_nan(e5m2_to_float(x_e5m2[0]), e5m2_to_float(x_e5m2[1])));
    y_e5m2[29] = float_to_e5m2(fminf_nan(e5m2_to_float(x_e5m2[0]), e5m2_to_float(x_e5m2[1])));
    y_e5m2[30] = e5m2_to_float(x_e5m2[0]) < e5m2_to_float(x_e5m2[1]) ? e5m2{0x3c} : e5m2{0x00};
    y_e5m2[31] = e5m2_to_float(x_e5m2[0]) <= e5m2_to_float(x_e5m2[1]) ? e5m2{0x3c} : e5m2{0x00};
    y_e5m2[32] = e5m2_to_float(x_e5m2[0]) == e5m2_to_float(x_e5m2[1]) ? e5m2{0x3c} : e5m2{0x00};
    y_e5m2[33] = float_to_e5m2(powf(e5m2_to_float(x_e5m2[0]), e5m2_to_float(x_e5m2[1])));
    y_f64[38] = (double)e5m2_to_float(x_e5m2[0]);
    y_f32[38] = e5m2_to_float(x_e5m2[0]);
    y_f16[38] = float_to_half(e5m2_to_float(x_e5m2[0]));
    y_i32[24] = __float2int_rn(e5m2_to_float(x_e5m2[0]));
    y_i8[24] = saturate_i8(__float2int_rn(e5m2_to_float(x_e5m2[0])));
    y_tf32[38] = float_to_tf32(e5m2_to_float(x_e5m2[0]));
    y_e4m3[38] = float_to_e4m3(e5m2_to_float(x_e5m2[0]));
    y_e5m2[34] = float_to_e5m2(e5m2_to_float(x_e5m2[0]) - e5m2_to_float(float_to_e5m2(e5m2_to_float(float_to_e5m2(e5m2_to_float(x_e5m2[0]) + e5m2_to_float(x_e5m2[1]))) - e5m2_to_float(p_e5m2))));
    y_e5m2[35] = float_to_e5m2(e5m2_to_float(float_to_e5m2(e5m2_to_float(x_e5m2[0]) * e5m2_to_float(x_e5m2[1]))) + -(-e5m2_to_float(x_e5m2[0])));
    y_e5m2[36] = float_to_e5m2(e5m2_to_float(x_e5m2[0]) / e5m2_to_float(float_to_e5m2(e5m2_to_float(x_e5m2[0]) * (e5m2_to_float(x_e5m2[0]) == e5m2_to_float(x_e5m2[1]) ? 1.0f : 0.0f))));
    y_e5m2[37] = e5m2_to_float(x_e5m2[0]) < e5m2_to_float(x_e5m2[1]) ? x_e5m2[0] : float_to_e5m2(fabsf(e5m2_to_float(x_e5m2[1])));
    y_e5m2[38] = e5m2_to_float(x_e5m2[0]) != 0.0f ? e5m2{0xc1} : e5m2{0x2e};
}

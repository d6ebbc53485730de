struct half { unsigned short bits; };
struct bf16 { unsigned short bits; };

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

__device__ __forceinline__ half longlong_to_half(long long x) {
    half y;
    asm("cvt.rn.f16.s64 %0, %1;" : "=h"(y.bits) : "l"(x));
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

__device__ __forceinline__ bf16 double_to_bf16(double x) {
    const float near = __double2float_rz(x);
    return float_to_bf16((double)near == x ? near : __uint_as_float(__float_as_uint(near) | 1));
}

__device__ __forceinline__ bf16 int_to_bf16(int x) {
    const float near = __int2float_rz(x);
    return float_to_bf16((int)near == x ? near : __uint_as_float(__float_as_uint(near) | 1));
}

__device__ __forceinline__ bf16 longlong_to_bf16(long long x) {
    const float near = __ll2float_rz(x);
    return float_to_bf16((long long)near == x ? near : __uint_as_float(__float_as_uint(near) | 1));
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

__device__ __forceinline__ long long float_to_longlong(float x) {
    return x == x ? __float2ll_rn(x) : 0;
}

__device__ __forceinline__ long long double_to_longlong(double x) {
    return x == x ? __double2ll_rn(x) : 0;
}

__device__ __forceinline__ int saturate_i32(long long x) {
    return (int)max(-2147483648LL, min(2147483647LL, x));
}

__device__ __forceinline__ signed char saturate_i8(int x) {
    return max(-128, min(127, x));
}

__device__ __forceinline__ unsigned char saturate_u8(int x) {
    return max(0, min(255, x));
}

extern "C" __global__ void __launch_bounds__(32)
every_scalar(
    const double* __restrict__ x_f64,
    const float* __restrict__ x_f32,
    const half* __restrict__ x_f16,
    const bf16* __restrict__ x_bf16,
    const long long* __restrict__ x_i64,
    const int* __restrict__ x_i32,
    const signed char* __restrict__ x_i8,
    const unsigned char* __restrict__ x_u8,
    double* __restrict__ y_f64,
    float* __restrict__ y_f32,
    half* __restrict__ y_f16,
    bf16* __restrict__ y_bf16,
    long long* __restrict__ y_i64,
    int* __restrict__ y_i32,
    signed char* __restrict__ y_i8,
    unsigned char* __restrict__ y_u8,
    double p_f64,
    float p_f32,
    half p_f16,
    bf16 p_bf16,
    long long p_i64,
    int p_i32,
    signed char p_i8,
    unsigned char p_u8) {
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
    y_bf16[0] = double_to_bf16(x_f64[0]);
    y_i64[0] = double_to_longlong(x_f64[0]);
    y_i32[0] = double_to_int(x_f64[0]);
    y_i8[0] = saturate_i8(double_to_int(x_f64[0]));
    y_u8[0] = saturate_u8(double_to_int(x_f64[0]));
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
    y_bf16[1] = float_to_bf16(x_f32[0]);
    y_i64[1] = float_to_longlong(x_f32[0]);
    y_i32[1] = __float2int_rn(x_f32[0]);
    y_i8[1] = saturate_i8(__float2int_rn(x_f32[0]));
    y_u8[1] = saturate_u8(__float2int_rn(x_f32[0]));
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
    y_bf16[2] = float_to_bf16(half_to_float(x_f16[0]));
    y_i64[2] = float_to_longlong(half_to_float(x_f16[0]));
    y_i32[2] = __float2int_rn(half_to_float(x_f16[0]));
    y_i8[2] = saturate_i8(__float2int_rn(half_to_float(x_f16[0])));
    y_u8[2] = saturate_u8(__float2int_rn(half_to_float(x_f16[0])));
    y_f16[29] = float_to_half(half_to_float(x_f16[0]) - half_to_float(float_to_half(half_to_float(float_to_half(half_to_float(x_f16[0]) + half_to_float(x_f16[1]))) - half_to_float(p_f16))));
    y_f16[30] = float_to_half(half_to_float(float_to_half(half_to_float(x_f16[0]) * half_to_float(x_f16[1]))) + -(-half_to_float(x_f16[0])));
    y_f16[31] = float_to_half(half_to_float(x_f16[0]) / half_to_float(float_to_half(half_to_float(x_f16[0]) * (half_to_float(x_f16[0]) == half_to_float(x_f16[1]) ? 1.0f : 0.0f))));
    y_f16[32] = half_to_float(x_f16[0]) < half_to_float(x_f16[1]) ? x_f16[0] : float_to_half(fabsf(half_to_float(x_f16[1])));
    y_f16[33] = half_to_float(x_f16[0]) != 0.0f ? half{0xc100} : half{0x2e66};

    // bf16
    y_bf16[3] = float_to_bf16(-bf16_to_float(x_bf16[0]));
    y_bf16[4] = float_to_bf16(fabsf(bf16_to_float(x_bf16[0])));
    y_bf16[5] = float_to_bf16(expf(bf16_to_float(x_bf16[0])));
    y_bf16[6] = float_to_bf16(logf(bf16_to_float(x_bf16[0])));
    y_bf16[7] = float_to_bf16(tanh_fitted(bf16_to_float(x_bf16[0])));
    y_bf16[8] = float_to_bf16(sqrtf(bf16_to_float(x_bf16[0])));
    y_bf16[9] = float_to_bf16(rsqrtf(bf16_to_float(x_bf16[0])));
    y_bf16[10] = float_to_bf16(erff(bf16_to_float(x_bf16[0])));
    y_bf16[11] = float_to_bf16(normcdf_fitted(bf16_to_float(x_bf16[0])));
    y_bf16[12] = float_to_bf16(exp2_approx(bf16_to_float(x_bf16[0])));
    y_bf16[13] = float_to_bf16(log2f(bf16_to_float(x_bf16[0])));
    y_bf16[14] = float_to_bf16(log1pf(bf16_to_float(x_bf16[0])));
    y_bf16[15] = float_to_bf16(expm1f(bf16_to_float(x_bf16[0])));
    y_bf16[16] = float_to_bf16(floorf(bf16_to_float(x_bf16[0])));
    y_bf16[17] = float_to_bf16(ceilf(bf16_to_float(x_bf16[0])));
    y_bf16[18] = float_to_bf16(+bf16_to_float(x_bf16[0]));
    y_bf16[19] = float_to_bf16(+bf16_to_float(x_bf16[0]));
    y_bf16[20] = float_to_bf16(bf16_to_float(x_bf16[0]) + bf16_to_float(x_bf16[1]));
    y_bf16[21] = float_to_bf16(bf16_to_float(x_bf16[0]) - bf16_to_float(x_bf16[1]));
    y_bf16[22] = float_to_bf16(bf16_to_float(x_bf16[0]) * bf16_to_float(x_bf16[1]));
    y_bf16[23] = float_to_bf16(bf16_to_float(x_bf16[0]) / bf16_to_float(x_bf16[1]));
    y_bf16[24] = float_to_bf16(fmaxf_nan(bf16_to_float(x_bf16[0]), bf16_to_float(x_bf16[1])));
    y_bf16[25] = float_to_bf16(fminf_nan(bf16_to_float(x_bf16[0]), bf16_to_float(x_bf16[1])));
    y_bf16[26] = bf16_to_float(x_bf16[0]) < bf16_to_float(x_bf16[1]) ? bf16{0x3f80} : bf16{0x0000};
    y_bf16[27] = bf16_to_float(x_bf16[0]) <= bf16_to_float(x_bf16[1]) ? bf16{0x3f80} : bf16{0x0000};
    y_bf16[28] = bf16_to_float(x_bf16[0]) == bf16_to_float(x_bf16[1]) ? bf16{0x3f80} : bf16{0x0000};
    y_bf16[29] = float_to_bf16(powf(bf16_to_float(x_bf16[0]), bf16_to_float(x_bf16[1])));
    y_f64[34] = (double)bf16_to_float(x_bf16[0]);
    y_f32[34] = bf16_to_float(x_bf16[0]);
    y_f16[34] = float_to_half(bf16_to_float(x_bf16[0]));
    y_i64[3] = float_to_longlong(bf16_to_float(x_bf16[0]));
    y_i32[3] = __float2int_rn(bf16_to_float(x_bf16[0]));
    y_i8[3] = saturate_i8(__float2int_rn(bf16_to_float(x_bf16[0])));
    y_u8[3] = saturate_u8(__float2int_rn(bf16_to_float(x_bf16[0])));
    y_bf16[30] = float_to_bf16(bf16_to_float(x_bf16[0]) - bf16_to_float(float_to_bf16(bf16_to_float(float_to_bf16(bf16_to_float(x_bf16[0]) + bf16_to_float(x_bf16[1]))) - bf16_to_float(p_bf16))));
    y_bf16[31] = float_to_bf16(bf16_to_float(float_to_bf16(bf16_to_float(x_bf16[0]) * bf16_to_float(x_bf16[1]))) + -(-bf16_to_float(x_bf16[0])));
    y_bf16[32] = float_to_bf16(bf16_to_float(x_bf16[0]) / bf16_to_float(float_to_bf16(bf16_to_float(x_bf16[0]) * (bf16_to_float(x_bf16[0]) == bf16_to_float(x_bf16[1]) ? 1.0f : 0.0f))));
    y_bf16[33] = bf16_to_float(x_bf16[0]) < bf16_to_float(x_bf16[1]) ? x_bf16[0] : float_to_bf16(fabsf(bf16_to_float(x_bf16[1])));
    y_bf16[34] = bf16_to_float(x_bf16[0]) != 0.0f ? bf16{0xc020} : bf16{0x3dcd};

    // i64
    y_i64[4] = -x_i64[0];
    y_i64[5] = abs(x_i64[0]);
    y_i64[6] = +x_i64[0];
    y_i64[7] = +x_i64[0];
    y_i64[8] = x_i64[0] + x_i64[1];
    y_i64[9] = x_i64[0] - x_i64[1];
    y_i64[10] = x_i64[0] * x_i64[1];
    y_i64[11] = x_i64[0] / x_i64[1];
    y_i64[12] = max(x_i64[0], x_i64[1]);
    y_i64[13] = min(x_i64[0], x_i64[1]);
    y_i64[14] = x_i64[0] < x_i64[1] ? 1LL : 0LL;
    y_i64[15] = x_i64[0] <= x_i64[1] ? 1LL : 0LL;
    y_i64[16] = x_i64[0] == x_i64[1] ? 1LL : 0LL;
    y_f64[35] = (double)x_i64[0];
    y_f32[35] = (float)x_i64[0];
    y_f16[35] = longlong_to_half(x_i64[0]);
    y_bf16[35] = longlong_to_bf16(x_i64[0]);
    y_i32[4] = saturate_i32(x_i64[0]);
    y_i8[4] = saturate_i8(saturate_i32(x_i64[0]));
    y_u8[4] = saturate_u8(saturate_i32(x_i64[0]));
    y_i64[17] = x_i64[0] - (x_i64[0] + x_i64[1] - p_i64);
    y_i64[18] = x_i64[0] * x_i64[1] + -(-x_i64[0]);
    y_i64[19] = x_i64[0] / (x_i64[0] * (x_i64[0] == x_i64[1] ? 1LL : 0LL));
    y_i64[20] = x_i64[0] < x_i64[1] ? x_i64[0] : abs(x_i64[1]);
    y_i64[21] = x_i64[0] != 0LL ? 3LL : 7LL;

    // i32
    y_i32[5] = -x_i32[0];
    y_i32[6] = abs(x_i32[0]);
    y_i32[7] = +x_i32[0];
    y_i32[8] = +x_i32[0];
    y_i32[9] = x_i32[0] + x_i32[1];
    y_i32[10] = x_i32[0] - x_i32[1];
    y_i32[11] = x_i32[0] * x_i32[1];
    y_i32[12] = x_i32[0] / x_i32[1];
    y_i32[13] = max(x_i32[0], x_i32[1]);
    y_i32[14] = min(x_i32[0], x_i32[1]);
    y_i32[15] = x_i32[0] < x_i32[1] ? 1 : 0;
    y_i32[16] = x_i32[0] <= x_i32[1] ? 1 : 0;
    y_i32[17] = x_i32[0] == x_i32[1] ? 1 : 0;
    y_f64[36] = (double)x_i32[0];
    y_f32[36] = (float)x_i32[0];
    y_f16[36] = int_to_half(x_i32[0]);
    y_bf16[36] = int_to_bf16(x_i32[0]);
    y_i64[22] = (long long)x_i32[0];
    y_i8[5] = saturate_i8(x_i32[0]);
    y_u8[5] = saturate_u8(x_i32[0]);
    y_i32[18] = x_i32[0] - (x_i32[0] + x_i32[1] - p_i32);
    y_i32[19] = x_i32[0] * x_i32[1] + -(-x_i32[0]);
    y_i32[20] = x_i32[0] / (x_i32[0] * (x_i32[0] == x_i32[1] ? 1 : 0));
    y_i32[21] = x_i32[0] < x_i32[1] ? x_i32[0] : abs(x_i32[1]);
    y_i32[22] = x_i32[0] != 0 ? 3 : 7;

    // i8
    y_i8[6] = -x_i8[0];
    y_i8[7] = abs(x_i8[0]);
    y_i8[8] = +x_i8[0];
    y_i8[9] = +x_i8[0];
    y_i8[10] = x_i8[0] + x_i8[1];
    y_i8[11] = x_i8[0] - x_i8[1];
    y_i8[12] = x_i8[0] * x_i8[1];
    y_i8[13] = x_i8[0] / x_i8[1];
    y_i8[14] = max(x_i8[0], x_i8[1]);
    y_i8[15] = min(x_i8[0], x_i8[1]);
    y_i8[16] = x_i8[0] < x_i8[1] ? 1 : 0;
    y_i8[17] = x_i8[0] <= x_i8[1] ? 1 : 0;
    y_i8[18] = x_i8[0] == x_i8[1] ? 1 : 0;
    y_f64[37] = (double)x_i8[0];
    y_f32[37] = (float)x_i8[0];
    y_f16[37] = float_to_half(x_i8[0]);
    y_bf16[37] = float_to_bf16(x_i8[0]);
    y_i64[23] = (long long)x_i8[0];
    y_i32[23] = x_i8[0];
    y_u8[6] = saturate_u8(x_i8[0]);
    y_i8[19] = x_i8[0] - (signed char)((signed char)(x_i8[0] + x_i8[1]) - p_i8);
    y_i8[20] = (signed char)(x_i8[0] * x_i8[1]) + (signed char)(-((signed char)(-x_i8[0])));
    y_i8[21] = x_i8[0] / (signed char)(x_i8[0] * (x_i8[0] == x_i8[1] ? 1 : 0));
    y_i8[22] = x_i8[0] < x_i8[1] ? x_i8[0] : (signed char)abs(x_i8[1]);
    y_i8[23] = x_i8[0] != 0 ? 3 : 7;

    // u8
    y_u8[7] = -x_u8[0];
    y_u8[8] = abs(x_u8[0]);
    y_u8[9] = +x_u8[0];
    y_u8[10] = +x_u8[0];
    y_u8[11] = x_u8[0] + x_u8[1];
    y_u8[12] = x_u8[0] - x_u8[1];
    y_u8[13] = x_u8[0] * x_u8[1];
    y_u8[14] = x_u8[0] / x_u8[1];
    y_u8[15] = max(x_u8[0], x_u8[1]);
    y_u8[16] = min(x_u8[0], x_u8[1]);
    y_u8[17] = x_u8[0] < x_u8[1] ? 1 : 0;
    y_u8[18] = x_u8[0] <= x_u8[1] ? 1 : 0;
    y_u8[19] = x_u8[0] == x_u8[1] ? 1 : 0;
    y_f64[38] = (double)x_u8[0];
    y_f32[38] = (float)x_u8[0];
    y_f16[38] = float_to_half(x_u8[0]);
    y_bf16[38] = float_to_bf16(x_u8[0]);
    y_i64[24] = (long long)x_u8[0];
    y_i32[24] = x_u8[0];
    y_i8[24] = saturate_i8(x_u8[0]);
    y_u8[20] = x_u8[0] - (unsigned char)((unsigned char)(x_u8[0] + x_u8[1]) - p_u8);
    y_u8[21] = (unsigned char)(x_u8[0] * x_u8[1]) + (unsigned char)(-((unsigned char)(-x_u8[0])));
    y_u8[22] = x_u8[0] / (unsigned char)(x_u8[0] * (x_u8[0] == x_u8[1] ? 1 : 0));
    y_u8[23] = x_u8[0] < x_u8[1] ? x_u8[0] : (unsigned char)abs(x_u8[1]);
    y_u8[24] = x_u8[0] != 0 ? 3 : 7;
}

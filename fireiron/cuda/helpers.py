"""Small device functions that printed code calls; each is printed only where something calls it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from fireiron.atoms.flights import HELPERS_OF_FLIGHTS

# A conversion that two roundings would spoil goes through f32 with a sticky last bit: truncated, then set where
# something was lost.
_FROM_DOUBLE: Final = """\
__device__ __forceinline__ {kind} double_to_{kind}(double x) {{
    const float near = __double2float_rz(x);
    return float_to_{kind}((double)near == x ? near : __uint_as_float(__float_as_uint(near) | 1));
}}
"""
_FROM_WHOLE: Final = """\
__device__ __forceinline__ {kind} {name}_to_{kind}({whole} x) {{
    const float near = __{short}2float_rz(x);
    return float_to_{kind}(({whole})near == x ? near : __uint_as_float(__float_as_uint(near) | 1));
}}
"""


def _from_whole(kind: str) -> dict[str, str]:
    """Return the conversions of int and long long to a float that C lacks, by name."""
    return {
        f"{name}_to_{kind}": _FROM_WHOLE.format(kind=kind, name=name, whole=whole, short=short)
        for name, whole, short in (("int", "int", "int"), ("longlong", "long long", "ll"))
    }


# 8-bit floats convert in pairs; the second of the source is the lower byte.
_WIDEN: Final = """\
__device__ __forceinline__ float {kind}_to_float({kind} x) {{
    unsigned pair;
    float y;
    asm("cvt.rn.f16x2.{kind}x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x.bits));
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)pair));
    return y;
}}
"""
_NARROW: Final = """\
__device__ __forceinline__ {kind} float_to_{kind}(float x) {{
    unsigned short pair;
    asm("cvt.rn.satfinite.{kind}x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
    return {kind}{{(unsigned char)pair}};
}}
"""

_NARROW_PAIR: Final = """\
__device__ __forceinline__ unsigned short floats_to_{kind}_pair(float low, float high) {{
    unsigned short pair;
    asm("cvt.rn.satfinite.{kind}x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}}
"""

# Two 16-bit floats in a register, the one that comes first in memory in its lower half.
_BOUND_PAIR: Final = """\
__device__ __forceinline__ unsigned {op}_{kind}_pair(unsigned x, unsigned y) {{
    unsigned z;
    asm("{op}.NaN.{ptx}x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
}}
"""
# Of a NaN the result is NaN, as NumPy's and torch's is. Source: PTX ISA 9.7.3.14 and 9.7.3.15, max and min.
_BOUND: Final = """\
__device__ __forceinline__ float f{op}f_nan(float x, float y) {{
#if __CUDA_ARCH__ >= 800
    float z;
    asm("{op}.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
#else
    return x != x || y != y ? x + y : f{op}f(x, y);
#endif
}}
"""
_BOUND_DOUBLE: Final = """\
__device__ __forceinline__ double f{op}_nan(double x, double y) {{
    return x != x || y != y ? x + y : f{op}(x, y);
}}
"""
_CALCULATE_PAIR: Final = """\
__device__ __forceinline__ unsigned {op}_half_pair(unsigned x, unsigned y) {{
    unsigned z;
    asm("{op}.rn.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
}}
"""

_WAIT: Final = """\
__device__ __forceinline__ void mbarrier_wait(unsigned long long* barrier, int parity) {
    const unsigned address = shared_address(barrier);
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(done) : "r"(address), "r"(parity) : "memory");
    } while (!done);
}
"""
# __assertfail is the driver's: it prints `file:line: text: block: [...], thread: [...] Assertion `what` failed.`
_WAIT_BOUNDED: Final = """\
__device__ __forceinline__ void mbarrier_wait_bounded(
    unsigned long long* barrier, int parity, const char* what, const char* file, int line, const char* text) {
    const unsigned address = shared_address(barrier);
    const long long start = clock64();
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(done) : "r"(address), "r"(parity) : "memory");
        if (!done && clock64() - start > (1ll << 34)) __assertfail(what, file, line, text, 1);
    } while (!done);
}
"""
_ARRIVE_AT: Final = """\
__device__ __forceinline__ void mbarrier_arrive_at(unsigned long long* barrier, int rank) {
    asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; "
        "mbarrier.arrive.shared::cluster.b64 _, [remote]; }"
        : : "r"(shared_address(barrier)), "r"(rank) : "memory");
}
"""

_ACQUIRE: Final = ("try_wait.parity.", "try_wait.parity.acquire.cluster.")
_RELEASE: Final = ("mbarrier.arrive.", "mbarrier.arrive.release.cluster.")

# In an order in which each comes after those that it calls.
HELPERS: Final = {
    "half_to_float": """\
__device__ __forceinline__ float half_to_float(half x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
""",
    "float_to_half": """\
__device__ __forceinline__ half float_to_half(float x) {
    half y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}
""",
    "double_to_half": """\
__device__ __forceinline__ half double_to_half(double x) {
    half y;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.bits) : "d"(x));
    return y;
}
""",
    "int_to_half": """\
__device__ __forceinline__ half int_to_half(int x) {
    half y;
    asm("cvt.rn.f16.s32 %0, %1;" : "=h"(y.bits) : "r"(x));
    return y;
}
""",
    "longlong_to_half": """\
__device__ __forceinline__ half longlong_to_half(long long x) {
    half y;
    asm("cvt.rn.f16.s64 %0, %1;" : "=h"(y.bits) : "l"(x));
    return y;
}
""",
    "bf16_to_float": """\
__device__ __forceinline__ float bf16_to_float(bf16 x) {
    float y;
    asm("mov.b32 %0, {%1, %2};" : "=f"(y) : "h"(static_cast<unsigned short>(0)), "h"(x.bits));
    return y;
}
""",
    "floats_to_half_pair": """\
__device__ __forceinline__ unsigned floats_to_half_pair(float low, float high) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
""",
    "floats_to_bf16_pair": """\
__device__ __forceinline__ unsigned floats_to_bf16_pair(float low, float high) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
""",
    **{f"floats_to_{kind}_pair": _NARROW_PAIR.format(kind=kind) for kind in ("e4m3", "e5m2")},
    "put_bytes": """\
template <typename T>
__device__ __forceinline__ void put_bytes(T* place, unsigned short pair) {
    *reinterpret_cast<unsigned short*>(place) = pair;
}
""",
    "float_to_bf16": """\
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
""",
    "double_to_bf16": _FROM_DOUBLE.format(kind="bf16"),
    **_from_whole("bf16"),
    "tf32_to_float": """\
__device__ __forceinline__ float tf32_to_float(tf32 x) {
    return __uint_as_float(x.bits & 0xffffe000);
}
""",
    "float_to_tf32": """\
__device__ __forceinline__ tf32 float_to_tf32(float x) {
    tf32 y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y.bits) : "f"(x));
    return y;
}
""",
    "e4m3_to_float": _WIDEN.format(kind="e4m3"),
    "float_to_e4m3": _NARROW.format(kind="e4m3"),
    "e5m2_to_float": _WIDEN.format(kind="e5m2"),
    "float_to_e5m2": _NARROW.format(kind="e5m2"),
    **{
        name: text
        for kind in ("tf32", "e4m3", "e5m2")
        for name, text in {f"double_to_{kind}": _FROM_DOUBLE.format(kind=kind), **_from_whole(kind)}.items()
    },
    "pack_pair": """\
template <typename T>
__device__ __forceinline__ unsigned pack_pair(T low, T high) {
    return low.bits | (unsigned)high.bits << 16;
}
""",
    "pair_at": """\
template <typename T>
__device__ __forceinline__ unsigned pair_at(const T* place) {
    return *reinterpret_cast<const unsigned*>(place);
}
""",
    "put_pair": """\
template <typename T>
__device__ __forceinline__ void put_pair(T* place, unsigned pair) {
    *reinterpret_cast<unsigned*>(place) = pair;
}
""",
    **{
        f"{op}_{kind}_pair": _BOUND_PAIR.format(op=op, kind=kind, ptx=ptx)
        for kind, ptx in (("half", "f16"), ("bf16", "bf16"))
        for op in ("max", "min")
    },
    "exp2_approx": """\
__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
""",
    # Without branches, and within two units in the last place for divisors of any size.
    "divide_quick": """\
__device__ __forceinline__ float divide_quick(float x, float y) {
    float z;
    asm("div.full.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}
""",
    # One instruction, off by one unit in the last place; 0 where the inverse is below the smallest normal number.
    "inverse_quick": """\
__device__ __forceinline__ float inverse_quick(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
""",
    # A division by a constant, without branches: the product with its inverse is corrected by what it leaves of x.
    "divide_by": """\
__device__ __forceinline__ float divide_by(float x, float y, float inverse) {
    const float z = __fmul_rn(x, inverse);
    return fabsf(z) < __int_as_float(0x7f800000) ? fmaf(fmaf(-z, y, x), inverse, z) : z;
}
""",
    # Where |x| < 0.4, the result is |x| plus |x|^3 times a polynomial of x^2 that is fitted there: off by 2.9 roundings
    # at most. Elsewhere it is 1 - 2 / (1 + exp(2 |x|)): exp is off by 2^-22, the inverse by one unit in the last place.
    "tanh_fitted": """\
__device__ __forceinline__ float tanh_fitted(float x) {
    const float a = fabsf(x), t = __fmul_rn(x, x);
    const float p = fmaf(fmaf(-4.78118509e-2f, t, 1.32780224e-1f), t, -3.33319008e-1f);
    const float far = fmaf(-2.0f, inverse_quick(1.0f + exp2_approx(__fmul_rn(a, 2.88539008f))), 1.0f);
    return copysignf(a < 0.4f ? fmaf(__fmul_rn(p, t), a, a) : far, x);
}
""",
    # The normal distribution below -|x| is 2 to a polynomial, fitted on 0 <= |x| <= 5.5: off by 1.3e-5 of it at most,
    # and by 1.9e-7, three roundings of 1. Beyond, the polynomial falls on, to -infinity.
    "normcdf_fitted": """\
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
""",
    **{f"f{op}f_nan": _BOUND.format(op=op) for op in ("max", "min")},
    **{f"f{op}_nan": _BOUND_DOUBLE.format(op=op) for op in ("max", "min")},
    **{f"{op}_half_pair": _CALCULATE_PAIR.format(op=op) for op in ("add", "sub", "mul")},
    "neg_pair": """\
__device__ __forceinline__ unsigned neg_pair(unsigned x) {
    return x ^ 0x80008000;
}
""",
    "abs_pair": """\
__device__ __forceinline__ unsigned abs_pair(unsigned x) {
    return x & 0x7fff7fff;
}
""",
    # The conversion itself makes the least int of NaN, where that of a float makes 0.
    "double_to_int": """\
__device__ __forceinline__ int double_to_int(double x) {
    return x == x ? __double2int_rn(x) : 0;
}
""",
    # The conversions make the least long long of NaN.
    "float_to_longlong": """\
__device__ __forceinline__ long long float_to_longlong(float x) {
    return x == x ? __float2ll_rn(x) : 0;
}
""",
    "double_to_longlong": """\
__device__ __forceinline__ long long double_to_longlong(double x) {
    return x == x ? __double2ll_rn(x) : 0;
}
""",
    "saturate_i32": """\
__device__ __forceinline__ int saturate_i32(long long x) {
    return (int)max(-2147483648LL, min(2147483647LL, x));
}
""",
    "saturate_i8": """\
__device__ __forceinline__ signed char saturate_i8(int x) {
    return max(-128, min(127, x));
}
""",
    "saturate_u8": """\
__device__ __forceinline__ unsigned char saturate_u8(int x) {
    return max(0, min(255, x));
}
""",
    **HELPERS_OF_FLIGHTS,
    "fence_proxy_async": """\
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}
""",
    "fence_barrier_init": """\
__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}
""",
    # All memory accesses of the launch before are then done and seen.
    "grid_wait": """\
__device__ __forceinline__ void grid_wait() {
    asm volatile("griddepcontrol.wait;" : : : "memory");
}
""",
    "grid_launch": """\
__device__ __forceinline__ void grid_launch() {
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
}
""",
    "draw_item": """\
__device__ __forceinline__ int draw_item(int* counter, int* place, int trip, int first, int units, int items) {
    int item = first;
    if (trip > 0) {
        unsigned drawn;
        asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
            : "=r"(drawn) : "l"(__cvta_generic_to_global(counter)), "r"(items - 1) : "memory");
        item = units + (int)drawn;
    }
    *place = item;
    return item;
}
""",
    "prefetch_map": """\
__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" : : "l"(map) : "memory");
}
""",
    "prefetch_line": """\
__device__ __forceinline__ void prefetch_line(const void* place) {
    asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(place)) : "memory");
}
""",
    "shared_address": """\
__device__ __forceinline__ unsigned shared_address(const void* place) {
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}
""",
    "mbarrier_init": """\
__device__ __forceinline__ void mbarrier_init(unsigned long long* barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(shared_address(barrier)), "r"(count) : "memory");
}
""",
    "mbarrier_expect": """\
__device__ __forceinline__ void mbarrier_expect(unsigned long long* barrier, int nbytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
        : : "r"(shared_address(barrier)), "r"(nbytes) : "memory");
}
""",
    "mbarrier_arrive": """\
__device__ __forceinline__ void mbarrier_arrive(unsigned long long* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(shared_address(barrier)) : "memory");
}
""",
    # Without `.release.cluster`, which would put a fence of the whole GPU into every chunk.
    "mbarrier_arrive_at": _ARRIVE_AT,
    "mbarrier_arrive_release_at": _ARRIVE_AT.replace("_arrive_at", "_arrive_release_at").replace(*_RELEASE),
    "mbarrier_wait": _WAIT,
    "mbarrier_wait_bounded": _WAIT_BOUNDED,
    # What blocks of the cluster wrote to shared memory before they arrived is seen after these.
    "mbarrier_wait_cluster": _WAIT.replace("_wait(", "_wait_cluster(").replace(*_ACQUIRE),
    "mbarrier_wait_cluster_bounded": _WAIT_BOUNDED.replace("_wait_", "_wait_cluster_").replace(*_ACQUIRE),
    "cluster_sync": """\
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;" : : : "memory");
    asm volatile("barrier.cluster.wait.acquire;" : : : "memory");
}
""",
    # Without a fence of the whole GPU: that of the mbarriers' initialisation stands ahead.
    "cluster_meet": """\
__device__ __forceinline__ void cluster_meet() {
    asm volatile("barrier.cluster.arrive.relaxed;" : : : "memory");
    asm volatile("barrier.cluster.wait.acquire;" : : : "memory");
}
""",
    "cluster_rank": """\
__device__ __forceinline__ int cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
""",
    "barrier_sync": """\
template <int number, int threads>
__device__ __forceinline__ void barrier_sync() {
    asm volatile("bar.sync %0, %1;" : : "n"(number), "n"(threads) : "memory");
}
""",
    "barrier_arrive": """\
template <int number, int threads>
__device__ __forceinline__ void barrier_arrive() {
    asm volatile("bar.arrive %0, %1;" : : "n"(number), "n"(threads) : "memory");
}
""",
    "registers_increase": """\
template <int count>
__device__ __forceinline__ void registers_increase() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(count));
}
""",
    "registers_decrease": """\
template <int count>
__device__ __forceinline__ void registers_decrease() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(count));
}
""",
    # Where paths meet, the compiler would copy registers that a product still writes.
    "hold": """\
template <int count>
__device__ __forceinline__ void hold(float (&registers)[count]) {
    #pragma unroll
    for (int i = 0; i < count; ++i) asm volatile("" : "+f"(registers[i]) : : "memory");
}

template <int count>
__device__ __forceinline__ void hold(int (&registers)[count]) {
    #pragma unroll
    for (int i = 0; i < count; ++i) asm volatile("" : "+r"(registers[i]) : : "memory");
}
""",
    "check_index": """\
__device__ __forceinline__ void check_index(
    int index, int extent, const char* what, const char* file, int line, const char* text) {
    if (index < 0 || index >= extent) __assertfail(what, file, line, text, 1);
}
""",
    "find_group": """\
// Groups end before these rows; each tile of `size` rows holds as many items. Goes on from the group found last.
__device__ __forceinline__ void find_group(
    const int* ends, int count, int all, int size, int items, int item, int& group, int& first, int& begin, int& rows) {
    if (item < first) group = -1, first = 0, begin = 0, rows = 0;
    while (group < count && item - first >= (rows + size - 1) / size * items) {
        first += (rows + size - 1) / size * items;
        begin += rows;
        rows = ++group < count ? max(min(ends[group], all), begin) - begin : 0;
    }
}
""",
    "raise_flag": """\
__device__ __forceinline__ void raise_flag(int* flag, bool first) {
    if (first) {
        asm volatile("st.release.gpu.global.s32 [%0], 1;" : : "l"(__cvta_generic_to_global(flag)) : "memory");
    }
}
""",
    # Nobody else touches it until the next launch.
    "lower_flag": """\
__device__ __forceinline__ void lower_flag(int* flag, bool first, int barrier, int threads) {
    if (first) {
        int raised;
        do {
            asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                : "=r"(raised) : "l"(__cvta_generic_to_global(flag)) : "memory");
        } while (!raised);
        *flag = 0;
    }
    asm volatile("barrier.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}
""",
    # Each unit counts in, and counts out once all are there: the counter wraps to 0 with the last one.
    "meet": """\
__device__ __forceinline__ void meet(int* counter, unsigned count, bool first, int barrier, int threads) {
    if (first) {
        const unsigned wrap = 2 * count - 1;
        unsigned there;
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
            : "=r"(there) : "l"(__cvta_generic_to_global(counter)), "r"(wrap) : "memory");
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                : "=r"(there) : "l"(__cvta_generic_to_global(counter)) : "memory");
        } while (there < count);
        asm volatile("red.relaxed.gpu.global.inc.u32 [%0], %1;"
            : : "l"(__cvta_generic_to_global(counter)), "r"(wrap) : "memory");
    }
    asm volatile("barrier.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}
""",
    "sync_threads": """\
__device__ __forceinline__ void sync_threads(int barrier, int threads) {
    asm volatile("barrier.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}
""",
}

# The counter wraps to 0 with the last one.
COUNT_IN: Final = """\
__device__ __forceinline__ int count_in(int* counter, int count) {{
    unsigned before = 0;
    if (threadIdx.x == 0) {{
        asm volatile("atom.{order}.gpu.global.inc.u32 %0, [%1], %2;"
            : "=r"(before) : "l"(__cvta_generic_to_global(counter)), "r"(count - 1) : "memory");
    }}
    return __syncthreads_or(threadIdx.x == 0 && (int)before == count - 1);
}}
"""

# The same for some threads of a block, which meet at a barrier of their own.
COUNT_IN_PART: Final = """\
__device__ __forceinline__ int count_in(int* counter, int count, bool first, int barrier, int threads) {{
    unsigned before = 0;
    if (first) {{
        asm volatile("atom.{order}.gpu.global.inc.u32 %0, [%1], %2;"
            : "=r"(before) : "l"(__cvta_generic_to_global(counter)), "r"(count - 1) : "memory");
    }}
    const int last = first && (int)before == count - 1;
    int any;
    asm volatile("{{ .reg .pred p, q; setp.ne.s32 p, %1, 0; "
        "barrier.red.or.pred q, %2, %3, p; selp.s32 %0, 1, 0, q; }}"
        : "=r"(any) : "r"(last), "r"(barrier), "r"(threads) : "memory");
    return any;
}}
"""

_COMMENT = re.compile(r"//[^\n]*")  # may hold a helper's name as a word
_CALL = re.compile(r"\b(" + "|".join(HELPERS) + r")\b")


def called(texts: Iterable[str]) -> list[str]:
    """List the helpers that texts call, with the helpers that those call in turn, in the order of printing.

    Example:
        >>> called(["y = double_to_bf16(x);"])
        ['float_to_bf16', 'double_to_bf16']
        >>> called(["x = y;  // where blocks meet"])
        []
    """
    found: set[str] = set()
    rest = list(texts)
    while rest:
        new = set(_CALL.findall(_COMMENT.sub("", rest.pop()))) - found
        found |= new
        rest += [HELPERS[name] for name in new]
    return [name for name in HELPERS if name in found]

"""Instructions of the CUDA cores: one thread multiplies and adds in its own registers."""

from __future__ import annotations

from fireiron.algebra.dtypes import DType, bf16, f16, f32, f64, i8, i32, u8
from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Operand, Rounding
from fireiron.language.levels import RF, Thread

_FMA_F16 = """\
__device__ __forceinline__ half fma_f16(half a, half b, half c) {
    asm("fma.rn.f16 %0, %1, %2, %0;" : "+h"(c.bits) : "h"(a.bits), "h"(b.bits));
    return c;
}
"""

_FMA_F16X2 = """\
__device__ __forceinline__ void fma_f16x2(half a, const half* b, half* c) {
    const unsigned aa = a.bits * 0x10001u;
    asm("fma.rn.f16x2 %0, %1, %2, %0;"
        : "+r"(*reinterpret_cast<unsigned*>(c))
        : "r"(aa), "r"(*reinterpret_cast<const unsigned*>(b)));
}
"""

_FMA_BF16 = """\
__device__ __forceinline__ bf16 fma_bf16(bf16 a, bf16 b, bf16 c) {
    asm("fma.rn.bf16 %0, %1, %2, %0;" : "+h"(c.bits) : "h"(a.bits), "h"(b.bits));
    return c;
}
"""

_DP4A = """\
__device__ __forceinline__ int dp4a_{name}(const {c}* a, const {c}* b, int sum) {{
    asm("dp4a.{ptx}.{ptx} %0, %1, %2, %0;"
        : "+r"(sum)
        : "r"(*reinterpret_cast<const int*>(a)), "r"(*reinterpret_cast<const int*>(b)));
    return sum;
}}
"""


def _row(
    name: str,
    inputs: DType,
    accumulator: DType,
    call: str,
    clocks: float,
    section: str,
    shape: tuple[int, int, int] = (1, 1, 1),
    cuda: str = "",
    arch: int = 70,
    rounding: Rounding = "each",
) -> Atom:
    """Describe C += A * B in one thread; every operand's registers are consecutive, in colexicographic order."""
    m, n, k = shape
    places = (("A", m, k, inputs), ("B", k, n, inputs), ("C", m, n, accumulator))
    return Atom(
        name=name,
        kind="MatMul",
        shape=shape,
        unit=Thread,
        operands=tuple(
            Operand(
                role=role,
                memory=RF,
                dtype=dtype,
                shape=(rows, columns),
                layout=Layout((1, rows * columns), (0, 0 if rows * columns == 1 else 1)),
                access="update" if role == "C" else "read",
            )
            for role, rows, columns, dtype in places
        ),
        arch=arch,
        source=f"PTX ISA, {section}",
        cuda=cuda,
        call=call,
        rounding=rounding,
        clocks=clocks,
        lanes="fp32" if accumulator == f32 else "",
    )


_FLOAT = "Floating Point Instructions: fma"
_HALF = "Half Precision Floating Point Instructions: fma"
_CONVERT = "Data Movement and Conversion Instructions: cvt; " + _FLOAT
_INTEGER = "Integer Arithmetic Instructions: mad"
_DOT = "Integer Arithmetic Instructions: dp4a"
_TO_FLOAT = "{{C}} = fmaf({0}_to_float({{A}}), {0}_to_float({{B}}), {{C}});"
_VIA_F32 = "{C} = float_to_bf16(fmaf(bf16_to_float({A}), bf16_to_float({B}), bf16_to_float({C})));"

# Clocks are those of compute capability 9.0: CUDA programming guide, throughput of native arithmetic instructions.
SIMT: tuple[Atom, ...] = (
    _row("fma.f64", f64, f64, "{C} = fma({A}, {B}, {C});", 2, _FLOAT),
    _row("fma.f32", f32, f32, "{C} = fmaf({A}, {B}, {C});", 1, _FLOAT),
    _row("fma.f16x2", f16, f16, "fma_f16x2({A}, &{B}, &{C});", 1, _HALF, (1, 2, 1), _FMA_F16X2),
    _row("fma.f16", f16, f16, "{C} = fma_f16({A}, {B}, {C});", 1, _HALF, cuda=_FMA_F16),
    _row("fma.bf16", bf16, bf16, "{C} = fma_bf16({A}, {B}, {C});", 1, _HALF, cuda=_FMA_BF16, arch=80),
    # Rounds twice, first to f32: for sm_70 to sm_75, which have no bf16 arithmetic.
    _row("fma.bf16.via.f32", bf16, bf16, _VIA_F32, 8, _CONVERT, rounding="each, through f32"),
    _row("fma.f32.f16", f16, f32, _TO_FLOAT.format("half"), 5, _CONVERT),
    _row("fma.f32.bf16", bf16, f32, _TO_FLOAT.format("bf16"), 3, _CONVERT),
    _row("dp4a.i8", i8, i32, "{C} = dp4a_i8(&{A}, &{B}, {C});", 2, _DOT, (1, 1, 4),
         _DP4A.format(name="i8", c="signed char", ptx="s32")),
    _row("dp4a.u8", u8, i32, "{C} = dp4a_u8(&{A}, &{B}, {C});", 2, _DOT, (1, 1, 4),
         _DP4A.format(name="u8", c="unsigned char", ptx="u32")),
    _row("imad.i32", i32, i32, "{C} += {A} * {B};", 2, _INTEGER),
    _row("imad.i32.i8", i8, i32, "{C} += {A} * {B};", 2, _INTEGER),
    _row("imad.i32.u8", u8, i32, "{C} += {A} * {B};", 2, _INTEGER),
)  # fmt: skip

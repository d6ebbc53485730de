"""tf32x3: a warp multiplies fragments of f32 by three products of tf32 (3xTF32), nearly as precisely as f32 does.

Each element x is split in two: h is x rounded to the nearest tf32; l = x - h is exact in f32, and tensor cores truncate
it to tf32. Of the four products of parts, the smallest is omitted:

    a b ~ h(a) h(b) + h(a) l(b) + l(a) h(b)

|l| is at most 2^-11 |x|, and truncating it loses at most 2^-21 |x|. So the product of two elements has a relative error
below 2^-22 + 2 * 2^-21 = 5 * 2^-22 (a product in f32: 2^-24). The sum of each instruction is rounded three times.

A schedule must name these rows; by default products of f32 are computed in IEEE f32. Infinities, and numbers that round
to infinity in tf32 (from 2^128 (1 - 2^-12) on), give NaN.

Source: Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical
peak performance", 2022.
"""

from __future__ import annotations

import attrs

from fireiron.algebra.dtypes import f32, tf32
from fireiron.atoms.mma import MMA
from fireiron.language.atom import Atom

FAMILY = "tf32x3"
PRODUCTS = 3  # products of tf32 for one product of f32
KEPT = 19  # bits of a product: its relative error is below 2^-19
_ROUND = "0x1000u"  # half a unit in the last place of tf32, as bits of an f32
_HIGH = "0xffffe000u"

_PARTS = f"""\
__device__ __forceinline__ unsigned tf32_high(unsigned x) {{
    return (x + {_ROUND}) & {_HIGH};
}}
__device__ __forceinline__ unsigned tf32_low(unsigned x) {{
    return __float_as_uint(__uint_as_float(x) - __uint_as_float(tf32_high(x)));
}}
"""


def _row(plain: Atom) -> Atom:
    """Describe the product of f32 that is made of three products of a tf32 row."""
    a, b, c = plain.operands
    size = "m{}n{}k{}".format(*plain.shape)
    inner = plain.call.split("(")[0]
    function = f"tf32x3_{size}"
    counts = [operand.layout[1].size for operand in (a, b)]
    parted = "".join(
        f"    const unsigned {x}_high[] = {{{', '.join(f'tf32_high({x}[{i}])' for i in range(n))}}};\n"
        f"    const unsigned {x}_low[] = {{{', '.join(f'tf32_low({x}[{i}])' for i in range(n))}}};\n"
        for x, n in zip("ab", counts, strict=True)
        if isinstance(n, int)
    )
    wrapper = f"""\
__device__ __forceinline__ void {function}(void* c_registers, const void* a_registers, const void* b_registers) {{
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    const unsigned* b = static_cast<const unsigned*>(b_registers);
{parted}    {inner}(c_registers, a_low, b_high);
    {inner}(c_registers, a_high, b_low);
    {inner}(c_registers, a_high, b_high);
}}
"""
    return attrs.evolve(
        plain,
        name=f"{FAMILY}.{size}",
        operands=(attrs.evolve(a, dtype=f32), attrs.evolve(b, dtype=f32), c),
        cuda=plain.cuda + _PARTS + wrapper,
        call=f"{function}(&{{C}}, &{{A}}, &{{B}});",
        rounding="once, of parts",
        kept=KEPT,
        clocks=PRODUCTS * plain.clocks,
    )


SPLIT: tuple[Atom, ...] = tuple(_row(row) for row in MMA if row.operands[0].dtype == tf32)

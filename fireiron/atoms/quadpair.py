"""mma.m8n8k4: the tensor core of sm_70, where eight threads of a warp, a quad-pair, multiply fragments of fp16.

One instruction computes the products of a warp's four quad-pairs, so all threads of the warp must execute it. A thread
holds four neighbours of A and of B: along K (`row` of A, `col` of B), or along M or N (`col` of A, `row` of B). That
makes four forms.
"""

from __future__ import annotations

from itertools import product

from fireiron.algebra.dtypes import DType, f16, f32
from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import FR, QuadPair, Warp

_SHAPE = (8, 8, 4)

# ((thread of the quad-pair), (register)) -> row + rows * column.
_A = {"row": Layout((8, 4), (1, 8)), "col": Layout(((4, 2), 4), ((8, 4), 1))}
_B = {"col": Layout((8, 4), (4, 1)), "row": Layout(((4, 2), 4), ((1, 16), 4))}
_C = {f32: Layout(((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32))), f16: Layout((8, 8), (1, 8))}


def _wrapper(function: str, instruction: str, acc: DType) -> str:
    sums, kind, letter = (8, "float", "f") if acc == f32 else (4, "unsigned", "r")
    d = ", ".join(f"%{i}" for i in range(sums))
    a, b = f"%{sums}, %{sums + 1}", f"%{sums + 2}, %{sums + 3}"
    outs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(sums))
    return f"""\
__device__ __forceinline__ void {function}(void* c_registers, const void* a_registers, const void* b_registers) {{
    {kind}* d = static_cast<{kind}*>(c_registers);
    const unsigned* a = static_cast<const unsigned*>(a_registers);
    const unsigned* b = static_cast<const unsigned*>(b_registers);
    asm("{instruction} {{{d}}}, {{{a}}}, {{{b}}}, {{{d}}};"
        : {outs}
        : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
}}
"""


def _row(a_order: str, b_order: str, acc: DType) -> Atom:
    """Describe one form."""
    a, b, c = _A[a_order], _B[b_order], _C[acc]
    sums = acc.name
    function = f"mma_m8n8k4_{a_order}_{b_order}_{sums}_f16"
    instruction = f"mma.sync.aligned.m8n8k4.{a_order}.{b_order}.{sums}.f16.f16.{sums}"
    return Atom(
        name=f"mma.m8n8k4.{a_order}.{b_order}.{sums}.f16",
        kind="MatMul",
        shape=_SHAPE,
        unit=QuadPair,
        operands=(
            Operand("A", FR, f16, (8, 4), a),
            Operand("B", FR, f16, (4, 8), b),
            Operand("C", FR, acc, (8, 8), c, "update"),
        ),
        arch=70,
        source="PTX ISA 9.7.14.5.1, mma.m8n8k4 with .f16",
        cuda=_wrapper(function, instruction, acc),
        call=f"{function}(&{{C}}, &{{A}}, &{{B}});",
        rounding="once",
        # 125 TFLOP/s of a V100 are 128 products a clock on each of its 320 sub-partitions.
        clocks=8,
        # "Substantially reduced performance" on other targets (PTX ISA): 17.5 TFLOP/s on an H200, where 62.7 of FFMA
        # tell its clock. Ampere to Blackwell are taken alike.
        emulated=(80, 115),
        converge=Warp,
    )


QUADPAIR: tuple[Atom, ...] = tuple(
    _row(a, b, acc) for acc in (f32, f16) for a, b in product(("row", "col"), ("col", "row"))
)

"""Tensor-core instructions of sm_75 to sm_90: a warp multiplies fragments that its threads hold together.

A fragment's layout is ((thread), (register)) -> row + rows * column. With g = lane / 4 and t = lane % 4, a thread
holds rows g (and g + 8) of A and of C, and column g of B; along the other dimension its neighbours t follow each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fireiron.algebra.dtypes import DType, bf16, f16, f32, f64, i8, i32, u8
from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Meaning, Operand
from fireiron.language.levels import FR, Warp

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_SECTION = "PTX ISA 9.7.14.5, mma"
_PTX = {f16: "f16", bf16: "bf16", f32: "f32", f64: "f64", i8: "s8", u8: "u8", i32: "s32"}
_CONSTRAINTS = {f32: "f", f64: "d", i32: "r"}

# C and D of sixteen rows, and of eight.
_C16 = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
_C8 = Layout(((4, 8), 2), ((16, 1), 8))

# (m, n, k) and the layouts of A and B, for elements of so many bits.
_SHAPES: dict[tuple[int, tuple[int, int, int]], tuple[Layout, Layout]] = {
    (16, (16, 8, 8)): (Layout(((4, 8), (2, 2)), ((32, 1), (16, 8))), Layout(((4, 8), 2), ((2, 8), 1))),
    (16, (16, 8, 16)): (
        Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128))),
        Layout(((4, 8), (2, 2)), ((2, 16), (1, 8))),
    ),
    (8, (8, 8, 16)): (Layout(((4, 8), 4), ((32, 1), 8)), Layout(((4, 8), 4), ((4, 16), 1))),
    (8, (16, 8, 16)): (Layout(((4, 8), (4, 2)), ((64, 1), (16, 8))), Layout(((4, 8), 4), ((4, 16), 1))),
    (8, (16, 8, 32)): (
        Layout(((4, 8), (4, 2, 2)), ((64, 1), (16, 8, 256))),
        Layout(((4, 8), (4, 2)), ((4, 32), (1, 16))),
    ),
    (64, (8, 8, 4)): (Layout(((4, 8), 1), ((8, 1), 0)), Layout(((4, 8), 1), ((1, 4), 0))),
    (64, (16, 8, 4)): (Layout(((4, 8), 2), ((16, 1), 8)), Layout(((4, 8), 1), ((1, 4), 0))),
    (64, (16, 8, 8)): (Layout(((4, 8), (2, 2)), ((16, 1), (8, 64))), Layout(((4, 8), 2), ((1, 8), 4))),
    (64, (16, 8, 16)): (Layout(((4, 8), (2, 4)), ((16, 1), (8, 64))), Layout(((4, 8), 4), ((1, 16), 4))),
}


def meaning(shape: tuple[int, int, int], layouts: tuple[Layout, Layout, Layout]) -> Meaning:
    """Give the instruction's meaning on registers.

    Products are exact, summed in double (or int64), and rounded once to C's type.
    """
    m, n, k = shape
    extents = ((m, k), (k, n), (m, n))

    def places(layout: Layout, rows: int) -> tuple[Array, Array]:
        import numpy as np

        threads, registers = layout[0].size, layout[1].size
        assert isinstance(threads, int) and isinstance(registers, int)
        flat = layout[0](np.arange(threads))[:, None] + np.asarray(layout[1](np.arange(registers)))[None, :]
        return flat % rows, flat // rows

    def numpy(a: Array, b: Array, c: Array) -> Array:
        import numpy as np

        wide = np.int64 if a.dtype.kind in "iu" else np.float64
        full: list[Array] = []
        for x, layout, (rows, cols) in zip((a, b, c), layouts, extents, strict=True):
            matrix = np.empty((len(x), rows, cols), wide)
            row, col = places(layout, rows)
            matrix[:, row, col] = x
            full.append(matrix)
        row, col = places(layouts[2], m)
        return (full[0] @ full[1] + full[2])[:, row, col].astype(c.dtype)

    return numpy


def _wrapper(name: str, instruction: str, counts: tuple[int, int, int], inputs: DType, acc: DType) -> str:
    """Write the inline function: 16- and 8-bit elements travel packed in 32-bit registers."""
    packed = 4 // inputs.nbytes if inputs.nbytes < 4 else 1
    a, b = counts[0] // packed, counts[1] // packed
    c = counts[2] // (2 if acc == f16 else 1)
    order = iter(range(c + a + b))
    d_text, a_text, b_text = (", ".join(f"%{next(order)}" for _ in range(x)) for x in (c, a, b))
    c_type = "unsigned" if acc == f16 else {"f32": "float", "f64": "double", "i32": "int"}[acc.name]
    in_type = "double" if inputs == f64 else "unsigned"
    in_letter, c_letter = ("d" if inputs == f64 else "r"), _CONSTRAINTS.get(acc, "r")
    outs = ", ".join(f'"+{c_letter}"(d[{i}])' for i in range(c))
    ins = ", ".join([*(f'"{in_letter}"(a[{i}])' for i in range(a)), *(f'"{in_letter}"(b[{i}])' for i in range(b))])
    return f"""\
__device__ __forceinline__ void {name}(void* c_registers, const void* a_registers, const void* b_registers) {{
    {c_type}* d = static_cast<{c_type}*>(c_registers);
    const {in_type}* a = static_cast<const {in_type}*>(a_registers);
    const {in_type}* b = static_cast<const {in_type}*>(b_registers);
    asm("{instruction} {{{d_text}}}, {{{a_text}}}, {{{b_text}}}, {{{d_text}}};"
        : {outs}
        : {ins});
}}
"""


def _row(shape: tuple[int, int, int], inputs: DType, acc: DType, arch: int, clocks: float) -> Atom:
    """Describe one mma.sync."""
    m, n, k = shape
    a, b = _SHAPES[inputs.bits, shape]
    c = _C16 if m == 16 else _C8
    kind, sums = _PTX[inputs], _PTX[acc]
    size = f"m{m}n{n}k{k}"
    wrapped = ".satfinite" if acc == i32 else ""
    instruction = f"mma.sync.aligned.{size}.row.col{wrapped}.{sums}.{kind}.{kind}.{sums}"
    function = f"mma_{size}_{acc.name}_{inputs.name}"
    return Atom(
        name=f"mma.{size}.{acc.name}.{inputs.name}",
        kind="MatMul",
        shape=shape,
        unit=Warp,
        operands=(
            Operand("A", FR, inputs, (m, k), a),
            Operand("B", FR, inputs, (k, n), b),
            Operand("C", FR, acc, (m, n), c, "update"),
        ),
        arch=arch,
        source=_SECTION,
        cuda=_wrapper(function, instruction, (a[1].size, b[1].size, c[1].size), inputs, acc),
        call=f"{function}(&{{C}}, &{{A}}, &{{B}});",
        numpy=meaning(shape, (a, b, c)),
        clocks=clocks,
    )


MMA: tuple[Atom, ...] = (
    *(_row((16, 8, k), f16, acc, 80 if k == 16 else 75, k) for k in (16, 8) for acc in (f32, f16)),
    *(_row((16, 8, k), bf16, f32, 80, k) for k in (16, 8)),
    *(_row((16, 8, k), kind, i32, 80, k / 2) for k in (32, 16) for kind in (i8, u8)),
    *(_row((8, 8, 16), kind, i32, 75, 4) for kind in (i8, u8)),
    *(_row((16, 8, k), f64, f64, 90, 8 * k) for k in (16, 8, 4)),
    _row((8, 8, 4), f64, f64, 80, 16),
)

"""stmatrix: a warp stores 8x8 matrices of 16-bit elements to shared memory, the inverse of ldmatrix.

Each lane gives the address of one row of 16 bytes. The source is the accumulator's fragment, converted to 16 bits; with
`.trans` the rows in memory are its columns.
"""

from __future__ import annotations

from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import FR, SH, Warp

_SECTION = "PTX ISA 9.7.14.5.16, stmatrix"


def _wrapper(count: int, trans: str) -> str:
    places = ", ".join(f"%{i + 1}" for i in range(count))
    ins = ", ".join(f'"r"(s[{i}])' for i in range(count))
    name = f"stmatrix_x{count}{'_trans' if trans else ''}"
    return f"""\
__device__ __forceinline__ void {name}(void* row, const void* registers) {{
    const unsigned* s = static_cast<const unsigned*>(registers);
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%0], {{{places}}};"
        : : "r"(address), {ins} : "memory");
}}
"""


def _row(count: int, shape: tuple[int, int], fragment: Layout, rows: Layout, trans: bool = False) -> Atom:
    """Describe one form.

    Args:
        count: matrices.
        shape: rows and columns of the tile.
        fragment: ((lane), (register)) -> row + rows * column.
        rows: ((lane), (elements of its row)) -> row + rows * column.
        trans: whether matrices are transposed on the way.
    """
    suffix = ".trans" if trans else ""
    function = f"stmatrix_x{count}{'_trans' if trans else ''}"
    return Atom(
        name=f"stmatrix.x{count}{suffix}",
        kind="Move",
        shape=(shape[0] * shape[1],),
        unit=Warp,
        operands=(Operand("src", FR, None, shape, fragment), Operand("dst", SH, None, shape, rows, "write")),
        arch=90,
        source=_SECTION,
        cuda=_wrapper(count, suffix),
        call=f"{function}(&{{dst}}, &{{src}});",
        nbytes=16,
        clocks=8.0 * count,
    )


def _table() -> tuple[Atom, ...]:
    four = Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128)))
    two = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    # Lanes 0 to 7 address the first matrix's rows, 8 to 15 the second's, and so on; an x2 form ignores the others.
    return (
        _row(4, (16, 16), four, Layout(((8, 2, 2), 8), ((1, 8, 128), 16))),
        _row(4, (16, 16), four, Layout(((8, 2, 2), 8), ((16, 8, 128), 1)), trans=True),
        _row(2, (16, 8), two, Layout(((8, 2, 2), 8), ((1, 8, 0), 16))),
        _row(2, (16, 8), two, Layout(((8, 2, 2), 8), ((16, 8, 0), 1)), trans=True),
    )


STMATRIX: tuple[Atom, ...] = _table()

"""ldmatrix: a warp loads 8x8 matrices of 16-bit elements from shared memory.

Each lane gives the address of one row of 16 bytes. A row's source layout says which coordinates lane l's address
covers, its destination layout which a thread receives: the same tile, dealt out again. The destination is the fragment
of A or of B of an mma, so that no register moves afterwards. With `.trans` the rows in memory run along the dimension
that is not contracted.
"""

from __future__ import annotations

from fireiron.algebra.layout import Layout
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import FR, SH, Warp

_SECTION = "PTX ISA 9.7.14.5.15, ldmatrix"


def _wrapper(count: int, trans: str) -> str:
    registers = ", ".join(f"%{i}" for i in range(count))
    outs = ", ".join(f'"=r"(d[{i}])' for i in range(count))
    name = f"ldmatrix_x{count}{'_trans' if trans else ''}"
    return f"""\
__device__ __forceinline__ void {name}(void* registers, const void* row) {{
    unsigned* d = static_cast<unsigned*>(registers);
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%{count}];"
        : {outs}
        : "r"(address));
}}
"""


def _row(
    role: str, count: int, bits: int, shape: tuple[int, int], rows: Layout, fragment: Layout, trans: bool = False
) -> Atom:
    """Describe one form.

    Args:
        role: the operand of an mma that it loads.
        count: matrices.
        bits: of an element; 8-bit elements travel in pairs.
        shape: rows and columns of the tile.
        rows: ((lane), (elements of its row)) -> row + rows * column.
        fragment: ((lane), (register)) -> row + rows * column.
        trans: whether matrices are transposed on the way.
    """
    suffix = ".trans" if trans else ""
    function = f"ldmatrix_x{count}{'_trans' if trans else ''}"
    return Atom(
        name=f"ldmatrix.x{count}{suffix}.{role}.b{bits}{'' if shape != (8, 16) or bits == 8 else '.k8'}",
        kind="Move",
        shape=(shape[0] * shape[1],),
        unit=Warp,
        operands=(Operand("src", SH, None, shape, rows), Operand("dst", FR, None, shape, fragment, "write")),
        arch=75,
        source=_SECTION,
        cuda=_wrapper(count, suffix),
        call=f"{function}(&{{dst}}, &{{src}});",
        nbytes=16,
        clocks=8.0 * count,
    )


def _table() -> tuple[Atom, ...]:
    a16 = Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128)))
    a16_half = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    b16 = Layout(((4, 8), (2, 2, 2)), ((2, 16), (1, 8, 128)))
    b16_one = Layout(((4, 8), (2, 2)), ((2, 16), (1, 8)))
    b16_half = Layout(((4, 8), (2, 2)), ((2, 8), (1, 64)))
    a16_8x8 = Layout(((4, 8), 2), ((16, 1), 8))
    b16_8x8 = Layout(((4, 8), 2), ((2, 8), 1))
    a8 = Layout(((4, 8), (4, 2, 2)), ((64, 1), (16, 8, 256)))
    a8_half = Layout(((4, 8), (4, 2)), ((64, 1), (16, 8)))
    a8_one = Layout(((4, 8), 4), ((32, 1), 8))
    b8 = Layout(((4, 8), (4, 2, 2)), ((4, 32), (1, 16, 256)))
    b8_half = Layout(((4, 8), (4, 2)), ((4, 16), (1, 128)))
    b8_one = Layout(((4, 8), 4), ((4, 16), 1))
    along = Layout(((8, 2, 2), 8), ((1, 8, 128), 16))  # lanes down the rows, each row of memory along the columns
    across = Layout(((8, 2, 2), 8), ((16, 8, 128), 1))  # lanes along the columns, each row of memory down the rows
    # Of x2 and x1 the first lanes' addresses count; the others repeat them, since sm_75 wants every one valid.
    return (
        _row("A", 4, 16, (16, 16), along, a16),
        _row("A", 4, 16, (16, 16), across, a16, trans=True),
        _row("B", 4, 16, (16, 16), across, b16),
        _row("B", 4, 16, (16, 16), along, b16, trans=True),
        _row("B", 2, 16, (16, 8), Layout(((8, 2, 2), 8), ((16, 8, 0), 1)), b16_one),
        _row("B", 2, 16, (16, 8), Layout(((8, 2, 2), 8), ((1, 8, 0), 16)), b16_one, trans=True),
        _row("A", 2, 16, (16, 8), Layout(((8, 2, 2), 8), ((1, 8, 0), 16)), a16_half),
        _row("A", 2, 16, (16, 8), Layout(((8, 2, 2), 8), ((16, 8, 0), 1)), a16_half, trans=True),
        _row("B", 2, 16, (8, 16), Layout(((8, 2, 2), 8), ((8, 64, 0), 1)), b16_half),
        _row("B", 2, 16, (8, 16), Layout(((8, 2, 2), 8), ((1, 64, 0), 8)), b16_half, trans=True),
        _row("A", 1, 16, (8, 8), Layout(((8, 4), 8), ((1, 0), 8)), a16_8x8),
        _row("A", 1, 16, (8, 8), Layout(((8, 4), 8), ((8, 0), 1)), a16_8x8, trans=True),
        _row("B", 1, 16, (8, 8), Layout(((8, 4), 8), ((8, 0), 1)), b16_8x8),
        _row("B", 1, 16, (8, 8), Layout(((8, 4), 8), ((1, 0), 8)), b16_8x8, trans=True),
        _row("A", 4, 8, (16, 32), Layout(((8, 2, 2), 16), ((1, 8, 256), 16)), a8),
        _row("B", 4, 8, (32, 16), Layout(((8, 2, 2), 16), ((32, 16, 256), 1)), b8),
        _row("A", 2, 8, (16, 16), Layout(((8, 2, 2), 16), ((1, 8, 0), 16)), a8_half),
        _row("B", 2, 8, (16, 16), Layout(((8, 2, 2), 16), ((16, 128, 0), 1)), b8_half),
        _row("A", 1, 8, (8, 16), Layout(((8, 4), 16), ((1, 0), 8)), a8_one),
        _row("B", 1, 8, (16, 8), Layout(((8, 4), 16), ((16, 0), 1)), b8_one),
    )


LDMATRIX: tuple[Atom, ...] = _table()

"""ldmatrix: a warp loads 8x8 matrices of 16-bit elements from shared memory.

Each lane gives the address of one row of 16 bytes. The atom's source layout says which elements a lane's address
covers, the destination layout which elements a thread receives; both cover the same tile. The destination is the
fragment of A or of B of an mma, so registers need not move afterwards. With `.trans` the rows in memory run along M or
N instead of K.

The instruction distributes 32 bits at a time, so elements may have any size that divides 32 bits along K: one tf32, two
f16 or 32 single bits. A transposed matrix always has 16-bit elements.
"""

from __future__ import annotations

from fireiron.algebra.layout import Layout
from fireiron.atoms.fragments import fragment_a, fragment_b, together
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import FR, SH, Warp

ROW_BITS = 128
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
        role: the operand of an mma that the form loads (A8: A of an mma with 8 rows).
        count: number of matrices.
        bits: of an element.
        shape: rows and columns of the tile.
        rows: ((lane), (elements of its row)) -> row + rows * column.
        fragment: ((lane), (register)) -> row + rows * column.
        trans: whether matrices are transposed on the way.
    """
    suffix = ".trans" if trans else ""
    line = ROW_BITS // bits
    half = f".k{line}" if (role, count, shape) == ("B", 2, (line, 16)) else ""  # else 8 columns
    function = f"ldmatrix_x{count}{'_trans' if trans else ''}"
    return Atom(
        name=f"ldmatrix.x{count}{suffix}.{role}.b{bits}{half}",
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


def _along_k(bits: int) -> tuple[Atom, ...]:
    """List the forms for operands whose rows in memory run along K: any element size of at most 32 bits."""
    row = ROW_BITS // bits
    k = 2 * row
    # For one or two matrices only the first lanes' addresses count. The other lanes repeat them, since sm_75 needs
    # valid addresses in all lanes.
    down = Layout(((8, 2, 2), row), ((1, 8, 16 * row), 16))  # lanes down the rows of A, then along K
    across = Layout(((8, 2, 2), row), ((k, row, 8 * k), 1))  # lanes along the columns of B, K between
    down_half = Layout(((8, 2, 2), row), ((1, 8, 0), 16))
    across_half = Layout(((8, 2, 2), row), ((row, 8 * row, 0), 1))
    across_eight = Layout(((8, 2, 2), row), ((k, row, 0), 1))
    down_one = Layout(((8, 4), row), ((1, 0), 8))
    across_one = Layout(((8, 4), row), ((row, 0), 1))
    return (
        _row("A", 4, bits, (16, k), down, fragment_a(16, k, bits)),
        *(_of_eight_rows(bits) if bits <= 8 else ()),
        _row("B", 4, bits, (k, 16), across, fragment_b(k, 16, bits)),
        _row("B", 2, bits, (k, 8), across_eight, fragment_b(k, 8, bits)),
        _row("A", 2, bits, (16, row), down_half, fragment_a(16, row, bits)),
        _row("B", 2, bits, (row, 16), across_half, fragment_b(row, 16, bits)),
        _row("A", 1, bits, (8, row), down_one, fragment_a(8, row, bits)),
        _row("B", 1, bits, (row, 8), across_one, fragment_b(row, 8, bits)),
    )


def _of_eight_rows(bits: int) -> tuple[Atom, ...]:
    """List the forms for atoms of 8 rows of A, which take the registers along K first."""
    row = ROW_BITS // bits
    k, word = 2 * row, together(bits)
    rows = Layout(((8, 2, 2), row), ((1, 16 * row, 8), 16))
    fragment = Layout(((4, 8), (word, 2, 2)), ((16 * word, 1), (16, 64 * word, 8)))
    one = Layout(((8, 2, 2), row), ((1, 8 * row, 0), 8))
    return (
        _row("A8", 4, bits, (16, k), rows, fragment),
        _row("A8", 2, bits, (8, k), one, fragment_a(8, k, bits)),
    )


def _across_k() -> tuple[Atom, ...]:
    """List the forms for operands whose rows in memory run across K."""
    down = Layout(((8, 2, 2), 8), ((1, 8, 128), 16))
    down_half = Layout(((8, 2, 2), 8), ((1, 64, 0), 8))
    down_eight = Layout(((8, 2, 2), 8), ((1, 8, 0), 16))
    down_one = Layout(((8, 4), 8), ((1, 0), 8))
    across = Layout(((8, 2, 2), 8), ((16, 8, 128), 1))
    across_half = Layout(((8, 2, 2), 8), ((16, 8, 0), 1))
    across_one = Layout(((8, 4), 8), ((8, 0), 1))
    return (
        _row("A", 4, 16, (16, 16), across, fragment_a(16, 16, 16), trans=True),
        _row("B", 4, 16, (16, 16), down, fragment_b(16, 16, 16), trans=True),
        _row("B", 2, 16, (16, 8), down_eight, fragment_b(16, 8, 16), trans=True),
        _row("A", 2, 16, (16, 8), across_half, fragment_a(16, 8, 16), trans=True),
        _row("B", 2, 16, (8, 16), down_half, fragment_b(8, 16, 16), trans=True),
        _row("A", 1, 16, (8, 8), across_one, fragment_a(8, 8, 16), trans=True),
        _row("B", 1, 16, (8, 8), down_one, fragment_b(8, 8, 16), trans=True),
    )


LDMATRIX: tuple[Atom, ...] = (*_along_k(16), *_across_k(), *(x for bits in (8, 32, 4, 1) for x in _along_k(bits)))

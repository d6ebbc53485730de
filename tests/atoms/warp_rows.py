"""A tiny kernel around each atom that several threads execute together, for the GPU and for the simulator.

Its operands come from global memory, one array each; wmma's rows run as load, product, store, since nothing else can
be known of their fragments.
"""

from __future__ import annotations

import numpy as np

from fireiron.algebra.dtypes import b1, f16, i8, i32, u4, u8
from fireiron.algebra.expr import Expr, Var, as_expr
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Constant
from fireiron.atoms.ldmatrix import LDMATRIX
from fireiron.atoms.movmatrix import MOVMATRIX
from fireiron.atoms.quadpair import QUADPAIR
from fireiron.atoms.table import find
from fireiron.atoms.wmma import WMMA
from fireiron.kernel.ir.statements import THREAD, Binding, Buffer, Call, Compute, Kernel, Pointer, Sync, View
from fireiron.kernel.lower.fragment import digits_of, leaves_of
from fireiron.kernel.passes.packing import in_bytes
from fireiron.language.levels import GL, RF, SH, Block, Thread

LANES = 32
LANE = Var(THREAD, LANES)


def _chain(product, order):
    """Add the loads of A and B and a store to a product of wmma."""
    size, a, b = product.name.split(".")[1:4]
    inputs, acc = product.operands[0].dtype, product.operands[2].dtype
    loads = (f"wmma.load.A.{size}.{a}.{inputs}.SH", f"wmma.load.B.{size}.{b}.{inputs}.GL")
    return (product, *map(find, loads), find(f"wmma.store.C.{size}.{order}.{acc}.{'SH' if order == 'col' else 'GL'}"))


CASES = (
    *((row,) for row in (*QUADPAIR, *LDMATRIX, *MOVMATRIX)),
    *(_chain(row, order) for row in WMMA for order in (("row", "col") if row.name.count(".row") == 2 else ("row",))),
)


def numbers(kernel: Kernel) -> dict[str, np.ndarray]:
    """Draw small whole numbers, of which every sum is exact."""
    rng = np.random.default_rng(0)
    out = {}
    for p in kernel.parameters:
        size, dtype = int(p.buffer.size.value), p.buffer.dtype
        low, high = (0, 256) if dtype.packed else (0 if dtype == u8 else -4, 5)
        out[p.buffer.name] = rng.integers(low, high, size).astype(dtype.numpy)
    return out


def kernel_of(row, *others) -> Kernel:
    """Build the kernel of a case."""
    made = _Made()
    if others:
        made.wmma(row, *others)
    elif row.kind == "MatMul":
        views = [made.registers(o, made.input(o.role, o.dtype, LANES * o.registers)) for o in row.operands]
        made.body.append(Call(row, tuple(views)))
        made.store(views[2])
    else:
        src, dst = row.operands
        dtype = {32: i32, 16: f16, 8: i8, 4: u4, 1: b1}[row.nbytes * 8 // src.registers]
        count = src.shape[0] * src.shape[1]
        if src.memory == SH:
            # Rows of memory lie one after the other, in the order of what they cover.
            shared = made.shared(dtype, count, made.input("src", dtype, count))
            stride = leaves_of(src.layout[1])[0][1]
            source = View(shared, _row(src.layout[0], src.shape, stride), Layout(src.registers, 1))
        else:
            source = made.registers(src, made.input("src", dtype, LANES * src.registers), dtype)
        held = made.buffer("dst_fr", RF, dtype, dst.registers)
        made.body.append(Call(row, (source, View(held, as_expr(0), Layout(dst.registers, 1)))))
        made.store(View(held, as_expr(0), Layout(dst.registers, 1)))
    whole = tuple(map(tuple, (made.parameters, made.buffers, made.body)))
    return in_bytes(Kernel("row", whole[0], as_expr(1), LANES, made.nbytes, *whole[1:]))


def _row(layout: Layout, shape: tuple[int, int], stride: int) -> Expr:
    """Give the offset of a lane's row, where rows of memory run along the dimension that steps by `stride`."""
    rows, columns = shape
    offset = as_expr(0)
    for digit, (_, step) in zip(digits_of(layout, LANE), leaves_of(layout), strict=True):
        row, column = (step, 0) if step < rows else (0, step // rows)
        offset = offset + digit * (column * rows + row if stride == 1 else row * columns + column)
    return offset


class _Made:
    def __init__(self) -> None:
        self.parameters: list[Pointer] = []
        self.buffers: list[Buffer] = []
        self.body: list[object] = []
        self.nbytes = 0

    def input(self, name, dtype, size, output=False):
        buffer = Buffer(f"{name}_gl", GL, dtype, as_expr(size), written=output, read=not output)
        self.parameters.append(Pointer(buffer, (as_expr(size),), (as_expr(1),), "output" if output else "input"))
        return buffer

    def buffer(self, name, memory, dtype, size):
        nbytes = dtype.nbytes_of(size) if memory == SH else 0
        made = Buffer(
            name, memory, dtype, as_expr(size), unit=Thread if memory == RF else Block, offset=self.nbytes,
            nbytes=nbytes,
        )  # fmt: skip
        self.nbytes += nbytes
        self.buffers.append(made)
        return made

    def copy(self, src, dst, first_src, first_dst, count):
        """Copy a lane's elements one by one, or byte by byte."""
        pack = src.dtype.pack
        whole = Layout(pack, 1) if pack > 1 else Layout(1, 0)
        name = "{}B.{}.{}".format(src.dtype.nbytes, *(b.memory for b in (src, dst)))
        self.body += [
            Call(find(f"copy.{name}"), (View(src, first_src + i, whole), View(dst, first_dst + i, whole)))
            for i in range(0, count, pack)
        ]

    def registers(self, operand, outside, dtype=None):
        n = operand.registers
        inside = self.buffer(f"{operand.role}_fr", RF, dtype or operand.dtype, n)
        self.copy(outside, inside, LANE * n, as_expr(0), n)
        return View(inside, as_expr(0), Layout(n, 1))

    def shared(self, dtype, count, outside):
        shared = self.buffer(f"{outside.name.removesuffix('_gl')}_sh", SH, dtype, count)
        each = count // LANES
        self.copy(outside, shared, LANE * each, LANE * each, each)
        self.body.append(Sync(Block, "the rows are written before they are read"))
        return shared

    def store(self, view):
        n, buffer = view.layout.size, view.buffer
        out = self.input("D", buffer.dtype, LANES * n, output=True)
        self.copy(buffer, out, as_expr(0), LANE * n, n)

    def wmma(self, product, load_a, load_b, store):
        fragments = {o.role: self.buffer(f"{o.role}_fr", RF, o.dtype, o.registers) for o in product.operands}
        whole = {role: View(b, as_expr(0), Layout(int(b.size.value), 1)) for role, b in fragments.items()}
        for role, load in (("A", load_a), ("B", load_b)):
            tile = load.operand("src")
            count = tile.shape[0] * tile.shape[1]
            memory = self.input(role, tile.dtype, count)
            if tile.memory == SH:
                memory = self.shared(tile.dtype, count, memory)
            self.call(load, tile, memory, whole[role])
        acc = whole["C"]
        zero = Constant(0.0 if acc.buffer.dtype.kind == "float" else 0, acc.buffer.dtype)
        self.body += [Compute(View(acc.buffer, as_expr(i)), zero) for i in range(acc.layout.size)]
        self.body.append(Call(product, (whole["A"], whole["B"], acc)))
        tile = store.operand("dst")
        count = tile.shape[0] * tile.shape[1]
        out = self.input("D", tile.dtype, count, output=True)
        memory = self.buffer("C_sh", SH, tile.dtype, count) if tile.memory == SH else out
        self.call(store, tile, memory, acc)
        if memory is not out:
            self.body.append(Sync(Block, "the tile is written before it is read"))
            self.copy(memory, out, LANE * (count // LANES), LANE * (count // LANES), count // LANES)

    def call(self, atom, tile, memory, fragment):
        """Load or store a tile that lies alone, line after line."""
        row_major = ".row." in atom.name
        pitch = tile.shape[1] if row_major else tile.shape[0]
        place = View(
            memory, _row(tile.layout[0], tile.shape, tile.shape[0] if row_major else 1), Layout(tile.registers, 1)
        )
        views = (fragment, place) if tile.role == "dst" else (place, fragment)
        self.body.append(Call(atom, views, bindings=(Binding("tile", as_expr(0)), Binding("pitch", as_expr(pitch)))))


def reduction(row, threads: int = LANES) -> Kernel:
    """Build a kernel in which each thread reads a value, folds it with those of its warp, and stores what it gets."""
    made, lane = _Made(), Var(THREAD, threads)
    source, result = made.input("src", i32, threads), made.input("dst", i32, threads, output=True)
    held = [View(made.buffer(name, RF, i32, 1), as_expr(0)) for name in ("x", "all")]
    one = Layout(1, 0)
    body = (
        Call(find("copy.4B.GL.RF"), (View(source, lane, one), held[0])),
        Call(row, (held[0], held[1])),
        Call(find("copy.4B.RF.GL"), (held[1], View(result, lane, one))),
    )
    return Kernel("row", tuple(made.parameters), as_expr(1), threads, 0, tuple(made.buffers), body)

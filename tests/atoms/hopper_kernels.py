"""Kernels of one wgmma, and of one bulk copy each way, built by hand: shared with the tests on a GPU."""

from __future__ import annotations

import math

import numpy as np

from fireiron.algebra.dtypes import DType, tf32
from fireiron.algebra.elements import TF32_READ, read
from fireiron.algebra.expr import Var, as_expr, eq
from fireiron.algebra.layout import Layout
from fireiron.atoms.table import find
from fireiron.kernel.ir.statements import (
    THREAD,
    Arrive,
    Await,
    Barrier,
    Buffer,
    Call,
    Commit,
    Fence,
    If,
    InitBarriers,
    Kernel,
    Pointer,
    Sync,
    TensorMap,
    View,
    Wait,
)
from fireiron.kernel.lower.span import swizzle_of
from fireiron.language.atom import Atom
from fireiron.language.levels import GL, RF, SH, Block, Thread

THREADS = 128
PIECE = 16  # bytes that a thread copies at once
LANE = Var(THREAD, THREADS)


def drawn(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Draw small whole numbers, whose sums are exact in every type; of tf32 with junk in the bits that are not read."""
    low, high = max(-8, dtype.limits[0]), min(8, dtype.limits[1])
    numbers = rng.integers(int(low), int(high) + 1, shape)
    if dtype != tf32:
        return numbers.astype(dtype.numpy)
    junk = rng.integers(0, 1 << 13, shape, dtype=np.uint32)
    return ((numbers.astype(np.float32).view(np.uint32) & np.uint32(TF32_READ)) | junk).view(np.float32)


class Tile:
    """Lay one operand of wgmma out in shared memory, in rows of a span, as a descriptor finds it.

    Args:
        lines: rows of A, or columns of B.
        dtype: of its elements.
        span: bytes of a row.
        k_major: whether rows run along K; else along M or N, in panels.
    """

    def __init__(self, lines: int, dtype: DType, span: int, k_major: bool = True) -> None:
        self.lines, self.dtype, self.span, self.k_major = lines, dtype, span, k_major
        self.k, self.width = 32 // dtype.nbytes, span // dtype.nbytes
        self.swizzle = swizzle_of(span, dtype.nbytes)
        # The last products of a row, which begin inside its span.
        self.first = self.width - self.k if k_major else 0
        panels = 1 if k_major else -(-lines // self.width)
        self.size = self.width * (lines if k_major else self.k * panels)
        unit = THREADS * PIECE // dtype.nbytes
        self.padded = -(-self.size // unit) * unit
        if k_major:
            self.along_line, self.along_k = Layout(lines, self.width), Layout(self.k, 1)
        else:
            inside = min(lines, self.width)
            line = Layout(lines, 1) if panels == 1 else Layout((inside, panels), (1, self.width * self.k))
            self.along_line, self.along_k = line, Layout(self.k, self.width)

    def placed(self, values: np.ndarray) -> np.ndarray:
        """Give what shared memory holds, of (lines, k) values: each element where the swizzle puts it."""
        flat = np.zeros(self.padded, values.dtype)
        for line in range(self.lines):
            for k in range(self.k):
                offset = self.first + int(self.along_line(line)) + int(self.along_k(k))
                flat[int(self.swizzle(offset))] = values[line, k]
        return flat

    def view(self, buffer: Buffer, rows_first: bool) -> View:
        """View the tile as A (its lines first) or as B (K first)."""
        modes = (self.along_line, self.along_k) if rows_first else (self.along_k, self.along_line)
        layout = Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))
        return View(buffer, as_expr(self.first), layout, swizzle=self.swizzle)


def _vector(count: int) -> Layout:
    return Layout(count, 1) if count > 1 else Layout(1, 0)


def _outside(name: str, dtype: DType, size: int, output: bool = False) -> Pointer:
    buffer = Buffer(name, GL, dtype, as_expr(size), read=not output, written=output)
    return Pointer(buffer, (as_expr(size),), (as_expr(1),), "output" if output else "input")


def _fill(pointer: Pointer, inside: Buffer, tile: Tile) -> list[Call]:
    count = PIECE // tile.dtype.nbytes
    copy = find("copy.16B.GL.SH")
    assert copy is not None
    places = [(LANE + i * THREADS) * count for i in range(tile.padded // (THREADS * count))]
    return [Call(copy, (View(pointer.buffer, p, _vector(count)), View(inside, p, _vector(count)))) for p in places]


def _registers(pointer: Pointer, held: Buffer, count: int, direction: str) -> list[Call]:
    out: list[Call] = []
    copy = find(f"copy.{held.dtype.nbytes}B.{direction}")
    assert copy is not None
    for i in range(count):
        pair = View(pointer.buffer, LANE * count + i), View(held, as_expr(i))
        out.append(Call(copy, pair if direction == "GL.RF" else pair[::-1]))
    return out


def wgmma_kernel(row: Atom, a: Tile | None, b: Tile, accumulate: bool = True) -> Kernel:
    """Multiply once: A from a tile, or from registers where `a` is None; D = A B + C."""
    held = row.operand("A")
    c = row.operand("C")
    assert held.dtype is not None
    assert c.dtype is not None
    a_size = a.padded if a is not None else THREADS * held.registers
    inputs = (_outside("A", held.dtype, a_size), _outside("B", b.dtype, b.padded))
    inputs += (_outside("C", c.dtype, THREADS * c.registers),)
    result = _outside("D", c.dtype, THREADS * c.registers, output=True)
    b_sh = Buffer("b_sh", SH, b.dtype, as_expr(b.padded), nbytes=b.padded * b.dtype.nbytes)
    end = -(-b_sh.nbytes // 1024) * 1024
    sums = Buffer("acc", RF, c.dtype, as_expr(c.registers), unit=Thread)
    body: list[object] = [*_fill(inputs[1], b_sh, b), *_registers(inputs[2], sums, c.registers, "GL.RF")]
    buffers = [b_sh, sums]
    if a is None:
        a_fr = Buffer("a_fr", RF, held.dtype, as_expr(held.registers), unit=Thread)
        buffers.append(a_fr)
        body += _registers(inputs[0], a_fr, held.registers, "GL.RF")
        a_view = View(a_fr, as_expr(0), _vector(held.registers))
    else:
        nbytes = a.padded * a.dtype.nbytes
        a_sh = Buffer("a_sh", SH, a.dtype, as_expr(a.padded), offset=end, nbytes=nbytes)
        end += nbytes
        buffers.insert(1, a_sh)
        body += _fill(inputs[0], a_sh, a)
        a_view = a.view(a_sh, rows_first=True)
    body += [
        Fence("proxy.async", "tiles are written before wgmma reads them"),
        Sync(Block, "all threads have written"),
        Fence("registers", "accumulators are registers"),
        Call(
            row,
            (a_view, b.view(b_sh, rows_first=False), View(sums, as_expr(0), _vector(c.registers))),
            accumulate=None if accumulate else as_expr(0),
        ),
        Commit("wgmma"),
        Wait("wgmma", 0),
        *_registers(result, sums, c.registers, "RF.GL"),
    ]
    return Kernel("row", (*inputs, result), as_expr(1), THREADS, end, tuple(buffers), tuple(body))  # pyright: ignore


def wgmma_arrays(row: Atom, a: Tile | None, b: Tile, rng: np.random.Generator) -> tuple[tuple[np.ndarray, ...], ...]:
    """Give the kernel's inputs, and what the row's meaning takes: without what the hardware does not read."""
    operands = row.operands
    n = row.shape[1]
    a_values = drawn(rng, b.dtype, (64, b.k) if a is not None else (THREADS, operands[0].registers))
    b_values = drawn(rng, b.dtype, (n, b.k))
    assert operands[2].dtype is not None
    sums = drawn(rng, operands[2].dtype, (THREADS, operands[2].registers))
    given = (a.placed(a_values) if a is not None else a_values.ravel(), b.placed(b_values), sums.ravel())
    a_read, b_read = (read(x, b.dtype).astype(b.dtype.numpy) for x in (a_values, b_values))
    return given, (a_read[None], b_read.T[None], sums[None])


def bulk_kernel(
    dtype: DType, shape: tuple[int, ...], box: tuple[int, ...], at: tuple[int, ...], span: int, add: bool,
    to: tuple[int, ...] | None = None, policy: str | None = None,
) -> Kernel:  # fmt: skip
    """Load one box of a tensor of 2 to 5 dimensions and store it, or add it, to another tensor.

    Args:
        dtype: of both.
        shape: of the tensors, outermost dimension first.
        box: of the copy, in the same order.
        at: coordinates of its first element.
        span: bytes of the swizzled rows in between, 0 for plain ones.
        add: whether the store adds.
        to: coordinates of its first element in the other tensor, the same where None.
        policy: of the L2 cache, that both copies ask for.
    """
    rank, places = len(shape), (at, to or at)
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(rank))
    size = math.prod(shape)
    x = Buffer("X", GL, dtype, as_expr(size))
    y = Buffer("Y", GL, dtype, as_expr(size), read=add)
    pitch = span // dtype.nbytes if span else box[-1]
    steps = (1, *(pitch * math.prod(box[i:-1]) for i in range(rank - 1, 0, -1)))
    nbytes = math.prod(box[:-1]) * pitch * dtype.nbytes
    staged = Buffer("x_sh", SH, dtype, as_expr(nbytes // dtype.nbytes), nbytes=nbytes)
    full = Barrier("full", 1, 1, offset=-(-nbytes // 8) * 8)
    inner = tuple(reversed(box))
    axes = tuple(reversed(range(rank)))
    maps = [TensorMap(f"{b.name}_map", b, axes, inner, span) for b in (x, y)]
    outer = tuple(reversed(strides))
    firsts = [as_expr(sum(c * s for c, s in zip(place, strides, strict=True))) for place in places]
    origins = [tuple(as_expr(c) for c in place) for place in places]
    far = [View(b, f, Layout(inner, outer), origin=o) for b, f, o in zip((x, y), firsts, origins, strict=True)]
    near = View(staged, as_expr(0), Layout(inner, steps), swizzle=swizzle_of(span, dtype.nbytes))
    form = f"{rank}d.{span}B" + (f".{policy}" if policy else "")
    load, store = find(f"tma.load.{form}"), find(f"tma.{'add' if add else 'store'}.{form}")
    assert load is not None
    assert store is not None
    zero = as_expr(0)
    moved = math.prod(box) * dtype.nbytes
    body = (
        InitBarriers((full,)),
        Fence("barrier.init", "the bulk copy uses it"),
        Sync(Block, "the barrier is initialised before it is used"),
        If(
            eq(LANE, 0),
            (
                Arrive(full, zero, moved),
                Call(load, (far[0], near), map=maps[0], signal=(full, zero)),
                Await(full, zero, zero),
                Call(store, (near, far[1]), map=maps[1]),
                Commit("bulk"),
                Wait("bulk", 0),
            ),
        ),
    )
    extents = tuple(as_expr(n) for n in shape)
    steps_of = tuple(as_expr(s) for s in strides)
    parameters = (
        Pointer(x, extents, steps_of, "input"),
        Pointer(y, extents, steps_of, "update" if add else "output"),
        *maps,
    )
    return Kernel("boxes", parameters, as_expr(1), THREADS, full.offset + 8, (staged,), body, barriers=(full,))


def boxed(x: np.ndarray, box: tuple[int, ...], at: tuple[int, ...]) -> tuple[slice, ...]:
    """Give the part of a tensor that a box covers."""
    return tuple(slice(max(0, c), max(0, min(c + n, m))) for c, n, m in zip(at, box, x.shape, strict=True))

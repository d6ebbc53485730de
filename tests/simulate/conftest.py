"""Small kernels written in IR by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron.algebra.dtypes import DType, f32
from fireiron.algebra.expr import Expr, Index, Symbol, Var, as_expr
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Constant
from fireiron.atoms.table import find
from fireiron.kernel.ir import (
    BLOCK,
    THREAD,
    Buffer,
    Call,
    Compute,
    For,
    If,
    Kernel,
    Number,
    Pointer,
    Precondition,
    Region,
    Size,
    Statement,
    Sync,
    View,
)
from fireiron.language.levels import GL, RF, SH, Block, Level


def move(src: View, dst: View, **more: Any) -> Call:
    nbytes = src.layout.size * src.buffer.dtype.nbytes
    atom = find(f"copy.{nbytes}B.{src.buffer.memory}.{dst.buffer.memory}")
    assert atom is not None
    return Call(atom, (src, dst), **more)


def atom(name: str) -> Any:
    found = find(name)
    assert found is not None
    return found


@attrs.define
class Kit:
    """Say in few words what the IR says in many."""

    thread: Var = attrs.field(factory=lambda: Var(THREAD, 1024))
    block: Var = attrs.field(factory=lambda: Var(BLOCK))
    pointers: list[Pointer] = attrs.field(factory=list)
    others: list[Any] = attrs.field(factory=list)
    buffers: list[Buffer] = attrs.field(factory=list)

    def gl(
        self, name: str, shape: Sequence[Index], role: Any = "input", dtype: DType = f32, strides: Any = None
    ) -> Buffer:
        extents = [as_expr(n) for n in shape]
        steps = [as_expr(1)]
        for n in reversed(extents[1:]):
            steps.insert(0, steps[0] * n)
        given = tuple(map(as_expr, strides)) if strides else tuple(steps)
        buffer = Buffer(name, GL, dtype, extents[0] * given[0])
        self.pointers.append(Pointer(buffer, tuple(extents), given, role))
        return buffer

    def sh(self, name: str, size: int, offset: int = 0, dtype: DType = f32, slots: int = 1) -> Buffer:
        nbytes = size * slots * dtype.nbytes
        self.buffers.append(Buffer(name, SH, dtype, as_expr(size), slots=slots, offset=offset, nbytes=nbytes))
        return self.buffers[-1]

    def rf(self, name: str, size: int, dtype: DType = f32) -> Buffer:
        self.buffers.append(Buffer(name, RF, dtype, as_expr(size)))
        return self.buffers[-1]

    def size(self, symbol: Symbol) -> Symbol:
        self.others.append(Size(symbol))
        return symbol

    def number(self, name: str, dtype: DType = f32, default: float | None = None) -> None:
        self.others.append(Number(name, dtype, default))

    def kernel(
        self, *body: Statement, threads: int = 32, grid: Index = 1, conditions: Sequence[Precondition] = ()
    ) -> Kernel:
        shared = max((b.offset + b.nbytes for b in self.buffers if b.memory == SH), default=0)
        return Kernel(
            "test",
            (*self.pointers, *self.others),
            as_expr(grid),
            threads,
            shared,
            tuple(self.buffers),
            body,
            preconditions=tuple(conditions),
        )

    @staticmethod
    def at(buffer: Buffer, offset: Index, width: int = 1, origin: Sequence[Index] = ()) -> View:
        return View(buffer, as_expr(offset), Layout(width, 1), origin=tuple(map(as_expr, origin)))

    @staticmethod
    def layout(buffer: Buffer, offset: Index, layout: Layout) -> View:
        return View(buffer, as_expr(offset), layout)

    move = staticmethod(move)
    atom = staticmethod(atom)

    @staticmethod
    def call(name: str, *views: View, **more: Any) -> Call:
        return Call(atom(name), views, **more)

    @staticmethod
    def loop(name: str, extent: Index, *body: Any, unroll: bool = False) -> For:
        """Repeat; a function among the statements is called with the variable."""
        var = Var(name, as_expr(extent))
        made: list[Statement] = []
        for each in body:
            found = each(var) if callable(each) else each
            made.extend(found if isinstance(found, tuple | list) else [found])
        return For(var, as_expr(extent), tuple(made), unroll)

    @staticmethod
    def only(condition: Expr, *body: Statement) -> If:
        return If(condition, body)

    @staticmethod
    def region(title: str, *body: Statement, path: str = "") -> Region:
        return Region(title, body, path)

    @staticmethod
    def sync(level: Level = Block, reason: str = "test") -> Sync:
        return Sync(level, reason)

    @staticmethod
    def fill(dst: View, value: float = 0.0, **more: Any) -> Compute:
        return Compute(dst, Constant(value, dst.buffer.dtype), **more)


@pytest.fixture
def k() -> Kit:
    return Kit()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)

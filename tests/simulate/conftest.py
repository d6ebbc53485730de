"""Small kernels written in IR by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron.algebra.dtypes import DType, f16, f32
from fireiron.algebra.expr import Expr, Index, Symbol, Var, as_expr, ceil_div, le, lt, ne
from fireiron.algebra.layout import Layout
from fireiron.algebra.scalar import Arg, Constant
from fireiron.algebra.swizzle import Swizzle
from fireiron.atoms.table import find
from fireiron.atoms.wgmma import wgmma
from fireiron.kernel.ir.statements import (
    BLOCK,
    BLOCKS,
    RANK,
    THREAD,
    Advance,
    Arrive,
    Await,
    Barrier,
    Buffer,
    Call,
    Commit,
    Compute,
    Cursor,
    Fence,
    For,
    If,
    InitBarriers,
    Kernel,
    Let,
    Number,
    Pointer,
    Precondition,
    Region,
    Role,
    Roles,
    Size,
    Statement,
    Sync,
    TensorMap,
    Turn,
    View,
    Wait,
    walk,
)
from fireiron.language.atom import Atom, Operand
from fireiron.language.levels import GL, RF, SH, Block, Cluster, Level, Thread, Warpgroup


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


SWIZZLE = Swizzle(3, 3, 3)  # of 128 bytes, on elements of two


@attrs.define
class Ring:
    """Build a GEMM of one role that loads and one that computes, in kernel IR, with room for mistakes.

    C (M, N) f32 = A (M, K) f16 times B, which is stored (N, K) f16.

    Args:
        m: rows of a block's tile, 64 a warpgroup.
        n: columns of it.
        trips: chunks of 64 along K.
        slots: of the ring.
        inflight: groups of MMAs that run on while the next chunk is awaited.
        cluster: blocks along M that share B.
        tiles: tiles along M, if the blocks are persistent; 0 for one a block.
        panels: parts along N in which C leaves through a ring of staging slots.
        staging: slots of that ring.
        staggered: whether two roles compute every second tile each, and take turns at the ring.
        wrong: the mistakes to make.
    """

    m: int = 64
    n: int = 32
    trips: int = 5
    slots: int = 3
    inflight: int = 0
    cluster: int = 1
    tiles: int = 0
    panels: int = 1
    staging: int = 1
    staggered: bool = False
    wrong: frozenset[str] = frozenset()

    @property
    def units(self) -> int:
        return self.m // 64

    @property
    def blocks(self) -> int:
        return self.tiles or self.cluster

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.m * self.blocks, self.n, 64 * self.trips

    def arrays(self, seed: int = 3) -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        m, n, k = self.sizes
        a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (n, k)))
        return {"A": a, "B": b, "C": np.full((m, n), np.nan, np.float32)}

    def has(self, mistake: str) -> bool:
        return mistake in self.wrong

    def kernel(self) -> Kernel:
        k = Kit()
        m, n, depth = self.sizes
        a, b, c = k.gl("A", (m, depth), dtype=f16), k.gl("B", (n, depth), dtype=f16), k.gl("C", (m, n), "output")
        a_size, b_size, c_size = self.m * 64, self.n * 64, 64 * self.n // self.panels
        a_sh = k.sh("a_sh", a_size, 0, f16, self.slots)
        b_sh = k.sh("b_sh", b_size, a_sh.nbytes, f16, self.slots)
        workers = 2 if self.staggered else 1
        c_sh = k.sh("c_sh", c_size, a_sh.nbytes + b_sh.nbytes, f32, self.staging * self.units * workers)
        acc = k.rf("acc", self.n // 2)
        full = Barrier("full", self.slots, 1 + self.has("full count"), c_sh.offset + c_sh.nbytes)
        arrivals = self.units * self.cluster + self.has("empty count") - self.has("few empties")
        empty = Barrier("empty", self.slots, arrivals, full.offset + 8 * self.slots)
        maps = (
            TensorMap("A_map", a, (1, 0), (64, self.m), 128),
            TensorMap("B_map", b, (1, 0), (64, self.n // self.cluster), 128),
            TensorMap("C_map", c, (1, 0), (self.n // self.panels, 64), 0),
        )
        rank = Var(RANK, self.cluster)
        tile, work = (Var("tile"), Var("work")) if self.tiles else (Var(BLOCK), None)
        load = self._load((a, a_sh, b, b_sh), (full, empty), maps, tile, rank)
        maths = [self._math((a_sh, b_sh, c, c_sh, acc), (full, empty), maps[2], tile, j) for j in range(workers)]
        if work is not None:
            trips = ceil_div(self.tiles - Var(BLOCK), Var(BLOCKS))
            here = Let(tile, Var(BLOCK) + work * Var(BLOCKS))
            load = (For(work, trips, (here, *load)),)
            if self.staggered:
                maths = [self._in_turn(math, tile, work, j) for j, math in enumerate(maths)]
            else:
                maths = [(For(work, trips, (here, *math)),) for math in maths]
        load += self._drain(empty)
        wide = self.units * 128
        names = ("even", "odd") if self.staggered else ("math",)
        ring = (Cursor("ring", self.slots),)
        start = (InitBarriers((full, empty)), *(() if self.has("init fence") else (Fence("barrier.init"),)))
        threads = 128 + wide * workers
        thread = Var(THREAD, threads)
        level = Cluster if self.cluster > 1 else Block
        body: tuple[Statement, ...] = (
            If(lt(thread, 1), start),
            *(() if self.has("first barrier") else (Sync(level, "barriers are there"),)),
            Roles(
                (
                    Role("load", 0, 128, 24, ring, (If(lt(Var(THREAD, 128), 1), load),)),
                    *(Role(name, 128 + wide * j, wide, 240, ring, maths[j]) for j, name in enumerate(names)),
                )
            ),
        )
        return Kernel(
            "ring", (*k.pointers, *maps), as_expr(self.blocks), threads, empty.offset + 8 * self.slots,
            tuple(k.buffers), body, cluster=self.cluster, persistent=bool(self.tiles), barriers=(full, empty),
        )  # fmt: skip

    def _load(self, buffers: Any, barriers: Any, maps: Any, tile: Expr, rank: Expr) -> tuple[Statement, ...]:
        a, a_sh, b, b_sh = buffers
        full, empty = barriers
        cursor, step = Cursor("ring", self.slots), Var("k", self.trips)
        slot, depth = cursor.slot, 64 * self.trips
        parity = cursor.parity if self.has("empty parity") else 1 - cursor.parity
        part = self.n // self.cluster
        row = rank * part
        nbytes = (
            (self.m + self.n) * 128 + (128 if self.has("more bytes") else 0) - (128 if self.has("less bytes") else 0)
        )
        signal = (full, slot)
        shared = atom("tma.load.2d.128B" + (".multicast" if self.cluster > 1 else ""))
        mask = None
        if self.cluster > 1:
            mask = as_expr(1) << rank if self.has("mask") else as_expr((1 << self.cluster) - 1)
        a_gl = View(
            a, tile * self.m * depth + step * 64, Layout((64, self.m), (1, depth)), None, (tile * self.m, step * 64)
        )
        b_gl = View(b, row * depth + step * 64, Layout((64, part), (1, depth)), None, (row, step * 64))
        a_to = View(a_sh, slot * (self.m * 64), Layout((64, self.m), (1, 64)), slot, swizzle=SWIZZLE)
        b_to = View(b_sh, slot * (self.n * 64) + row * 64, Layout((64, part), (1, 64)), slot, swizzle=SWIZZLE)
        body: tuple[Statement, ...] = (
            *(() if self.has("empty await") else (Await(empty, slot, parity),)),
            Arrive(full, slot, nbytes),
            Call(atom("tma.load.2d.128B"), (a_gl, a_to), map=maps[0], signal=signal),
            Call(shared, (b_gl, b_to), map=maps[1], signal=signal, peers=mask),
            Advance(cursor, as_expr(1)),
        )
        return (For(step, as_expr(self.trips - self.has("early exit")), body),)

    def _drain(self, empty: Barrier) -> tuple[Statement, ...]:
        if self.has("drain"):
            return ()
        cursor = Cursor("ring", self.slots)
        return (
            For(
                Var("d", self.slots),
                as_expr(self.slots),
                (Await(empty, cursor.slot, 1 - cursor.parity), Advance(cursor, as_expr(1))),
            ),
        )

    def _in_turn(self, body: tuple[Statement, ...], tile: Var, work: Var, j: int) -> tuple[Statement, ...]:
        """Let one of two roles compute its tiles: the first statement is its main loop, for which it takes turns."""
        main, *rest = body
        both, skip = 2 * 128 * self.units, Advance(Cursor("ring", self.slots), as_expr(self.trips))
        mine, other = Turn(1 + j, both, True, "its turn"), Turn(2 - j, both, False, "the other's turn")
        turns = () if self.has("turn") else (mine,)
        after = () if self.has("turn") else (other,)
        before = (skip, *after) if j else ()
        here = Let(tile, work * 2 + j)
        return (*before, For(work, as_expr(self.tiles // 2), (here, *turns, main, *after, skip, *rest)))

    def _math(self, buffers: Any, barriers: Any, c_map: TensorMap, tile: Expr, j: int) -> tuple[Statement, ...]:
        a_sh, b_sh, _, _, acc = buffers
        full, empty = barriers
        cursor, step, thread = Cursor("ring", self.slots), Var("k", self.trips), Var(THREAD, self.units * 128)
        unit, slot = thread // 128, cursor.slot
        mma = product(self.n)
        products = tuple(
            Call(
                mma,
                (
                    View(
                        a_sh,
                        slot * (self.m * 64) + unit * 4096 + 16 * i,
                        Layout((64, 16), (64, 1)),
                        slot,
                        swizzle=SWIZZLE,
                    ),
                    View(b_sh, slot * (self.n * 64) + 16 * i, Layout((16, self.n), (1, 64)), slot, swizzle=SWIZZLE),
                    View(acc, as_expr(0), Layout(self.n // 2, 1)),
                ),
                accumulate=None if i else ne(step, 0),
            )
            for i in range(4)
        )
        late = self.inflight
        last = slot if not late else (slot + (self.slots - late)) % self.slots
        release = self._release(empty, last, thread)
        if late:
            release = (If(le(late, step), release),)
        wait = Wait("wgmma", late)
        parity = 1 - cursor.parity if self.has("full parity") else cursor.parity
        stride = 1 + self.slots if self.has("ahead") else 1
        body: tuple[Statement, ...] = (
            *(() if self.has("await") else (Await(full, slot, parity),)),
            *(() if self.has("wgmma fence") else (Fence("registers"),)),
            *products,
            *(() if self.has("commit") else (Commit("wgmma"),)),
            *((*release, wait) if self.has("early release") else (wait, *release)),
            Advance(cursor, as_expr(stride)),
        )
        loop = For(step, as_expr(self.trips), body)
        end = (Wait("wgmma", 0), *self._release(empty, last, thread)) if late else ()
        return (loop, *end, *self._epilogue(buffers, c_map, tile, thread, j))

    def _release(self, empty: Barrier, slot: Expr, thread: Var) -> tuple[Statement, ...]:
        lane = thread % 128
        if self.cluster == 1:
            return (If(lt(lane, 1), (Arrive(empty, slot),)),)
        return (If(lt(lane, self.cluster), (Arrive(empty, slot, peer=lane),)),)

    def _epilogue(self, buffers: Any, c_map: TensorMap, tile: Expr, thread: Var, j: int) -> tuple[Statement, ...]:
        _, _, c, c_sh, acc = buffers
        lane, unit = thread % 32, thread // 128
        width = self.n // self.panels
        out: list[Statement] = []
        for panel in range(self.panels):
            i = Var("i", width // 2)
            row = thread % 128 // 32 * 16 + lane // 4 + i // 2 % 2 * 8
            column = i // 4 * 8 + lane % 4 * 2 + i % 2
            base = ((unit + j) * self.staging + panel % self.staging) * (64 * width)
            put = Compute(View(c_sh, base + row * width + column), Arg(0, f32), (View(acc, i + panel * (width // 2)),))
            fence = () if self.has("proxy fence") else (Fence("proxy.async"),)
            high = tile * self.m + unit * 64
            to = View(
                c, high * self.n + panel * width, Layout((width, 64), (1, self.n)), None, (high, as_expr(panel * width))
            )
            store = Call(atom("tma.store.2d.0B"), (View(c_sh, base, Layout((width, 64), (1, width))), to), map=c_map)
            # A slot is free once the stores of all but the newest groups have read theirs.
            pending = self.staging - (0 if self.has("store wait") else 1)
            out += [
                For(i, as_expr(width // 2), (put,)),
                *fence,
                Sync(Warpgroup, "the panel is whole"),
                If(lt(thread % 128, 1), (store, Commit("bulk"), Wait("bulk", pending, reads_only=True))),
                Sync(Warpgroup, "a slot is free"),
            ]
        if not self.has("last wait"):
            out.append(If(lt(thread % 128, 1), (Wait("bulk", 0, reads_only=True),)))
        return tuple(out)


def product(n: int, held: bool = False) -> Atom:
    """Find the row of f16 products in f32, with A from registers or from shared memory."""
    return next(row for row in wgmma(n) if row.name == f"wgmma.m64n{n}k16.f32.f16{'.ra' if held else ''}")


def _bulk(name: str, src: Any, dst: Any, completion: str, access: Any = "write") -> Atom:
    """Make a row of copies of neighbours, without a map."""
    whole = Layout((1, 1), (0, 0))
    operands = (Operand("src", src, None, (1, 1), whole), Operand("dst", dst, None, (1, 1), whole, access))
    return Atom(name, "Move", (0,), Thread, operands, 90, "PTX ISA 9.7.9.25", "", "", completion=completion)


@pytest.fixture
def ring() -> type[Ring]:
    return Ring


@pytest.fixture(name="product_atom")
def product_atom_fixture() -> Any:
    return product


@pytest.fixture
def bulk() -> Any:
    rows = {
        "load": _bulk("bulk.load", GL, SH, "mbarrier"),
        "store": _bulk("bulk.store", SH, GL, "bulk"),
        "add": _bulk("bulk.add", SH, GL, "bulk", "update"),
    }
    return type("Bulk", (), rows)


def _rewritten(body: tuple[Statement, ...], gone: Statement | None) -> tuple[Statement, ...]:
    """Leave a statement out; without one, copy all, so that each is one object."""
    out: list[Statement] = []
    for statement in body:
        match statement:
            case For() | If() | Region():
                out.append(attrs.evolve(statement, body=_rewritten(statement.body, gone)))
            case Roles():
                roles = tuple(attrs.evolve(role, body=_rewritten(role.body, gone)) for role in statement.roles)
                out.append(Roles(roles))
            case _ if statement is not gone:
                out.append(attrs.evolve(statement) if gone is None else statement)
            case _:
                pass
    return tuple(out)


ORDERING = (Wait, Arrive, Sync, Fence, Await, Commit, InitBarriers, Advance, Turn)


@pytest.fixture
def without() -> Any:
    """Give a kernel without each of the statements that order work, one at a time."""

    def each(kernel: Kernel) -> Iterator[tuple[Statement, Kernel]]:
        body = _rewritten(kernel.body, None)
        for statement in [s for s in walk(body) if isinstance(s, ORDERING)]:
            yield statement, attrs.evolve(kernel, body=_rewritten(body, statement))

    return each

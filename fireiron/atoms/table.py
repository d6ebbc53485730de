"""The table of all instructions of the compiler, in order of preference, and look-ups in that table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.atoms.atomics import ATOMICS
from fireiron.atoms.copy import COPIES, loads
from fireiron.atoms.copy import FAMILY as LOADS
from fireiron.atoms.cp_async import CP_ASYNC
from fireiron.atoms.ldmatrix import LDMATRIX
from fireiron.atoms.mma import MMA, OF_SUMS
from fireiron.atoms.movmatrix import MOVMATRIX
from fireiron.atoms.peer import LOADS as PEER_LOADS
from fireiron.atoms.peer import SENDS
from fireiron.atoms.quadpair import QUADPAIR
from fireiron.atoms.redux import REDUX
from fireiron.atoms.regroup import REGROUPS, regrouping
from fireiron.atoms.shuffle import SHUFFLES
from fireiron.atoms.simt import SIMT
from fireiron.atoms.stmatrix import STMATRIX
from fireiron.atoms.tf32x3 import FAMILY as SPLIT_FAMILY
from fireiron.atoms.tf32x3 import SPLIT
from fireiron.atoms.tma import FAMILY, TMA, hinted
from fireiron.atoms.tma import RANKS as BOX_RANKS
from fireiron.atoms.wgmma import FAMILY as WGMMA
from fireiron.atoms.wgmma import WIDTHS, wgmma, wgmma_near
from fireiron.atoms.wmma import WMMA, WMMA_MOVES
from fireiron.base.contract import shown
from fireiron.base.errors import DecompositionError
from fireiron.base.text import by, count
from fireiron.language.atom import POLICIES, Atom, Fold, Product
from fireiron.language.levels import GL, RF, SH, Level, Memory, Thread

__all__ = [
    "BOX_RANKS", "PEER_LOADS", "REGROUPS", "SIMT", "TABLE", "Near", "Rows", "box_move", "chosen_from", "content",
    "every", "exchange", "find", "like", "load_of_peer", "matching", "nearest", "reducing", "regrouping", "rows",
    "send", "warp_products", "wide_products",
]  # fmt: skip

TABLE: tuple[Atom, ...] = (
    *SIMT, *MMA, *QUADPAIR, *WMMA, *LDMATRIX, *STMATRIX, *MOVMATRIX, *COPIES, *CP_ASYNC, *TMA, *SHUFFLES, *REDUX,
    *ATOMICS, *WMMA_MOVES,
)  # fmt: skip


_LOADED = TABLE


@attrs.frozen(eq=False)
class Rows:
    """Hold one version of the table, as a key of caches; it equals only itself, so a changed table has new keys.

    Args:
        table: the rows.
    """

    table: tuple[Atom, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self.table is other.table

    def __hash__(self) -> int:
        return id(self.table)


def rows() -> Rows:
    """Return the key of caches that depend on the table: a new one whenever `TABLE` was replaced."""
    return _ROWS if _ROWS.table is TABLE else Rows(TABLE)


_ROWS = Rows(TABLE)


def content() -> str:
    """Return a digest of rows that this process changed, for keys of caches on disk; "" for the library's own table.

    Example:
        >>> content()
        ''
    """
    return "" if TABLE is _LOADED else _digest(rows())


@lru_cache(4)
def _digest(key: Rows) -> str:
    from fireiron.language.meaning import hashed, text

    return hashed(text(key.table))


_SUMS: dict[Product, str] = {"mul": "products", "xor": "bits of a ^ b", "and": "bits of a & b"}


@attrs.frozen
class Near:
    """Hold an atom that does not match a spec, and every fact that differs.

    Args:
        atom: the candidate.
        differs: one phrase for each fact: the atom's, then the spec's. Example: `B is f32, not f16`.
    """

    atom: Atom
    differs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.atom.name}: {'; '.join(self.differs)}"


def find(name: str) -> Atom | None:
    """Find an atom by its name.

    Example:
        >>> find("fma.f32").shape
        (1, 1, 1)
    """
    return next((atom for atom in _rows(name) if atom.name == name), None)


def every() -> tuple[Atom, ...]:
    """List all rows, including families whose rows are otherwise made only when they are needed."""
    return (*TABLE, *OF_SUMS, *REGROUPS, *SPLIT, *hinted(), *loads(), *(atom for n in WIDTHS for atom in wgmma(n)))


def box_move(
    load: bool, rank: int, span: int, hint: str = "", multicast: bool = False, adding: bool = False,
    windows: bool = False,
) -> Atom | None:  # fmt: skip
    """Find the bulk copy of a box with `rank` dimensions, to or from swizzled rows of `span` bytes.

    Example:
        >>> box_move(True, 2, 128).name, box_move(False, 3, 0, adding=True).name
        ('tma.load.2d.128B', 'tma.add.3d.0B')
    """
    for row in hinted() if hint else TMA:
        source = row.operands[0]
        found = (source.memory == GL, row.rank, max(o.span for o in row.operands), row.hint, row.multicast)
        wanted = (load, rank, span, hint, multicast)
        if found == wanted and bool(row.adding) == adding and row.windows == windows:
            return row
    return None


def like(atom: Atom, multicast: bool = False, adding: bool = False) -> Atom | None:
    """Find the variant of a bulk copy that writes to several blocks, or that adds."""
    span = max(o.span for o in atom.operands)
    return box_move(atom.operands[0].memory == GL, atom.rank, span, atom.hint, multicast, adding)


def reducing(fold: Fold, dtype: DType, arch: int) -> Atom | None:
    """Find the instruction that folds a value of each lane of a warp; None where only shuffles can.

    Example:
        >>> from fireiron.algebra.dtypes import f32, i32
        >>> reducing("max", i32, 90).name, reducing("max", i32, 75), reducing("max", f32, 90)
        ('redux.max.i32', None, None)
    """
    rows = (row for row in REDUX if row.fold == fold and row.operands[0].dtype == dtype)
    return next((row for row in rows if not row.missing_on(arch)), None)


def wide_products() -> tuple[Atom, ...]:
    """List the asynchronous products, which are the fastest ones; one width of each type."""
    return wgmma(64)


def warp_products() -> tuple[Atom, ...]:
    """List the products of a whole warp on tensor cores."""
    return MMA


def _rows(name: str) -> tuple[Atom, ...]:
    """List the rows to search for a name; families that must be chosen by name are included only for such a name."""
    if name.startswith(SPLIT_FAMILY):
        return SPLIT
    if name.endswith(".of_sums"):
        return OF_SUMS
    if name.startswith(LOADS):
        return loads()
    return every() if name.startswith(WGMMA) else (*TABLE, *hinted()) if name.startswith(FAMILY) else TABLE


@lru_cache
def _named(start: str) -> tuple[Atom, ...]:
    return tuple(atom for atom in _rows(start) if atom.name.startswith(start))


def chosen_from(chosen: Atom | str | None, shape: tuple[int, ...] = ()) -> tuple[Atom, ...]:
    """Return the rows to choose from: one atom, a family given by the start of its names, or the whole table.

    Args:
        chosen: the schedule's choice: an atom, a name, the start of names, or None.
        shape: (m, n, k) of a MatMul; of families with a row for each width, only widths near n are returned.

    Raises:
        DecompositionError: `unknown-atom`.

    Example:
        >>> [atom.name for atom in chosen_from("cp.async")]
        ['cp.async.16B', 'cp.async.8B', 'cp.async.4B']
    """
    if chosen is None:
        return (*TABLE, *wgmma_near(shape[1])) if len(shape) == 3 else TABLE
    if isinstance(chosen, Atom):
        return (chosen,)
    if not isinstance(chosen, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DecompositionError(
            "unknown-atom",
            f"{shown(chosen)} is no instruction",
            fix='give an atom, the start of names such as "mma.m16n8k16", or a microkernel',
        )
    found = _named(chosen)
    if not found:
        near = sorted({atom.name.split(".")[0] for atom in TABLE} | {WGMMA, SPLIT_FAMILY})
        hints = any(chosen.endswith(f".{policy}") for policy in POLICIES) and not chosen.startswith(FAMILY)
        raise DecompositionError(
            "unknown-atom",
            f"no atom's name starts with {chosen!r}",
            fix="only bulk copies take hints to the L2 cache: tma(l2=...)" if hints else "families: " + ", ".join(near),
        )
    return found


@lru_cache
def load_of_peer(dtype: DType) -> Atom:
    """Find the instruction that reads an element from the shared memory of another block of the cluster."""
    return matching("Move", (1,), (dtype, dtype), (SH, RF), Thread, table=PEER_LOADS)[0]


@lru_cache
def send(dtype: DType) -> Atom:
    """Find the instruction that sends an element from a register to the shared memory of a block of the cluster."""
    return matching("Move", (1,), (dtype, dtype), (RF, SH), Thread, table=SENDS)[0]


def exchange(nbytes: int) -> Atom:
    """Find the instruction by which lanes of a warp read each other's registers.

    Args:
        nbytes: of an element.

    Raises:
        DecompositionError: `no-atom` where no instruction exchanges `nbytes` bytes.
    """
    found = next((atom for atom in TABLE if atom.kind == "Shuffle" and atom.nbytes == nbytes), None)
    if found is None:
        raise DecompositionError(
            "no-atom", f"lanes exchange no elements of {nbytes} bytes", fix="compute in a type of 2, 4 or 8 bytes"
        )
    return found


def matching(
    kind: str,
    shape: tuple[int, ...],
    dtypes: tuple[DType, ...],
    memories: tuple[Memory, ...],
    level: Level,
    arch: int | None = None,
    table: tuple[Atom, ...] | None = None,
    product: Product = "mul",
) -> tuple[Atom, ...]:
    """List the atoms that execute a spec, the preferred one first.

    Args:
        kind: `MatMul`, `Move`, `Shuffle`, `Add` or `Reduce`.
        shape: (m, n, k) of a MatMul; (elements,) that one thread moves or adds.
        dtypes: element types in the atom's operand order.
        memories: memories in the same order.
        level: the level whose unit executes it.
        arch: the architecture, None for any.
        table: the rows to search, None for all.
        product: the term that a MatMul sums.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> from fireiron.language.levels import GL, SH, Thread
        >>> [atom.name for atom in matching("Move", (4,), (f32, f32), (GL, SH), Thread)]
        ['copy.16B.GL.SH', 'cp.async.16B']
    """
    if table is None:
        return _known(kind, shape, dtypes, memories, level, arch, product, rows())
    nbytes = shape[0] * dtypes[0].bits / 8 if kind == "Move" else 0
    return tuple(
        atom
        for atom in table
        if atom.kind == kind
        and atom.nbytes == nbytes
        and (nbytes or atom.shape == shape)
        and atom.unit == level  # most atoms differ before this line, which is quick to see
        and next(_differences(atom, shape, dtypes, memories, level, arch, product), None) is None
    )


@lru_cache(4096)
def _known(
    kind: str,
    shape: tuple[int, ...],
    dtypes: tuple[DType, ...],
    memories: tuple[Memory, ...],
    level: Level,
    arch: int | None,
    product: Product,
    key: Rows,
) -> tuple[Atom, ...]:
    """Search all rows, with a cache, since schedules need the same few rows again and again."""
    table = chosen_from(None, shape if kind == "MatMul" else ())
    return matching(kind, shape, dtypes, memories, level, arch, table, product)


def nearest(
    kind: str,
    shape: tuple[int, ...],
    dtypes: tuple[DType, ...],
    memories: tuple[Memory, ...],
    level: Level,
    arch: int | None = None,
    table: tuple[Atom, ...] = TABLE,
    product: Product = "mul",
    most: int = 3,
) -> tuple[Near, ...]:
    """List the atoms of a kind that differ from a spec in the fewest facts, with those facts.

    Args:
        kind: `MatMul`, `Move`, `Shuffle`, `Add` or `Reduce`; see `matching`.
        shape: of the spec.
        dtypes: of the operands.
        memories: of the operands.
        level: of the spec.
        arch: the architecture, None for any.
        table: the rows to search, None for all.
        product: the term that a MatMul sums.
        most: number of atoms to list.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> from fireiron.language.levels import GL, SH, Thread
        >>> print(nearest("Move", (3,), (f32, f32), (GL, SH), Thread, most=1)[0])
        copy.16B.GL.SH: it moves 4 elements of f32, not 3
    """
    found = [
        Near(atom, tuple(_differences(atom, shape, dtypes, memories, level, arch, product)))
        for atom in table
        if atom.kind == kind
    ]
    # Sorting is stable: equally near atoms stay in order of preference, after those that compute the same.
    differing = (near for near in found if near.differs)
    return tuple(sorted(differing, key=lambda near: len(near.differs) + (near.atom.product != product)))[:most]


def _differences(
    atom: Atom,
    shape: tuple[int, ...],
    dtypes: tuple[DType, ...],
    memories: tuple[Memory, ...],
    level: Level,
    arch: int | None,
    product: Product,
) -> Iterator[str]:
    """List the facts in which an atom differs from a spec of its kind."""
    if atom.nbytes:
        yield from _width_differs(atom, shape, dtypes)
    elif atom.shape != shape:
        yield f"its shape is {by(atom.shape)}, not {by(shape)}"
    for operand, dtype, memory in zip(atom.operands, dtypes, memories, strict=True):
        if operand.dtype is not None and operand.dtype != dtype:
            yield f"it takes {operand.role} in {operand.dtype}, not {dtype}"
        if operand.memory != memory:
            yield f"it takes {operand.role} in {operand.memory}, not {memory}"
    if atom.product != product:
        yield f"it sums {_SUMS[atom.product]}, not {_SUMS[product]}"
    if atom.unit != level:
        yield f"a {atom.unit} executes it, not a {level}"
    if arch is not None and (missing := atom.missing_on(arch)):
        yield f"it {missing}"


def _width_differs(atom: Atom, shape: tuple[int, ...], dtypes: tuple[DType, ...]) -> list[str]:
    """List how an atom's number of bytes differs from a spec's, and conversions, which it does not do."""
    src, dst = dtypes
    if src != dst:
        return [f"it does not convert {src} to {dst}"]
    (elements,) = shape
    if elements * src.bits == atom.nbytes * 8:
        return []
    if atom.nbytes * 8 % src.bits:
        return [f"it moves {atom.nbytes} B, not {elements} elements of {src}"]
    return [f"it moves {count(src.count_in(atom.nbytes), 'element')} of {src}, not {elements}"]

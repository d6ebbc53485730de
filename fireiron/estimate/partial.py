"""Closing unfinished chains by plain links, so that the links written so far can be measured."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

import attrs

from fireiron.algebra.dtypes import DType, default_accumulator
from fireiron.algebra.layout import Layout
from fireiron.atoms.table import SIMT
from fireiron.base.errors import Finding
from fireiron.base.link import Link
from fireiron.base.place import Place
from fireiron.kernel.analysis.sampling import Site
from fireiron.language.atom import Atom, Operand
from fireiron.language.decompositions import Decomposition, Done, Epilog, Load, Output, Own, Split, Tile, Widest
from fireiron.language.levels import RF, Kernel, Thread
from fireiron.language.pointwise import accumulator
from fireiron.language.programs import Products
from fireiron.language.residual import Residual, after, apply, start
from fireiron.language.specs import Spec

# The link of everything that a completion adds; it compares by identity.
HOLE: Final = Link(Place("<later links>", 0))
ASSUMED_THREADS = 256
# Findings that later links may still resolve.
OPEN: Final = frozenset(
    ("unfinished", "ownership-conflict", "ownership-unknown", "register-loop", "fragment-order", "no-atom",
     "pipeline-empty", "no-sync-needed", "barrier-in-guard")
)  # fmt: skip


@attrs.frozen
class Completion:
    """Hold an unfinished chain that was closed.

    Args:
        links: the author's links, then the added ones.
        residual: the residual spec after the author's links.
        threads_known: whether the author has mapped tiles to a level inside the block.
        owners_known: whether the author has mapped tiles to single threads, so that ownership of registers is known.
    """

    links: tuple[Decomposition, ...]
    residual: Residual
    threads_known: bool
    owners_known: bool


def complete(spec: Spec, links: tuple[Decomposition, ...]) -> Completion | None:
    """Close a chain; None where no tile is mapped to blocks yet."""
    residual = after(spec, links)
    if residual.closed:
        return Completion(links, residual, True, True)
    if residual.level.name == Kernel.name or spec.layers:
        return None
    threads_known = any(isinstance(x, Tile | Split) and x.level is not None and x.level.size is not None for x in links)
    at_thread = residual.level.size == 1
    last = links[-1]
    if isinstance(last, Split) and last.stages > 1:
        links = (*links[:-1], attrs.evolve(last, stages=1))
    added: list[Decomposition] = []
    chosen, deep = None, 1
    ones = tuple((dim, 1) for dim, _ in residual.sizes if dim != "K")
    if residual.kind == "MatMul":
        (c, *_), (a, *_) = residual.playing("C"), residual.playing("A")
        if not any(atom.operand("A").dtype == a.dtype for atom in SIMT):
            chosen, deep = _stand_in(spec, residual), a.dtype.pack
        if not c.memory.registers:
            added.append(_plain_epilog(spec, a.computed))
    if not at_thread:
        units = None if threads_known else ASSUMED_THREADS
        added.append(Tile(ones, Thread, units, unrolled=True, link=HOLE))
    if residual.kind == "MatMul":
        added.append(Split(deep, unrolled=True, link=HOLE))
        for operand in (*residual.playing("A"), *residual.playing("B")):
            if not operand.memory.registers:
                added.append(Load(operand.role, RF, _OWN, link=HOLE))
    if at_thread:
        added.append(Tile(ones, unrolled=True, link=HOLE))
    return Completion((*links, *added, Done(chosen, link=HOLE)), residual, threads_known, at_thread)


def _plain_epilog(spec: Spec, dtype: DType) -> Epilog:
    """Accumulate in registers, and store what each thread holds."""
    if isinstance(spec, Products):
        *others, (value, _) = zip(spec.values, spec.outs, strict=True)
        outputs = tuple(Output(v, out, _OWN) for v, out in others)
        return Epilog(value, RF, spec.accumulator, 0.0, _OWN, outputs, link=HOLE)
    kind = default_accumulator(dtype)
    return Epilog(accumulator(kind), RF, kind, 0.0, _OWN, link=HOLE)


def _stand_in(spec: Spec, residual: Residual) -> Atom:
    """Describe a thread's part of a product for types that only tensor cores multiply: whole bytes along K."""
    (a, *_), (b, *_), (last, *_) = (residual.playing(letter) for letter in "ABC")
    a, b, c = a.dtype, b.dtype, last.dtype
    kind = c if last.memory.registers else default_accumulator(a)
    line = Layout((1, a.pack), (0, 1)) if a.pack > 1 else Layout((1, 1), (0, 0))
    operands = (
        Operand("A", RF, a, (1, a.pack), line),
        Operand("B", RF, b, (a.pack, 1), line),
        Operand("C", RF, kind, (1, 1), Layout((1, 1), (0, 0)), "update"),
    )
    return Atom(
        "later links", "MatMul", (1, 1, a.pack), Thread, operands, 0, "", "", "{C}; {A}; {B};",
        product=spec.product,
    )  # fmt: skip


def shares(spec: Spec, links: tuple[Decomposition, ...], threads: int) -> dict[Link, int]:
    """Return for each link with a register tensor the fewest elements a thread must hold: a share of the tile.

    Args:
        spec: the chain's spec.
        links: the author's links.
        threads: number of threads of a block.
    """
    found: dict[Link, int] = {}
    residual = start(spec)
    for link in links:
        if isinstance(link, Load | Epilog) and link.memory.registers and link.link is not None:
            several = residual.playing("C") if isinstance(link, Epilog) else ()
            operand = several[0] if several else residual.operand(link.role) if isinstance(link, Load) else None
            assert operand is not None
            extents = [residual.extents[dim] for dim in operand.dims]
            if all(isinstance(extent, int) for extent in extents):
                elements = prod(extent for extent in extents if isinstance(extent, int))
                sums = len(residual.sums) or 1 if isinstance(link, Epilog) else 1
                found[link.link] = -(-elements * sums // (residual.level.size or threads))
        residual = apply(link, residual)
    return found


def idle_ways(spec: Spec, links: tuple[Decomposition, ...]) -> Iterator[Finding]:
    """Find units of parallel splits that get no chunk of K."""
    residual = start(spec)
    for link in links:
        extent = residual.extents.get("K")
        if isinstance(link, Split) and link.ways is not None and isinstance(extent, int):
            assert isinstance(link.size, int)
            busy = -(-extent // link.size)
            if link.level is not None and busy < link.ways:
                yield Finding(
                    "idle-units",
                    f"{link.ways - busy} of {link.ways} units of {link.level} have no part of K: chunks of {link.size} "
                    f"leave {busy} of {extent}",
                    "note",
                    fix="use fewer ways, or a smaller multiple_of",
                    link=link.link,
                )
        residual = apply(link, residual)


# Each thread's own elements, one vector after another.
_OWN: tuple[Decomposition, ...] = (Own(Thread, HOLE), Tile(Widest(), unrolled=True, link=HOLE), Done(link=HOLE))


def added(site: Site) -> bool:
    """Say whether a statement comes from an added link."""
    return site.statement.link is HOLE or (site.region is not None and site.region.link is HOLE)

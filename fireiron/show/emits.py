"""Describe in sentences what each link becomes in the kernel; find the loops of each link."""

from __future__ import annotations

from typing import assert_never

from fireiron.algebra.expr import Index, as_expr, as_int
from fireiron.algebra.layout import Layout
from fireiron.base.text import count
from fireiron.kernel.ir.statements import For, Kernel, LoopKind
from fireiron.language.decompositions import (
    Chunks,
    Done,
    Drawn,
    Each,
    EachStep,
    Epilog,
    Load,
    Own,
    Prolog,
    Results,
    Split,
    Tile,
    Widest,
)
from fireiron.language.levels import Block, Level
from fireiron.show import lowered
from fireiron.show.steps import Nested, Step, nested
from fireiron.show.tree import held, result
from fireiron.show.words import computed, function, summed


def emits(step: Step, kernel: Kernel | None = None) -> str:
    """Describe in a sentence or two what a link becomes: loops, units, buffers, barriers, instructions."""
    link = step.link
    match link:
        case Tile(sizes=Widest()):
            return "one vector at a time"
        case Tile(level=None):
            return _loops(step, link.unrolled)
        case Tile():
            return _units(step, link)
        case Split() if link.level is not None:
            return f"{_takers(step, link.level)}; {summed(link)}"
        case Split():
            ahead = _ahead(link)
            c = step.before.operand("C")
            zeroed = f"; C starts at 0 in {c.memory}" if c is not None and not c.memory.registers else ""
            some = f", {link.together} trips together" if link.together > 1 and not link.unrolled else ""
            return _loops(step, link.unrolled) + some + ahead + zeroed + _promoted(link, step)
        case Load():
            return _load(step, link, kernel)
        case Prolog(role, value):
            made = computed(value, role)
            return f"the next load of {role} through registers, or promote(), makes {made} of each element"
        case Epilog():
            return _epilog(step, link, kernel)
        case Results(memory=memory):
            return f"folds keep their state in {memory}, and outputs are stored from there"
        case Own(level):
            return f"each {level} takes the elements that it holds"
        case Each():
            number = sum(as_int(as_expr(w.shape[0])) or 1 if len(w.shape) == 3 else 1 for w in step.before.weights)
            said = f"{count(number, 'layer')}, one after another, whose results stay on chip"
            atoms = _atoms(kernel, nested(step), step) if kernel else ()
            said += "; a block asks the L2 cache for its next tile's X before it stores this one's" * link.prefetch
            return said + (f"; the last one's are stored by {' then '.join(atoms)}" if atoms else "")
        case EachStep(chains):
            named = ", ".join(chain.name for chain in chains)
            return f"atoms compute {named} as MatMuls; threads compute the other steps where they hold what these read"
        case Done():
            if step.before.kind in ("Init", "Pointwise"):
                return f"each {step.before.level} computes its elements one after another"
            if step.before.kind == "Program":
                return "threads compute the points that they hold, step by step"
            name = lowered.compute_name(kernel) if kernel else ""
            what = step.before.kind if "?" in step.before.short else step.before.short
            return f"{name or 'the instruction'} executes {what}, one {step.before.level} at a time"
    assert_never(link)


def change(step: Step) -> str:
    """Describe which facts of the spec a link changes.

    Example:
        >>> from fireiron.language.residual import start
        >>> from fireiron.language.specs import MatMul
        >>> from fireiron.language.tensor import Matrix
        >>> from fireiron.show.steps import chain
        >>> spec = start(MatMul(Matrix(64, 32, name="A"), Matrix(32, 64, name="B"), Matrix(64, 64, name="C")))
        >>> change(chain(spec, (Tile((("M", 8), ("N", 64)), Block),), "")[0])
        'M 64 → 8, Kernel → Block'
    """
    before, after = step.before, step.after
    said = [
        f"{dim} → {_extent(new)}" if str(old) == dim else f"{dim} {_extent(old)} → {_extent(new)}"
        for (dim, old), (_, new) in zip(before.sizes, after.sizes, strict=True)
        if old != new
    ]
    for old, new in zip(before.operands, after.operands, strict=False):
        said += [f"{old.role} {old.memory} → {new.memory}"] if old.memory != new.memory else []
        said += [f"{old.role} {old.dtype} → {new.dtype}"] if old.dtype != new.dtype else []
    said += [f"{before.level} → {after.level}"] if before.level != after.level else []
    return ", ".join(said)


def loops(chain: tuple[Step, ...], kernel: Kernel) -> tuple[tuple[For, ...], ...]:
    """Find the loops that each link of a chain made around the products, by the loops' order and kind."""
    rest = list(lowered.enclosing(kernel))
    found: list[tuple[For, ...]] = []
    for step in chain:
        mine: list[For] = []
        for kind in _kinds(step):
            if rest and rest[0].kind == kind:
                mine.append(rest.pop(0))
        found.append(tuple(mine))
    return tuple(found)


def _kinds(step: Step) -> tuple[LoopKind, ...]:
    """List the kinds of loops that a link makes, outermost first."""
    match step.link:
        case Split():
            return ("chunks",) if step.link.level is None else ()
        case Tile(persistent=True):
            return ("items",)
        case Tile(level=None):
            return ("tiles",) * sum(as_expr(n).range != (1, 1) for _, n in step.cuts)
        case Tile():
            several = isinstance(step.trips, int) and step.units is not None and step.trips > step.units
            return ("turns",) if several else ()
        case _:
            return ()


def _loops(step: Step, unrolled: bool) -> str:
    said = [f"{n} along {dim}{_partial(step, dim)}" for dim, n in step.cuts if n != 1]
    if not said:
        return "one pass, no loop"
    word = "a loop of" if len(said) == 1 else "loops of"
    return f"{word} {' and '.join(said)}" + (", unrolled" if unrolled else "")


def _ahead(link: Split) -> str:
    """Describe how many chunks the loads below a split run ahead, and which threads start them."""
    said = ""
    if link.specialised is not None:
        whose = count(link.specialised.producers, "warpgroup")
        said = f"; {whose} load{'s' * (link.specialised.producers == 1)}"
        said += f", up to {count(link.stages, 'chunk')} ahead in as many slots; the others compute"
        if link.specialised.prefetch:
            chunks = link.specialised.prefetch
            said += f", and first prefetch {'the first chunk' if chunks == 1 else f'{chunks} chunks'} into the L2 cache"
    elif link.stages > 1:
        said = f"; the loads below run {count(link.stages - 1, 'chunk')} ahead in {link.stages} slots"
    return said + (
        "; a slot becomes free one chunk later, so that products follow without a gap" if link.inflight else ""
    )


def _promoted(link: Split, step: Step) -> str:
    """Describe the registers for a chunk's sums, and the factors of these sums."""
    if link.promoted is None:
        return ""
    scaled = [o.role for o in step.before.operands if o.ops is not None]
    times = f" times what scales {' and '.join(scaled)}" if scaled else ""
    return f"; each chunk is summed in {link.promoted} of its own, and added{times}"


def _nth(n: int) -> str:
    return {2: "second", 3: "third"}.get(n, f"{n}th")


def _units(step: Step, link: Tile) -> str:
    level = str(link.level).lower()
    along = " x ".join(f"{n} along {dim}{_partial(step, dim)}" for dim, n in step.cuts)
    said = f"{_count(step.trips, 'tile')} ({along})"
    if link.persistent:
        how = "draws one when it is done" if isinstance(link.share, Drawn) else "loops over its share"
        said += f" for {level}s, of which no more are launched than run at once: each {how}"
    elif link.level is not None and link.level.name == Block.name:
        said = f"{_count(step.trips, 'block')} ({along})"
    elif link.staggered > 1:
        said = f"{count(link.staggered, level)}, each with every {_nth(link.staggered)} whole tile of the block"
    elif step.units is None or not isinstance(step.trips, int):
        said += f", one a {level}"
    elif step.trips > step.units:
        said += f", dealt out to {count(step.units, level)} in turn"
    elif step.trips < step.units:
        said += f", one a {level}; {step.units - step.trips} of {count(step.units, level)} have none"
    else:
        said += f", one a {level}"
    if link.permute is None:
        return said
    name = function(link.permute)
    return f"{said}; ids permuted by {name}" if name else f"{said}; ids permuted"


def _takers(step: Step, level: Level) -> str:
    one = str(level).lower() if level.name in (Block.name, "Warp", "Warpgroup") else str(level)
    along = " x ".join(f"{dim}{_partial(step, dim)}" for dim, _ in step.cuts)
    said = f"{_count(step.trips, 'chunk')} along {along}, one a {one}"
    return f"{said}: {step.trips} blocks share each tile" if level == Block else said


def _load(step: Step, link: Load, kernel: Kernel | None) -> str:
    said = held(step, kernel)
    if kernel is None:
        return said
    move = nested(step)
    atoms = _atoms(kernel, move, step)
    said += f"; filled by {' then '.join(atoms)}" if atoms else ""
    buffer = lowered.buffer(kernel, step)
    waits = len(lowered.barriers_of(kernel, buffer.name)) if buffer else 0
    return said + (f"; {count(waits, 'barrier')}" if waits else "")


def _epilog(step: Step, link: Epilog, kernel: Kernel | None) -> str:
    said = f"{held(step, kernel)}; starts at {link.init:g}"
    for output in link.outputs:
        said += f", {output.tensor.name} stores {computed(output.value, 'acc')}"
    if result(link):
        said += f", ends as {result(link)}"
    atoms = _atoms(kernel, nested(step), step) if kernel else ()
    return said + (f"; stored by {' then '.join(atoms)}" if atoms else "")


def _atoms(kernel: Kernel, move: Nested | None, step: Step) -> tuple[str, ...]:
    """Name the instructions of a Move, in the order of its hops."""
    if move is None:
        return ()
    hops = [name for s in move.steps if isinstance(s.link, Load) for name in _atoms(kernel, nested(s), s)]
    return (*hops, *lowered.move_atoms(kernel, move, step))


def _partial(step: Step, dim: str) -> str:
    """Write a note for a cut whose last tile is partial."""
    old, new = step.before.extents[dim], step.after.extents[dim]
    match step.link:
        case Tile(sizes=tuple(sizes)) if isinstance(dict(sizes)[dim], Chunks | Layout):
            return ""
        case _:
            whole = not isinstance(old, int) or not isinstance(new, int) or old % new == 0
            return "" if whole else ", the last partial"


def _count(n: Index, one: str) -> str:
    return count(n, one) if isinstance(n, int) else f"{n} {one}s"


def _extent(size: Index | None) -> str:
    return "?" if size is None else str(size)

"""Show passes: the statements that each inserted into a kernel or removed, and the check of the finished kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import attrs

from fireiron.algebra.expr import as_expr
from fireiron.base.text import count
from fireiron.kernel.ir.statements import (
    Advance,
    Arrive,
    Ask,
    Await,
    Call,
    Commit,
    Compute,
    CountIn,
    Draw,
    Fence,
    Fetch,
    FindGroup,
    For,
    If,
    InitBarriers,
    Kernel,
    Leave,
    Let,
    Lower,
    Meet,
    Micro,
    Prefetch,
    Raise,
    Region,
    Roles,
    Statement,
    Sync,
    Turn,
    Vote,
    Wait,
)
from fireiron.kernel.lower.kernel import Passed
from fireiron.kernel.passes.edges import Unordered
from fireiron.kernel.promises.promises import broken

Body = tuple[Statement, ...]

# In the order in which they run: what each of them does.
PASSES = {
    "pipelines": "lets the copies of pipelines run ahead of the compute, by as many chunks as there are slots but one",
    "masks": "parts the chunks that masks touch from those that no mask touches",
    "skew": "issues a product a trip ahead of what reads it",
    "roles": "parts what fills rings from what computes: each role runs its own, with the loops and names around it",
    "draws": "lets one thread of a block draw the next tile, and hands it to the others",
    "subscripts": "reads elements of arrays that are indices, each ahead of the loops in which it stays the same",
    "exchanges": "lets blocks of a cluster tell each other that they have written, or read, what they exchange",
    "flags": "raises a flag behind sums that a unit of the grid hands on, and lowers it ahead of reading them",
    "turns": "lets units wait for their turns at main loops, and pass these on",
    "rings": "initialises mbarriers, and awaits and releases the slots that roles share",
    "allocation": "gives buffers and mbarriers their places, and numbers the statements",
    "copies": "closes groups of copies in flight, and awaits them",
    "products": "fences registers, closes groups of products in flight, and awaits them",
    "stores": "fences what bulk stores read, closes their groups, and awaits them",
    "barriers": "puts barriers where shared memory is written before it is read, and read before it is overwritten",
    "proxies": "fences what threads write before wgmma reads it, and waits for wgmma before they overwrite it",
    "dependence": "waits for the launch before, and lets the one behind begin",
    "pairs": "lets one instruction compute two elements",
    "two trips": "compiles loops of two trips without a jump, for sm_100 and later",
    "tensor maps": "fetches the tensor maps of bulk copies",
    "packing": "counts elements of fewer than 8 bits in bytes",
}


@attrs.frozen
class Line:
    """Hold one statement in words, with its place.

    Args:
        text: the statement.
        place: the role, loops and regions around it.
        added: whether the pass inserted the statement; False if it removed it.
    """

    text: str
    place: str
    added: bool

    def __str__(self) -> str:
        where = f"   in {self.place}" if self.place else ""
        return f"{'+' if self.added else '-'} {self.text}{where}"


@attrs.frozen
class Change:
    """Hold the changes of one pass.

    Args:
        name: name of the pass.
        does: purpose of the pass.
        lines: statements that it inserted or removed, in program order.
        broken: promises of the pass that its verifier found broken.
        notes: decisions that no statement shows. Example: "a_sh: bytes 0 to 8191 of shared memory".
    """

    name: str
    does: str
    lines: tuple[Line, ...]
    broken: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        wrong = [f"  broken promise: {one}" for one in self.broken]
        done = [f"  {line}" for line in (*self.notes, *self.lines)]
        return "\n".join([f"{self.name}: {self.does if done else 'changes nothing'}", *done, *wrong])


def changes(passed: Sequence[Passed], kernel: Kernel | None, edges: Sequence[Unordered]) -> tuple[Change, ...]:
    """List the changes of each pass, in order, and the promises that it broke.

    Args:
        passed: the kernel's statements after each pass.
        kernel: the finished kernel; None leaves out the check of promises.
        edges: pairs of accesses in the kernel that nothing orders.
    """
    wrong = {} if kernel is None or not passed else broken(passed, kernel, edges)
    return tuple(
        Change(p.name, PASSES[p.name], tuple(_compared(p.before, p.after)), tuple(wrong.get(p.name, ())), p.notes)
        for p in passed
    )


def verdict(found: Sequence[Unordered]) -> str:
    """Write the result of the check of the finished kernel."""
    if not found:
        return "edges: every access comes behind those that it conflicts with"
    return "\n".join(["edges: nothing orders", *(f"  {edge}" for edge in found)])


def _compared(before: Body, after: Body) -> Iterator[Line]:
    if before is after:
        return
    old, new = list(_lines(before, "")), list(_lines(after, ""))
    parted = any(isinstance(s, Roles) for s in after) and not any(isinstance(s, Roles) for s in before)
    # All places begin with a role's name behind the pass that parts the roles.
    keys = [[text if parted else (text, place) for text, place in lines] for lines in (old, new)]
    for kind, a, b, c, d in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from (Line(text, place, False) for text, place in old[a:b])
            yield from (Line(text, place, True) for text, place in new[c:d])


def _lines(body: Body, place: str) -> Iterator[tuple[str, str]]:
    for s in body:
        yield _words(s), place
        match s:
            case For(body=inner):
                yield from _lines(inner, _inside(place, f"for {s.var.name}"))
            case If(body=inner):
                yield from _lines(inner, place)
            case Region(title=title, body=inner):
                yield from _lines(inner, _inside(place, title.split(":")[0]))
            case Roles(roles=roles):
                for role in roles:
                    yield from _lines(role.body, role.name)
            case _:
                pass


def _inside(place: str, more: str) -> str:
    return f"{place} > {more}" if place else more


def _words(s: Statement) -> str:
    match s:
        case For(var=var, extent=extent, pairs=pairs):
            return f"for {var.name} < {extent}{', two trips an instruction' if pairs else ''}"
        case If(condition=condition):
            return f"if {condition}"
        case Region(title=title):
            return title
        case Let(var=var, value=value):
            return f"{var.name} = {value}"
        case Vote(var=var, flag=flag, found=found):
            said = {
                "any": "whether {} is set in a lane",
                "count": "the number of lanes with {}",
                "first": "the first lane with {}",
            }
            return f"let {var.name} be {said[found].format(flag.buffer.name)} of the warp"
        case Draw(var=var, place=place, reads=reads):
            return f"{var.name} = the item in {place.buffer.name}" if reads else f"draw {var.name}"
        case Leave(condition=condition):
            return f"end the loop if {condition}"
        case Fetch(var=var, view=view):
            return f"{var.name} = {view.buffer.name}[{view.offset}]"
        case Call(atom=atom, views=views):
            return f"{atom.name}({', '.join(view.buffer.name for view in views)})"
        case Compute(dst=dst):
            return f"compute {dst.buffer.name}"
        case Micro(name=name):
            return f"microkernel {name}"
        case Sync(level=level, reason=reason):
            return f"barrier of the {level}: {reason}"
        case Commit(group=group):
            return f"close a group of {group}"
        case Wait(group=group, pending=pending, reads_only=reads):
            which = f"all but {count(pending, 'group')}" if pending else "all groups"
            return f"wait until {which} of {group} have {'read their sources' if reads else 'landed'}"
        case Await(barrier=barrier, slot=slot, parity=parity):
            return f"await {barrier.name}[{slot}], parity {parity}"
        case Arrive(barrier=barrier, slot=slot, nbytes=nbytes, peer=peer):
            bytes_ = f", {nbytes} bytes to land" if nbytes else ""
            return f"arrive at {barrier.name}[{slot}]{'' if peer is None else f' of block {peer}'}{bytes_}"
        case Fence(kind=kind, reason=reason):
            return f"fence {kind}{f': {reason}' if reason else ''}"
        case Turn(number=number, threads=threads, waits=waits, reason=reason):
            return f"{'meet' if waits else 'arrive'} at barrier {number} of {threads} threads: {reason}"
        case InitBarriers(barriers=barriers):
            return f"initialise {', '.join(f'{b.name}[{b.slots}] of {b.count}' for b in barriers)}"
        case Advance(cursor=cursor, by=by):
            return f"move {cursor.name} on by {as_expr(by)}"
        case Prefetch(maps=maps):
            return f"fetch {', '.join(m.name for m in maps)}"
        case Roles(roles=roles):
            return f"roles {' and '.join(f'{r.name} of {r.threads} threads' for r in roles)}"
        case CountIn() | Meet() | Raise() | Lower() | FindGroup() | Ask():
            return type(s).__name__

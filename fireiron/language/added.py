"""Sums added to the old values of an array (`out = before + sum`): each unit may add its own partial sum."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Parameter, Scalar, substituted
from fireiron.base.errors import DecompositionError
from fireiron.language.folds import add_of
from fireiron.language.steps import Program, Step


def parts_added(program: Program, dim: str) -> tuple[Program, frozenset[str]]:
    """Return the program that one unit runs on its part of a dim: without `before +` in its sums.

    Args:
        program: a program with sums over the dim whose outputs replace inputs: `out = before + sum`.
        dim: the dim whose points the units divide among them.

    Returns:
        The program without `before +`, and the names of the outputs that lost it.

    Raises:
        DecompositionError: `parallel-reduce` where a fold over the dim has another use.
    """
    replaced, changed = dict(program.inplace), dict[str, Step]()
    for fold in program.steps:
        if all(d.name != dim for d in fold.over):
            continue
        names = {out.name for out in fold.outs}
        readers = [s for s in program.steps if any(r.name in names for r in s.reads)]
        adds = not fold.running and fold.fold == add_of(fold.outs[0].dtype)
        own = _part(readers[0], names, replaced) if adds and len(readers) == 1 else None
        if own is None:
            raise DecompositionError(
                "parallel-reduce",
                f"by_tma(): each block adds its own part of {fold.name} to an output, which is not an input plus "
                f"{fold.name}",
                fix='write `before + sum` with out=inplace("before") for this output, or drop reduce=by_tma()',
            )
        changed[readers[0].name] = own
    steps = tuple(changed.get(s.name, s) for s in program.steps)
    return attrs.evolve(program, steps=steps), frozenset(out.name for s in changed.values() for out in s.outs)


def scaled_sum(tree: Scalar, sums: Collection[int]) -> bool:
    """Say whether an expression is one of the given arguments, or such an argument times a constant."""
    match tree:
        case Arg(i) | Binary("mul", Arg(i), Constant() | Parameter()):
            return i in sums
        case _:
            return False


def _part(step: Step, names: Collection[str], replaced: Mapping[str, str]) -> Step | None:
    """Return a step without its addend; None where the addend is no element of the input that the output replaces."""
    out = step.outs[0]
    whole = step.body.x if isinstance(step.body, Cast) else step.body
    if step.fold is not None or not isinstance(whole, Binary) or whole.op != "add":
        return None
    sums = {i for i, ref in enumerate(step.reads) if ref.name in names}
    for other, mine in ((whole.x, whole.y), (whole.y, whole.x)):
        added = other.x if isinstance(other, Cast) else other
        if not isinstance(added, Arg) or not scaled_sum(mine, sums):
            continue
        before = step.reads[added.index]
        if before.name == replaced.get(out.name) and before.index == out.index:
            kept = [i for i in range(len(step.reads)) if i != added.index]
            arguments = [Arg(kept.index(i) if i in kept else 0, ref.dtype) for i, ref in enumerate(step.reads)]
            reads = tuple(step.reads[i] for i in kept)
            mine = Cast(mine, step.body.dtype) if step.body is not whole else mine  # each part is rounded
            return attrs.evolve(step, reads=reads, body=substituted(mine, arguments))
    return None

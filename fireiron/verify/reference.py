"""The reference: a schedule's results in f64, with proven bounds on the rounding errors of its kernel.

A kernel's result lies within `error` of `value`, in whatever order it sums and wherever it fuses. Values and errors are
computed step by step along the program; the schedule says how sums of the steps are rounded.

Source: Jeannerod and Rump, "Improved error bounds for inner products in floating-point arithmetic", 2013: a product of
K terms in an arithmetic of unit roundoff u is wrong by at most K u |a| |b|, in any order and for any K.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast, runtime_checkable

import attrs
import numpy as np

from fireiron.algebra.dtypes import DEEP, DType, tf32
from fireiron.algebra.elements import read as values
from fireiron.algebra.expr import as_int
from fireiron.algebra.scalar import Arg, Binary, Cast, Scalar, parts
from fireiron.atoms.table import every
from fireiron.kernel.ir.statements import Call, Kernel, walk
from fireiron.language.as_steps import Links, steps_of
from fireiron.language.atom import Atom
from fireiron.language.decompositions import ByTma, Done, Split
from fireiron.language.online import online
from fireiron.language.specs import Spec, Task
from fireiron.language.steps import Program, Step
from fireiron.language.tensor import Tensor
from fireiron.verify.bounded import Array, Bounded, exact
from fireiron.verify.steps import SIGMAS, Facts, Part, of_steps
from fireiron.verify.sums import CUT, STRAY, Rounding


@runtime_checkable
class Chain(Protocol):
    """The parts of a schedule that a reference reads: its program, and the links so far."""

    @property
    def program(self) -> Task:
        """Give what is computed."""
        ...

    @property
    def links(self) -> Links:
        """Give the links."""
        ...


@runtime_checkable
class Whole(Chain, Protocol):
    """The part of a whole schedule that a reference reads."""

    def lowered(self, arch: str | int | None = None) -> Kernel:
        """Lower the schedule."""
        ...


def bound_in_words(schedule: Chain) -> str:
    """State the error bound of a schedule's results in words."""
    program, facts = steps_of(schedule.program.spec, schedule.links), roundings(schedule)
    sums = [step for step in program.steps if step.is_product]
    out = program.outputs[0]
    if facts.independent:
        return f"{SIGMAS:g} standard deviations of what independent roundings of every layer add up to"
    if not sums:
        return "each operation's rounding" if out.dtype.kind == "float" else "exact"
    kind = sum_type(sums[0])
    if kind.kind == "int":
        return "exact"
    words = [f"({STRAY:g}·√(K+2) + {CUT:g}·K) · 2^-{kind.mantissa + 1} · √(|A|²·|B|²), a statistical bound"]
    if out.dtype.mantissa < kind.mantissa:
        words.append(f"2^-{out.dtype.mantissa + 1} · |{out.name}|")
    first, last = program.steps.index(sums[0]), program.steps.index(sums[-1])
    if any(_computes(step) for step in program.steps[last + 1 :]):
        words.append("the epilogue's roundings")
    if any(_computes(step) for step in program.steps[:first]):
        words.append("the prolog's")
    if any(_narrows(part) for step in sums for part in parts(step.body)):
        words.append("the loads' conversions")
    return " + ".join(words)


def sum_type(step: Step) -> DType:
    """Return the element type of the first scalar of a fold's state."""
    assert step.fold is not None
    return step.fold.dtypes[0]


def _computes(step: Step) -> bool:
    """Say whether a step does more than convert."""
    tree = step.body
    while isinstance(tree, Cast):
        tree = tree.x
    return not isinstance(tree, Arg)


def _narrows(tree: Scalar) -> bool:
    return isinstance(tree, Cast) and tree.dtype.kind == "float" and tree.dtype.mantissa < tree.x.dtype.mantissa


def reference(
    schedule: Chain, arrays: Mapping[str, Array], numbers: Mapping[str, float], drawn: bool = False
) -> Bounded:
    """Compute a schedule's first output, such as C of a MatMul, as `references` does."""
    return references(schedule, arrays, numbers, drawn)[output_of(schedule.program.spec).name]


def references(
    schedule: Chain, arrays: Mapping[str, Array], numbers: Mapping[str, float], drawn: bool = False
) -> dict[str, Bounded]:
    """Compute a schedule's outputs in f64 by name, with the error that their dtypes allow.

    Args:
        schedule: the schedule.
        arrays: the arrays of a call by tensor name; arrays that the kernel updates have their old contents.
        numbers: scalars by name.
        drawn: whether inputs are drawn at random, which allows statistical bounds.

    Returns:
        The outputs in mathematical order (batch, rows, columns). The error includes the rounding of the f64 sums.
    """
    return outputs_of(Meaning.of(schedule), arrays, numbers, drawn)


@attrs.frozen
class Meaning:
    """Hold a schedule's program, and how its sums are rounded: all that a reference needs.

    Args:
        program: the steps.
        facts: how sums are rounded.
    """

    program: Program
    facts: Facts

    @classmethod
    def of(cls, schedule: Chain) -> Meaning:
        """Find a schedule's meaning."""
        return cls(steps_of(schedule.program.spec, schedule.links), roundings(schedule))


def outputs_of(
    meaning: Meaning,
    arrays: Mapping[str, Array],
    numbers: Mapping[str, float],
    drawn: bool = False,
    part: Part | None = None,
) -> dict[str, Bounded]:
    """Compute outputs as `references` does, all of them or a part.

    Args:
        meaning: the program, and how its sums are rounded.
        arrays: as `references` takes them.
        numbers: scalars by name.
        drawn: as `references` takes it.
        part: of each output, None for all.
    """
    program = meaning.program

    def read(tensor: Tensor) -> Bounded:
        array = arrays[tensor.name]
        return exact(mathematical(tensor, array if _copied(program, tensor) else values(array, tensor.dtype)))

    with np.errstate(all="ignore"):
        return of_steps(program, read, numbers, attrs.evolve(meaning.facts, drawn=drawn), part)


def _copied(program: Program, tensor: Tensor) -> bool:
    """Say whether steps only copy a tensor, so that all bits stay, also those of tf32 that no operation reads."""
    readers = [step for step in program.steps if any(ref.name == tensor.name for ref in step.reads)]
    same = (isinstance(step.body, Arg) and step.fold is None and step.outs[0].dtype == tensor.dtype for step in readers)
    return tensor.dtype == tf32 and bool(readers) and all(same)


def mathematical(tensor: Tensor, array: Array) -> Array:
    """View an array as (batch, rows, columns): a column-major matrix is stored as its transpose."""
    return as_seen(tensor, array).transpose(tuple(int(i) for i in np.argsort(tensor.storage)))


def as_seen(tensor: Tensor, array: Array) -> Array:
    """View an array of a call with the dims that steps have: fused dims are one (`Program.given`)."""
    if array.ndim <= len(tensor.shape):
        return array
    return array.reshape((*(cast("int", tensor.shape[d]) for d in tensor.storage[:-1]), -1))  # packed types: bytes


def output_of(spec: Spec) -> Tensor:
    """Give the tensor that a spec writes, the first of several."""
    return spec.outputs[0]


def roundings(schedule: Chain) -> Facts:
    """Say how a schedule rounds the sums of its steps."""
    links, spec = schedule.links, schedule.program.spec
    program = steps_of(spec, links)
    sums = [step for step in program.steps if step.fold is not None and step.fold.name == "add"]
    apart = ((link.size, link.promoted) for link in links if isinstance(link, Split) and link.promoted is not None)
    chunk = next(((size, kind) for size, kind in apart if isinstance(size, int)), None)
    found = {s.name: Rounding(_cut(schedule, program, s), chunk, _parts(program, s, links)) for s in sums}
    for step in program.steps:
        if _adds(program, step):
            names = tuple(ref.name for ref in step.reads)
            cut = min((x for x in (found[n].cut for n in names) if x), key=lambda x: x[1], default=None)
            found[step.name] = attrs.evolve(found[names[0]], cut=cut, together=names)
    for name, low in _underflows(program, links).items():
        found[name] = attrs.evolve(found.get(name, Rounding()), underflow=low)
    return Facts({name: x for name, x in found.items() if x != Rounding()}, independent=bool(spec.layers))


def _underflows(program: Program, links: Links) -> dict[str, float]:
    """Give, for steps of loops that speculate, the number below which their exponentials may become 0.

    Such a loop holds terms at a scale that lies above the largest term, and rises by a chunk's sum. Terms that are
    smaller than the largest by a factor of 2**DEEP, times the number of a chunk's terms, may then be below the smallest
    number.
    """
    found: dict[str, float] = {}
    for link in links:
        if not isinstance(link, Split) or not link.speculative:
            continue
        _, law = online(program, link.dim)
        leads = {out.name for step in program.steps if step.name in law.factors for out in step.outs}
        for step in program.steps:
            dim = next((d for d in step.dims if d.name == law.dim), None)
            if dim is not None and any(ref.name in leads for ref in step.reads):
                size = as_int(link.size)
                terms = size if size is not None else as_int(dim.extent) if dim.extent is not None else None
                found[step.name] = 2.0**-DEEP * (terms or 1)
    return found


def _adds(program: Program, step: Step) -> bool:
    """Say whether a step only adds products of the same rows and columns, which one accumulator may sum."""
    made = [program.step(ref.name) for ref in step.reads]
    sums = [one for one in made if one is not None and one.is_product]
    if step.fold is not None or len(sums) < 2 or len(sums) < len(made) or sum_type(sums[0]) != step.outs[0].dtype:
        return False
    rows = {tuple(d for d in one.reads[0].dims if d in one.kept) for one in sums}
    plain = (isinstance(x, Arg) or (isinstance(x, Binary) and x.op == "add") for x in parts(step.body))
    return len(rows) == 1 and all(plain)


def _parts(program: Program, step: Step, links: Links) -> tuple[int, DType] | None:
    """Return the number of partial sums that are added to C in memory, and C's type, to which each is rounded."""
    shared = next((link for link in links if isinstance(link, Split) and isinstance(link.reduce, ByTma)), None)
    if shared is None:
        return None
    (depth,) = (as_int(dim.extent) if dim.extent is not None else None for dim in step.over)
    cut = -(-depth // shared.size) if depth is not None and isinstance(shared.size, int) else 1
    return shared.ways or cut, program.outputs[0].dtype


def _cut(schedule: Chain, program: Program, step: Step) -> tuple[int, int] | None:
    """Find the instruction that cuts a step's sums to fewer bits than their type has; return its K and these bits.

    An instruction computes a step's products if it reads the types of the step's factors, either as prologs give them
    or as memory holds them: a promoted split applies prologs to the sums instead.
    """
    if step.factors is None or not isinstance(schedule, Whole):
        return None
    left, right = (_types(program, step, tree) for tree in step.factors)

    def cuts(atom: Atom) -> bool:
        a, b, *_ = (operand.dtype for operand in atom.operands)
        return bool(atom.kept) and ((a in left and b in right) or (a in right and b in left))

    given = (link.atom for link in schedule.links if isinstance(link, Done) and isinstance(link.atom, Atom))
    if not any(cuts(atom) for atom in (*every(), *given)):
        return None  # without lowering
    atoms = {s.atom for s in walk(schedule.lowered().body) if isinstance(s, Call) and cuts(s.atom)}
    return min(((atom.shape[-1], atom.kept) for atom in atoms), key=lambda x: x[1], default=None)


def _types(program: Program, step: Step, tree: Scalar, known: frozenset[str] = frozenset()) -> set[DType]:
    """List the element types of a factor and of the values it is computed from, back to memory or to a fold."""
    found = {part.dtype for part in parts(tree)}
    for name in {step.reads[part.index].name for part in parts(tree) if isinstance(part, Arg)} - known:
        made = program.step(name)
        if made is not None and made.fold is None:
            found |= _types(program, made, made.body, known | {name})
    return found

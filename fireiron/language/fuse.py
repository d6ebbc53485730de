"""Fuse neighbouring dims of a program into one, so that a tile is a run of consecutive points instead of a box.

Halide: "fuse". Index maps read a fused dim by quotients: n = m // (P * Q), p = m // Q % P, q = m % Q.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.expr import Expr, Symbol, Var, as_expr, const, free, simplest, substitute
from fireiron.algebra.scalar import placed
from fireiron.base.errors import SpecError
from fireiron.language.folds import Dim
from fireiron.language.steps import Program, Ref, Step
from fireiron.language.tensor import Tensor


def fused(program: Program, dims: Sequence[str], name: str) -> Program:
    """Return the program with several dims fused into one.

    Outputs, temporaries, and inputs have the fused dim as one dimension; the caller's arrays keep their shapes
    (`Program.given`). Inputs of products, and inputs that folds read by windows, keep their dimensions, and are read by
    quotients.

    Args:
        program: the program to change.
        dims: names of the dims to fuse, outermost first.
        name: name of the fused dim.

    Raises:
        SpecError: `fuse-dims` where a step does not keep all of the dims together, or an array has gaps between them.
    """
    known = {d.name: d for d in program.dims}
    missing = [d for d in dims if d not in known]
    if missing or len(dims) < 2 or len({*dims}) < len(dims) or (name in known and name not in dims):
        raise _refused(
            f"{name}={' '.join(dims)!r} does not name two or more dims of {program.name} and a new one",
            f"dims: {', '.join(known)}",
        )
    parts = [known[d] for d in dims]
    folded = [d.name for step in program.steps if not _folds_all(step, parts) for d in step.over if d in parts]
    if folded or program.loops or program.inplace or type(parts[0]) is not Var:
        why = f"{folded[0]} is folded" if folded else "the program repeats steps, writes in place or has groups of rows"
        raise _refused(f"{', '.join(dims)} cannot be one dim: {why}", "fuse dims that all results keep")
    extents = [const(0) if d.extent is None else as_expr(d.extent) for d in parts]
    if any(isinstance(leaf, Symbol) for e in extents for leaf in free(e)):
        raise _refused(f"{', '.join(dims)} cannot be one dim: an extent is a symbol", "give extents as numbers")
    size = const(1)
    for e in extents:
        size = size * e
    whole = Var(name, size)
    by: dict[Expr, Expr] = {}
    below = const(1)
    for place, (d, e) in enumerate(zip(reversed(parts), reversed(extents), strict=True)):
        above = whole // below
        by[d] = above % e if place + 1 < len(parts) else above
        below = below * e
    found = _Fused(tuple(parts), whole, by, tuple(extents), frozenset(_kept(program, parts)))
    steps = tuple(found.step(s) for s in program.steps)
    seen = {ref.name: ref.tensor for s in steps for ref in (*s.reads, *s.outs)}
    inputs, outputs = (tuple(seen.get(t.name, t) for t in some) for some in (program.inputs, program.outputs))
    callers = [t for t in (*program.inputs, *program.outputs) if seen.get(t.name, t).shape != t.shape]
    before = {t.name: t for t in program.given}
    given = tuple({t.name: before.get(t.name, t) for t in (*program.given, *callers)}.values())
    return attrs.evolve(program, inputs=inputs, steps=steps, outputs=outputs, given=given)


def parts_of(tensor: Tensor, given: Tensor) -> tuple[tuple[int, ...], ...]:
    """Return, for each dimension of a tensor with fused dims, the dimensions of the caller's array that it stands for.

    Dimensions of extent 1 may be in a neighbour's part, where a part's extent and its last stride are the same.

    Args:
        tensor: the tensor in the program's steps.
        given: the caller's array, or the tensor itself if none of its dims are fused.

    Example:
        >>> from fireiron import tensor
        >>> parts_of(tensor(128, 32), tensor(2, 8, 8, 32))
        ((0, 1, 2), (3,))
    """
    parts: list[tuple[int, ...]] = []
    end, rank = 0, len(given.shape)
    for place, (extent, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True), start=1):
        first, size = end, as_expr(1)
        while end == first or (end < rank and (simplest(size) != extent or given.strides[end - 1] != stride)):
            size, end = size * as_expr(given.shape[end]), end + 1
        end = rank if place == len(tensor.shape) else end
        parts.append(tuple(range(first, end)))
    return tuple(parts)


def _refused(message: str, fix: str) -> SpecError:
    return SpecError("fuse-dims", message, fix=fix)


def _folds_all(step: Step, parts: Sequence[Dim]) -> bool:
    """Say whether a step folds all of the dims at once, in any order; products and running folds do not."""
    return {*parts} <= {*step.over} and not step.running and not step.is_product


def _kept(program: Program, parts: Sequence[Dim]) -> set[str]:
    """Return the names of the inputs that keep their dimensions: those of products, and those that folds read apart."""
    inputs = {t.name for t in program.inputs}
    found = {
        ref.name
        for step in program.steps
        for ref in step.reads
        if step.fold is not None and (step.is_product or not _together(ref, parts))
    }
    return found & inputs


def _together(ref: Ref, parts: Sequence[Dim]) -> bool:
    """Say whether a tensor is read at none of the dims, or at all of them, as neighbouring dimensions."""
    if not {*parts} & {*ref.dims}:
        return True
    places = [i for i, e in enumerate(ref.index) if e in parts]
    first, last = (places[0], places[-1]) if places else (0, 0)
    others = (d for i, e in enumerate(ref.index) if not first <= i <= last for d in free(e))
    return ref.index[first : last + 1] == tuple(parts) and not {*parts} & {*others}


def neighbours(program: Program) -> tuple[tuple[str, ...], ...]:
    """List the groups of dims that may count as one: neighbours in every array that has them, without gaps.

    All steps have all dims of a group or none, and fold all or none. Programs with products, and those that `fused`
    refuses, have no groups.

    Example:
        >>> from fireiron import Reduction, tensor
        >>> neighbours(Reduction("add", tensor(8, 16, 32), tensor(8, name="y"), over=(1, 2)).computed)
        (('m', 'n'),)
    """
    if program.loops or program.inplace or program.gathered or any(s.is_product for s in program.steps):
        return ()
    groups: list[list[Dim]] = []
    for dim in _by_memory(program):
        if groups and _joined(program, groups[-1][-1], dim):
            groups[-1].append(dim)
        else:
            groups.append([dim])
    return tuple(tuple(d.name for d in group) for group in groups if len(group) > 1)


def _by_memory(program: Program) -> tuple[Dim, ...]:
    """List the dims in the order of the array that has most of them."""
    refs = [ref for step in program.steps for ref in (*step.reads, *step.outs)]
    most = max(refs, key=lambda ref: len(ref.dims))
    return (*most.dims, *(d for d in program.dims if d not in most.dims))


def _joined(program: Program, one: Dim, other: Dim) -> bool:
    """Say whether two dims are neighbours in every array, and all steps treat them alike."""
    parts = (one, other)
    if any(type(d) is not Var or d.extent is None or not isinstance(simplest(d.extent), int) for d in parts):
        return False
    for step in program.steps:
        folded = {*parts} & {*step.over}
        if (folded and not _folds_all(step, parts)) or len({*parts} & {*step.dims}) == 1:
            return False
        for ref in (*step.reads, *step.outs):
            if not _together(ref, parts):
                return False
            if one in ref.dims:
                i = ref.index.index(one)
                if simplest(as_expr(ref.strides[i + 1]) * as_expr(other.extent or 1)) != ref.strides[i]:
                    return False
    return True


@attrs.frozen
class _Fused:
    """Hold the dims that are replaced, and their replacements.

    Args:
        parts: the dims that are fused.
        whole: the fused dim.
        by: each of the dims as an expression of the fused one. Example: {p: m // 28 % 28, q: m % 28}.
        extents: extents of the dims.
        kept: names of inputs that keep their dimensions.
    """

    parts: tuple[Dim, ...]
    whole: Dim
    by: dict[Expr, Expr]
    extents: tuple[Expr, ...]
    kept: frozenset[str]

    def step(self, step: Step) -> Step:
        """Replace the dims in a step."""
        where = None if step.where is None else placed(step.where, self.by)
        folded = {*self.parts} & {*step.over}
        over = tuple(d for d in step.over if d not in self.parts)
        return attrs.evolve(
            step,
            over=(*over, self.whole) if folded else step.over,
            outs=tuple(map(self.ref, step.outs)),
            reads=tuple(map(self.ref, step.reads)),
            body=placed(step.body, self.by),
            where=where,
        )

    def ref(self, ref: Ref) -> Ref:
        """Replace the dims where a tensor is read or written."""
        found = [i for i, e in enumerate(ref.index) if e in self.parts]
        if not found and not any(d in self.parts for d in ref.dims):
            return ref
        first, last = (found[0], found[-1]) if found else (0, 0)
        together = ref.index[first : last + 1] == self.parts
        if ref.name in self.kept or not together:
            index = tuple(substitute(e, self.by) for e in ref.index)
            if ref.name not in self.kept:
                names = ", ".join(d.name for d in self.parts)
                raise _refused(
                    f"{ref} does not have {names} next to each other", "name dims in the order of the arrays"
                )
            return attrs.evolve(ref, index=index)
        tensor = self._merged(ref, first, last)
        index = (*ref.index[:first], self.whole, *ref.index[last + 1 :])
        return attrs.evolve(ref, shape=tensor.shape, strides=tensor.strides, index=index)

    def _merged(self, ref: Ref, first: int, last: int) -> Tensor:
        for i in range(first, last):
            if simplest(as_expr(ref.strides[i + 1]) * self.extents[i + 1 - first]) != ref.strides[i]:
                raise _refused(
                    f"{ref.tensor} has gaps between {ref.index[i]} and {ref.index[i + 1]}: their strides are "
                    f"{ref.strides[i]} and {ref.strides[i + 1]}",
                    "fuse dims of arrays whose lines follow each other",
                )
        assert self.whole.extent is not None
        shape = (*ref.shape[:first], simplest(self.whole.extent), *ref.shape[last + 1 :])
        return attrs.evolve(ref.tensor, shape=shape, strides=(*ref.strides[:first], *ref.strides[last:]))

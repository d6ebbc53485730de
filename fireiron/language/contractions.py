"""Contractions: steps that sum products of two factors, read as the MatMul that atoms execute.

A step `s[b, h, i, j] = add over d of q[b, h, i, d] * k[b, h, j, d]` is, for one b and h, C[M, N] += A[M, K] B[K, N]
with M = i, N = j, K = d. M are the dims that only the left factor reads, N those that only the right one reads, K
the folded ones; dims of extent 1 at a place do not count. Several dims may form one letter: the pixels (n, p, q) of a
convolution's tile are M, the last of them fastest.

A factor may be read through an index map, `x[n, 2 * p + r - 1, 2 * q + s - 1, c]`: where r and s have extent 1, only p
changes the second coordinate, so that coordinate is the matrix's dimension p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Index, Var, as_expr, free, simplest
from fireiron.algebra.scalar import Arg, Binary, Scalar
from fireiron.algebra.simplify import peeled
from fireiron.base.errors import DecompositionError
from fireiron.language.folds import Dim
from fireiron.language.levels import RF, Level, Memory
from fireiron.language.maps import moving
from fireiron.language.residual import Operand, Residual
from fireiron.language.steps import Ref, Step, dense, dims_in
from fireiron.language.tensor import Tensor

Letter: TypeAlias = Literal["M", "N", "K"]
PLACES: dict[str, tuple[Letter, Letter]] = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}


@attrs.frozen
class Side:
    """Hold one factor of a contraction.

    Args:
        role: A or B.
        tree: the factor, an expression of the step's reads; conversions that lose nothing are removed.
        ref: the read, where the factor is a single read; None for any other expression.
        dims: the factor's dims; the last two are the matrix's rows and columns.
        axes: for each dimension of the tensor that is read, the dim that changes its coordinate. A dimension with a
            constant coordinate has a name of its own.
        order: the names in `axes`; the last two are the matrix's rows and columns.
    """

    role: Literal["A", "B"]
    tree: Scalar
    ref: Ref | None
    dims: tuple[Dim, ...]
    axes: tuple[str, ...]
    order: tuple[str, ...]

    @property
    def dtype(self) -> DType:
        """Return the element type of the factor, as an atom reads it."""
        return self.tree.dtype


@attrs.frozen
class Contraction:
    """Hold the parts of a contraction at a place of the tree (where each dim has a known extent).

    Args:
        step: the step that is computed.
        letters: the dims of M, of N and of K at this place; where a letter has several dims, the last is fastest.
        left: the side with M.
        right: the side with N.
        out: the dims of the result: M and N last.
    """

    step: Step
    letters: Mapping[Letter, tuple[Dim, ...]]
    left: Side
    right: Side
    out: tuple[Dim, ...]

    @property
    def named(self) -> dict[str, str]:
        """Map each dim's name to its letter, M, N or K."""
        return {dim.name: letter for letter, dims in self.letters.items() for dim in dims}

    def order_of(self, role: str) -> tuple[str, ...]:
        """List the dims of A, B or C; the matrix's rows and columns are last."""
        return {"A": self.left.order, "B": self.right.order, "C": tuple(d.name for d in self.out)}[role]

    def residual(
        self,
        level: Level,
        extents: Mapping[str, Index | None],
        memories: Mapping[str, Memory],
        types: Mapping[str, DType],
    ) -> Residual:
        """Return the residual MatMul.

        Args:
            level: the level whose unit executes the MatMul.
            extents: extent of each dim at the place.
            memories: the memories of A, B and C.
            types: the element types of A, B and C in these memories.
        """
        named = self.named
        operands: list[Operand] = []
        outer: dict[str, Index | None] = {}
        for role in ("A", "B", "C"):
            dims = self.order_of(role)
            side = {"A": self.left, "B": self.right}.get(role)
            (first, *_) = self.step.outs
            ref = first if side is None or side.ref is None else side.ref
            tensor = ref.tensor if side is None or side.ref is not None else _made(side, self.step)
            outer |= {d: extents.get(d, 1) for d in dims if d not in named}
            operands.append(
                Operand(role, tensor, memories[role], types[role], tuple(dict.fromkeys(named.get(d, d) for d in dims)))
            )
        letters: tuple[Letter, ...] = ("M", "N", "K")
        sizes = (*outer.items(), *((letter, _together(self.letters[letter], extents)) for letter in letters))
        return Residual("MatMul", level, sizes, tuple(operands))


def _together(dims: Sequence[Dim], extents: Mapping[str, Index | None]) -> Index | None:
    """Multiply the extents of several dims; None where one is not known."""
    found = as_expr(1)
    for d in dims:
        extent = extents[d.name]
        if extent is None:
            return None
        found = found * extent
    return simplest(found)


def _made(side: Side, step: Step) -> Tensor:
    shape = tuple(simplest(d.extent) for d in side.dims if d.extent is not None)
    return dense(f"{step.name}_{side.role.lower()}", shape, side.dtype, RF)


def kept_in_order(step: Step) -> tuple[Dim, ...]:
    """List the dims of a step's output. For a contraction, M's dims come before N's, and both after the batch dims."""
    if not step.is_product:
        return step.kept
    left, right = (set(dims_in(side, step.reads)) for side in _factors(step))
    return tuple(sorted(step.kept, key=lambda d: (d not in right) + 2 * (d not in left)))


def contraction(
    step: Step, extents: Mapping[str, Index | None], held: Mapping[Ref, tuple[str, ...]] | None = None
) -> Contraction:
    """Read a step as a MatMul at a place of the tree.

    Args:
        step: a step that sums a product.
        extents: extent of each dim at the place.
        held: for each read whose elements a buffer holds, the dims of that buffer.

    Raises:
        DecompositionError: `each-product` where the step is no product; `each-dims` where the indices of both factors
            depend on a dim whose extent is not 1.
    """
    if not step.is_product:
        raise DecompositionError(
            "each-product",
            f"step {step.name} does not sum products of two factors that each have a dim of their own",
            fix="leave it out of each(...): the threads that hold its operands then compute it",
        )
    factors = _factors(step)
    left, right = (dims_in(side, step.reads) for side in factors)
    both = [d for d in step.kept if d in left and d in right]
    groups: dict[Letter, list[Dim]] = {
        "M": [d for d in step.kept if d not in right],
        "N": [d for d in step.kept if d not in left],
        "K": list(step.over),
    }
    whole = [d.name for d in both if extents[d.name] != 1]
    if whole:
        raise DecompositionError(
            "each-dims",
            f"both factors of step {step.name} have the dim {whole[0]}, and a tile here is {extents[whole[0]]} wide "
            "along it",
            fix=f"tile({whole[0]}=1) above each(...): an atom multiplies two matrices",
        )
    letters: dict[Letter, tuple[Dim, ...]] = {}
    for letter, dims in groups.items():
        large = tuple(d for d in dims if extents[d.name] != 1)
        letters[letter] = large or tuple(dims[-1:])
    held = held or {}
    sides = tuple(
        _side(role, step, factor, letters, extents, held) for role, factor in zip(("A", "B"), factors, strict=True)
    )
    for side in sides:
        lacking = next((d for d in letters["K"] if d.name not in side.order), None)
        if lacking is not None:
            raise DecompositionError(
                "each-product",
                f"{lacking.name}, which step {step.name} folds, is no dim of its "
                f"{'left' if side.role == 'A' else 'right'} factor",
                fix="leave it out of each(...)",
            )
    matrix = (*letters["M"], *letters["N"])
    rest = [d for d in kept_in_order(step) if d not in matrix]
    return Contraction(step, letters, sides[0], sides[1], (*rest, *matrix))


def _factors(step: Step) -> tuple[Scalar, Scalar]:
    assert isinstance(step.body, Binary)
    return step.body.x, step.body.y


def _side(
    role: Literal["A", "B"],
    step: Step,
    factor: Scalar,
    letters: Mapping[Letter, tuple[Dim, ...]],
    extents: Mapping[str, Index | None],
    held: Mapping[Ref, tuple[str, ...]],
) -> Side:
    tree = peeled(factor)
    pair = tuple(d for letter in PLACES[role] for d in letters[letter])
    dims = dims_in(tree, step.reads)
    dims = (*(d for d in dims if d not in pair), *(d for d in pair if d in dims))
    ref = step.reads[tree.index] if isinstance(tree, Arg) else None
    axes = None if ref is None else held.get(ref) or _axes(ref, role, [d.name for d in pair], extents)
    if axes is None:  # threads compute it; dims of extent 1 at the place are no dims of their registers
        dims = tuple(d for d in dims if d in pair or extents[d.name] != 1)
        axes, ref = tuple(d.name for d in dims), None
    matrix = [d.name for d in pair if d.name in axes]
    return Side(role, tree, ref, dims, axes, (*(a for a in axes if a not in matrix), *matrix))


def _axes(ref: Ref, role: str, pair: Sequence[str], extents: Mapping[str, Index | None]) -> tuple[str, ...] | None:
    """Return for each coordinate of a read the dim that changes it; None unless each has one dim of its own.

    A coordinate that is constant at this place has the name of the dim in its index, or a new name.
    """
    found: list[str] = []
    moved = [(e.name,) if isinstance(e, Var) else moving(e, extents) for e in ref.index]
    taken = {d for dims in moved for d in dims}
    for i, (e, dims) in enumerate(zip(ref.index, moved, strict=True)):
        if len(dims) > 1:
            return None
        alone = next((d.name for d in free(e) if isinstance(d, Var) and d.name in pair), None)
        still = f"{role.lower()}{i}" if alone is None or alone in (*taken, *found) else alone
        found.append(dims[0] if dims else still)
    return tuple(found) if len(set(found)) == len(found) else None

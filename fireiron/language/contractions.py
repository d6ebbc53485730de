"""Contractions: steps that sum products of two sides, seen as the MatMul that atoms execute.

A step `s[b, h, i, j] = add over d of q[b, h, i, d] * k[b, h, j, d]` is, for one b and h, C[M, N] += A[M, K] B[K, N]
with M = i, N = j, K = d. Which dims these are follows from who reads them, and from the extents at a place: there all
others are 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Index, Var, simplest
from fireiron.algebra.scalar import Arg, Binary, Scalar
from fireiron.algebra.simplify import peeled
from fireiron.base.errors import DecompositionError
from fireiron.language.levels import RF, Level, Memory
from fireiron.language.residual import Operand, Residual
from fireiron.language.steps import Dim, Ref, Step, dense, dims_in
from fireiron.language.tensor import Tensor

Letter: TypeAlias = Literal["M", "N", "K"]
PLACES: dict[str, tuple[Letter, Letter]] = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}


@attrs.frozen
class Side:
    """Hold one factor of a contraction.

    Args:
        role: A or B.
        tree: the factor, an expression of the step's reads, without conversions that lose nothing.
        ref: what it reads where it is one read and nothing else; None for an expression.
        dims: its dims, those of the matrix last: rows, then columns.
    """

    role: Literal["A", "B"]
    tree: Scalar
    ref: Ref | None
    dims: tuple[Dim, ...]

    @property
    def dtype(self) -> DType:
        """Give the element type that an atom takes."""
        return self.tree.dtype


@attrs.frozen
class Contraction:
    """Name the parts of a contraction at a place.

    Args:
        step: that is computed.
        letters: the dims that are M, N and K there.
        left: the side with M.
        right: the side with N.
        out: the dims of the result: M and N last.
    """

    step: Step
    letters: Mapping[Letter, Dim]
    left: Side
    right: Side
    out: tuple[Dim, ...]

    @property
    def named(self) -> dict[str, str]:
        """Map the names of M, N and K to the letters."""
        return {dim.name: letter for letter, dim in self.letters.items()}

    def dims_of(self, role: str) -> tuple[Dim, ...]:
        """Give the dims of A, B or C."""
        return {"A": self.left.dims, "B": self.right.dims, "C": self.out}[role]

    def residual(
        self,
        level: Level,
        extents: Mapping[str, Index | None],
        memories: Mapping[str, Memory],
        types: Mapping[str, DType],
    ) -> Residual:
        """Give the MatMul that is left to do.

        Args:
            level: whose unit executes it.
            extents: of all dims at the place.
            memories: where A, B and C lie.
            types: their element types there.
        """
        named = self.named
        operands: list[Operand] = []
        outer: dict[str, Index | None] = {}
        for role in ("A", "B", "C"):
            dims = self.dims_of(role)
            side = {"A": self.left, "B": self.right}.get(role)
            (first, *_) = self.step.outs
            ref = first if side is None or side.ref is None else side.ref
            tensor = ref.tensor if side is None or side.ref is not None else _made(side, self.step)
            outer |= {d.name: extents[d.name] for d in dims if d.name not in named}
            operands.append(
                Operand(role, tensor, memories[role], types[role], tuple(named.get(d.name, d.name) for d in dims))
            )
        letters: tuple[Letter, ...] = ("M", "N", "K")
        sizes = (*outer.items(), *((letter, extents[self.letters[letter].name]) for letter in letters))
        return Residual("MatMul", level, sizes, tuple(operands))


def _made(side: Side, step: Step) -> Tensor:
    shape = tuple(simplest(d.extent) for d in side.dims if d.extent is not None)
    return dense(f"{step.name}_{side.role.lower()}", shape, side.dtype, RF)


def kept_in_order(step: Step) -> tuple[Dim, ...]:
    """List the dims that a step keeps; of a contraction those of the right side alone come last, M before them."""
    if not step.is_product:
        return step.kept
    left, right = (set(dims_in(side, step.reads)) for side in _factors(step))
    return tuple(sorted(step.kept, key=lambda d: (d not in right) + 2 * (d not in left)))


def contraction(step: Step, extents: Mapping[str, Index | None]) -> Contraction:
    """See a step as a MatMul at a place.

    Args:
        step: with a fold add of a product.
        extents: of all dims there.

    Raises:
        DecompositionError: `each-product` where the step is no product; `each-dims` where more than one dim of a kind
            is not 1.
    """
    if not step.is_product:
        raise DecompositionError(
            "each-product",
            f"step {step.name} does not sum products of two factors that each have a dim of their own",
            fix="leave it out of each(...): threads compute it where they hold what it reads, and no atom does",
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
            f"both factors of step {step.name} have {whole[0]}, of which {extents[whole[0]]} are left here",
            fix=f"tile({whole[0]}=1) above each(...): an atom multiplies two matrices",
        )
    letters: dict[Letter, Dim] = {}
    for letter, dims in groups.items():
        large = [d for d in dims if extents[d.name] != 1]
        if len(large) > 1:
            raise DecompositionError(
                "each-dims",
                f"{' and '.join(d.name for d in large)} of step {step.name} are both {letter} of a MatMul, and neither "
                "is 1 here",
                fix=f"cut one of them to 1 above each(...): tile({large[0].name}=1), or split where it is folded",
            )
        letters[letter] = (large or dims)[-1]
    sides = [_side(role, step, factor, letters) for role, factor in zip(("A", "B"), factors, strict=True)]
    for side in sides:
        if letters["K"] not in side.dims:
            raise DecompositionError(
                "each-product",
                f"{letters['K'].name}, which step {step.name} folds, is no dim of its "
                f"{'left' if side.role == 'A' else 'right'} factor",
                fix="leave it out of each(...)",
            )
    rest = [d for d in kept_in_order(step) if d not in letters.values()]
    return Contraction(step, letters, sides[0], sides[1], (*rest, letters["M"], letters["N"]))


def _factors(step: Step) -> tuple[Scalar, Scalar]:
    assert isinstance(step.body, Binary)
    return step.body.x, step.body.y


def _side(role: Literal["A", "B"], step: Step, factor: Scalar, letters: Mapping[Letter, Dim]) -> Side:
    tree = peeled(factor)
    dims = dims_in(tree, step.reads)
    pair = tuple(letters[letter] for letter in PLACES[role])
    rest = tuple(d for d in dims if d not in pair)
    ref = step.reads[tree.index] if isinstance(tree, Arg) else None
    plain = ref is not None and all(isinstance(e, Var) for e in ref.index)
    return Side(role, tree, ref if plain else None, (*rest, *pair))

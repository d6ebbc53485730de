"""Chains of steps: a contraction of a program as a MatMul, from the place of its program down to an atom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs

from fireiron.base.errors import DecompositionError
from fireiron.base.link import here
from fireiron.check import links as rules
from fireiron.front.chain import C_, Chain, LoadRefinements, SplitRefinements, Strategy, TileRefinements
from fireiron.front.roles import Role
from fireiron.language.atom import Atom
from fireiron.language.decompositions import Decomposition, Microkernel, Split
from fireiron.language.levels import Memory
from fireiron.language.tensor import Tensor

StepStrategy: TypeAlias = "Callable[[StepChain], StepChain]"


@attrs.frozen(eq=False, repr=False, slots=False)
class StepChain(Chain):
    """Decompose a step that sums products: links name the program's dims, or M, N and K, and its tensors, or A and B.

    Args:
        named: the letter of each dim that the step's MatMul has.
    """

    named: Mapping[str, str] = attrs.field(factory=dict[str, str])

    def _as(self, cls: type[C_], link: Decomposition) -> C_:
        made = super()._as(cls, link)
        assert isinstance(made, StepChain)
        return attrs.evolve(made, named=self.named)

    def tile(self, *sizes: int, **named: int) -> TiledStep:
        """Cut the result into tiles.

        Args:
            sizes: rows and columns.
            named: extents by dim instead: `tile(i=16, j=8)`.

        Shapes:
            (M, N, K) -> (m, n, K)

        Raises:
            DecompositionError: `tile-arguments`, `tile-extent`, `tile-too-large`, `no-such-dimension`, `chain-closed`.
        """
        for dim in named:
            together = [d for d, letter in self.named.items() if letter == self.named.get(dim)]
            if len(together) > 1:
                raise DecompositionError(
                    "tile-arguments",
                    f"{', '.join(together)} are {self.named[dim]} of {self.residual.short} together",
                    fix="tile(16, 8): rows and columns",
                    link=here(),
                    path=self.where,
                )
        wanted = {self.named.get(dim, dim): size for dim, size in named.items()}
        if (sizes and wanted) or (not sizes and not wanted) or "K" in wanted:
            folded = next((dim for dim in named if self.named.get(dim, dim) == "K"), None)
            said = f"{folded} is folded" if folded else "a tile has rows and columns, or named dims"
            raise DecompositionError(
                "tile-arguments",
                f"{said}: {self.residual.short}",
                fix=f"split({folded}=...)" if folded else "tile(16, 8), or tile(i=16, j=8)",
                link=here(),
                path=self.where,
            )
        cut = self._sizes(sizes, None, ("M", "N")) if sizes else tuple(wanted.items())
        return self._as(TiledStep, self._tile_link(cut))

    def split(self, k: int | None = None, **named: int) -> SplitStep:
        """Cut the dim that the step folds into chunks that one loop visits.

        Args:
            k: extent of a chunk.
            named: the same by the dim's name: `split(d=16)`.

        Shapes:
            (M, N, K) -> (M, N, k)

        Raises:
            DecompositionError: `split-arguments`, `split-extent`, `chain-closed`.
        """
        self._check(rules.still_open, self.residual, "split")
        size = k
        if k is None and len(named) == 1:
            ((dim, size),) = named.items()
            size = size if self.named.get(dim, dim) == "K" else None
        if size is None or (k is not None and named):
            folded = next((dim for dim, letter in self.named.items() if letter == "K"), "K")
            raise DecompositionError(
                "split-arguments",
                f"a split of {self.residual.short} cuts {folded}, the dim that the step folds",
                fix=f"split({folded}=16)",
                link=here(),
                path=self.where,
            )
        self._check(rules.split_size, self.residual, size, self.links)
        return self._as(SplitStep, Split(size, link=here()))

    def load(
        self, operand: Role | Tensor | str, memory: Memory, strategy: Strategy | None = None, dtype: object = None
    ) -> LoadedStep:
        """Move a factor to another memory by a chain of its own.

        Raises:
            DecompositionError: `unknown-operand`, `already-there`, `load-memory`, `unfinished-move`.
        """
        given = operand if isinstance(operand, str) else operand.name
        role = next((o.role for o in self.residual.operands[:2] if o.tensor.name == given), None)
        return self._as(LoadedStep, self._load_link(operand if role is None else role, memory, strategy, dtype))

    def done(self, atom: Atom | Microkernel | str | None = None) -> StepChain:
        """Close the chain by an atom: the first of the table that executes what is left, or a chosen one."""
        return self._as(StepChain, self._done_link(atom))


class TiledStep(TileRefinements, StepChain):
    """A step whose last link is a tile."""


class SplitStep(SplitRefinements, StepChain):
    """A step whose last link is a split."""


class LoadedStep(LoadRefinements, StepChain):
    """A step whose last link is a load."""

"""Graphene's spec of a fold, as a program of one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import attrs

from fireiron.base.contract import checks
from fireiron.base.errors import FireironError, SpecError
from fireiron.base.link import here
from fireiron.front.chain import ProgramChain
from fireiron.front.program import program
from fireiron.language import reductions
from fireiron.language.functions import equal
from fireiron.language.pointwise import Value
from fireiron.language.tensor import Tensor

Named: TypeAlias = Literal["add", "max", "min", "mul", "and", "or"]
LETTERS = "bcdemn"  # names of a tensor's dims; a tensor of fewer dims takes the last ones: a matrix has m and n


@checks("op", "over")
def Reduction(
    op: Named | Callable[[Value, str], Value], src: Tensor, dst: Tensor, over: int | Sequence[int] = -1
) -> ProgramChain:
    """Start a schedule that folds dims of a tensor x: the result y has the other dims.

    The last two dims of x are called m and n, the dims before them b, c, d and e.

    Args:
        op: `add`, `max`, `min` or `mul`; `and`, which is 1 where all elements are not 0; `or`, which is 1 where any is
            not 0; or a function of the elements and the folded dims (`fireiron.argmax`).
        src: the tensor x.
        dst: the tensor y. Tensors without a name are called x and y.
        over: positions of the folded dims in x, from 0; a fold over all dims gives an array of one element.

    Raises:
        SpecError: `reduction-op`; `fold-over` for a position that x does not have; `program-outputs`.

    Example:
        >>> from fireiron import RF, Block, Matrix, Vector, Warp, vector
        >>> rows = Reduction("max", Matrix(64, 256, "f16"), Vector(64, "f16", name="y"))
        >>> print(rows.computed)
        reduction(x[64, 256].f16.GL) over m 64, n 256
          largest[m] = max over n of x[m, n]
          y[m]       = f16(largest[m])
        >>> rows = rows.tile(m=4).to(Block).tile(m=1).to(Warp).load("x", RF, vector()).epilog(memory=RF).done()
    """
    functions: dict[str, Callable[..., Value]] = {
        "add": reductions.sum, "max": reductions.max, "min": reductions.min, "mul": reductions.prod,
        "and": _all, "or": _any,
    }  # fmt: skip
    function = functions.get(op) if isinstance(op, str) else op
    if function is None:
        raise SpecError(
            "reduction-op",
            f"no fold is called {op!r}",
            fix=f"use {', '.join(get_args(Named))}, or a function: lambda x, over: ...",
            link=here(),
        )
    rank = len(src.shape)
    numbers = [over] if isinstance(over, int) else list(over)
    wrong = next((i for i in numbers if not -rank <= i < rank), None)
    if wrong is not None or rank > len(LETTERS):
        raise SpecError(
            "fold-over",
            f"{src} has {rank} dims, and " + ("6 are the most" if wrong is None else f"none has the number {wrong}"),
            fix=f"fold over 0 to {rank - 1}, or from the last one: -1",
            link=here(),
        )
    dims = LETTERS[-rank:]
    folded = " ".join(dict.fromkeys(dims[i] for i in numbers))

    def reduction(x: Any) -> Value:
        return function(x, folded)

    try:
        made = program(x=" ".join(dims))(reduction)
        return made(attrs.evolve(src, name=src.name or "x"), out=attrs.evolve(dst, name=dst.name or "y"))
    except FireironError as error:
        raise error.located(here()) from None


def _all(x: Value, over: str) -> Value:
    return reductions.min(_set(x), over)


def _any(x: Value, over: str) -> Value:
    return reductions.max(_set(x), over)


def _set(x: Value) -> Value:
    """Return 1 where an element is not 0, else 0."""
    return equal(equal(x, 0), 0)

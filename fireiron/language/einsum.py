"""Einsum in traced functions: products of expressions, summed over the dims that the result does not name."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from fireiron.algebra.dtypes import default_accumulator
from fireiron.algebra.expr import (
    Var,
    as_expr,
)
from fireiron.base.contract import checks
from fireiron.base.errors import SpecError
from fireiron.base.text import count
from fireiron.language.folds import add_of
from fireiron.language.pointwise import (
    Operand,
    Value,
    cast_to,
    lifted,
    simplified,
)
from fireiron.language.trace import (
    Trace,
    active_trace,
    bare,
    current,
    declared,
    dims_of_value,
    noted,
    of_reads,
    refs_of,
    step_of,
)

PRODUCT = "product"  # the name of einsum's step where the function gives none


@checks(locate=True)
def einsum(subscripts: str, *operands: Operand, name: str = PRODUCT) -> Value:
    """Multiply expressions and sum over the dims that the result does not name, in f32 (integers in i32).

    Args:
        subscripts: as NumPy's einsum has them: `"mk,kn->mn"`, or with spaces for dims of several letters: `"row k, k
            col -> row col"`. For an array without subscripts the letters stand for its dimensions in order; for a
            computed expression they are the names of its dims.
        operands: arrays or expressions, one for each group of letters.
        name: name of the step.

    Raises:
        SpecError: `einsum-subscripts`, `dim-extents`, `bad-operand`.

    Example:
        >>> from fireiron.language.tensor import Matrix
        >>> from fireiron.language.traced import traced
        >>> def gram(x): return einsum("ik,jk->ij", x, x)
        >>> print(traced(gram, {"x": "i k"}, {"x": Matrix(64, 32, name="x")}, {}, "gram"))
        gram(x[64, 32].f32.GL) over i 64, j 64, k 32
          y[i, j] = add over k of x[i, k] * x[j, k]
    """
    left, arrow, right = subscripts.partition("->")
    groups = [_letters(part) for part in left.split(",")]
    if not arrow or len(groups) != len(operands):
        raise SpecError(
            "einsum-subscripts",
            f"{subscripts!r} does not say the dims of {count(len(operands), 'operand')} and a result",
            fix='write "mk,kn->mn": a group of letters for each operand, then those of the result',
        )
    trace = active_trace()
    values = [_subscripted(v, g, subscripts, trace) for v, g in zip(lifted_each(operands), groups, strict=True)]
    known = {letter for group in groups for letter in group}
    kept = _letters(right)
    missing = [x for x in kept if x not in known]
    if missing or len(set(kept)) < len(kept):
        raise SpecError(
            "einsum-subscripts",
            f"the result of {subscripts!r} names {missing[0] if missing else kept[0]}, "
            + ("which no operand has" if missing else "twice"),
            fix="name dims of the operands, each once",
        )
    total = values[0]
    for value in values[1:]:
        total = total * value
    total = simplified(cast_to(total, default_accumulator(total.dtype)))
    over = [trace.dims[x] for x in known_in_order(groups) if x not in kept]
    dims = [trace.dims[x] for x in kept]
    made = add_of(total.dtype) if over else None
    result = step_of(name, refs_of(total), of_reads(total.tree), made, over, dims, (total.dtype,))[0]
    return result if name == PRODUCT else noted(result)


def known_in_order(groups: Sequence[Sequence[str]]) -> list[str]:
    """List the letters of all operands, each once."""
    return list(dict.fromkeys(x for group in groups for x in group))


def lifted_each(operands: Sequence[Operand]) -> list[Value]:
    """Convert each operand to an expression."""
    return [lifted(x)[0] for x in operands]


def _letters(text: str) -> list[str]:
    words = text.split()
    return words if len(words) > 1 or (words and text.strip() in _names()) else list(text.replace(" ", ""))


def _names() -> set[str]:
    trace = current.get()
    return set(trace.dims) if trace is not None else set()


def _subscripted(value: Value, letters: Sequence[str], subscripts: str, trace: Trace) -> Value:
    """Read an operand at the dims that its letters name."""
    ref = bare(value)
    read_so = ref is not None and [e.name for e in ref.index if isinstance(e, Var)] == list(letters)
    if (
        ref is not None
        and len(ref.index) == len(letters)
        and all(isinstance(e, Var) for e in ref.index)
        and not read_so
    ):
        index = tuple(declared(letter, size, trace) for letter, size in zip(letters, ref.shape, strict=True))
        read = attrs.evolve(ref, index=index)
        return Value(value.tree, tuple(read if t == ref else t for t in value.tensors))
    mine = {d.name for d in dims_of_value(value)}
    # A dim of extent 1 does not occur in index expressions.
    mine |= {x for x in letters if x in trace.dims and trace.dims[x].extent == as_expr(1)}
    if mine != set(letters) or len(set(letters)) < len(letters):
        raise SpecError(
            "einsum-subscripts",
            f"{''.join(letters) if all(len(x) == 1 for x in letters) else ' '.join(letters)!r} of "
            f"{subscripts!r} names other dims than its expression has, {', '.join(sorted(mine)) or '(none)'}",
            fix="name just these dims",
        )
    return value

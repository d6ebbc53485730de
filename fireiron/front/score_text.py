"""Masks and score functions of attention as text: how operators carry them to where they run.

The text holds expressions of indices, of the score, and of what arrays hold at subscripts. Two functions that compute
the same give the same text, so that it also finds kernels that are there already.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.dtypes import f32
from fireiron.algebra.expr import Expr, Symbol, symbol
from fireiron.algebra.scalar import Arg, Coordinate, Scalar, placed, substituted
from fireiron.algebra.written import index_of, read, write, written_index
from fireiron.base.errors import CallError, FireironError, SpecError
from fireiron.language.levels import GL
from fireiron.language.pointwise import Value, accumulator, merged
from fireiron.language.steps import Ref

Function: TypeAlias = Callable[..., Any]
INDICES = ("b", "h", "i", "j")


@attrs.frozen
class Functions:
    """Hold what a text says, as functions that a program calls by keywords while it is traced.

    Args:
        mask: a condition on indices; None where all keys are seen.
        score: another score of each; None where scores stay.
    """

    mask: Function | None = None
    score: Function | None = None


def text_of(mask: Function | None, score: Function | None, arrays: tuple[tuple[str, int, str], ...]) -> str:
    """Write a mask and a score function.

    Args:
        mask: a function of indices (`b`, `h`, `i`, `j`) and arrays by name; None for none.
        score: a function of the score `s` too.
        arrays: name, number of dims and element type of each.

    Returns:
        The text; empty where there is neither function.

    Raises:
        CallError: `attention-function` where a function names what is not there, fails, or gives no expression; where
            no function reads an array.
    """
    if mask is None and score is None and not arrays:
        return ""
    known: dict[str, Any] = {name: Value(Coordinate(symbol(name, minimum=0))) for name in INDICES}
    known |= {name: _array(name, rank, kind) for name, rank, kind in arrays}
    written = {
        "mask": None if mask is None else _written("mask", mask, known),
        "score": None if score is None else _written("score", score, {**known, "s": accumulator(f32)}),
    }
    used = {name for each in written.values() if each is not None for name, _ in each["reads"]}
    unread = [name for name, _, _ in arrays if name not in used]
    if unread:
        raise CallError(
            "attention-function",
            f"no mask= and no score= reads {unread[0]}",
            fix=f"drop {unread[0]}=..., or read it by subscripts: {unread[0]}[b, j]",
        )
    return json.dumps(written, separators=(",", ":"))


def _array(name: str, rank: int, kind: str) -> Value:
    """Make the expression that stands for an array, which functions read by subscripts."""
    dtype = find_dtype(kind)
    extents = tuple(symbol(f"{name}_{n}") for n in range(rank))
    ref = Ref(name, extents, dtype, (1,) * rank, GL, extents)
    return Value(Arg(1, dtype), (ref,))


def _written(what: str, function: Function, known: Mapping[str, Any]) -> dict[str, Any]:
    """Call a function with expressions, and write what it gives."""
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.default is p.empty]
    missing = [name for name in names if name not in known]
    if missing:
        raise CallError(
            "attention-function",
            f"{what}= names {missing[0]}, and it may read {', '.join(known)}",
            fix=f"give {missing[0]}=array beside it, or another name",
        )
    try:
        value: object = function(**{name: known[name] for name in names})
    except FireironError:
        raise
    except Exception as error:
        raise CallError("attention-function", f"{what}= fails: {error}", fix="correct the function") from error
    if not isinstance(value, Value):
        raise CallError(
            "attention-function", f"{what}= gives {value!r}", fix="return an expression of its arguments: j <= i"
        )
    (tree,), refs = merged((value,))
    try:
        reads = [[ref.name, [_subscript(e) for e in ref.index]] for ref in refs if isinstance(ref, Ref)]
        return {"tree": write((tree,)), "reads": reads}
    except SpecError as error:
        raise CallError("attention-function", f"{what}=: {error.message}", fix=error.fix) from None


def _subscript(e: Expr) -> Any:
    """Write a subscript.

    Raises:
        SpecError: `bad-op` where a dimension of an array has none.
    """
    if isinstance(e, Symbol) and e.name not in INDICES:
        raise SpecError("bad-op", "a dimension of an array has no subscript", fix="give one for each: bias[b, h, i, j]")
    return written_index(e)


def array_name(name: str) -> str:
    """Name an array in the program, whose own arguments have other names."""
    return f"{name}_given"


@functools.lru_cache(maxsize=1024)
def functions_of(text: str) -> Functions:
    """Make the functions of a text."""
    if not text:
        return Functions()
    record = json.loads(text)
    found = {what: each and _function(read(each["tree"])[0], each["reads"]) for what, each in record.items()}
    return Functions(**found)


def _function(tree: Scalar, reads: list[Any]) -> Function:
    """Make the function of an expression: of indices and arrays by keywords, and of the score."""

    def function(**known: Value) -> Value:
        places: dict[str, Expr] = {}
        for name in INDICES:
            place = known[name].tree
            assert isinstance(place, Coordinate)
            places[name] = place.value
        elements = [
            known[array_name(name)][tuple(Value(Coordinate(index_of(e, places))) for e in subscripts)]
            for name, subscripts in reads
        ]
        trees, tensors = merged((known.get("s", elements[0] if elements else known["b"]), *elements))
        put: dict[Expr, Expr] = {symbol(name, minimum=0): place for name, place in places.items()}
        return Value(placed(substituted(tree, list(trees)), put), tensors)

    return function

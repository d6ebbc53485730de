"""Masks and score functions of attention as text: operators take them as text when they are traced, and run them later.

The text holds expressions of indices, of the score, and of array elements at subscripts. Two functions that compute the
same have the same text, so the text is also a key of kernels.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import attrs

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.dtypes import f32
from fireiron.algebra.expr import Expr, Symbol, symbol, terms_of
from fireiron.algebra.scalar import Arg, Coordinate, Scalar, placed, substituted
from fireiron.algebra.written import index_of, read, write, written_index
from fireiron.base.contract import refused
from fireiron.base.errors import CallError, FireironError, SpecError
from fireiron.front.fingerprint import fingerprint
from fireiron.language.levels import GL
from fireiron.language.pointwise import Value, accumulator, merged
from fireiron.language.steps import Ref

Function: TypeAlias = Callable[..., Any]
Change: TypeAlias = Callable[[Value, Mapping[str, Value]], Value]
Masks: TypeAlias = Function | tuple[Function, ...] | None
INDICES = ("b", "h", "i", "j")
TEXTS: dict[Hashable, str] = {}  # by keys of functions
MOST_TEXTS = 1024
Place: TypeAlias = tuple[str | int, ...]


@attrs.frozen
class Functions:
    """Hold the functions of a text, which a program calls by keywords when it is traced.

    Args:
        mask: condition under which a query sees a key; None where each query sees all keys.
        score: function from a score to another; None where scores stay the same.
        by_keys: the same condition for programs that loop over queries; None where it is `mask`.
        reads: names of the arrays that each function reads.
        dropout: fraction of the weights that are set to 0.
        places: by array, the places where the score function reads it, each a tuple of index names and numbers; None
            where a subscript is another expression, or a place names an index twice. Example: {"bias": (("h", 0,
            "j"),)}.
    """

    mask: Function | None = None
    score: Function | None = None
    by_keys: Function | None = None
    reads: Mapping[str, tuple[str, ...]] = {}
    dropout: float = 0.0
    places: Mapping[str, tuple[Place, ...] | None] = {}

    def read(self, over_keys: bool) -> frozenset[str]:
        """Name the arrays that the functions of a program read: a program that loops over keys, or over queries."""
        mask = "mask" if over_keys or self.by_keys is None else "by_keys"
        return frozenset(name for what in (mask, "score") for name in self.reads.get(what, ()))


def text_of(
    mask: Masks,
    score: Function | None,
    arrays: tuple[tuple[str, int, str], ...],
    by_keys: Masks = None,
    dropout: float = 0.0,
) -> str:
    """Write a mask and a score function as text.

    Args:
        mask: a function of indices (`b`, `h`, `i`, `j`) and of arrays by name; or several functions, whose conditions
            must all hold; or None.
        score: likewise, and also of the score `s`.
        arrays: name, number of dims and element type of each.
        by_keys: the mask for programs that loop over queries, where it is a different function.
        dropout: fraction of the weights that are set to 0.

    Returns:
        The text; empty without mask, score function and dropout.

    Raises:
        CallError: `argument-kind` for what is no function; `attention-function` where a function has a parameter of an
            unknown name, fails, or returns no expression, and where no function reads a given array.
    """
    if not mask and score is None and not arrays and not dropout:
        return ""
    functions = (*_each(mask), *_each(score), *_each(by_keys))
    prints = tuple(map(fingerprint, functions))
    if None in prints:
        return _text(mask, score, arrays, by_keys, dropout)
    key = prints, len(_each(mask)), score is None, arrays, dropout
    if key not in TEXTS:
        if len(TEXTS) >= MOST_TEXTS:
            TEXTS.clear()
        TEXTS[key] = _text(mask, score, arrays, by_keys, dropout)
    return TEXTS[key]


def _text(
    mask: Masks, score: Function | None, arrays: tuple[tuple[str, int, str], ...], by_keys: Masks, dropout: float
) -> str:
    known: dict[str, Any] = indices() | {name: array_of(name, rank, kind) for name, rank, kind in arrays}
    written = {
        "mask": _written("mask", mask, known),
        "score": _written("score", score, {**known, "s": accumulator(f32)}),
    } | ({} if by_keys is None else {"by_keys": _written("mask", by_keys, known)})
    used = {name for each in written.values() if each is not None for name, _ in each["reads"]}
    unread = [name for name, _, _ in arrays if name not in used]
    if unread:
        raise CallError(
            "attention-function",
            f"no mask= and no score= reads {unread[0]}",
            fix=f"drop {unread[0]}=..., or read it by subscripts: {unread[0]}[b, j]",
        )
    return json.dumps(written | ({"dropout": dropout} if dropout else {}), separators=(",", ":"))


def indices() -> dict[str, Value]:
    """Make the expressions of the indices, by name."""
    return {name: Value(Coordinate(symbol(name, minimum=0))) for name in INDICES}


def array_of(name: str, rank: int, kind: str) -> Value:
    """Make an array's expression, which functions read by subscripts."""
    dtype = find_dtype(kind)
    extents = tuple(symbol(f"{name}_{n}") for n in range(rank))
    ref = Ref(name, extents, dtype, (1,) * rank, GL, extents)
    return Value(Arg(1, dtype), (ref,))


def _written(what: str, functions: Masks, known: Mapping[str, Any]) -> dict[str, Any] | None:
    """Call functions with expressions, and write the result; several conditions are combined by `and`."""
    found = [_called(what, function, known) for function in _each(functions)]
    if not found:
        return None
    try:
        return _record(found)
    except SpecError as error:
        raise CallError("attention-function", f"{what}=: {error.message}", fix=error.fix) from None


def _record(conditions: Sequence[Value]) -> dict[str, Any]:
    """Write an expression, or several conditions combined by `and`."""
    value = conditions[0]
    for other in conditions[1:]:
        value = value & other
    (tree,), refs = merged((value,))
    reads = [[ref.name, [_subscript(e) for e in ref.index]] for ref in refs if isinstance(ref, Ref)]
    return {"tree": write((tree,)), "reads": reads}


def condition_text(condition: Value) -> str:
    """Write a condition of indices and array elements as the text of a mask.

    Raises:
        SpecError: `bad-op` for index expressions that cannot be kept as text.
    """
    return json.dumps({"mask": _record((condition,)), "score": None}, separators=(",", ":"))


def with_mask(text: str, mask: Change, by_keys: Change | None, arrays: tuple[tuple[str, int, str], ...]) -> str:
    """Change the mask of a text.

    Args:
        text: result of `text_of`.
        mask: makes the new mask from the old one, and from the indices and arrays by name.
        by_keys: likewise for programs that loop over queries; None where gradients need no such text.
        arrays: name, number of dims and element type of each array that the text or a new mask reads.
    """
    record, found = json.loads(text), functions_of(text)
    known: dict[str, Any] = indices() | {name: array_of(name, rank, kind) for name, rank, kind in arrays}
    given = indices() | {array_name(name): known[name] for name, _, _ in arrays}
    for what, change in (("mask", mask), ("by_keys", by_keys)):
        if change is not None:
            before = found.mask if what == "mask" or found.by_keys is None else found.by_keys
            assert before is not None
            record[what] = _record((change(before(**given), known),))
    return json.dumps(record, separators=(",", ":"))


def _each(functions: Masks) -> Sequence[Function]:
    if functions is None:
        return ()
    return cast("tuple[Function, ...]", functions) if isinstance(functions, tuple) else (functions,)


def _called(what: str, function: Function, known: Mapping[str, Any]) -> Value:
    """Call a function with expressions."""
    if not callable(cast(object, function)):
        raise refused(f"{what}=", ("a function of indices and arrays", "lambda i, j: j <= i"), function, CallError)
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.default is p.empty]
    missing = [name for name in names if name not in known]
    if missing:
        raise CallError(
            "attention-function",
            f"{what}= has the parameter {missing[0]}, and may read {', '.join(known)}",
            fix=f"pass {missing[0]}=array too, or rename the parameter",
        )
    try:
        value: object = function(**{name: known[name] for name in names})
    except FireironError:
        raise
    except Exception as error:
        raise CallError("attention-function", f"{what}= fails: {error}", fix="correct the function") from error
    if not isinstance(value, Value):
        raise CallError(
            "attention-function", f"{what}= returned {value!r}", fix="return an expression of its arguments: j <= i"
        )
    return value


def _index(subscript: Any, places: Mapping[str, Expr]) -> Any:
    """Read a subscript: a negative number counts from the end."""
    if isinstance(subscript, int) and subscript < 0:
        return subscript
    return Value(Coordinate(index_of(subscript, places)))


def _subscript(e: Expr) -> Any:
    """Write a subscript; a number that counts from the end is an extent and a negative number.

    Raises:
        SpecError: `bad-op` where a dimension of the array has no subscript.
    """
    if isinstance(e, Symbol) and e.name not in INDICES:
        raise SpecError("bad-op", "a dimension of an array has no subscript", fix="give one for each: bias[b, h, i, j]")
    (*terms,), number = terms_of(e)
    if number < 0 and len(terms) == 1 and isinstance(terms[0][0], Symbol) and terms[0][0].name not in INDICES:
        return number
    return written_index(e)


def array_name(name: str) -> str:
    """Return an array's name in the program, which differs from the names of the program's arguments."""
    return f"{name}_given"


@functools.lru_cache(maxsize=1024)
def functions_of(text: str) -> Functions:
    """Make the functions of a text."""
    if not text:
        return Functions()
    record = json.loads(text)
    dropout = record.pop("dropout", 0.0)
    found = {what: each and _function(read(each["tree"])[0], each["reads"]) for what, each in record.items()}
    reads = {what: tuple(name for name, _ in each["reads"]) for what, each in record.items() if each}
    return Functions(**found, reads=reads, dropout=dropout, places=_places(record.get("score")))


def _places(score: dict[str, Any] | None) -> dict[str, tuple[Place, ...] | None]:
    """Return the places where a written score function reads each array."""
    found: dict[str, tuple[Place, ...] | None] = {}
    for name, subscripts in score["reads"] if score else ():
        named = [x for x in subscripts if isinstance(x, str)]
        plain = len(set(named)) == len(named) and all(isinstance(x, str | int) for x in subscripts)
        before = found.get(name, ())
        found[name] = None if before is None or not plain else (*before, tuple(subscripts))
    return found


def _function(tree: Scalar, reads: list[Any]) -> Function:
    """Make a function of an expression; its keywords are indices, arrays, and the score."""

    def function(**known: Value) -> Value:
        places: dict[str, Expr] = {}
        for name in INDICES:
            place = known[name].tree
            assert isinstance(place, Coordinate)
            places[name] = place.value
        elements = [known[array_name(name)][tuple(_index(e, places) for e in subscripts)] for name, subscripts in reads]
        trees, tensors = merged((known.get("s", elements[0] if elements else known["b"]), *elements))
        put: dict[Expr, Expr] = {symbol(name, minimum=0): place for name, place in places.items()}
        return Value(placed(substituted(tree, list(trees)), put), tensors)

    return function

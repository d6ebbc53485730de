"""Masks of groups and the bounds of loops: derived from drawn masks, and compared with the masks at every point."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron.front.attention_bounds import Calls, bounded, count_of, found
from fireiron.front.mask_groups import grouped_mask
from fireiron.front.score_text import text_of
from fireiron.jit.kernel import as_tuple

SIZES = {"b": 2, "h": 2, "i": 200, "j": 260}
NAMED = (("of_queries", 2, "i32"), ("of_keys", 2, "i32"), ("flags", 1, "u8"), ("blocks", 3, "u8"), ("bias", 1, "f32"))
OPERATORS: dict[str, Callable[..., Any]] = {
    "<": operator.lt, "<=": operator.le, "&": operator.and_, "|": operator.or_, "+": operator.add, "-": operator.sub,
}  # fmt: skip
EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "=": fi.equal, "max": fi.maximum, "min": fi.minimum, "not": operator.invert, "where": fi.where,
}  # fmt: skip
ARRAYS: dict[str, Callable[..., Any]] = {
    "=": operator.eq, "max": np.maximum, "min": np.minimum, "not": np.logical_not, "where": np.where
}  # fmt: skip


def drawn_value(rng: random.Random, depth: int) -> Any:
    """Draw an integer expression as nested tuples."""
    if depth == 0 or rng.random() < 0.5:
        return rng.choice(
            ("i", "j", "h", ("read", "of_queries", "b", "i"), ("read", "of_keys", "h", "j"), ("read", "flags", "j"),
             ("read", "of_queries", 1, "i"), ("read", "blocks", "b", ("//", "i", 128), ("//", "j", 64)),
             ("read", "of_keys", "b", ("//", "j", 2)), rng.randint(-3, 9), ("//", "i", 7), ("%", "j", 128)),
        )  # fmt: skip
    op = rng.choice(("+", "-", "max", "min", "where"))
    values = drawn_value(rng, depth - 1), drawn_value(rng, depth - 1)
    return (op, drawn_mask(rng, 0), *values) if op == "where" else (op, *values)


def drawn_mask(rng: random.Random, depth: int) -> Any:
    """Draw a condition as nested tuples."""
    if depth == 0 or rng.random() < 0.2:
        if rng.random() < 0.15:
            return "<", 0.5, ("read", "bias", "j")
        if rng.random() < 0.5:
            return "=", ("read", "of_queries", "b", "i"), ("read", "of_keys", "b", "j")
        return rng.choice(("<", "<=", "=")), drawn_value(rng, 2), drawn_value(rng, 1)
    op = rng.choice(("&", "|", "not"))
    return op, *(drawn_mask(rng, depth - 1) for _ in range(1 if op == "not" else 2))


def computed(node: Any, known: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """Compute a drawn expression, of expressions or of arrays."""
    match node:
        case str():
            return known[node]
        case float():
            return node
        case int():
            return known["i"] - known["i"] + node
        case ("read", str(name), *subscripts):
            return known[name][tuple(computed(x, known, functions) for x in subscripts)]
        case ("//", x, int(by)):
            return computed(x, known, functions) // by
        case ("%", x, int(by)):
            return computed(x, known, functions) % by
        case (str(op), *operands):
            values = [computed(x, known, functions) for x in operands]
            return ({**OPERATORS, **functions})[op](*values)
        case _:
            raise AssertionError(node)


def function_of(node: Any) -> Callable[..., Any]:
    def mask(
        b: Any, h: Any, i: Any, j: Any, of_queries: Any, of_keys: Any, flags: Any, blocks: Any, bias: Any
    ) -> Any:  # fmt: skip
        known = {"b": b, "h": h, "i": i, "j": j, "of_queries": of_queries, "of_keys": of_keys}
        known |= {"flags": flags, "blocks": blocks, "bias": bias}
        found = computed(node, known, EXPRESSIONS)
        read = (bias[j] > 2.0) & (of_queries[0, i] > 10**6) & (flags[j] > 200) & (blocks[0, 0, 0] > 200)
        return found | (read & (of_keys[0, j] > 10**6))  # all arrays are read, and this never holds

    return mask


def filled(x: Any, dim: int, length: int) -> Any:
    return np.ascontiguousarray(x.take(np.minimum(np.arange(length), x.shape[dim] - 1), axis=dim))


def run(kernel: Any, arrays: Any, shapes: Any) -> tuple[Any, ...]:
    return tuple(x.reshape(shape) for x, shape in zip(as_tuple(kernel(*arrays)), shapes, strict=True))


KINDS = {"int32": "i32", "uint8": "u8", "float32": "f32"}
CALLS = Calls(filled, lambda x: KINDS[str(x.dtype)], run)


def inside(first: Any, last: Any, index: str, over: str, used: tuple[str, ...]) -> Any:
    """Say which points of a loop its bounds contain, for all b, h, i and j."""
    at = np.ix_(*(np.arange(SIZES[name]) for name in "bhij"))
    places = dict(zip("bhij", at, strict=True))
    places[index] = places[index] // 64
    subscripts = tuple(places[name] for name in used if name != over) or (0,)
    along = dict(zip("bhij", at, strict=True))[over]
    return (along >= first[subscripts]) & (along < last[subscripts])


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(6, 24))])
def test_bounds_contain_all_that_a_mask_shows(seed: int) -> None:
    rng, draw = np.random.default_rng(seed), random.Random(seed)
    arrays = {
        "of_queries": np.sort(rng.integers(0, 6, (2, 200)), 1), "of_keys": np.sort(rng.integers(0, 6, (2, 260)), 1),
        "flags": np.repeat(rng.integers(0, 3, 5), 64)[:260], "blocks": rng.integers(0, 2, (2, 2, 5)),
    }  # fmt: skip
    if seed % 6 == 5:  # sums overflow
        arrays["of_queries"] = arrays["of_queries"] + (2**31 - 8)
    arrays = {name: x.astype(np.int32 if name.startswith("of") else np.uint8) for name, x in arrays.items()}
    bias = rng.random(260).astype(np.float32)
    at = dict(zip("bhij", np.ix_(*(np.arange(SIZES[name], dtype=np.int32) for name in "bhij")), strict=True))
    bounds = 0
    for _ in range(100):
        node = drawn_mask(draw, 3)
        causal = draw.random() < 0.3
        text = text_of(function_of(node), None, NAMED)
        kinds = NAMED[:-1]
        grouped = grouped_mask(text, causal, kinds)
        if grouped is None:
            continue
        bounds += 1
        if bounds > 3:
            break
        with np.errstate(over="ignore"):
            shown = computed(node, {**at, **arrays, "bias": bias}, ARRAYS)
        shown = np.broadcast_to(np.asarray(shown) != 0, tuple(SIZES.values()))
        seen = shown & (~np.array(causal) | (at["j"] <= at["i"]))
        made = found(text, causal, arrays, SIZES, True, True, CALLS)
        number = count_of(grouped)
        for (first, last, *whole), places in ((made[:number], ("i", "j")), (made[number:], ("j", "i"))):
            assert not (seen & ~inside(first, last, *places, grouped.used)).any(), node
            if whole:
                assert not (inside(*whole, *places, grouped.used) & ~shown).any(), node
    assert bounds > 1


def test_whole_groups_of_documents() -> None:
    """All of a document's groups but those at its ends are whole; a group apart from the first ones counts as none."""
    named = (("d", 2, "i32"),)
    text = text_of(lambda b, i, j, d: fi.equal(d[b, i], d[b, j]), None, named)
    d = np.repeat(np.array([0, 1, 0], np.int32), (128, 72, 60))[None]
    sizes = {"b": 1, "h": 1, "i": 260, "j": 260}
    first, last, whole, behind, *_ = found(text, False, {"d": d}, sizes, True, True, CALLS)
    assert first.tolist() == [[0, 0, 128, 0, 0]]
    assert last.tolist() == [[260, 260, 256, 260, 260]]
    assert (whole[0, :3].tolist(), behind[0, :3].tolist()) == ([0, 0, 128], [64, 64, 192])
    text = text_of(lambda i, j, d: (d[0, i] > 2) & (d[0, j] > j), None, named)
    assert found(text, False, {"d": d}, sizes, False, True, CALLS)[2].tolist() == [260] * 5


def derived(mask: Callable[..., Any], *named: tuple[str, int, str], causal: bool = False) -> Any:
    return grouped_mask(text_of(mask, None, named), causal, named)


def test_indices_of_bounds() -> None:
    """Bounds have the dims on which the mask depends."""
    d = ("d", 2, "i32")
    assert derived(lambda b, i, j, d: fi.equal(d[b, i], d[b, j]), d).used == ("b", "i", "j")
    assert derived(lambda h, i, j, d: fi.equal(d[h, i], d[0, j]), d).used == ("h", "i", "j")
    assert derived(lambda j, seen: seen[j] > 0, ("seen", 1, "u8")).used == ("j",)
    found = derived(lambda i, j, t: t[i // 128, j // 64] > 0, ("t", 2, "u8"))
    assert (found.used, found.extremes, found.others) == (("i", "j"), (), ("t",))
    assert '"i",2' in found.text.replace("\\", "")


@pytest.mark.parametrize(
    ("mask", "array"),
    [
        (lambda b, j, n: j < n[b], ("n", 1, "i32")),  # such loops end by the comparison itself
        (lambda i, j, x: x[i, j] > 0, ("x", 2, "u8")),
        (lambda i, j, x: (x[j] > 0.5) & (j <= i), ("x", 1, "f32")),
        (lambda i, j, x: x[i // 48, j // 64] > 0, ("x", 2, "u8")),
        (lambda i, j, x: (x[j] > 0) | ((i + j) % 3 < 2), ("x", 1, "u8")),
        (lambda i, j, x: x[j] * x[i] > 0, ("x", 1, "i32")),
    ],
)
def test_without_bounds(mask: Callable[..., Any], array: tuple[str, int, str]) -> None:
    assert derived(mask, array) is None


def test_names_of_bounds_are_not_taken_twice() -> None:
    named = (("first_of_64", 1, "i32"),)
    text = text_of(lambda j, first_of_64: first_of_64[j] > 0, None, named)
    assert grouped_mask(text, False, named) is not None
    assert bounded(text, False, named, False) is None

"""Programs on integers of 64 bits with their results in NumPy, for tests on the simulator and on the GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

import fireiron as fi
from fireiron import Matrix, Vector

ROWS, COLUMNS = 24, 136
ENTRIES = 70


@attrs.frozen(eq=False)
class Case:
    """Hold a program, and what NumPy computes for it.

    Args:
        function: of arrays.
        dims: the dims of each array.
        tensors: the arrays' types.
        arrays: the data.
        expected: the result.
        out: its element type.
    """

    function: Callable[..., Any]
    dims: dict[str, str]
    tensors: dict[str, Any]
    arrays: tuple[Any, ...]
    expected: Any
    out: str = "i64"

    def spec(self) -> Any:
        """Trace the program."""
        return fi.program(**self.dims)(self.function)(**self.tensors, out=self.out)


def large(seed: int = 0) -> Any:
    """Draw numbers of all sizes, with the ends of the type among them."""
    rng = np.random.default_rng(seed)
    found = rng.integers(-(2**63), 2**63 - 1, (ROWS, COLUMNS), dtype=np.int64) >> rng.integers(0, 64, (ROWS, COLUMNS))
    found[0, :6] = [2**63 - 1, -(2**63), 2**31, -(2**31) - 1, 2**53 + 1, 0]
    return found


def cases() -> dict[str, Case]:
    """List the programs by name."""
    rng = np.random.default_rng(1)
    x, y = large(), rng.integers(-(2**31), 2**31, (ROWS, COLUMNS)).astype(np.int32)
    wide, narrow = Matrix(ROWS, COLUMNS, "i64", name="x"), Matrix(ROWS, COLUMNS, "i32", name="y")
    ids, table = rng.integers(0, ENTRIES, ROWS), rng.integers(-(2**62), 2**62, (ENTRIES, COLUMNS))
    behind = np.where(rng.random(ROWS) < 0.5, ids - ENTRIES, ids)
    floats = np.concatenate([[np.nan, np.inf, -np.inf, 1e30, 2.5, -3.5], rng.normal(0, 1e6, COLUMNS - 6)])

    def of(function: Any, expected: Any, out: str = "i64") -> Case:
        return Case(function, {"x": "m n"}, {"x": wide}, (x,), expected, out)

    def of_two(function: Any, expected: Any) -> Case:
        return Case(function, {"x": "m n", "y": "m n"}, {"x": wide, "y": narrow}, (x, y), expected)

    def gathered(function: Any, numbers: Any, expected: Any) -> Case:
        tensors = {"ids": Vector(ROWS, "i64", name="ids"), "table": Matrix(ENTRIES, COLUMNS, "i64", name="table")}
        return Case(function, {"ids": "m", "table": "v n"}, tensors, (numbers, table), expected)

    def converted(kind: str) -> Case:
        given = np.ascontiguousarray(np.broadcast_to(floats, (ROWS, COLUMNS)).astype(kind))
        whole = np.where(np.isnan(given), 0, np.rint(given))
        whole = np.where(whole >= 2.0**63, 2**63 - 1, np.where(np.abs(whole) < 2.0**63, whole, 0).astype(np.int64))
        whole = np.where(given == -np.inf, -(2**63), whole)
        return Case(
            lambda x: fi.cast(x, "i64"), {"x": "m n"}, {"x": Matrix(ROWS, COLUMNS, kind, name="x")}, (given,), whole
        )

    by = np.where(y == 0, 1, y).astype(np.int32)
    with np.errstate(all="ignore"):
        divided = x // by + ((x % by != 0) & ((x < 0) != (by < 0)))
        found = {
            "sums and products": of_two(lambda x, y: x * 3 + y - (x + y) * y, x * 3 + y - (x + y) * y),
            "comparisons": of_two(
                lambda x, y: fi.where(x < y, x, fi.where(fi.equal(x, 2**53 + 1), -1, y)),
                np.where(x < y, x, np.where(x == 2**53 + 1, -1, y)),
            ),
            "bounds and signs": of_two(
                lambda x, y: fi.maximum(fi.minimum(x, y), -abs(x)), np.maximum(np.minimum(x, y), -abs(x))
            ),
            "constants": of(lambda x: fi.where(x > 2**40, 2**62, x - 2**33), np.where(x > 2**40, 2**62, x - 2**33)),
            "quotients": Case(lambda x, y: x / y, {"x": "m n", "y": "m n"}, {"x": wide, "y": narrow}, (x, by), divided),
            "to i32": of(lambda x: x, np.clip(x, -(2**31), 2**31 - 1).astype(np.int32), "i32"),
            "to i8": of(lambda x: x, np.clip(x, -128, 127).astype(np.int8), "i8"),
            "to u8": of(lambda x: x, np.clip(x, 0, 255).astype(np.uint8), "u8"),
            "low words": of(lambda x: fi.cast(x, "i32", wraps=True), x.astype(np.int32), "i32"),
            "low bytes": of(lambda x: fi.cast(x, "i8", wraps=True) - 1, x.astype(np.int8).astype(np.int32) - 1, "i32"),
            "low bytes without a sign": of(lambda x: fi.cast(x, "u8", wraps=True), x.astype(np.uint8), "u8"),
            "to f64": of(lambda x: fi.cast(x, "f64"), x.astype(np.float64), "f64"),
            "to f32": of(lambda x: fi.cast(x, "f32"), x.astype(np.float32), "f32"),
            "to f16": of(lambda x: fi.cast(x, "f16"), x.astype(np.float64).astype(np.float16), "f16"),
            "from f64": converted("float64"),
            "from f32": converted("float32"),
            "sum": of(lambda x: fi.sum(x, "n"), x.sum(1)),
            "sum of columns": of(lambda x: fi.sum(x, "m"), x.sum(0)),
            "sum of i32": Case(
                lambda y: fi.sum(fi.cast(y, "i64"), "n"), {"y": "m n"}, {"y": narrow}, (y,), y.sum(1, dtype=np.int64)
            ),
            "count": of(lambda x: fi.sum(fi.cast(x > 0, "i64"), "n"), (x > 0).sum(1)),
            "any": of(lambda x: fi.max(fi.cast(x < -(2**62), "u8"), "n"), (x < -(2**62)).any(1).astype(np.uint8), "u8"),
            "largest": of(lambda x: fi.max(x, "m n"), x.max(axis=(0, 1))[None]),
            "smallest": of(lambda x: fi.min(x, "n"), x.min(1)),
            "product": of(lambda x: fi.prod(x, "n"), x.prod(1)),
            "argmax": of(lambda x: fi.argmax(x, "n"), x.argmax(1)),
            "argmin": of(lambda x: fi.argmin(x, "n"), x.argmin(1)),
            "top": of(lambda x: fi.topk(x, "n", 3)[0], -np.sort(-x.astype(object), 1)[:, :3].astype(np.int64)),
            "running sum": of(lambda x: fi.cumsum(x, "n"), x.cumsum(1)),
            "lines of a table": gathered(lambda ids, table: table[ids, :], ids, table[ids]),
            "lines from behind": gathered(
                lambda ids, table: table[fi.where(ids < 0, ids + ENTRIES, ids), :], behind, table[behind]
            ),
        }
    return found

"""Wrong values: of every kind that a caller's slip, a notebook's leftover or a hostile file may bring."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import fireiron as fi

Maker = Callable[[random.Random], Any]

WHOLE = (0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 33, 64, 100, 128, 256, 1000, -1, -3, -64)
HUGE = (10**6, 10**9, 2**31 - 1, 2**31, 2**32, 2**63, 10**30, -(2**31), -(10**30))
FLOATS = (0.0, -0.0, 0.5, 1.0, 1.5, 2.0, -3.0, 1e-30, 1e30, 1e308, float("nan"), float("inf"), float("-inf"))
TEXTS = (
    "",
    " ",
    "A",
    "B",
    "C",
    "K",
    "src",
    "dst",
    "M",
    "N",
    "out",
    "stream",
    "blocks",
    "int",
    "float",
    "for",
    "class",
    "__global__",
    "threadIdx",
    "blockIdx",
    "asm",
    "main",
    "a b",
    "a;b",
    "a\nb",
    "x[0]",
    "[red]x",
    "{A}",
    "%s",
    "\x00",
    "é",
    "4",
    "1.5",
    "None",
    "f16",
    "f32",
    "e4m3",
    "i8",
    "b1",
    "f7",
    "sm_80",
    "sm_90a",
    "sm_1",
    "cp.async",
    "ldmatrix",
    "tma",
    "NN",
    "TN",
    "RowMajor",
    "A" * 300,
    "*/ evil",
    "../x",
    "__init__",
    "numpy",
    "a.b",
    "1a",
    "lambda",
    "None",
    "True",
    "σ",
    "𝕏",
)


def _raises(*args: Any) -> Any:
    """Refuse any call with a coded error, as a user's own function may."""
    raise fi.FireironError("of-the-user", "refused", fix="none")


def _numbers(draw: random.Random) -> Any:
    kind = draw.choice(
        (np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint32, np.uint64, np.float32, np.float16, np.float64)
    )
    return kind(draw.choice((0, 1, 2, 4, 8, 16, 32, 64, 100)))


def _sequence(draw: random.Random) -> Any:
    items = [scalar(draw) for _ in range(draw.randrange(4))]
    return draw.choice((tuple, list, set if all(_hashable(x) for x in items) else list, iter))(items)


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def scalar(draw: random.Random) -> Any:
    """Draw a number or a text."""
    return draw.choice(
        (
            lambda: draw.choice(WHOLE),
            lambda: draw.choice(WHOLE),
            lambda: draw.choice(HUGE),
            lambda: draw.choice(FLOATS),
            lambda: draw.choice(TEXTS),
            lambda: _numbers(draw),
            lambda: draw.choice((None, True, False, np.bool_(True))),
        )
    )()


def _tensor(draw: random.Random) -> Any:
    return draw.choice(
        (
            lambda: fi.Matrix(64, 64, name=draw.choice(("A", "B", "C", "Z", "out"))),
            lambda: fi.Matrix(64, 32, "f16", fi.ColMajor, name="Z"),
            lambda: fi.Vector(64, name="v"),
            lambda: fi.Vector(3, "i8", name="w", along=fi.ColMajor),
            lambda: fi.Matrix(64, 64, batch=2, name="X"),
            lambda: fi.Matrix(fi.symbol("M"), 64, name="S"),
        )
    )()


def _function(draw: random.Random) -> Any:
    return draw.choice(
        (
            lambda: None,
            lambda *args: args[0] if args else 1,
            lambda *args: None,
            lambda x: x,
            lambda x, y: x,
            lambda x: 1,
            lambda x: "x",
            _raises,
            fi.relu,
            fi.add(1),
            fi.add,
            fi.vector(),
            fi.vector,
            fi.conform(),
            fi.tma(),
            fi.ldmatrix(),
            fi.cp_async(),
            fi.staged(),
            fi.microkernel("C[0] = 0;"),
            len,
            print.__class__,
            int,
            dict,
        )
    )


def _object(draw: random.Random) -> Any:
    return draw.choice(
        (
            lambda: object(),
            lambda: object,
            lambda: ValueError("x"),
            lambda: b"A",
            lambda: 1j,
            lambda: Decimal(2),
            lambda: Fraction(3, 2),
            lambda: {},
            lambda: {1: 2},
            lambda: range(3),
            lambda: np.zeros((4, 4), np.float32),
            lambda: np.ones(3),
            lambda: np.zeros((64, 64), np.float16),
            lambda: np.array(4),
            lambda: np.zeros(0),
            lambda: fi.Layout((4, 8), (8, 1)),
            lambda: fi.Layout(32, 1),
            lambda: fi.Swizzle(3, 3, 3),
            lambda: fi.symbol("M"),
            lambda: fi.symbol("K") + 1,
            lambda: fi.f16,
            lambda: fi.Block,
            lambda: fi.Warp,
            lambda: fi.Thread,
            lambda: fi.SH,
            lambda: fi.RF,
            lambda: fi.GL,
            lambda: fi.A,
            lambda: fi.SRC,
            lambda: fi.RowMajor,
            lambda: fi.Grouped(8),
            lambda: fi.Hilbert(3),
            lambda: fi.Strided((4, 32), (4, 16)),
            lambda: fi.in_order(),
            lambda: fi.by_atomics(),
            lambda: fi.by_cluster(),
            lambda: fi.by_tma(),
            lambda: fi.stream_k(),
            lambda: fi.save(fi.Matrix(64, 64, name="before")),
            lambda: fi.row_sum(fi.Vector(64, name="t", along=fi.ColMajor)),
            lambda: fi.parameter("p", "f32"),
            lambda: fi.matmul(64, 64, 32),
            lambda: fi.dtype if hasattr(fi, "dtype") else np.float32,
            lambda: np.dtype("float16"),
            lambda: np.complex64,
        )
    )()


def wrong(draw: random.Random) -> Any:
    """Draw a value of any kind; whether it is wrong depends on where it goes."""
    make: Maker = draw.choice((scalar, scalar, scalar, scalar, _sequence, _tensor, _function, _object, _object))
    return make(draw)


def shown(value: Any) -> str:
    """Write a value shortly, whatever it is."""
    try:
        text = repr(value)
    except Exception as error:  # the value is hostile, the report must stand
        text = f"<no repr: {type(error).__name__}>"
    return text if len(text) <= 70 else f"{text[:67]}..."

"""Time row programs: softmax, the norms and their gradients, in bf16.

`python -m bench rows [NAME ...] [--shape MxN ...] [--seed N --count N] [-o FILE.jsonl]`
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fireiron import Matrix, Vector
from fireiron.schedules import rows

from .memory import Work, shapes_of
from .memory import run as run_suite

ELEMENTS = 1 << 26
EPS = 1e-6
# By program: how many matrices, and vectors of a value a column, it reads.
GIVEN = {
    "softmax": (1, 0),
    "layernorm": (1, 2),
    "rms_norm": (1, 1),
    "softmax_backward": (2, 0),
    "rms_norm_backward": (2, 1),
    "layernorm_backward": (2, 1),
}
USUAL = ("softmax", "layernorm", "rms_norm")
SHAPES = (
    (12288, 768),
    (12288, 1024),
    (196608, 384),
    *((ELEMENTS // n, n) for n in (64, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144)),
)


def drawn(seed: int, count: int) -> tuple[tuple[int, int], ...]:
    """Draw shapes: rows of 64 to 16384 columns, multiples of 8, and as many rows as make 8M to 128M elements."""
    chance = random.Random(seed)
    found: list[tuple[int, int]] = []
    for _ in range(count):
        columns = 8 * chance.randint(8, 2048)
        found.append((chance.randint(1 << 23, 1 << 27) // columns, columns))
    return tuple(found)


def run(words: Sequence[str], command: str = "") -> int:
    """Run the command line."""

    def make(options: Any, names: Sequence[str]) -> list[Work]:
        chosen = names if options.names else USUAL
        return [work(name, m, n) for m, n in shapes_of(options, SHAPES, drawn) for name in chosen]

    return run_suite(words, command, "rows", "Time programs of rows, in bf16.", tuple(GIVEN), make)


def work(name: str, m: int, n: int) -> Work:
    """Describe a program on m rows of n columns."""
    matrices, vectors = GIVEN[name]
    inputs = (((m, n), "bfloat16"),) * matrices + (((n,), "bfloat16"),) * vectors
    # A gradient is a difference of sums that may cancel.
    slack = 2.0**-7 if name.endswith("backward") else 0.0
    make = partial(schedule, name, m, n)
    return Work(f"{name} {m}x{n}", make, inputs, ((m, n), "bfloat16"), partial(_eager, name), slack)


def schedule(name: str, m: int, n: int, plan: Mapping[str, int]) -> Any:
    """Give the schedule of a program on m rows of n columns, by what the preset takes."""
    matrices, vectors = GIVEN[name]
    given: list[Any] = [Matrix(m, n, "bf16") for _ in range(matrices)]
    given += [Vector(n, "bf16", name=word) for word in ("gain", "bias")[:vectors]]
    named = {} if name.startswith("softmax") else {"eps": EPS}
    return rows.row(getattr(rows, name)(*given, **named), **plan)


def _eager(name: str, torch: Any) -> Callable[..., Any]:
    functional = torch.nn.functional

    def wide(x: Any) -> Any:
        return x if x.dtype == torch.float64 else x.float()

    def softmax(x: Any) -> Any:
        return functional.softmax(x, -1)

    def layernorm(x: Any, gain: Any, bias: Any) -> Any:
        return functional.layer_norm(x, (x.shape[-1],), gain, bias, EPS)

    def rms_norm(x: Any, gain: Any) -> Any:
        return (wide(x) * torch.rsqrt((wide(x) * wide(x)).mean(-1, keepdim=True) + EPS) * gain).to(x.dtype)

    def softmax_backward(y: Any, dy: Any) -> Any:
        return (wide(y) * (wide(dy) - (wide(y) * wide(dy)).sum(-1, keepdim=True))).to(y.dtype)

    def of_norm(normed: Any, deviation: Any, g: Any, centred: bool) -> Any:
        g = g - g.mean(-1, keepdim=True) if centred else g
        return (g - normed * (g * normed).mean(-1, keepdim=True)) * deviation

    def rms_norm_backward(x: Any, dy: Any, gain: Any) -> Any:
        deviation = torch.rsqrt((wide(x) * wide(x)).mean(-1, keepdim=True) + EPS)
        return of_norm(wide(x) * deviation, deviation, wide(dy) * gain, False).to(x.dtype)

    def layernorm_backward(x: Any, dy: Any, gain: Any) -> Any:
        away = wide(x) - wide(x).mean(-1, keepdim=True)
        deviation = torch.rsqrt((away * away).mean(-1, keepdim=True) + EPS)
        return of_norm(away * deviation, deviation, wide(dy) * gain, True).to(x.dtype)

    made: dict[str, Callable[..., Any]] = {
        "softmax": softmax,
        "layernorm": layernorm,
        "rms_norm": rms_norm,
        "softmax_backward": softmax_backward,
        "rms_norm_backward": rms_norm_backward,
        "layernorm_backward": layernorm_backward,
    }
    return made[name]

"""Time sums: over columns, rows, all, and other dims, in bf16 with f32 results.

`python -m bench reductions [NAME ...] [--shape AxBxC ...] [--seed N --count N] [-o FILE.jsonl]`
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import fireiron as fi
from fireiron.schedules import reductions

from .memory import Work, shapes_of
from .memory import run as run_suite

# By name: which dims of a, b, c are folded.
OVER = {"columns": "a b", "rows": "c", "all": "a b c", "middle": "b"}
SHAPES = (
    (1, 8192, 8192),
    (64, 128, 1024),
    (32, 64, 32),
    (1, 8192, 1024),
    (1, 1280, 1024),
    (1024, 128, 128),
    (4, 128, 1024),
)


def drawn(seed: int, count: int) -> tuple[tuple[int, int, int], ...]:
    """Draw shapes of 64K to 128M elements."""
    chance = random.Random(seed)
    found: list[tuple[int, int, int]] = []
    for _ in range(count):
        c, b = 8 * chance.randint(1, 1024), chance.randint(1, 512)
        found.append((max(1, chance.randint(1 << 16, 1 << 27) // (b * c)), b, c))
    return tuple(found)


def run(words: Sequence[str], command: str = "") -> int:
    """Run the command line."""

    def make(options: Any, names: Sequence[str]) -> list[Work]:
        return [work(name, *shape) for shape in shapes_of(options, SHAPES, drawn) for name in names]

    return run_suite(words, command, "reductions", "Time sums, of bf16 in f32.", tuple(OVER), make)


def work(name: str, a: int, b: int, c: int) -> Work:
    """Describe a sum of an array of a x b x c elements."""
    over, shape = OVER[name].split(), (1, a, b, c) if name == "all" else (a, b, c)
    dims = "uabc" if name == "all" else "abc"  # a result has at least one dim, here of extent 1
    out = (tuple(extent for dim, extent in zip(dims, shape, strict=True) if dim not in over), "float32")
    axes = tuple(dims.index(dim) for dim in over)

    def eager(torch: Any) -> Any:
        def total(x: Any) -> Any:
            return torch.sum(x, axes, dtype=torch.promote_types(x.dtype, torch.float32))

        return total

    make = partial(schedule, name, a, b, c)
    return Work(f"{name} {a}x{b}x{c}", make, ((shape, "bfloat16"),), (out,), eager, 2.0**-18)


def schedule(name: str, a: int, b: int, c: int, plan: Mapping[str, int]) -> Any:
    """Give the schedule of a sum, by keywords of the preset."""
    given: dict[str, Any] = {key: bool(value) if key == "atomics" else value for key, value in plan.items()}
    dims, shape = ("u a b c", (1, a, b, c)) if name == "all" else ("a b c", (a, b, c))

    def total(x: fi.Value) -> fi.Value:
        return fi.sum(x, OVER[name])

    spec = fi.program(x=dims)(total)(fi.tensor(*shape, dtype="bf16"), out="f32")
    return reductions.reduction(spec, **given)

"""Time sums: over columns, rows, all, and other dims, in bf16 with f32 results; and AKG's list of folds.

`python -m bench reductions [NAME ...] [--shape AxBxC ...] [--seed N --count N] [-o FILE.jsonl]`;
`python -m bench reductions akg` times the folds and sizes of AKG's tests.
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
# The folds other than sums, and the sizes, of the tests of AKG 1.7; sizes of one or two dims have ones before them.
AKG = (
    ("columns", (32, 64, 32)),
    ("columns", (64, 128, 1024)),
    ("rows", (64, 128, 1024)),
    ("all", (64, 128, 1024)),
    ("rows", (1, 8192, 1024)),
    ("rows", (1, 1280, 1024)),
    ("rows", (1024, 128, 128)),  # (64, 16, 128, 128)
    ("max-middle", (32, 64, 32)),
    ("max-columns", (4, 128, 1024)),
    ("min-middle", (32, 64, 32)),
    ("min-columns", (4, 128, 1024)),
    ("and-all", (1, 1, 32786)),
    ("or-all", (1, 1, 32786)),
    ("and-rows", (1, 1024, 1024)),
    ("or-rows", (1, 1024, 1024)),
)
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
        if "akg" in names and options.names:
            return [work(name, *shape) for name, shape in AKG]
        return [work(name, *shape) for shape in shapes_of(options, SHAPES, drawn) for name in names if name != "akg"]

    return run_suite(words, command, "reductions", "Time sums, of bf16 in f32.", (*OVER, "akg"), make)


def work(name: str, a: int, b: int, c: int) -> Work:
    """Describe a fold of an array of a x b x c elements: a sum by its dims (`columns`), others as `max-columns`."""
    fold, _, dims = name.rpartition("-")
    over, shape = OVER[dims].split(), (a, b, c)
    axes = tuple("abc".index(dim) for dim in over)
    kept = tuple(shape[i] for i in range(3) if i not in axes) or (1,)
    kind, made = ("uint8", "uint8") if fold in ("and", "or") else ("bfloat16", "bfloat16" if fold else "float32")

    def eager(torch: Any) -> Any:
        folds = {"max": torch.amax, "min": torch.amin, "and": torch.amin, "or": torch.amax}

        def total(x: Any) -> Any:
            if kind == "uint8":
                return (folds[fold](x, axes) != 0).to(torch.uint8).reshape(kept)
            if fold:
                return folds[fold](x, axes).reshape(kept)
            return torch.sum(x, axes, dtype=torch.promote_types(x.dtype, torch.float32)).reshape(kept)

        return total

    spec = partial(schedule, name, a, b, c)
    return Work(f"{name} {a}x{b}x{c}", spec, ((shape, kind),), ((kept, made),), eager, 2.0**-18, most=256, reads=True)


def schedule(name: str, a: int, b: int, c: int, plan: Mapping[str, int]) -> Any:
    """Give the schedule of a fold: that of `best`, or by keywords of the preset."""
    given: dict[str, Any] = {key: bool(value) if key == "atomics" else value for key, value in plan.items()}
    fold, _, dims = name.rpartition("-")
    over = OVER[dims].split()
    if fold:
        axes = ["abc".index(dim) for dim in over]
        kind, kept = "u8" if fold in ("and", "or") else "bf16", [n for i, n in enumerate((a, b, c)) if i not in axes]
        x, y = fi.tensor(a, b, c, dtype=kind), fi.tensor(*(kept or [1]), dtype=kind, name="y")
        spec = fi.Reduction(fold, x, y, over=axes)
        return reductions.reduction(spec, **given) if given else fi.best(spec)

    def total(x: fi.Value) -> fi.Value:
        return fi.sum(x, over)

    spec = fi.program(x="a b c")(total)(fi.tensor(a, b, c, dtype="bf16"), out="f32")
    return reductions.reduction(spec, **given) if given else fi.best(spec)

"""Time pointwise programs of one to six inputs, rotary embeddings and transposes, in bf16.

`python -m bench pointwise [NAME ...] [--shape MxN ...] [--seed N --count N] [-o FILE.jsonl]`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import fireiron as fi
from fireiron.schedules import pointwise, rows

from .memory import Work, shapes_of
from .memory import run as run_suite
from .rows import drawn

CHAIN = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
INPUTS = {**CHAIN, "gelu_bias": 2, "transpose": 1, "rotary": 2, "rotary_pairs": 1}
HEAD = 128  # width of a head in rotary embeddings
SHAPES = ((4096, 1024), (4096, 4096), (8192, 8192), (65536, 1024))


def run(words: Sequence[str], command: str = "") -> int:
    """Run the command line."""

    def make(options: Any, names: Sequence[str]) -> list[Work]:
        return [work(name, m, n) for m, n in shapes_of(options, SHAPES, drawn) for name in names]

    return run_suite(
        words,
        command,
        "pointwise",
        "Time pointwise, rotary and transposing programs, in bf16.",
        tuple(INPUTS),
        make,
    )


def work(name: str, m: int, n: int) -> Work:
    """Describe a program on arrays of m x n."""
    if name == "transpose":
        made = partial(schedule, name, m, n)
        given, stored = ((m, n), "bfloat16"), ((n, m), "bfloat16")
        return Work(f"{name} {m}x{n}", made, (given,), (stored,), lambda torch: _turned)
    if name.startswith("rotary"):
        return _turning(name, m, n)
    shapes = ((m, n), (n,)) if name == "gelu_bias" else ((m, n),) * INPUTS[name]

    def eager(torch: Any) -> Any:
        def gelu_bias(x: Any, bias: Any) -> Any:
            return torch.nn.functional.gelu(x + bias)

        def chain(*given: Any) -> Any:
            wide = [x if x.dtype == torch.float64 else x.float() for x in given]
            return _chain(wide, torch.relu).to(given[0].dtype)

        return gelu_bias if name == "gelu_bias" else chain

    inputs = tuple((shape, "bfloat16") for shape in shapes)
    slack = 2.0**-7 if name == "gelu_bias" else 2.0**-20
    native = None if name == "gelu_bias" else _native  # torch's own chain rounds after each operation
    made = partial(schedule, name, m, n)
    return Work(f"{name} {m}x{n}", made, inputs, (((m, n), "bfloat16"),), eager, slack, native=native)


def _native(torch: Any, given: Sequence[Any]) -> Any:
    return lambda: _chain(given, torch.relu)


def _turning(name: str, m: int, n: int) -> Work:
    """Describe a rotary embedding of m places and n / 128 heads."""
    angles = ((m, HEAD // 2), "float32")
    x = ((1, m, n // HEAD, HEAD if name == "rotary_pairs" else HEAD // 2), "bfloat16")
    arrays = (x,) * INPUTS[name]

    def eager(torch: Any) -> Any:
        def turned(a: Any, b: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
            a, b = (t if t.dtype == torch.float64 else t.float() for t in (a, b))
            cos, sin = cos[:, None], sin[:, None]
            return a * cos - b * sin, b * cos + a * sin

        def halves(a: Any, b: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
            return tuple(t.to(a.dtype) for t in turned(a, b, cos, sin))

        def pairs(x: Any, cos: Any, sin: Any) -> Any:
            return torch.stack(turned(x[..., ::2], x[..., 1::2], cos, sin), -1).flatten(-2).to(x.dtype)

        return pairs if name == "rotary_pairs" else halves

    # The difference of two products may cancel.
    return Work(f"{name} {m}x{n}", partial(schedule, name, m, n), (*arrays, angles, angles), arrays, eager, 2.0**-20)


def _turned(x: Any) -> Any:
    return x.t().contiguous()


def _chain(given: Sequence[Any], relu: Any) -> Any:
    """Compute relu(x0) * 2 + x1 * x2 + x3 ..., with as many terms as there are inputs."""
    first, *others = given
    total = relu(first) * 2.0
    for i, x in enumerate(others):
        total = total * x if i % 2 else total + x
    return total


def schedule(name: str, m: int, n: int, plan: Mapping[str, int]) -> Any:
    """Give the schedule of a program, by keywords of the preset."""
    x = fi.Matrix(m, n, "bf16")
    if name == "transpose":
        return pointwise.move(fi.Move(x, fi.Matrix(m, n, "bf16", fi.ColMajor, name="y")))
    if name.startswith("rotary"):
        width = HEAD if name == "rotary_pairs" else HEAD // 2
        arrays = [fi.tensor(1, m, n // HEAD, width, dtype="bf16", name=word) for word in "ab"[: INPUTS[name]]]
        angles = [fi.tensor(m, HEAD // 2, name=word) for word in ("cos", "sin")]
        return pointwise.pointwise(getattr(rows, name)(*arrays, *angles), **plan)
    if name == "gelu_bias":
        return pointwise.pointwise(_gelu_bias(x, fi.Vector(n, "bf16", name="bias")), **plan)
    return pointwise.pointwise(CHAINS[INPUTS[name]](*[x] * INPUTS[name]), **plan)


@fi.program(x="m n", bias="n")
def _gelu_bias(x: fi.Value, bias: fi.Value) -> fi.Value:
    return fi.gelu(x + bias)


@fi.program(a="m n")
def _one(a: fi.Value) -> fi.Value:
    return _chain((a,), fi.relu)


@fi.program(a="m n", b="m n")
def _two(a: fi.Value, b: fi.Value) -> fi.Value:
    return _chain((a, b), fi.relu)


@fi.program(a="m n", b="m n", c="m n")
def _three(a: fi.Value, b: fi.Value, c: fi.Value) -> fi.Value:
    return _chain((a, b, c), fi.relu)


@fi.program(a="m n", b="m n", c="m n", d="m n")
def _four(a: fi.Value, b: fi.Value, c: fi.Value, d: fi.Value) -> fi.Value:
    return _chain((a, b, c, d), fi.relu)


@fi.program(a="m n", b="m n", c="m n", d="m n", e="m n")
def _five(a: fi.Value, b: fi.Value, c: fi.Value, d: fi.Value, e: fi.Value) -> fi.Value:
    return _chain((a, b, c, d, e), fi.relu)


@fi.program(a="m n", b="m n", c="m n", d="m n", e="m n", f="m n")
def _six(a: fi.Value, b: fi.Value, c: fi.Value, d: fi.Value, e: fi.Value, f: fi.Value) -> fi.Value:
    return _chain((a, b, c, d, e, f), fi.relu)


CHAINS = {1: _one, 2: _two, 3: _three, 4: _four, 5: _five, 6: _six}

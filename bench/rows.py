"""Time row programs against a copy of as many bytes, torch eager and torch.compile: softmax, layernorm, RMS norm.

`python -m bench rows [NAME ...] [--shape MxN ...] [-o FILE.jsonl]`; each result is held against f64 first. Launches
are interleaved, in an order of chance, each alone behind a flush of the L2.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from fireiron import Matrix, Vector
from fireiron.base.errors import FireironError
from fireiron.schedules import rows

from .arrays import torch_module
from .measure import here, why_not_timed
from .results import write

ROUNDS, BUDGET_S = 21, 2.0
ELEMENTS = 1 << 26
EPSILON = 2.0**-8  # of bf16
EPS = 1e-6
GIVEN = {"softmax": 0, "layernorm": 2, "rms_norm": 1}  # vectors of a value a column
SHAPES = (
    (12288, 768),
    (12288, 1024),
    (196608, 384),
    *((ELEMENTS // n, n) for n in (64, 256, 1024, 4096, 8192, 16384, 32768, 65536)),
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
    """Run the command line.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench rows", description="Time programs of rows, in bf16.")
    parser.add_argument("names", nargs="*", help=", ".join(GIVEN))
    parser.add_argument("--shape", nargs="+", default=[], metavar="MxN", help="instead of the usual ones")
    parser.add_argument("--seed", type=int, help="draw the shapes by this seed")
    parser.add_argument("--count", type=int, default=12, help="how many are drawn (12)")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out: it takes seconds a shape")
    parser.add_argument("--plan", nargs="+", default=[], metavar="K=N", help="what the preset takes: stages=2 warps=16")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results there")
    parser.add_argument("--arch", default="sm_90a", help="what to compile for without a GPU (sm_90a)")
    options = parser.parse_args(list(words))
    if unknown := [name for name in options.names if name not in GIVEN]:
        parser.error(f"there is no program {unknown[0]}: use {', '.join(GIVEN)}")
    shapes: Sequence[tuple[int, int]] = SHAPES
    if options.seed is not None:
        shapes = drawn(options.seed, options.count)
    if options.shape:
        shapes = tuple((int(m), int(n)) for m, n in (word.split("x") for word in options.shape))
    plan = {key: int(value) for key, value in (word.split("=") for word in options.plan)}
    why, machine, wrong = why_not_timed(), here(), False
    for m, n in shapes:
        for name in options.names or GIVEN:
            line = _planned(name, m, n, plan, options.arch) if why else _timed(name, m, n, plan, not options.no_compile)
            wrong |= bool(line.get("problem"))
            print(_words(line), flush=True)
            if options.output:
                when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                write(options.output, [{**line, "machine": attrs.asdict(machine), "command": command, "when": when}])
    if why:
        print(f"nothing was timed: {why}. Kernels were compiled.")
    return int(wrong)


def schedule(name: str, m: int, n: int, plan: Mapping[str, int]) -> Any:
    """Give the schedule of a program on m rows of n columns, by what the preset takes."""
    vectors = [Vector(n, "bf16", name=word) for word in ("gain", "bias")[: GIVEN[name]]]
    named = {} if name == "softmax" else {"eps": EPS}
    return rows.row(getattr(rows, name)(Matrix(m, n, "bf16"), *vectors, **named), **plan)


def _planned(name: str, m: int, n: int, plan: Mapping[str, int], arch: str) -> dict[str, Any]:
    kernel = schedule(name, m, n, plan).compile(arch)
    return {"program": f"{name} {m}x{n}", "registers": kernel.resources.registers}


def _eager(torch: Any, name: str) -> Callable[..., Any]:
    functional = torch.nn.functional

    def rms_norm(x: Any, gain: Any) -> Any:
        wide = x if x.dtype == torch.float64 else x.float()
        return (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + EPS) * gain).to(x.dtype)

    return {
        "softmax": lambda x: functional.softmax(x, -1),
        "layernorm": lambda x, gain, bias: functional.layer_norm(x, (x.shape[-1],), gain, bias, EPS),
        "rms_norm": rms_norm,
    }[name]


def _timed(name: str, m: int, n: int, plan: Mapping[str, int], compiles: bool) -> dict[str, Any]:
    """Check against f64, then time ours, a copy and the peers."""
    from .timer import TorchTimer

    torch = torch_module()
    line: dict[str, Any] = {"program": f"{name} {m}x{n}", "nbytes": 4 * m * n, **({"plan": dict(plan)} if plan else {})}
    try:
        kernel = schedule(name, m, n, plan).compile()
    except FireironError as error:
        return {**line, "problem": str(error).splitlines()[0]}
    given = [torch.randn(m, n, device="cuda").to(torch.bfloat16)]
    given += [torch.randn(n, device="cuda").to(torch.bfloat16) for _ in range(GIVEN[name])]
    out, room, eager = torch.empty_like(given[0]), torch.empty_like(given[0]), _eager(torch, name)
    kernel(*given, out=out)
    checked = slice(0, min(m, 4096))
    wanted = eager(given[0][checked].double(), *(x.double() for x in given[1:]))
    differs = (out[checked].double() - wanted).abs() > 2 * EPSILON * wanted.abs() + EPSILON**2 * 4
    line |= {"registers": kernel.resources.registers, "checked_rows": checked.stop}
    if int(differs.sum()):
        return {**line, "problem": f"wrong: {int(differs.sum())} elements lie beyond two roundings of bf16"}
    launches: dict[str, Callable[[], object]] = {
        "fireiron": lambda: kernel(*given, out=out),
        "copy": lambda: room.copy_(given[0]),
        "torch": lambda: eager(*given),
    }
    if compiles:
        torch._dynamo.reset()
        compiled = torch.compile(eager, dynamic=False)
        compiled(*given)
        launches["torch.compile"] = lambda: compiled(*given)
    times = TorchTimer().burst(launches, ROUNDS, BUDGET_S)
    line["times"] = {key: attrs.asdict(found) for key, found in times.items()}
    ours = times["fireiron"].median_us
    line["ratios"] = {key: found.median_us / ours for key, found in times.items() if key != "fireiron"}
    return line


def _words(line: Mapping[str, Any]) -> str:
    if problem := line.get("problem"):
        return f"{line['program']}: {problem}"
    if "times" not in line:
        return f"{line['program']}: {line['registers']} registers"
    ours = line["times"]["fireiron"]["median_us"]
    peers = ", ".join(f"{key} {found:.3f}" for key, found in line["ratios"].items())
    return f"{line['program']}: {ours:.1f} us, {line['nbytes'] / ours * 1e-3:.0f} GB/s; over {peers}"

"""Time the first plans of `conv.wgmma` on randomly drawn layers: the first plan, and the fastest of the first N.

`python -m bench conv-plans --seed WORD [--count N] [--plans N] [-o FILE.jsonl]`. The seed, such as a commit's hash,
draws layers over the whole class: images, sides, channels, filters, windows, strides and padding. Each plan is compared
with f64 and timed against torch's convolution by cuDNN, channels last, with the L2 flushed.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from math import exp, log
from typing import Any

import attrs

from fireiron.base.errors import FireironError
from fireiron.schedules import conv

from .ahead import compilers
from .arrays import torch_module
from .conv import BUDGET_S, GPU, ROUNDS, Laboratory, arrays_of, program, wrong
from .lines import report
from .measure import why_not_timed
from .tables import geomean

IMAGES, SIDES, CHANNELS = (1, 256), (5, 160), (16, 1024)  # smallest and largest, drawn by their logarithms
TAPS, STRIDES = (1, 1, 1, 3, 3, 3, 3, 3, 5, 7), (1, 1, 1, 1, 1, 1, 1, 2, 2, 3)  # each is drawn as often as it is listed
UNIT = 8  # channels, since bulk copies move multiples of 16 bytes
GFLOP = (0.3, 60.0)  # of a layer: fewer operations would time the launch, more would take too long
MOST_ELEMENTS = 2**28  # of images, and of results
FIRST = "fireiron"  # the first plan among what is timed


@attrs.frozen
class Layer:
    """Hold the sizes of a layer: square images, filters and padding."""

    n: int
    side: int
    c: int
    k: int
    taps: int
    stride: int
    pad: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Give the sizes in the order of the bench of convolutions."""
        return attrs.astuple(self)

    @property
    def out(self) -> int:
        """Count the rows of the result."""
        return (self.side + 2 * self.pad - self.taps) // self.stride + 1

    @property
    def flops(self) -> int:
        """Count the operations."""
        return 2 * self.n * self.out**2 * self.k * self.taps**2 * self.c

    def __str__(self) -> str:
        return "x".join(map(str, self.shape))


def drawn(seed: str, count: int) -> list[Layer]:
    """Draw layers by a seed.

    Args:
        seed: any word.
        count: number of layers.

    Example:
        >>> [str(layer) for layer in drawn("a1e71b1", 2)] == [str(layer) for layer in drawn("a1e71b1", 2)]
        True
    """
    rng = random.Random(f"conv-plans {seed}")

    def spread(least: int, most: int) -> int:
        return round(exp(rng.uniform(log(least), log(most))))

    found: list[Layer] = []
    while len(found) < count:
        taps = rng.choice(TAPS)
        c, k = (UNIT * max(1, round(spread(*CHANNELS) / UNIT)) for _ in range(2))
        layer = Layer(spread(*IMAGES), spread(*SIDES), c, k, taps, rng.choice(STRIDES), rng.choice((0, taps // 2)))
        if layer.side + 2 * layer.pad < taps or not GFLOP[0] <= layer.flops * 1e-9 <= GFLOP[1]:
            continue
        if layer.n * max(layer.side**2 * c, layer.out**2 * k) <= MOST_ELEMENTS:
            found.append(layer)
    return found


def scheduled(layer: Layer, count: int) -> list[tuple[str, Any]]:
    """List a layer's first plans in the order of the model: words, and the schedule or the reason why there is none."""
    spec = program(layer.shape)
    found: list[tuple[str, Any]] = []
    for tiles in conv.plans(spec)[:count]:
        values = attrs.asdict(tiles)
        words = " ".join(f"{key}={value}" for key, value in values.items())
        try:
            found.append((words, conv.wgmma(spec, plan=tiles)))
        except FireironError as error:
            found.append((words, str(error).splitlines()[0]))
    return found


def compiled(layer: Layer, count: int, arch: str) -> list[tuple[str, int | str]]:
    """Compile a layer's plans into the disk cache; return the registers, or the error, of each."""
    found: list[tuple[str, int | str]] = []
    for words, schedule in scheduled(layer, count):
        try:
            told = schedule if isinstance(schedule, str) else schedule.compile(arch).resources.registers
        except FireironError as error:
            told = str(error).splitlines()[0]
        found.append((words, told))
    return found


def run(
    words: Sequence[str], command: str = "", laboratory: Laboratory | None = None, executor: Executor | None = None
) -> int:
    """Run the command line.

    Args:
        words: the words of the command line.
        command: the command, which is kept beside the results.
        laboratory: where layers are timed; the GPU, if there is one, by default.
        executor: runs compilations; None for new processes.

    Returns:
        1 where a result of ours is wrong or a first plan does not build, else 0.
    """
    o = _parsed(words)
    layers = drawn(o.seed, o.count)
    why = why_not_timed() if laboratory is None else ""
    lines: list[dict[str, Any]] = []

    def works() -> Iterator[dict[str, Any]]:
        with compilers(executor) as workers:
            tasks = [workers.submit(compiled, layer, o.plans, o.arch) for layer in layers]
            for layer, task in zip(layers, tasks, strict=True):
                told: list[tuple[str, int | str]] = []
                with suppress(Exception):  # a process ended: the process that times the layer compiles it
                    told = task.result()
                found = _planned(told) if why else _timed(laboratory or GPU, layer, o.plans)
                lines.append({"program": f"forward {layer}", "preset": "wgmma", "seed": o.seed, **found})
                yield lines[-1]

    right = report(works(), o.output, command, said)
    firsts, bests = ([line[key] for line in lines if key in line] for key in ("first", "best"))
    if firsts:
        print(f"{len(firsts)} layers over cuDNN: the first plan {_spread(firsts)}, the fastest of {o.plans} ", end="")
        print(f"{_spread(bests)}; the first plan over the fastest {geomean(firsts) / geomean(bests):.3f}")
    if why:
        print(f"nothing was timed: {why}. Kernels were compiled.")
    return int(not right)


def said(line: Mapping[str, Any]) -> str:
    """Describe a layer's result."""
    if problem := line.get("problem"):
        return f"{line['program']}: {problem}"
    failed = "".join(f"\n  {words}: {reason}" for words, reason in line["failed"].items())
    if "first" not in line:
        return f"{line['program']}: {line['plans']} plans compiled{failed}"
    rate = line["flops"] / line["times"][FIRST]["median_us"] * 1e-6
    best = f"plan {line['place']} {line['best']:.3f} ({line['fastest']})"
    return f"{line['program']}: {rate:.0f} TFLOP/s, over cuDNN {line['first']:.3f}; {best}{failed}"


def _spread(values: Sequence[float]) -> str:
    return f"{geomean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def _planned(told: Sequence[tuple[str, int | str]]) -> dict[str, Any]:
    failed = {words: reason for words, reason in told if isinstance(reason, str)}
    if not told or told[0][0] in failed:
        return {"problem": f"the first plan does not build: {told[0][1] if told else 'there is none'}"}
    return {"plans": len(told) - len(failed), "failed": failed}


def _timed(laboratory: Laboratory, layer: Layer, count: int) -> dict[str, Any]:
    """Check the plans against f64, then time them and cuDNN's choice."""
    torch = torch_module()
    torch.backends.cudnn.benchmark = True
    x, f, images, weights = arrays_of(laboratory, layer.shape)
    out = torch.empty(layer.n, layer.out, layer.out, layer.k, dtype=x.dtype, device=x.device)
    launches: dict[str, Any] = {}
    plans = scheduled(layer, count)
    failed: dict[str, str] = {}
    for number, (words, schedule) in enumerate(plans, 1):
        try:
            kernel = None if isinstance(schedule, str) else laboratory.built(schedule)
        except FireironError as error:
            kernel, schedule = None, str(error).splitlines()[0]
        if kernel is None:
            failed[words] = schedule
            continue
        out.fill_(float("nan"))
        kernel(x, f, out=out)
        if problem := wrong("forward", out, (images, weights, out, None), layer.stride, layer.pad):
            return {"problem": f"{words}: {problem}"}
        launches[f"plan {number}" if number > 1 else FIRST] = lambda kernel=kernel: kernel(x, f, out=out)
    if FIRST not in launches:
        return {"problem": f"the first plan does not build: {next(iter(failed.values()), 'there is none')}"}
    launches["cudnn"] = lambda: torch.conv2d(images, weights, None, layer.stride, layer.pad)
    times = laboratory.compared(launches, ROUNDS, BUDGET_S)["times"]
    theirs = times["cudnn"]["median_us"]
    over = {name: theirs / each["median_us"] for name, each in times.items() if name != "cudnn"}
    fastest = max(over, key=lambda name: over[name])
    place = 1 if fastest == FIRST else int(fastest.split()[1])
    return {
        "flops": layer.flops, "times": times, "first": over[FIRST], "best": over[fastest], "place": place,
        "fastest": plans[place - 1][0], "failed": failed,
    }  # fmt: skip


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench conv-plans", description="Time the first plans of conv.wgmma.", allow_abbrev=False
    )
    parser.add_argument(
        "--seed", required=True, metavar="WORD", help="seed of the layers, such as the hash of a commit"
    )
    parser.add_argument("--count", type=int, default=24, metavar="N", help="number of layers (24)")
    parser.add_argument(
        "--plans", type=int, default=10, metavar="N", help="number of plans of each layer, in the model's order (10)"
    )
    parser.add_argument("--arch", default="sm_90a", help="target (sm_90a)")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    o = parser.parse_args(list(words))
    if o.plans < 1 or o.count < 1:
        parser.error(f"--plans {o.plans} --count {o.count}: one of each at least")
    return o

"""Time memory-bound kernels against a copy of as many bytes, a kernel that only reads, torch eager and torch.compile.

Each result is compared with f64 first. Launches are interleaved in random order, each after a flush of the L2.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from fireiron.base.errors import FireironError

from . import ahead
from .arrays import poisoned, torch_module
from .lines import compared, report
from .measure import why_not_timed
from .reading import reader

ROUNDS, BUDGET_S = 21, 2.0
MOST_CHECKED = 1 << 26  # elements of an input that are compared in f64 at a time
F32_SLACK = 2.0**-16  # most of a work's slack that results in f32 have: they are not rounded


@attrs.frozen
class Work:
    """Describe one work.

    Args:
        name: name of the computation, with the shape.
        schedule: function from a preset's keywords to our schedule.
        inputs: shape and torch's element type of each. Integers are drawn below `most`.
        outs: shape and torch's element type of each output.
        eager: function from the torch module to torch's function of the inputs; in f64 the latter is the reference.
        most: upper bound of drawn integers: each is smaller.
        slack: the allowed error beside two roundings, relative to the sum of the terms' sizes.
        sizes: function that computes the sum of the terms' sizes, in the form of `eager`; None for `eager` of absolute
            values.
        by_rows: for each input, whether its first dim is that of all outputs, so that rows can be compared in parts; ()
            where outputs need all rows.
        reads: whether to time a kernel of ours that only reads, for comparison.
        native: function that binds torch's own kernels to the inputs, where these kernels are faster than `eager`.
        places: number of the integer output that holds the columns of the first output's values in the first input.
    """

    name: str
    schedule: Callable[[Mapping[str, int]], Any]
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    outs: tuple[tuple[tuple[int, ...], str], ...]
    eager: Callable[[Any], Callable[..., Any]]
    slack: float = 0.0
    sizes: Callable[[Any], Callable[..., Any]] | None = None
    most: int = 0
    by_rows: tuple[bool, ...] = ()
    reads: bool = False
    native: Callable[[Any, Sequence[Any]], Callable[[], object]] | None = None
    places: int | None = None


Make = Callable[[Any, Sequence[str]], Sequence[Work]]


def run(words: Sequence[str], command: str, prog: str, about: str, names: Sequence[str], make: Make) -> int:
    """Run a suite's command line.

    Args:
        words: the words of the command line.
        command: the whole command, for the results.
        prog: the suite's name.
        about: description of the suite.
        names: names of the programs.
        make: function from the options to the works, for some of the names.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    parser = argparse.ArgumentParser(prog=f"python -m bench {prog}", description=about)
    parser.add_argument("names", nargs="*", help=", ".join(names))
    parser.add_argument("--shape", nargs="+", default=[], metavar="MxN", help="shapes instead of the default ones")
    parser.add_argument("--seed", type=int, help="draw the shapes from this seed")
    parser.add_argument("--count", type=int, default=12, help="number of drawn shapes (12)")
    parser.add_argument(
        "--no-compile", action="store_true", help="leave out torch.compile, which takes seconds per shape"
    )
    parser.add_argument(
        "--plan", nargs="+", default=[], metavar="K=N", help="keywords of the preset: stages=2 warps=16"
    )
    parser.add_argument("--budget", type=float, default=BUDGET_S, metavar="S", help="seconds of sampling a case (2)")
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="processes that compile ahead (one for each core but two; 0: none)"
    )
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    parser.add_argument("--arch", default="sm_90a", help="target where there is no GPU (sm_90a)")
    options = parser.parse_args(list(words))
    if unknown := [name for name in options.names if name not in names]:
        parser.error(f"there is no program {unknown[0]}: use {', '.join(names)}")
    plan = {key: int(value) for key, value in (word.split("=") for word in options.plan)}
    why, works = why_not_timed(), make(options, options.names or names)
    if why:
        right = report((_planned(w, plan, options.arch) for w in works), options.output, command)
    else:
        ahead.compiled([partial(_build, w.schedule, plan) for w in works], options.jobs)
        lines = (_timed(w, plan, not options.no_compile, options.budget) for w in works)
        right = report(lines, options.output, command)
    if why:
        print(f"nothing was timed: {why}. Kernels were compiled.")
    return int(not right)


def shapes_of(options: Any, usual: Sequence[tuple[int, ...]], drawn: Callable[[int, int], Any]) -> Any:
    """Return the shapes for a command line: given, drawn or default ones."""
    if options.shape:
        return tuple(tuple(int(n) for n in word.split("x")) for word in options.shape)
    return usual if options.seed is None else drawn(options.seed, options.count)


def _build(schedule: Callable[[Mapping[str, int]], Any], plan: Mapping[str, int]) -> None:
    """Compile into the disk cache. The process that measures reports errors."""
    with contextlib.suppress(FireironError):
        schedule(plan).compile()


def _planned(work: Work, plan: Mapping[str, int], arch: str) -> dict[str, Any]:
    try:
        kernel = work.schedule(plan).compile(arch)
    except FireironError as error:
        return {"program": work.name, "problem": str(error).splitlines()[0]}
    return {"program": work.name, "registers": kernel.resources.registers}


def _elements(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _timed(work: Work, plan: Mapping[str, int], compiles: bool, budget_s: float) -> dict[str, Any]:
    """Check against f64, then time ours, a copy and the peers."""
    from .timer import TorchTimer

    torch = torch_module()
    kinds = {kind: getattr(torch, kind) for _, kind in (*work.inputs, *work.outs)}
    nbytes = sum(_elements(shape) * kinds[kind].itemsize for shape, kind in (*work.inputs, *work.outs))
    line: dict[str, Any] = {"program": work.name, "nbytes": nbytes, **({"plan": dict(plan)} if plan else {})}
    try:
        kernel = work.schedule(plan).compile()
    except FireironError as error:
        return {**line, "problem": str(error).splitlines()[0]}
    given = [_drawn(torch, shape, kinds[kind], work.most) for shape, kind in work.inputs]
    made = [poisoned(torch.empty(shape, device="cuda", dtype=kinds[kind])) for shape, kind in work.outs]
    out = made[0] if len(made) == 1 else tuple(made)
    eager = work.eager(torch)
    kernel(*given, out=out)
    line |= {"registers": kernel.resources.registers}
    differs = sum(_differing(torch, work, *some) for some in _parts(work, given, made))
    if differs:
        return {**line, "problem": f"wrong: {differs} elements lie beyond two roundings of their type"}
    half = torch.empty(nbytes // 2, device="cuda", dtype=torch.uint8)
    room = torch.empty_like(half)
    launches: dict[str, Callable[[], object]] = {
        "fireiron": lambda: kernel(*given, out=out),
        "copy": lambda: room.copy_(half),
        "torch": _native(torch, work, given) or (lambda: eager(*given)),
    }
    if work.reads:
        launches["read"] = reader(given[0], TorchTimer().quick)
    if compiles:
        torch._dynamo.reset()
        compiled = torch.compile(eager, dynamic=False)
        compiled(*given)
        launches["torch.compile"] = lambda: compiled(*given)
    return line | compared(launches, ROUNDS, budget_s)


def _native(torch: Any, work: Work, given: Sequence[Any]) -> Callable[[], object] | None:
    """Bind torch's own kernels; None where this version has none for these inputs."""
    if work.native is None:
        return None
    try:
        launch = work.native(torch, given)
        launch()
    except (AttributeError, RuntimeError):
        return None
    return launch


def _parts(work: Work, given: Sequence[Any], made: Sequence[Any]) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    """Yield inputs and outputs, as many rows at a time as can be compared in f64."""
    count = _elements(work.inputs[0][0])
    if not any(work.by_rows) or count <= MOST_CHECKED:
        yield given, made
        return
    rows = given[work.by_rows.index(True)].shape[0]
    step = max(1, MOST_CHECKED * rows // count)
    for i in range(0, rows, step):
        some = [x[i : i + step] if by_rows else x for x, by_rows in zip(given, work.by_rows, strict=True)]
        yield some, [x[i : i + step] for x in made]


def _drawn(torch: Any, shape: tuple[int, ...], kind: Any, most: int) -> Any:
    if kind.is_floating_point:
        return torch.randn(shape, device="cuda").to(kind)
    return torch.randint(0, most, shape, device="cuda", dtype=kind)


def _differing(torch: Any, work: Work, given: Sequence[Any], made: Sequence[Any]) -> int:
    """Count the elements of float outputs that lie beyond two roundings of the same expression in f64."""

    def exact(change: Callable[[Any], Any], eager: Callable[[Any], Callable[..., Any]] = work.eager) -> Sequence[Any]:
        found = eager(torch)(*(change(x.double()) if x.dtype.is_floating_point else x for x in given))
        return found if isinstance(found, tuple) else (found,)

    wanted, count = exact(lambda x: x), 0
    slacks = exact(torch.abs, work.sizes or work.eager) if work.slack else wanted
    for i, (x, right, slack) in enumerate(zip(made, wanted, slacks, strict=True)):
        if i == work.places:
            count += int((given[0].gather(-1, x.long()) != made[0]).sum())
        elif not x.dtype.is_floating_point:
            count += int((x != right).sum())
        else:
            near = 2 * torch.finfo(x.dtype).eps
            room = min(work.slack, F32_SLACK) if x.dtype == torch.float32 else work.slack
            allowed = near * right.abs() + near**2 + room * slack.abs()
            count += int((~((x.double() - right).abs() <= allowed)).sum())
    return count

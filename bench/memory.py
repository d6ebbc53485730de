"""Time memory-bound kernels against a copy of as many bytes, torch eager and torch.compile.

Each result is compared with f64 first. Launches are interleaved in random order, each after a flush of the L2.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from fireiron.base.errors import FireironError

from .arrays import torch_module
from .lines import compared, report
from .measure import why_not_timed

ROUNDS, BUDGET_S = 21, 2.0
MOST_CHECKED = 1 << 27  # elements of an input that are compared in f64


@attrs.frozen
class Work:
    """Describe one work.

    Args:
        name: what is computed, and the shape.
        schedule: makes our schedule, of what the preset takes.
        inputs: shape and torch's element type of each. Integers are drawn below `most`.
        outs: the same of each output. Integers (the places of the largest values) are not compared.
        eager: torch's expression of the inputs, given torch; in f64 it is the reference.
        most: what integers are drawn below.
        slack: by how much of the same expression of absolute values a result may differ, beside two roundings.
    """

    name: str
    schedule: Callable[[Mapping[str, int]], Any]
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    outs: tuple[tuple[tuple[int, ...], str], ...]
    eager: Callable[[Any], Callable[..., Any]]
    slack: float = 0.0
    most: int = 0


Make = Callable[[Any, Sequence[str]], Sequence[Work]]


def run(words: Sequence[str], command: str, prog: str, about: str, names: Sequence[str], make: Make) -> int:
    """Run a suite's command line.

    Args:
        words: of the command line.
        command: the whole of it, for the results.
        prog: the suite's name.
        about: what it times.
        names: of the programs.
        make: gives the works of the options, for some of the names.

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
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    parser.add_argument("--arch", default="sm_90a", help="target where there is no GPU (sm_90a)")
    options = parser.parse_args(list(words))
    if unknown := [name for name in options.names if name not in names]:
        parser.error(f"there is no program {unknown[0]}: use {', '.join(names)}")
    plan = {key: int(value) for key, value in (word.split("=") for word in options.plan)}
    why, works = why_not_timed(), make(options, options.names or names)
    lines = (_planned(w, plan, options.arch) if why else _timed(w, plan, not options.no_compile) for w in works)
    right = report(lines, options.output, command)
    if why:
        print(f"nothing was timed: {why}. Kernels were compiled.")
    return int(not right)


def shapes_of(options: Any, usual: Sequence[tuple[int, ...]], drawn: Callable[[int, int], Any]) -> Any:
    """Give the shapes that a command line asks for: its own, drawn ones, or the usual."""
    if options.shape:
        return tuple(tuple(int(n) for n in word.split("x")) for word in options.shape)
    return usual if options.seed is None else drawn(options.seed, options.count)


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


def _timed(work: Work, plan: Mapping[str, int], compiles: bool) -> dict[str, Any]:
    """Check against f64, then time ours, a copy and the peers."""
    torch = torch_module()
    kinds = {kind: getattr(torch, kind) for _, kind in (*work.inputs, *work.outs)}
    nbytes = sum(_elements(shape) * kinds[kind].itemsize for shape, kind in (*work.inputs, *work.outs))
    line: dict[str, Any] = {"program": work.name, "nbytes": nbytes, **({"plan": dict(plan)} if plan else {})}
    try:
        kernel = work.schedule(plan).compile()
    except FireironError as error:
        return {**line, "problem": str(error).splitlines()[0]}
    given = [_drawn(torch, shape, kinds[kind], work.most) for shape, kind in work.inputs]
    made = [torch.empty(shape, device="cuda", dtype=kinds[kind]) for shape, kind in work.outs]
    out = made[0] if len(made) == 1 else tuple(made)
    eager = work.eager(torch)
    kernel(*given, out=out)
    line |= {"registers": kernel.resources.registers}
    if _elements(work.inputs[0][0]) <= MOST_CHECKED:
        line |= {"checked": True}
        differs = _differing(torch, work, given, made)
        if differs:
            return {**line, "problem": f"wrong: {differs} elements lie beyond two roundings of their type"}
    half = torch.empty(nbytes // 2, device="cuda", dtype=torch.uint8)
    room = torch.empty_like(half)
    launches: dict[str, Callable[[], object]] = {
        "fireiron": lambda: kernel(*given, out=out),
        "copy": lambda: room.copy_(half),
        "torch": lambda: eager(*given),
    }
    if compiles:
        torch._dynamo.reset()
        compiled = torch.compile(eager, dynamic=False)
        compiled(*given)
        launches["torch.compile"] = lambda: compiled(*given)
    return line | compared(launches, ROUNDS, BUDGET_S)


def _drawn(torch: Any, shape: tuple[int, ...], kind: Any, most: int) -> Any:
    if kind.is_floating_point:
        return torch.randn(shape, device="cuda").to(kind)
    return torch.randint(0, most, shape, device="cuda", dtype=kind)


def _differing(torch: Any, work: Work, given: Sequence[Any], made: Sequence[Any]) -> int:
    """Count the elements of float outputs that lie beyond two roundings of the same expression in f64."""

    def exact(change: Callable[[Any], Any]) -> Sequence[Any]:
        found = work.eager(torch)(*(change(x.double()) if x.dtype.is_floating_point else x for x in given))
        return found if isinstance(found, tuple) else (found,)

    wanted, count = exact(lambda x: x), 0
    slacks = exact(torch.abs) if work.slack else wanted
    for x, right, slack in zip(made, wanted, slacks, strict=True):
        if x.dtype.is_floating_point:
            near = 2 * torch.finfo(x.dtype).eps
            allowed = near * right.abs() + near**2 + work.slack * slack.abs()
            count += int((~((x.double() - right).abs() <= allowed)).sum())
    return count

"""Time works that memory bounds against a copy of as many bytes, torch eager and torch.compile.

Each result is held against f64 first. Launches are interleaved, in an order of chance, each alone behind a flush of the
L2.
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
        inputs: shape and torch's element type of each.
        out: the same of the output.
        eager: torch's expression of the inputs, given torch; in f64 it is the reference.
        turned: whether the output's columns lie together.
        slack: by how much of the same expression of absolute values a result may differ, beside two roundings.
    """

    name: str
    schedule: Callable[[Mapping[str, int]], Any]
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    out: tuple[tuple[int, ...], str]
    eager: Callable[[Any], Callable[..., Any]]
    slack: float = 0.0
    turned: bool = False


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
    parser.add_argument("--shape", nargs="+", default=[], metavar="MxN", help="instead of the usual ones")
    parser.add_argument("--seed", type=int, help="draw the shapes by this seed")
    parser.add_argument("--count", type=int, default=12, help="how many are drawn (12)")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out: it takes seconds a shape")
    parser.add_argument("--plan", nargs="+", default=[], metavar="K=N", help="what the preset takes: stages=2 warps=16")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results there")
    parser.add_argument("--arch", default="sm_90a", help="what to compile for without a GPU (sm_90a)")
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
    kernel = work.schedule(plan).compile(arch)
    return {"program": work.name, "registers": kernel.resources.registers}


def _elements(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def _timed(work: Work, plan: Mapping[str, int], compiles: bool) -> dict[str, Any]:
    """Check against f64, then time ours, a copy and the peers."""
    torch = torch_module()
    kinds = {kind: getattr(torch, kind) for _, kind in (*work.inputs, work.out)}
    nbytes = sum(_elements(shape) * kinds[kind].itemsize for shape, kind in (*work.inputs, work.out))
    line: dict[str, Any] = {"program": work.name, "nbytes": nbytes, **({"plan": dict(plan)} if plan else {})}
    try:
        kernel = work.schedule(plan).compile()
    except FireironError as error:
        return {**line, "problem": str(error).splitlines()[0]}
    given = [torch.randn(shape, device="cuda").to(kinds[kind]) for shape, kind in work.inputs]
    out = torch.empty(work.out[0][:: -1 if work.turned else 1], device="cuda", dtype=kinds[work.out[1]])
    out = out.t() if work.turned else out
    eager = work.eager(torch)
    kernel(*given, out=out)
    line |= {"registers": kernel.resources.registers}
    if _elements(work.inputs[0][0]) <= MOST_CHECKED:
        wanted = eager(*(x.double() for x in given))
        near = 2 * torch.finfo(out.dtype).eps
        allowed = near * wanted.abs() + near**2
        if work.slack:
            allowed += work.slack * eager(*(x.double().abs() for x in given)).abs()
        differs = int(((out.double() - wanted).abs() > allowed).sum())
        del wanted, allowed
        line |= {"checked": True}
        if differs:
            return {**line, "problem": f"wrong: {differs} elements lie beyond two roundings of {work.out[1]}"}
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

"""Time convolutions of known networks and of drawn layers, their gradients and epilogs, against torch's by cuDNN.

`python -m bench conv-table [--rows WORD ...] [--seed WORD --count N] [--seconds N] [-o FILE.jsonl]`. Each kernel is the
one that `fireiron.conv2d` and its gradients take; torch computes channels last with cuDNN's fastest algorithm. A result
is compared with f64 first; a gradient of filters with f32.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

import attrs

from fireiron.base.errors import FireironError
from fireiron.front.best_program import best_program
from fireiron.front.convolutions import Convolution, filter_gradient_specified, specified
from fireiron.front.transposed import all_specified, at_once, between_windows, images_specified

from .ahead import compilers
from .arrays import torch_module
from .conv import ERROR, GPU, Laboratory
from .conv_plans import drawn
from .lines import report, words
from .measure import why_not_timed
from .tables import geomean

ROUNDS, BUDGET_S, SECONDS = 11, 0.5, 600.0
FILTERS_ERROR = 2.0**-8  # of a gradient of filters in f16 held against f32 of torch
FORWARD, DATA, FILTERS = "forward", "data", "filters"


@attrs.frozen
class Work:
    """Hold one line of the table.

    Args:
        row: the row that the line belongs to.
        what: the convolution.
        form: `forward`, or the gradient of `data` or of `filters`.
        beside: arrays beside images and filters: bias, residual.
        activation: name of the function that is applied last.
        compiled: whether torch.compile is timed too.
    """

    row: str
    what: Convolution
    form: str = FORWARD
    beside: tuple[str, ...] = ()
    activation: str = ""
    compiled: bool = False

    def __str__(self) -> str:
        w = self.what
        side = "x".join(map(str, w.sides))
        groups = f" groups {w.groups}" if w.groups > 1 else ""
        behind = "".join(f" {name}" for name in (*self.beside, self.activation) if name)
        taps = "x".join(map(str, w.taps))
        return f"{self.form} {w.images}x{side}x{w.channels}x{w.filters} {taps}/{w.stride[0]}{groups}{behind}"


def square(
    n: int, side: int, c: int, k: int, taps: int, stride: int, pad: int, groups: int = 1, rank: int = 2
) -> Convolution:
    """Describe a convolution of f16 whose sides are alike."""
    return Convolution(
        "f16", n, (side,) * rank, c, k, (taps,) * rank, (stride,) * rank, ((pad, pad),) * rank, (1,) * rank, groups
    )  # fmt: skip


AKG = square(32, 32, 64, 128, 5, 1, 0)
RESNET = ((56, 64, 64, 3, 1, 1), (28, 128, 128, 3, 1, 1), (14, 256, 256, 3, 1, 1), (7, 512, 512, 3, 1, 1))
STRIDED = (56, 128, 128, 3, 2, 1)
POINTS = ((56, 64, 256, 1, 1, 0), (14, 1024, 256, 1, 1, 0))
STEM = (224, 3, 64, 7, 2, 3)


def table() -> list[Work]:
    """List the lines, row by row."""
    small = [square(32, *layer) for layer in (*RESNET, STRIDED)]
    lines = [Work("5x5", AKG), *(Work("3x3, 32 images", what) for what in small)]
    lines += [Work("1x1", square(32, *layer)) for layer in POINTS]
    lines += [Work("stem", square(32, *STEM))]
    lines += [Work("3x3, 256 images", square(256, *layer)) for layer in (*RESNET, STRIDED)]
    lines += [Work("gradient of data", what, DATA) for what in (AKG, *small, *(square(32, *x) for x in POINTS))]
    lines += [Work("gradient of filters", what, FILTERS) for what in (AKG, *small, *(square(32, *x) for x in POINTS))]
    lines += [Work("gradient of the stem", square(32, *STEM), form) for form in (DATA, FILTERS)]
    fused = (AKG, *small[1:4], square(32, *POINTS[0]))
    lines += [Work("bias, relu", what, beside=("bias",), activation="relu") for what in fused]
    lines += [Work("depthwise", square(32, side, c, c, 3, 1, 1, c)) for side, c in ((56, 256), (28, 256), (14, 512))]
    lines += [Work("volumes", square(n, side, c, c, 3, 1, 1, rank=3)) for n, side, c in ((4, 28, 64), (8, 14, 128))]
    both = ("bias", "residual")
    return [
        *lines,
        Work("bias, relu", small[1], beside=both, activation="relu", compiled=True),
        Work("bias, relu", small[0], beside=("bias",), activation="relu", compiled=True),
    ]


def run(
    words_: Sequence[str], command: str = "", laboratory: Laboratory | None = None, executor: Executor | None = None,
    works: Sequence[Work] | None = None,
) -> int:  # fmt: skip
    """Run the command line.

    Args:
        words_: the words of the command line.
        command: the command, which is kept beside the results.
        laboratory: where convolutions are timed; the GPU, if there is one, by default.
        executor: runs compilations; None for new processes.
        works: lines to time instead of the table's and drawn ones.

    Returns:
        1 where a result of ours is wrong or a kernel does not build, else 0.
    """
    o = _parsed(words_)
    begun = time.perf_counter()
    chosen = list(works) if works is not None else _chosen(o)
    why = why_not_timed() if laboratory is None else ""
    found: list[dict[str, Any]] = []

    def lines() -> Iterator[dict[str, Any]]:
        with compilers(executor) as workers:
            tasks = [workers.submit(compiled, work, o.arch if why else None) for work in chosen]
            for work, task in zip(chosen, tasks, strict=True):
                if time.perf_counter() - begun > o.seconds:
                    print(f"{o.seconds:.0f} s are over: {work} and what follows are left out")
                    return
                told: int | str = "its compiler's process ended"
                with suppress(Exception):  # a process ended: the process that times the line compiles it
                    told = task.result()
                result = {"registers": told} if why and isinstance(told, int) else {"problem": str(told)}
                if not why:
                    result = _measured(laboratory or GPU, work)
                found.append({"program": str(work), "row": work.row, "preset": "best", **result})
                yield found[-1]

    right = report(lines(), o.output, command, said)
    for row in dict.fromkeys(line["row"] for line in found):
        print(_summary(row, [line for line in found if line["row"] == row and "times" in line]))
    if why:
        print(f"nothing was timed: {why}. Kernels were compiled.")
    return int(not right)


def compiled(work: Work, arch: str | None) -> int | str:
    """Compile the kernels of a line into the disk cache; return the most registers of a kernel, or the error."""
    try:
        parts = programs(work, arch)
        kernels = [_scheduled(spec, parts).compile(arch) for _, spec in parts if spec is not None]
        return max((kernel.resources.registers for kernel in kernels), default=0)
    except FireironError as error:
        return str(error).splitlines()[0]


def _scheduled(spec: Any, parts: Sequence[Any]) -> Any:
    """Schedule one of a line's programs, as `fireiron.conv2d` does."""
    return best_program(spec, dependent=len(parts) > 1)


def programs(work: Work, arch: str | None = None) -> list[tuple[Any, Any]]:
    """List the programs of a line; for a gradient of data one for each residue, with its part."""
    what = work.what
    if work.form == FORWARD:
        beside = tuple((name, "f32" if name == "bias" else what.dtype) for name in work.beside)
        return [(None, specified(what, beside, work.activation, arch))]
    if work.form == FILTERS:
        return [(None, filter_gradient_specified(what, arch))]
    if at_once(what, False):
        return [(None, all_specified(what, arch))]
    return [(part, part.spec) for part in images_specified(what, "", arch)]


def said(line: Mapping[str, Any]) -> str:
    """Describe a line's result."""
    return f"{line['row']}: {words(line)}"


def _measured(laboratory: Laboratory, work: Work) -> dict[str, Any]:
    try:
        return _timed(laboratory, work)
    except FireironError as error:
        return {"problem": str(error).splitlines()[0]}


def _timed(laboratory: Laboratory, work: Work) -> dict[str, Any]:
    """Check a line's result, then time it and torch's."""
    torch = torch_module()
    torch.backends.cudnn.benchmark = True
    what = work.what
    operands = _Operands.drawn(work, laboratory.device)
    parts = programs(work)
    kernels = [(part, None if spec is None else laboratory.built(_scheduled(spec, parts))) for part, spec in parts]
    ours, out = operands.ours(work, kernels)
    theirs = operands.theirs(work)
    ours()
    if problem := operands.wrong(work, out):
        return {"problem": problem}
    launches: dict[str, Callable[[], object]] = {"fireiron": ours}
    if work.beside:
        bare = attrs.evolve(work, beside=(), activation="")
        kernel = laboratory.built(best_program(programs(bare)[0][1]))
        launches["bare"] = operands.ours(bare, [(None, kernel)])[0]
    launches["cudnn"] = theirs
    if work.compiled:
        fused = torch.compile(theirs)
        fused()
        launches["torch.compile"] = fused
    flops = 2 * what.images * what.filters * what.channels // what.groups
    for size in (*what.outer, *what.taps):
        flops *= size
    registers = max((kernel.resources.registers for _, kernel in kernels if kernel is not None), default=0)
    return {"flops": flops, "registers": registers} | laboratory.compared(launches, ROUNDS, BUDGET_S)


@attrs.frozen
class _Operands:
    """Hold the arrays of a line in torch's order of dims, channels last in memory.

    Args:
        x, f: images and filters.
        dy: the gradient of the result.
        bias, residual: arrays of the epilog, or None.
    """

    x: Any
    f: Any
    dy: Any
    bias: Any
    residual: Any

    @classmethod
    def drawn(cls, work: Work, device: str) -> _Operands:
        torch = torch_module()
        what = work.what

        def made(*shape: int, scale: float = 1.0) -> Any:
            return (torch.randn(*shape, device=device) * scale).half().movedim(-1, 1)

        part = what.channels // what.groups
        taps = 1
        for size in what.taps:
            taps *= size
        y = (what.images, *what.outer, what.filters)
        return cls(
            made(what.images, *what.sides, what.channels),
            made(what.filters, *what.taps, part, scale=(taps * part) ** -0.5),
            made(*y),
            torch.randn(what.filters, device=device),
            made(*y) if "residual" in work.beside else None,
        )

    def ours(self, work: Work, kernels: Sequence[tuple[Any, Any]]) -> tuple[Callable[[], object], Any]:
        """Return a function that launches our kernels, and the array that they write, in torch's order of dims."""
        torch, what = torch_module(), work.what
        x, f, dy = (a.movedim(1, -1) for a in (self.x, self.f, self.dy))
        if work.form == FORWARD:
            out = torch.empty_like(dy)
            held = [x, f] if not what.packed else [a.flatten(2) for a in (x, f)]
            named = {"bias": self.bias, "residual": self.residual}
            held += [named[n].movedim(1, -1) if n == "residual" else named[n] for n in work.beside]
            return lambda: kernels[0][1](*held, out=out), out.movedim(-1, 1)
        if work.form == FILTERS:
            out = torch.empty_like(f)
            given, made = (x.flatten(2), out.flatten(2)) if what.has_packed_gradients else (x, out)
            return lambda: kernels[0][1](dy, given, out=made), out.movedim(-1, 1)
        out = torch.empty_like(x)
        if at_once(what, False):
            view = between_windows(what, out)
            return lambda: kernels[0][1](dy, f.flatten(2), out=view), out.movedim(-1, 1)
        parts = [(kernel, f[:, *part.taps], out[:, *part.pixels]) for part, kernel in kernels]

        def launch() -> None:
            for kernel, taps, pixels in parts:
                if kernel is None:
                    pixels.zero_()
                else:
                    kernel(dy, taps, out=pixels)

        return launch, out.movedim(-1, 1)

    def theirs(self, work: Work, kind: Any = None, some: Any = None) -> Callable[[], Any]:
        """Return a function that computes a line by torch, in an element type, for some of the images."""
        torch, what = torch_module(), work.what
        some = slice(None) if some is None else some
        x, f, dy = self.x[some], self.f, self.dy[some]
        bias, residual = self.bias.half(), None if self.residual is None else self.residual[some]
        if kind is not None:
            x, f, dy, bias = x.to(kind), f.to(kind), dy.to(kind), self.bias.to(kind)
            residual = None if residual is None else residual.to(kind)
        pads, function = [before for before, _ in what.pads], getattr(torch, f"conv{what.rank}d")
        stride, groups = list(what.stride), what.groups
        if work.form == FORWARD:

            def forward() -> Any:
                y = function(x, f, bias if "bias" in work.beside else None, stride, pads, 1, groups)
                y = y if residual is None else y + residual
                return torch.relu_(y) if work.activation else y

            return forward
        masks = [work.form == DATA, work.form == FILTERS, False]
        zeros = [0] * what.rank

        def backward() -> Any:
            found = torch.ops.aten.convolution_backward(
                dy, x, f, None, stride, pads, [1] * what.rank, False, zeros, groups, masks
            )
            return found[masks.index(True)]

        return backward

    def wrong(self, work: Work, out: Any) -> str:
        """Compare a result with f64, on the first, middle and last image; gradients of filters with f32."""
        torch = torch_module()
        count = work.what.images
        some = None if work.form == FILTERS else sorted({0, count // 2, count - 1})
        kind = torch.float32 if work.form == FILTERS else torch.float64
        with torch.backends.cudnn.flags(benchmark=False, allow_tf32=False):
            wanted = self.theirs(work, kind, some)()
        found = out if some is None else out[some]
        error = float((found.to(kind) - wanted).abs().max() / wanted.abs().max())
        bound = FILTERS_ERROR if work.form == FILTERS else ERROR
        return "" if error < bound else f"wrong: an element differs by {error:.3g} of the largest"


def _summary(row: str, lines: Sequence[Mapping[str, Any]]) -> str:
    """Describe a row's ratios to the fastest peer, and a plain convolution's time divided by that with an epilog."""
    if not lines:
        return f"{row}: nothing timed"
    over = [min(t for name, t in line["ratios"].items() if name != "bare") for line in lines]
    text = f"{row}: over the fastest peer {geomean(over):.3f} ({min(over):.3f} to {max(over):.3f})"
    bare = [line["ratios"]["bare"] for line in lines if "bare" in line["ratios"]]
    return text + (f"; the bare one takes {geomean(bare):.3f} of its time ({min(bare):.3f} at least)" if bare else "")


def _chosen(o: argparse.Namespace) -> list[Work]:
    """List the lines of the wanted rows, and drawn layers."""
    lines = table()
    if o.seed:
        lines += [Work("drawn", square(*layer.shape)) for layer in drawn(o.seed, o.count)]
    wanted = [line for line in lines if not o.rows or any(line.row.startswith(row) for row in o.rows)]
    # torch.compile takes seconds: what it is compared with comes last
    return sorted(wanted, key=lambda line: line.compiled)


def _parsed(words_: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench conv-table",
        description="Time layers of known networks and drawn ones.",
        allow_abbrev=False,
    )
    rows = list(dict.fromkeys(line.row for line in table()))
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="ROW", help=f"rows by their first words: {'; '.join(rows)}; drawn"
    )
    parser.add_argument("--seed", default="", metavar="WORD", help="draws layers, as bench conv-plans does")
    parser.add_argument("--count", type=int, default=8, metavar="N", help="number of drawn layers (8)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="N", help=f"no line starts after so many ({SECONDS:.0f})"
    )
    parser.add_argument("--arch", default="sm_90a", help="target where there is no GPU (sm_90a)")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    return parser.parse_args(list(words_))

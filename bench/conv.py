"""Time convolutions and their gradients against torch's by cuDNN, channels last, the fastest of cuDNN's algorithms.

`python -m bench conv [--of forward data filters] [--shape NxHxCxKxRxSTRIDExPAD ...] [-o FILE.jsonl]`; each result is
compared with f64 first, on a part of the images.
"""

from __future__ import annotations

import argparse
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from fireiron import relu, tensor
from fireiron.base.errors import FireironError, UsageError
from fireiron.schedules import akg, conv, conv_gradients

from .arrays import torch_module
from .lines import compared, report
from .measure import why_not_timed

ROUNDS, BUDGET_S = 21, 4.0
# Images, rows and columns of an image, channels, filters, rows and columns of a filter, stride, padding.
SHAPES = (
    (32, 32, 64, 128, 5, 1, 0),
    (32, 56, 64, 64, 3, 1, 1),
    (32, 28, 128, 128, 3, 1, 1),
    (32, 14, 256, 256, 3, 1, 1),
    (32, 7, 512, 512, 3, 1, 1),
    (32, 56, 64, 256, 1, 1, 0),
    (32, 14, 1024, 256, 1, 1, 0),
    (32, 56, 128, 128, 3, 2, 1),
    (256, 56, 64, 64, 3, 1, 1),
    (256, 28, 128, 128, 3, 1, 1),
    (256, 14, 256, 256, 3, 1, 1),
    (256, 7, 512, 512, 3, 1, 1),
    (256, 56, 64, 256, 1, 1, 0),
    (256, 14, 1024, 256, 1, 1, 0),
)
ERROR = 2.0**-9  # allowed error over the largest value: results are rounded to 16 bits
FORMS = ("forward", "data", "filters")
PRESETS: dict[str, Callable[..., Any]] = {
    "simt": conv.simt,
    "mma": conv.mma,
    "wgmma": conv.wgmma,
    "akg": akg.conv,
    "packed": conv.packed,
}
FILTERS: dict[str, Callable[..., Any]] = {"mma": conv_gradients.filters_mma, "wgmma": conv_gradients.filters_wgmma}


@attrs.frozen
class Laboratory:
    """Hold the place where convolutions are timed: a GPU, or its stand-in in tests.

    Args:
        device: torch's device of the arrays.
        built: function from a schedule to a launchable kernel.
        compared: function that times launches; see `lines.compared`.
    """

    device: str = "cuda"
    built: Callable[[Any], Any] = lambda schedule: schedule.compile()
    compared: Callable[[Mapping[str, Callable[[], object]], int, float], dict[str, Any]] = compared


GPU = Laboratory()


def run(words: Sequence[str], command: str = "", laboratory: Laboratory | None = None) -> int:
    """Run the command line.

    Args:
        words: the words of the command line.
        command: the command, which is kept beside the results.
        laboratory: where convolutions are timed; the GPU, if there is one, by default.

    Returns:
        1 where a result of ours is wrong, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench conv", description="Time convolutions.")
    parser.add_argument(
        "--shape", nargs="+", default=[], metavar="NxHxCxKxRxSxP", help="shapes instead of the default ones"
    )
    parser.add_argument(
        "--of", nargs="+", default=["forward"], choices=FORMS, help="forward, or gradients of data or filters (forward)"
    )
    parser.add_argument("--fused", action="store_true", help="forward with bias and relu")
    parser.add_argument("--preset", default="wgmma", choices=tuple(PRESETS), help="(wgmma)")
    parser.add_argument("--plan", nargs="+", default=[], metavar="K=N", help="keywords of the preset: channels=64")
    parser.add_argument("-o", "--output", metavar="FILE.jsonl", help="append the results to this file")
    parser.add_argument("--arch", default="sm_90a", help="target where there is no GPU (sm_90a)")
    options = parser.parse_args(list(words))
    shapes: Sequence[tuple[int, ...]] = SHAPES
    if options.shape:
        shapes = [tuple(map(int, word.split("x"))) for word in options.shape]
    if any(len(shape) != 7 for shape in shapes):
        parser.error("a shape is NxHxCxKxRxSxP: images, side, channels, filters, taps, stride, padding")
    plan = {key: literal_eval(value) for key, value in (word.split("=") for word in options.plan)}
    why = why_not_timed() if laboratory is None else ""

    def line(work: tuple[str, Sequence[int]]) -> dict[str, Any]:
        form, shape = work
        try:
            chosen = schedules(form, shape, options.preset, plan, options.fused)
            if why:
                found = _planned(chosen, options.arch)
            else:
                found = _timed(laboratory or GPU, form, shape, chosen, options.fused)
        except FireironError as error:
            found = {"problem": str(error).splitlines()[0]}
        named = f"{form} {'x'.join(map(str, shape))}" + (" bias relu" if options.fused else "")
        return {"program": named, "preset": options.preset, "plan": plan, **found}

    right = report(map(line, [(form, s) for form in options.of for s in shapes]), options.output, command)
    if why:
        print(f"nothing was timed: {why}. Kernels were compiled.")
    return int(not right)


def schedules(form: str, shape: Sequence[int], preset: str, plan: Mapping[str, int], fused: bool = False) -> list[Any]:
    """Return the schedules of a result or a gradient; for a gradient of images one for each residue, with its part."""
    n, side, c, k, taps, stride, pad = shape
    out = (side + 2 * pad - taps) // stride + 1
    x, f = tensor(n, side, side, c, dtype="f16"), tensor(k, taps, taps, c, dtype="f16", name="f")
    y = tensor(n, out, out, k, dtype="f16", name="y")
    made = PRESETS[preset]
    if form == "forward":
        bias, op = (tensor(k, name="bias"), relu) if fused else (None, None)
        if preset == "packed":
            x, f = tensor(n, side, side * c, dtype="f16"), tensor(k, taps, taps * c, dtype="f16", name="f")
            lead = conv.lead_of(k, taps, taps, stride, pad, c)
            spec = conv.conv2d_packed(x, f, bias, stride=stride, pad=pad, op=op, channels=c, lead=lead)
            return [(None, made(spec, **plan))]
        return [(None, made(conv.conv2d(x, f, bias, stride=stride, pad=pad, op=op), **plan))]
    if form == "filters":
        spec = conv_gradients.conv2d_filter_gradient(y, x, (taps, taps), stride=stride, pad=pad)
        if preset not in FILTERS:
            raise UsageError("no-schedule", f"{preset} folds no pixels", fix=f"--preset {' or '.join(FILTERS)}")
        return [(None, FILTERS[preset](spec, **plan))]
    parts = conv_gradients.data_gradients(y, f, x, stride, pad)
    return [(part, None if part.spec is None else made(part.spec, **plan)) for part in parts]


def _planned(chosen: Sequence[Any], arch: str) -> dict[str, Any]:
    kernels = [schedule.compile(arch) for _, schedule in chosen if schedule is not None]
    return {"registers": max(kernel.resources.registers for kernel in kernels)}


def _timed(
    laboratory: Laboratory, form: str, shape: Sequence[int], chosen: Sequence[Any], fused: bool
) -> dict[str, Any]:
    """Check against f64, then time ours and cuDNN's."""
    torch = torch_module()
    torch.backends.cudnn.benchmark = True
    _, _, c, k, taps, stride, pad = shape
    kernels: list[Any] = [(part, None if schedule is None else laboratory.built(schedule)) for part, schedule in chosen]
    x, f, images, weights = arrays_of(laboratory, shape)
    bias = torch.randn(k, device=laboratory.device) if fused else None
    y = torch.conv2d(images, weights, None, stride, pad).contiguous(memory_format=torch.channels_last)
    dy = torch.randn_like(y)
    masks = [form == "data", form == "filters", False]
    if form == "forward":
        out = torch.empty_like(y.permute(0, 2, 3, 1))
        packed = len(chosen[0][1].computed.inputs[0].shape) == 3  # columns and channels are one dim
        arrays = [a.flatten(2) if packed else a for a in (x, f)] + ([] if bias is None else [bias])
        half = None if bias is None else bias.half()

        def ours() -> None:
            kernels[0][1](*arrays, out=out)

        def theirs() -> Any:
            found = torch.conv2d(images, weights, half, stride, pad)
            return found if half is None else torch.relu_(found)
    else:
        out = torch.empty_like(x if form == "data" else f)

        def ours() -> None:
            for part, kernel in kernels:
                if form == "filters":
                    kernel(dy.permute(0, 2, 3, 1), x, out=out)
                elif kernel is None:
                    out[:, part.pixels[0], part.pixels[1]] = 0
                else:
                    held = f[:, part.taps[0], part.taps[1]]
                    kernel(dy.permute(0, 2, 3, 1), held, out=out[:, part.pixels[0], part.pixels[1]])

        def theirs() -> Any:
            sides = [[stride] * 2, [pad] * 2, [1] * 2]
            found = torch.ops.aten.convolution_backward(
                dy, images, weights, None, *sides, False, [0, 0], 1, masks
            )  # fmt: skip
            return found[masks.index(True)]

    ours()
    if problem := wrong(form, out, (images, weights, dy, bias), stride, pad):
        return {"problem": problem}
    launches: dict[str, Callable[[], object]] = {"fireiron": ours, "cudnn": theirs}
    flops = 2 * y.numel() * taps * taps * c
    registers = max(kernel.resources.registers for _, kernel in kernels if kernel is not None)
    return {"flops": flops, "registers": registers} | laboratory.compared(launches, ROUNDS, BUDGET_S)


def program(shape: Sequence[int]) -> Any:
    """Give the program of a convolution of f16 alone.

    Args:
        shape: the sizes, in the order of `SHAPES`.
    """
    n, side, c, k, taps, stride, pad = shape
    x, f = tensor(n, side, side, c, dtype="f16"), tensor(k, taps, taps, c, dtype="f16", name="f")
    return conv.conv2d(x, f, stride=stride, pad=pad)


def arrays_of(laboratory: Laboratory, shape: Sequence[int]) -> tuple[Any, Any, Any, Any]:
    """Draw images and filters of f16, channels last, and view them in the order of torch's dims."""
    torch = torch_module()
    n, side, c, k, taps, *_ = shape
    x = torch.randn(n, side, side, c, device=laboratory.device).half()
    f = (torch.randn(k, taps, taps, c, device=laboratory.device) / (taps * c**0.5)).half()
    return x, f, x.permute(0, 3, 1, 2), f.permute(0, 3, 1, 2)


def wrong(form: str, out: Any, arrays: tuple[Any, ...], stride: int, pad: int) -> str:
    """Compare a result with f64: on the first, middle and last image, or on all filters."""
    torch = torch_module()
    images, weights, dy, bias = arrays
    some = slice(None) if form == "filters" else sorted({0, len(images) // 2, len(images) - 1})
    x, w, g = images[some].double(), weights.double(), dy[some].double()
    if form == "forward":
        wanted = torch.conv2d(x, w, None if bias is None else bias.double(), stride, pad)
        wanted = wanted if bias is None else wanted.relu()
    elif form == "data":
        wanted = torch.nn.grad.conv2d_input(list(x.shape), w, g, stride, pad)
    else:
        wanted = torch.nn.grad.conv2d_weight(x, list(w.shape), g, stride, pad)
    error = float((out[some].permute(0, 3, 1, 2).double() - wanted).abs().max() / wanted.abs().max())
    return "" if error < ERROR else f"wrong: an element differs by {error:.3g} of the largest"

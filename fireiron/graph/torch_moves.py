"""Torch's operators that move or repeat elements, as slices, concatenations and repeated axes.

Torch's own decompositions read single elements by arrays of indices, and add gradients to single elements. Slices are
read in place, concatenations are written by the kernels around them, and gradients of repeated axes are sums.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")

MOST_LINES = 16  # that are mirrored along a dim: each is a part of a concatenation
_INTERPOLATE = "input", "size", "scale_factor", "mode", "align_corners"
_LINEAR = "linear", "bilinear", "trilinear"


def moves(usual: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return by torch's operators the functions that part them into slices and concatenations.

    Args:
        usual: torch's functions, for the calls that these do not take.
    """
    aten = torch.ops.aten
    found: dict[Any, Any] = {
        aten.roll.default: _or_usual(_rolled, usual.get(aten.roll.default)),
        aten.cumsum.default: _or_usual(_summed, usual.get(aten.cumsum.default)),
    }
    for kind, line, slope in (("reflection", _mirrored, _of_mirrored), ("replication", _held, _of_held)):
        for dims in (1, 2, 3):
            forward = getattr(aten, f"{kind}_pad{dims}d").default
            backward = getattr(aten, f"{kind}_pad{dims}d_backward").default
            found[forward] = _or_usual(_along_dims(line), usual.get(forward))
            found[backward] = _or_usual(_back_along_dims(slope), usual.get(backward))
    return found


def _or_usual(made: Callable[..., Any], usual: Any) -> Callable[..., Any]:
    """Return `made`, and where it returns NotImplemented, torch's function; without one, the operator stays."""

    def call(*given: Any, **named: Any) -> Any:
        found = made(*given, **named)
        return usual(*given, **named) if found is NotImplemented and usual is not None else found

    return call


def _rolled(x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    """Move elements along dims; those behind the last come first."""
    if not x.numel() or len(shifts) != len(dims):
        return NotImplemented
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        first = -shift % size
        if first:
            x = torch.cat([x.narrow(dim, first, size - first), x.narrow(dim, 0, first)], dim)
    return x if any(s % x.shape[d] for s, d in zip(shifts, dims, strict=True)) else x.clone()


def _summed(x: Any, dim: int, *, dtype: Any = None) -> Any:
    """Sum up along the last dim of a copy: along other dims, torch adds line by line."""
    if x.dim() < 2 or dim % x.dim() == x.dim() - 1 or not x.numel():
        return NotImplemented
    return x.movedim(dim, -1).contiguous().cumsum(-1, dtype=dtype).movedim(-1, dim)


def _pairs(x: Any, padding: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return each padded dim with the numbers of lines before and behind it; torch lists the last dim first."""
    pairs = zip(padding[::2], padding[1::2], strict=True)
    return [(x.dim() - 1 - n, before, behind) for n, (before, behind) in enumerate(pairs)]


def _along_dims(line: Callable[..., Any]) -> Callable[..., Any]:
    """Pad each dim by a function of the array, the dim, and the numbers of lines before and behind."""

    def call(x: Any, padding: Sequence[int]) -> Any:
        pairs = _pairs(x, padding)
        if any(not 0 <= n <= MOST_LINES for n in padding) or not x.numel():
            return NotImplemented
        for dim, before, behind in pairs:
            x = line(x, dim, before, behind) if before or behind else x
        return x

    return call


def _back_along_dims(slope: Callable[..., Any]) -> Callable[..., Any]:
    """Add up the gradients of padded lines along each dim, in f32 at least."""

    def call(dy: Any, x: Any, padding: Sequence[int]) -> Any:
        pairs = _pairs(x, padding)
        if any(not 0 <= n <= MOST_LINES for n in padding) or not x.numel():
            return NotImplemented
        kind, wide = dy.dtype, torch.promote_types(dy.dtype, torch.float32)
        for dim, before, behind in reversed(pairs):
            dy = slope(dy, dim, before, behind, x.shape[dim], wide).to(kind) if before or behind else dy
        return dy

    return call


def _mirrored(x: Any, dim: int, before: int, behind: int) -> Any:
    last = x.shape[dim] - 1
    lines = [*range(before, 0, -1), None, *range(last - 1, last - 1 - behind, -1)]
    return torch.cat([x if n is None else x.narrow(dim, n, 1) for n in lines], dim)


def _of_mirrored(dy: Any, dim: int, before: int, behind: int, size: int, wide: Any) -> Any:
    made = dy.narrow(dim, before, size).to(wide)
    for count, first, start in ((before, 0, 1), (behind, before + size, size - 1 - behind)):
        if count:
            lines = [dy.narrow(dim, first + n, 1) for n in reversed(range(count))]
            made = made + _between_zeros(lines, dim, start, size).to(wide)
    return made


def _between_zeros(lines: Sequence[Any], dim: int, start: int, size: int) -> Any:
    """Concatenate lines, with zeros before and behind them."""

    def zeros(count: int) -> list[Any]:
        shape = list(lines[0].shape)
        shape[dim] = count
        return [lines[0].new_zeros(shape)] if count else []

    return torch.cat([*zeros(start), *lines, *zeros(size - start - len(lines))], dim)


def _held(x: Any, dim: int, before: int, behind: int) -> Any:
    def repeated(at: int, count: int) -> list[Any]:
        shape = list(x.shape)
        shape[dim] = count
        return [x.narrow(dim, at, 1).expand(shape)] if count else []

    return torch.cat([*repeated(0, before), x, *repeated(x.shape[dim] - 1, behind)], dim)


def _of_held(dy: Any, dim: int, before: int, behind: int, size: int, wide: Any) -> Any:
    if size == 1:
        return dy.sum(dim, keepdim=True, dtype=wide)
    first = dy.narrow(dim, 0, before + 1).sum(dim, keepdim=True, dtype=wide)
    last = dy.narrow(dim, before + size - 1, behind + 1).sum(dim, keepdim=True, dtype=wide)
    return torch.cat([first, dy.narrow(dim, before + 1, size - 2).to(wide), last], dim)


def repeat_pixels(module: Any) -> None:
    """Replace interpolation, to whole multiples of an image's sides: by repeated axes, and weights along them.

    Torch's functions read each pixel by indices, also in graphs, and their gradients add to single pixels.

    Args:
        module: the graph that Dynamo traced.
    """
    changed = False
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is torch.nn.functional.interpolate:
            given: dict[str, Any] = dict(zip(_INTERPOLATE, node.args, strict=False)) | dict(node.kwargs)
            times, mode = _times(given), given.get("mode", "nearest")
            made = _repeated if mode in ("nearest", "nearest-exact") else _weighted if mode in _LINEAR else None
            if times is not None and made is not None and not given.get("align_corners"):
                node.target, node.args, node.kwargs = made, (given["input"], times), {}
                changed = True
    if changed:
        module.recompile()


def _times(given: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return how many pixels are made of each along each side; None where these are no whole numbers."""
    source = given["input"]
    image = source.meta.get("example_value", source.meta.get("val")) if isinstance(source, torch.fx.Node) else None
    if image is None:
        return None
    sides, size, scale = tuple(image.shape[2:]), given.get("size"), given.get("scale_factor")
    if not all(isinstance(n, int) for n in sides) or given.get("antialias"):
        return None
    if size is not None:
        wanted = size if isinstance(size, list | tuple) else [size] * len(sides)
    else:
        scales = scale if isinstance(scale, list | tuple) else [scale] * len(sides)
        if not all(isinstance(s, int | float) for s in scales):
            return None
        wanted = [n * s for n, s in zip(sides, scales, strict=True)]
    if not all(isinstance(m, int | float) and m >= n and m % n == 0 for m, n in zip(wanted, sides, strict=True)):
        return None
    times = tuple(int(m // n) for m, n in zip(wanted, sides, strict=True))
    return times if any(n > 1 for n in times) else None  # a result has memory of its own


def _channels_last(x: Any) -> bool:
    return x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def _weighted(x: Any, times: Sequence[int]) -> Any:
    """Interpolate linearly along one side after another, in f32 at least."""
    kind, last = x.dtype, _channels_last(x)
    x = x.movedim(1, -1) if last else x
    x = x.to(torch.promote_types(kind, torch.float32))
    for side, often in enumerate(times):
        x = _between(x, side + (1 if last else 2), often) if often > 1 else x
    x = x.to(kind)
    return x.movedim(-1, 1) if last else x


def _between(x: Any, dim: int, often: int) -> Any:
    """Make several lines of each one and its neighbours; those at the ends are neighbours of themselves."""
    size = x.shape[dim]
    before = torch.cat([x.narrow(dim, 0, 1), x.narrow(dim, 0, size - 1)], dim)
    behind = torch.cat([x.narrow(dim, 1, size - 1), x.narrow(dim, size - 1, 1)], dim)
    places = [(n + 0.5) / often - 0.5 for n in range(often)]
    weights = [[max(-p, 0.0) for p in places], [1 - abs(p) for p in places], [max(p, 0.0) for p in places]]
    each = [
        lines.unsqueeze(dim + 1)
        * torch.tensor(found, dtype=x.dtype, device=x.device).reshape(often, *[1] * (x.dim() - dim - 1))
        for lines, found in zip((before, x, behind), weights, strict=True)
    ]
    return (each[0] + each[1] + each[2]).flatten(dim, dim + 1)


def _repeated(x: Any, times: Sequence[int]) -> Any:
    """Repeat each pixel along each side; images keep their order of axes in memory."""
    last = _channels_last(x)
    x = x.movedim(1, -1) if last else x
    first = 1 if last else 2
    split, wide, sides = list[int](), list[int](), list[int]()
    for n, often in zip(x.shape[first:], times, strict=False):
        split += [n, 1]
        wide += [n, often]
        sides.append(n * often)
    ahead, behind = x.shape[:first], x.shape[first + len(sides) :]
    made = x.reshape(*ahead, *split, *behind).expand(*ahead, *wide, *behind).reshape(*ahead, *sides, *behind)
    return made.movedim(-1, 1) if last else made

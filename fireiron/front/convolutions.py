"""Convolutions of arrays, without writing a schedule: forward, and gradients for torch.

Arrays have torch's dims: images (N, C, sides...), filters (K, C / groups, taps...). Kernels read arrays whose channels
come last in memory (torch's channels_last); other arrays are copied. Results have the memory order of the images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from math import prod
from types import ModuleType
from typing import Any, TypeAlias, cast

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError, FireironError
from fireiron.base.link import here
from fireiron.front.best_program import best_program
from fireiron.front.cli.find import PRESETS
from fireiron.front.fallback import ready
from fireiron.front.host import arch_of, capability
from fireiron.front.program import Function
from fireiron.jit.arrays import is_torch
from fireiron.language import functions
from fireiron.language.tensor import Tensor, tensor

Sizes: TypeAlias = int | Sequence[int]
Padding: TypeAlias = int | str | Sequence[int] | Sequence[tuple[int, int]]
Windows: TypeAlias = tuple[tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, ...]]
"""Strides, padding before and behind, dilation, of each side."""
MOST_KERNELS = 1024
MOST_PACKED = 32  # channels that share a dim with columns
MOST_TAPS = 100  # of a depthwise layer with gradients: a thread has a sum for each tap in registers
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")


@attrs.frozen
class Convolution:
    """Describe a convolution: element type, sizes, and the places of windows.

    Args:
        dtype: element type in which images and filters are multiplied.
        images: number of images.
        sides: sides of an image.
        channels: number of channels of an image.
        filters: number of filters.
        taps: number of taps of a filter along each side.
        stride: pixels from one window to the next, along each side.
        pads: zeros before and behind each side.
        dilation: pixels from one tap to the next, along each side.
        groups: number of parts of the channels, each of which is convolved with its own filters.
    """

    dtype: str
    images: int
    sides: tuple[int, ...]
    channels: int
    filters: int
    taps: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int = 1

    @property
    def rank(self) -> int:
        """Return the number of sides of an image."""
        return len(self.sides)

    @property
    def outer(self) -> tuple[int, ...]:
        """Return the sides of the result."""
        return outer_of(self.sides, self.taps, self.stride, self.pads, self.dilation)

    @property
    def kind(self) -> DType:
        """Return the element type."""
        return find_dtype(self.dtype)

    @property
    def parted(self) -> bool:
        """Say whether programs have a dim for groups, so that tensor cores multiply a group's channels."""
        whole = self.channels // self.groups * self.kind.nbytes % 16 == 0 and self.filters // self.groups >= 8
        return self.groups > 1 and whole and self.kind.bits <= 16

    @property
    def has_gradients(self) -> bool:
        """Say whether kernels of this package compute the gradients; torch computes those of other narrow groups."""
        return self.groups == 1 or self.parted or (self.depthwise and prod(self.taps) <= MOST_TAPS)

    @property
    def depthwise(self) -> bool:
        """Say whether each channel has one filter of its own."""
        return 1 < self.groups == self.channels == self.filters

    @property
    def packed(self) -> bool:
        """Say whether programs have one dim for columns and channels: a pixel's channels fill no vector of 16 bytes."""
        few = self.channels * self.kind.nbytes % 16 != 0 and self.channels <= MOST_PACKED
        return few and self.groups == 1 and self.rank == 2 and self.dilation == (1, 1) and self.kind.bits == 16

    @property
    def has_packed_gradients(self) -> bool:
        """Say whether gradients too have one dim for columns and channels: where y's channels fill vectors.

        Such gradients need `mma.sync`, which GPUs have from sm_80 on.
        """
        return self.packed and self.filters * self.kind.nbytes % 16 == 0 and capability() >= 80

    def described(self, name: str, *shape: int, dtype: str | None = None) -> Tensor:
        """Describe an array of this convolution."""
        return tensor(*shape, dtype=dtype or self.dtype, name=name)

    def channel_parts(self) -> tuple[int, ...]:
        """Return the extents of the images' channel dims: (groups, channels of a group), or (channels,)."""
        return (self.groups, self.channels // self.groups) if self.parted else (self.channels,)

    def filter_parts(self) -> tuple[int, ...]:
        """Return the extents of the filters' outer dims: (groups, filters of a group), or (filters,)."""
        return (self.groups, self.filters // self.groups) if self.parted else (self.filters,)


def outer_of(
    sides: Sequence[Any], taps: Sequence[Any], stride: Sequence[int], pads: Sequence[tuple[int, int]],
    dilation: Sequence[int],
) -> tuple[Any, ...]:  # fmt: skip
    """Return the sides of a convolution's result.

    Example:
        >>> outer_of((28, 28), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1))
        (14, 14)
    """
    found = zip(sides, taps, stride, pads, dilation, strict=True)
    return tuple((n + sum(pad) - (t - 1) * apart - 1) // step + 1 for n, t, step, pad, apart in found)


@lru_cache(MOST_KERNELS)
def forward(
    what: Convolution, beside: tuple[tuple[str, str], ...] = (), activation: str = "", host: bool = False
) -> Any:
    """Return the kernel of a convolution with the operations behind it.

    Args:
        what: the convolution.
        beside: names and element types of the arrays beside images and filters: bias, residual, scale.
        activation: name of the function that is applied last; "" for none.
        host: whether arrays lie in host memory.
    """
    return kernel_of(specified(what, beside, activation, arch_of(host)), host)


def specified(
    what: Convolution, beside: tuple[tuple[str, str], ...] = (), activation: str = "", arch: str | None = None
) -> Any:
    """Return the program of a convolution with the operations behind it.

    Args:
        what: the convolution.
        beside: as in `forward`.
        activation: as in `forward`.
        arch: the target; the GPU's where None.
    """
    formula, filters = formula_of(what), what.filter_parts()
    shapes = {"bias": filters, "scale": filters, "residual": (what.images, *what.outer, *filters)}
    given = {name: what.described(name, *shapes[name], dtype=kind) for name, kind in beside}
    x, f = what.described("x", *formula.images), what.described("f", *formula.filters)
    return formula.program(x, f, **given, **formula.options, **_applied(activation), arch=arch)


@attrs.frozen
class Formula:
    """Hold the program that computes a convolution.

    Args:
        program: the function of `fireiron.schedules.conv` with the dims of its arrays.
        images, filters: shapes of its arrays.
        options: its arguments that describe windows.
    """

    program: Function
    images: tuple[int, ...]
    filters: tuple[int, ...]
    options: Mapping[str, Any]


def formula_of(what: Convolution) -> Formula:
    """Return the program of a convolution: with groups as a dim, with columns and channels as one dim, or neither."""
    known = programs("conv")
    options: dict[str, Any] = {"stride": what.stride, "pad": what.pads}
    if what.packed:
        (h, w), (r, s) = what.sides, what.taps
        lead = known.lead_of(what.filters, r, s, what.stride, what.pads, what.channels)
        options |= {"channels": what.channels, "lead": lead}
        images, filters = (what.images, h, w * what.channels), (what.filters, r, s * what.channels)
        return Formula(known.conv2d_packed, images, filters, options)
    options |= {"dilation": what.dilation} | ({} if what.parted else {"groups": what.groups})
    images = (what.images, *what.sides, *what.channel_parts())
    filters = (*what.filter_parts(), *what.taps, what.channels // what.groups)
    return Formula(getattr(known, f"conv{what.rank}d{'_grouped' if what.parted else ''}"), images, filters, options)


@lru_cache(MOST_KERNELS)
def filter_gradient(what: Convolution, host: bool = False) -> Any:
    """Return the kernel of the gradient of a convolution's filters.

    Args:
        what: the convolution, of those that have gradients.
        host: whether arrays lie in host memory.
    """
    return kernel_of(filter_gradient_specified(what, arch_of(host)), host)


def filter_gradient_specified(what: Convolution, arch: str | None = None) -> Any:
    """Return the program of the gradient of a convolution's filters.

    Args:
        what: as in `filter_gradient`.
        arch: the target; the GPU's where None.
    """
    y = what.described("y", what.images, *what.outer, *what.filter_parts())
    if what.has_packed_gradients:
        h, w = what.sides
        x = what.described("x", what.images, h, w * what.channels)
        program = programs("conv_packed_gradients").conv2d_packed_filter_gradient
        return program(y, x, what.taps, what.stride, what.pads, what.channels, arch=arch)
    x = what.described("x", what.images, *what.sides, *what.channel_parts())
    if what.depthwise:
        program = programs("depthwise_gradients").FILTER_GRADIENTS[what.rank]
        return program(y, x, what.taps, what.stride, what.pads, what.dilation, arch=arch)
    known = programs("conv_gradients")
    program = (known.GROUPED_FILTER_GRADIENTS if what.parted else known.FILTER_GRADIENTS)[what.rank]
    return program(y, x, what.taps, what.stride, what.pads, what.dilation, arch=arch)


def run_filter_gradient(what: Convolution, y: Any, x: Any, host: bool) -> Any:
    """Compute the gradient of filters from dense arrays whose channels come last in memory.

    Args:
        what: as in `filter_gradient`.
        y, x: the gradient of the result, and images.
        host: whether arrays lie in host memory.
    """
    y = y.reshape(what.images, *what.outer, *what.filter_parts())
    x = x.reshape(*x.shape[:2], -1) if what.has_packed_gradients else x.reshape(*x.shape[:-1], *what.channel_parts())
    made = filter_gradient(what, host)(y, x)
    return made.reshape(what.filters, *what.taps, what.channels // what.groups)


def _applied(activation: str) -> dict[str, Any]:
    """Return the keyword of a program for an activation; none for ""."""
    return {"op": getattr(functions, activation)} if activation else {}


def programs(name: str) -> ModuleType:
    """Import a file of `fireiron.schedules`."""
    return import_module(f"{PRESETS}.{name}")


def kernel_of(spec: Any, host: bool, dependent: bool = False) -> Any:
    """Return a program's kernel by its best schedule; it is simulated for arrays in host memory without a GPU.

    A warning says where NVRTC spills registers.

    Args:
        spec: the program.
        host: whether arrays lie in host memory.
        dependent: whether the kernel may begin before the launch ahead of it has ended; useful for several short
            kernels.
    """
    return ready(best_program(spec, dependent=dependent), host)


def called(kernel: Any, *given: Any, out: Any = None) -> Any:
    """Call a kernel."""
    return kernel(*given, out=out)


def run(
    what: Convolution, x: Any, f: Any, beside: Mapping[str, Any], activation: str, host: bool, kinds: Mapping[str, str],
    start: Callable[..., Any] = called,
) -> Any:  # fmt: skip
    """Convolve dense arrays whose channels come last in memory.

    Args:
        what: the convolution.
        x, f: images and filters.
        beside: those of bias, residual and scale that are given, by name.
        activation: name of the function that is applied last; "" for none.
        host: whether arrays lie in host memory.
        kinds: element types of the arrays of `beside`.
        start: calls a kernel with the arguments behind it.
    """
    channels, filters = what.channel_parts(), what.filter_parts()
    kernel = forward(what, tuple((name, kinds[name]) for name in ("bias", "residual", "scale") if name in beside),
                     activation, host)  # fmt: skip
    pixels = (what.images, *what.outer)
    shaped = {n: a.reshape(*pixels, *filters) if n == "residual" else a.reshape(filters) for n, a in beside.items()}
    given = [shaped[name] for name in ("bias", "residual", "scale") if name in beside]
    x, f = x.reshape(what.images, *what.sides, *channels), f.reshape(*filters, *f.shape[1:])
    if what.packed:
        x, f = (a.reshape(*a.shape[:2], -1) for a in (x, f))
    made = start(kernel, x, f, *given)
    return made.reshape(*pixels, what.filters)


def described(
    name: str, input: Any, weight: Any, stride: Sizes, padding: Padding, dilation: Sizes, groups: int
) -> Windows:
    """Read the places of windows: stride, padding and dilation of each side.

    Args:
        name: name of the called function, for errors.
        input, weight: images and filters, whose shapes are read.
        stride, padding, dilation, groups: as the caller gives them.

    Raises:
        CallError: `wrong-shape`; `conv-groups`; `conv-sizes`.
    """
    rank = int(name[4])
    shapes = shapes_of(name, rank, input, weight, "(K, C / groups, {taps})")
    channels, filters, part = shapes[0][1], *shapes[1][:2]
    if groups < 1 or channels != part * groups or filters % groups:
        raise CallError(
            "conv-groups",
            f"{groups} groups do not fit {channels} channels and {filters} filters of {part} channels",
            fix="give filters of channels / groups, and a number of groups that divides channels and filters",
        )
    steps, apart = each_side("stride", stride, rank), each_side("dilation", dilation, rank)
    taps = shapes[1][2:]
    if padding == "same":
        if any(step != 1 for step in steps):
            raise CallError("conv-sizes", f'padding="same" with a stride of {steps}', fix="give numbers of zeros")
        spans = [(t - 1) * d for t, d in zip(taps, apart, strict=True)]
        return steps, tuple((span // 2, span - span // 2) for span in spans), apart
    if isinstance(padding, str):
        if padding != "valid":
            raise CallError("conv-sizes", f"no padding is called {padding!r}", fix='give numbers, "same" or "valid"')
        padding = 0
    pairs = not isinstance(padding, int) and any(not isinstance(each, int) for each in padding)
    if pairs:
        pads = tuple((int(a), int(b)) for a, b in cast("Sequence[tuple[int, int]]", padding))
    else:
        pads = tuple((n, n) for n in each_side("padding", cast("Sizes", padding), rank))
    if len(pads) != rank:
        raise CallError("conv-sizes", f"padding={padding!r} for {rank} sides", fix="give a pair for each side")
    return steps, pads, apart


def shapes_of(name: str, rank: int, input: Any, weight: Any, filters: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Read the shapes of images and filters.

    Args:
        name: name of the called function, for errors.
        rank: sides of an image.
        input, weight: images and filters.
        filters: the dims of filters in words, for errors; {taps} is filled in.

    Raises:
        CallError: `wrong-shape`.
    """
    shapes: list[tuple[Any, ...]] = [tuple(getattr(x, "shape", ())) for x in (input, weight)]
    if any(len(shape) != rank + 2 for shape in shapes):
        wanted = filters.format(taps=_sides(rank, "t"))
        raise CallError(
            "wrong-shape",
            f"{name} takes images of {rank + 2} dims and filters of {rank + 2}, not {list(shapes[0])} and "
            f"{list(shapes[1])}",
            fix=f"give images (N, C, {_sides(rank)}) and filters {wanted}",
        )
    return shapes[0], shapes[1]


def alone(name: str, input: Any, filters: Any = None) -> bool:
    """Say whether images are one image without a dim of images, which torch's functions take too.

    Args:
        name: name of the called function, which says the number of sides.
        input: images.
        filters: filters, if the function has them.
    """
    rank, dims = int(name[-2]), [len(getattr(x, "shape", ())) for x in (input, filters)]
    return dims[0] == rank + 1 and (filters is None or dims[1] == rank + 2)


def _sides(rank: int, prefix: str = "") -> str:
    names = ("d", "h", "w")[-rank:]
    return ", ".join(f"{prefix}{name}" if prefix else name.upper() for name in names)


def each_side(what: str, sizes: Sizes, rank: int) -> tuple[int, ...]:
    """Return a number for each side: an argument may be one number or one for each.

    Raises:
        CallError: `conv-sizes`.
    """
    found = (sizes,) * rank if isinstance(sizes, int) else tuple(sizes)
    if len(found) == 1:
        found *= rank
    least = 0 if "padding" in what else 1
    if len(found) != rank or any(n < least for n in found):
        raise CallError(
            "conv-sizes",
            f"{what}={sizes!r} for {rank} side{'s' if rank > 1 else ''}",
            fix=f"give one number, or one for each side, from {least} on",
        )
    return found


def check_activation(activation: str | None) -> str:
    """Return the name of an activation, "" for none.

    Raises:
        CallError: `bad-activation`.
    """
    if activation is None or activation in ACTIVATIONS:
        return activation or ""
    raise CallError(
        "bad-activation", f"no activation is called {activation!r}", fix=f"use one of {', '.join(ACTIVATIONS)}"
    )


def _conv(
    name: str, input: Any, weight: Any, bias: Any, stride: Sizes, padding: Padding, dilation: Sizes, groups: int,
    scale: Any, residual: Any, activation: str | None, dtype: str | None,
) -> Any:  # fmt: skip
    if alone(name, input, weight):
        residual = None if residual is None else residual[None]
        given = (bias, stride, padding, dilation, groups, scale, residual, activation, dtype)
        return _conv(name, input[None], weight, *given)[0]
    if is_torch(input):
        from fireiron.front.torch_conv import conv as by_torch

        return by_torch(
            name, input, weight, bias, stride, padding, dilation, groups, scale, residual, activation, dtype
        )
    try:
        steps, pads, apart = described(name, input, weight, stride, padding, dilation, groups)
        return _of_arrays(
            name, input, weight, {"bias": bias, "scale": scale, "residual": residual}, (steps, pads, apart), groups,
            check_activation(activation), dtype,
        )  # fmt: skip
    except FireironError as error:
        raise error.located(here()) from None


def _of_arrays(
    name: str, input: Any, weight: Any, beside: Mapping[str, Any], windows: Windows, groups: int,
    activation: str, dtype: str | None,
) -> Any:  # fmt: skip
    """Convolve arrays of NumPy, CuPy and similar libraries."""
    from fireiron.jit.arrays import describe

    facts = describe(input, "input"), describe(weight, "weight")
    x, f = last(input), last(weight)
    stride, pads, dilation = windows
    kind = dtype or find_dtype(facts[0].dtype).name
    sides, taps = tuple(x.shape[1:-1]), tuple(f.shape[1:-1])
    what = Convolution(kind, x.shape[0], sides, x.shape[-1], f.shape[0], taps, stride, pads, dilation, groups)
    given = {key: last(a) if key == "residual" else a for key, a in beside.items() if a is not None}
    kinds = {key: find_dtype(describe(a, key).dtype).name for key, a in given.items()}
    made = run(what, x, f, given, activation, facts[0].is_host, kinds)
    found = made.transpose(0, made.ndim - 1, *range(1, made.ndim - 1))
    return found if lies_last(input) else copied(found)


def last(array: Any) -> Any:
    """Return an array like NumPy's with channels last: a view, or a copy where memory has another order."""
    return copied(array.transpose(0, *range(2, array.ndim), 1))


def copied(array: Any) -> Any:
    """Return a dense copy of an array like NumPy's."""
    return array if array.flags.c_contiguous else array.copy(order="C")


def lies_last(array: Any) -> bool:
    """Say whether an array's channels are contiguous in memory."""
    return not array.flags.c_contiguous and array.transpose(0, *range(2, array.ndim), 1).flags.c_contiguous


def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
    groups: int = 1, *, scale: Any = None, residual: Any = None, activation: str | None = None,
    dtype: str | None = None,
) -> Any:  # fmt: skip
    """Convolve lines (N, C, W) with filters (K, C / groups, taps), as `conv2d` does images."""
    return _conv(
        "conv1d", input, weight, bias, stride, padding, dilation, groups, scale, residual, activation, dtype
    )  # fmt: skip


def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
    groups: int = 1, *, scale: Any = None, residual: Any = None, activation: str | None = None,
    dtype: str | None = None,
) -> Any:  # fmt: skip
    """Convolve images, with torch's arguments; one kernel also adds bias and residual and applies an activation.

    The result is activation(convolution * scale + bias + residual). Tensors of torch go through an operator that
    torch.compile and torch.export trace, and that has gradients; arrays of NumPy are simulated where there is no GPU.

    Args:
        input: images (N, C, H, W), or one (C, H, W), of torch, CuPy or NumPy. Images with channels last in memory are
            not copied, and their results have channels last too.
        weight: filters (K, C / groups, taps, taps).
        bias: added to each channel of the result.
        stride: pixels from one window to the next, one number or one for each side.
        padding: zeros around: a number, one for each side, pairs (before, behind), "same" or "valid". A negative number
            behind leaves out pixels.
        dilation: pixels from one tap of a filter to the next.
        groups: number of parts of the channels, each of which is convolved with its own filters.
        scale: a factor for each channel of the result, as in a batch norm.
        residual: array of the result's shape, which is added.
        activation: function that is applied last: "relu", "gelu", "gelu_tanh", "silu", "sigmoid" or "tanh".
        dtype: "tf32" multiplies f32 arrays as tf32.

    Raises:
        CallError: `wrong-shape`, `conv-groups`, `conv-sizes`, `bad-activation`, and as a kernel's call does.
        FireironError: `conv-window`.

    Example:
        >>> import numpy as np
        >>> images, filters = np.ones((1, 4, 6, 6), np.float32), np.ones((8, 4, 3, 3), np.float32)
        >>> conv2d(images, filters, padding=1, activation="relu")[0, 0, 0].tolist()
        [16.0, 24.0, 24.0, 24.0, 24.0, 16.0]
    """
    return _conv(
        "conv2d", input, weight, bias, stride, padding, dilation, groups, scale, residual, activation, dtype
    )  # fmt: skip


def conv3d(
    input: Any, weight: Any, bias: Any = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
    groups: int = 1, *, scale: Any = None, residual: Any = None, activation: str | None = None,
    dtype: str | None = None,
) -> Any:  # fmt: skip
    """Convolve volumes (N, C, D, H, W) with filters (K, C / groups, taps, taps, taps), as `conv2d` does images."""
    return _conv(
        "conv3d", input, weight, bias, stride, padding, dilation, groups, scale, residual, activation, dtype
    )  # fmt: skip

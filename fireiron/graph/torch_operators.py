"""Operators of torch as nodes of a graph: a function for each, which adds them, or leaves the call to torch."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fireiron.algebra.dtypes import f32, i32, i64
from fireiron.graph.lower_program import LARGE_NBYTES
from fireiron.graph.operations import Shape
from fireiron.graph.torch_lines import LINES, MOST_NUMBER, cut
from fireiron.graph.torch_nodes import (
    Stays,
    is_tensor,
    name_of,
    torch_kind,
)
from fireiron.graph.torch_windows import WINDOWS

if TYPE_CHECKING:
    from fireiron.graph.composites import Ops
    from fireiron.graph.from_torch import Importer

torch: Any = import_module("torch")

Known = Callable[..., Any]
KNOWN: dict[str, Known] = {**WINDOWS, **LINES}
MOST_RUNNING = 1 << 15  # elements of a row that one block sums, if there are
LEAST_ROWS = 32  # fewer rows
# Torch's bytes wrap in these, and kernels' saturate.
WRAPPING = ("add", "sub", "rsub", "mul", "neg", "abs", "pow", "prims.fma", "sum")


def _known(*names: str) -> Callable[[Known], Known]:
    def note(function: Known) -> Known:
        for name in names:
            KNOWN[name] = function
        return function

    return note


def _unary(op: str) -> Known:
    return lambda i, node, x: getattr(i.ops, op)(_wide(i, x))


def _wide(i: Importer, x: int) -> int:
    """Compute functions of integers in f32."""
    return i.ops.cast(x, dtype=f32) if i.ops.dtype(x).kind == "int" else x


def _plain(op: str) -> Known:
    return lambda i, node, x, **_: getattr(i.ops, op)(x)


def _pair(i: Importer, node: Any, x: Any, y: Any) -> tuple[int, int]:
    tensors = [is_tensor(a) for a in node.args[:2]]
    if not any(tensors):
        raise Stays("no tensor")
    one = x if tensors[0] else i.constant(x, y)
    other = y if len(tensors) > 1 and tensors[1] else i.constant(y, x)
    return _as_floats(i, node, one), _as_floats(i, node, other)


def _as_floats(i: Importer, node: Any, x: int) -> int:
    """Convert integers of 64 bits that arithmetic combines with floats to the result's type first, as torch does."""
    result = node.meta["val"].dtype
    return i.ops.cast(x, dtype=torch_kind(result)) if i.ops.dtype(x) == i64 and result.is_floating_point else x


def _binary(op: str) -> Known:
    def call(i: Importer, node: Any, x: Any, y: Any) -> int:
        return getattr(i.ops, op)(*_pair(i, node, x, y))

    return call


def _turned(op: str) -> Known:
    def call(i: Importer, node: Any, x: Any, y: Any) -> int:
        return getattr(i.ops, op)(*reversed(_pair(i, node, x, y)))

    return call


for _name in ("exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "tanh", "erf"):
    KNOWN[_name] = _unary(_name)


def _whole(op: str) -> Known:
    return lambda i, node, x: getattr(i.ops, op)(x) if i.ops.dtype(x).kind == "float" else x


for _name in ("floor", "ceil"):
    KNOWN[_name] = _whole(_name)


for _name in ("neg", "abs", "relu", "silu", "sigmoid"):
    KNOWN[_name] = _plain(_name)


for _name, _op in (
    ("mul", "mul"),
    ("maximum", "maximum"),
    ("minimum", "minimum"),
    ("lt", "lt"),
    ("le", "le"),
    ("eq", "eq"),
):
    KNOWN[_name] = _binary(_op)

KNOWN["gt"], KNOWN["ge"] = _turned("lt"), _turned("le")


@_known("add")
def _add(i: Importer, node: Any, x: Any, y: Any, alpha: float = 1) -> int:
    a, b = _pair(i, node, x, y)
    return i.ops.add(a, b if alpha == 1 else i.ops.mul(b, i.constant(alpha, b)))


@_known("sub")
def _sub(i: Importer, node: Any, x: Any, y: Any, alpha: float = 1) -> int:
    a, b = _pair(i, node, x, y)
    return i.ops.sub(a, b if alpha == 1 else i.ops.mul(b, i.constant(alpha, b)))


@_known("rsub")
def _rsub(i: Importer, node: Any, x: Any, y: Any, alpha: float = 1) -> int:
    a, b = _pair(i, node, x, y)
    return i.ops.sub(b, a if alpha == 1 else i.ops.mul(a, i.constant(alpha, a)))


@_known("div")
def _div(i: Importer, node: Any, x: Any, y: Any, rounding_mode: str | None = None) -> int:
    a, b = _pair(i, node, x, y)
    if rounding_mode is None:
        return i.ops.div(_wide(i, a), _wide(i, b))
    _check_integers(i, a, b)
    down = i.ops.floor_divide(a, b)
    if rounding_mode == "floor":
        return down
    rest, zero = i.ops.remainder(a, b), i.constant(0, a)
    up = i.ops.select(i.ops.lt(rest, zero), i.ops.lt(zero, a), i.ops.mul(i.ops.lt(zero, rest), i.ops.lt(a, zero)))
    return i.ops.select(up, i.ops.add(down, i.constant(1, a)), down)


@_known("floor_divide")
def _floor_divided(i: Importer, node: Any, x: Any, y: Any) -> int:
    return _div(i, node, x, y, "floor")


@_known("remainder")
def _remainder(i: Importer, node: Any, x: Any, y: Any) -> int:
    a, b = _pair(i, node, x, y)
    _check_integers(i, a, b)
    return i.ops.remainder(a, b)


def _check_integers(i: Importer, *numbers: int) -> None:
    """Leave quotients of floats that are rounded to torch, and those of bytes, which wrap there."""
    if any(i.ops.dtype(x).kind == "float" or i.ops.dtype(x).bits < 32 for x in numbers):
        raise Stays("a rounded quotient of floats or bytes")


@_known("prims.fma")
def _fma(i: Importer, node: Any, x: int, y: int, z: int) -> int:
    return i.ops.add(i.ops.mul(x, y), z)


@_known("copy")
def _written(i: Importer, node: Any, over: int, x: int, *_: Any) -> int:
    if node.args[0].meta["val"].device != node.args[1].meta["val"].device:
        raise Stays("another device")
    made = i.ops.like(x, i.ops.dtype(over))
    return made if i.ops.shape(made) == i.ops.shape(over) else i.ops.broadcast(made, shape=i.ops.shape(over))


def _filling(node: Any, number: float) -> float:
    """Return the number that a call fills its result with: True and False are 1 and 0."""
    return float(bool(number)) if node.meta["val"].dtype == torch.bool else number


@_known("pow")
def _pow(i: Importer, node: Any, x: Any, y: Any) -> int:
    a, b = _pair(i, node, x, y)
    return i.ops.pow(a, b)


@_known("reciprocal")
def _reciprocal(i: Importer, node: Any, x: int) -> int:
    return i.ops.div(i.constant(1.0, x), x)


@_known("ne")
def _ne(i: Importer, node: Any, x: Any, y: Any) -> int:
    return i.ops.eq(i.ops.eq(*_pair(i, node, x, y)), 0.0)


@_known("logical_not", "bitwise_not")
def _not(i: Importer, node: Any, x: int) -> int:
    if node.args[0].meta["val"].dtype != torch.bool:
        raise Stays("bits")
    return i.ops.eq(x, 0.0)


@_known("logical_and", "bitwise_and")
def _and(i: Importer, node: Any, x: int, y: int) -> int:
    if any(n.meta["val"].dtype != torch.bool for n in node.all_input_nodes):
        raise Stays("bits")
    return i.ops.mul(x, y)


@_known("isnan")
def _is_nan(i: Importer, node: Any, x: int) -> int:
    return i.ops.eq(i.ops.eq(x, x), 0.0)


@_known("isinf")
def _is_infinite(i: Importer, node: Any, x: int) -> int:
    _check_float(node)
    return i.ops.eq(i.ops.abs(i.ops.wide(x)), math.inf)


@_known("isfinite")
def _is_finite(i: Importer, node: Any, x: int) -> int:
    _check_float(node)
    return i.ops.lt(i.ops.abs(i.ops.wide(x)), math.inf)


def _check_float(node: Any) -> None:
    if not node.args[0].meta["val"].dtype.is_floating_point:
        raise Stays("integers are finite")


@_known("trunc")
def _trunc(i: Importer, node: Any, x: int) -> int:
    if i.ops.dtype(x).kind == "int":
        return x
    return i.ops.select(i.ops.lt(x, 0.0), i.ops.ceil(x), i.ops.floor(x))


@_known("logical_or", "bitwise_or")
def _or(i: Importer, node: Any, x: int, y: int) -> int:
    if any(n.meta["val"].dtype != torch.bool for n in node.all_input_nodes):
        raise Stays("bits")
    return i.ops.maximum(x, y)


@_known("sign", "sgn")
def _sign(i: Importer, node: Any, x: int) -> int:
    zero = i.constant(0, x)
    above, below = (i.ops.like(i.ops.lt(*pair), i.ops.dtype(x)) for pair in ((zero, x), (x, zero)))
    return i.ops.sub(above, below)


@_known("where")
def _where(i: Importer, node: Any, condition: int, x: Any, y: Any) -> int:
    a, b = (v if is_tensor(n) else None for v, n in zip((x, y), node.args[1:], strict=True))
    like = a if a is not None else b
    if like is None:
        result = node.meta["val"]
        kind = torch_kind(result.dtype)
        one, other = (i.builder.constant(_filling(node, v), kind) for v in (x, y))
        return i.ops.select(condition, i.ops.broadcast(one, shape=tuple(result.shape)), other)
    return i.ops.select(
        condition, x if a is not None else i.constant(x, like), y if b is not None else i.constant(y, like)
    )


@_known("masked_fill")
def _masked_fill(i: Importer, node: Any, x: int, mask: int, value: Any) -> int:
    filled = value if is_tensor(node.args[2]) else i.builder.constant(_filling(node, value), i.ops.dtype(x))
    return i.ops.select(mask, filled, x)


@_known("clamp", "clamp_min", "clamp_max", "hardtanh")
def _clamp(i: Importer, node: Any, x: int, low: Any = None, high: Any = None, **named: Any) -> int:
    names = ("max",) if "clamp_max" in str(node.target) else ("min", "max")
    low, high = (None, low) if len(names) == 1 else (low, high)
    low, high = named.get("min", low), named.get("max", high)
    known = dict(zip(names, node.args[1:], strict=False)) | dict(node.kwargs)
    low, high = (
        bound if bound is None or is_tensor(known.get(name)) else i.constant(bound, x)
        for name, bound in (("min", low), ("max", high))
    )
    x = x if low is None else i.ops.maximum(x, low)
    return x if high is None else i.ops.minimum(x, high)


@_known("gelu")
def _gelu(i: Importer, node: Any, x: int, approximate: str = "none") -> int:
    return i.ops.gelu(x, approximate=approximate)


@_known("_to_copy", "prims.convert_element_type", "clone", "alias", "detach", "contiguous", "lift_fresh_copy")
def _copied(i: Importer, node: Any, x: int, *_: Any, **named: Any) -> int:
    value = node.meta["val"]
    if value.device != node.args[0].meta["val"].device:
        raise Stays("another device")
    kind = torch_kind(value.dtype)
    if value.dtype == torch.bool and node.args[0].meta["val"].dtype != torch.bool:
        return i.ops.eq(i.ops.eq(x, i.constant(0, x)), 0.0)
    if node.args[0].meta["val"].dtype.is_floating_point and not value.dtype.is_floating_point:
        x = i.ops.select(i.ops.lt(x, 0.0), i.ops.ceil(x), i.ops.floor(x))  # integers have no fractions
    return i.ops.like(x, kind)


@_known("view", "_unsafe_view", "reshape", "squeeze", "unsqueeze")
def _reshape(i: Importer, node: Any, x: int, *_: Any) -> int:
    return i.ops.reshape(x, shape=tuple(node.meta["val"].shape))


@_known("expand")
def _expand(i: Importer, node: Any, x: int, *_: Any, **__: Any) -> int:
    return i.ops.broadcast(x, shape=tuple(node.meta["val"].shape))


@_known("repeat")
def _repeat(i: Importer, node: Any, x: int, times: Sequence[int]) -> int:
    """Repeat an array along its last axes, as `numpy.tile` does."""
    o, shape = i.ops, i.ops.shape(x)
    shape = (*[1] * (len(times) - len(shape)), *shape)
    if 0 in (*times, *shape):
        raise Stays("nothing is left")
    one = o.reshape(x, shape=tuple(n for size in shape for n in (1, size)))
    wide = o.broadcast(one, shape=tuple(n for pair in zip(times, shape, strict=True) for n in pair))
    return o.reshape(wide, shape=tuple(t * n for t, n in zip(times, shape, strict=True)))


@_known("permute")
def _permute(i: Importer, node: Any, x: int, axes: Sequence[int]) -> int:
    rank = len(i.ops.shape(x))
    return i.ops.transpose(x, axes=tuple(a % rank for a in axes))


@_known("t")
def _t(i: Importer, node: Any, x: int) -> int:
    return i.ops.transpose(x, axes=tuple(reversed(range(len(i.ops.shape(x))))))


@_known("transpose")
def _transpose(i: Importer, node: Any, x: int, one: int, other: int) -> int:
    axes = list(range(len(i.ops.shape(x))))
    axes[one], axes[other] = axes[other], axes[one]
    return i.ops.transpose(x, axes=tuple(axes))


@_known("slice")
def _slice(
    i: Importer, node: Any, x: int, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> int:
    return cut(i, x, dim, start or 0, 1 << 62 if end is None else end, step)


@_known("select")
def _select(i: Importer, node: Any, x: int, dim: int, index: int) -> int:
    size = i.ops.shape(x)[dim]
    at = index % size
    return i.ops.reshape(cut(i, x, dim, at, at + 1), shape=tuple(node.meta["val"].shape))


VIEWS = (_reshape, _expand, _permute, _slice, _select, _t, _transpose)


@_known("split", "split_with_sizes")
def _split(i: Importer, node: Any, x: int, sizes: Any, dim: int = 0) -> tuple[int, ...]:
    extent = i.ops.shape(x)[dim]
    parts = sizes if isinstance(sizes, tuple) else [min(sizes, extent - a) for a in range(0, extent, sizes)]
    made: list[int] = []
    at = 0
    for size in parts:
        made.append(cut(i, x, dim, at, at + size))
        at += size
    return tuple(made)


@_known("constant_pad_nd")
def _padded(i: Importer, node: Any, x: int, pad: Sequence[int], value: float = 0.0) -> int:
    """Concatenate an array with numbers; torch pads large arrays. Negative numbers of lines remove these."""
    o, result = i.ops, node.meta["val"]
    if any(n > 0 for n in pad) and result.numel() * result.element_size() > LARGE_NBYTES:
        raise Stays("padding")
    for place, counts in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        axis = len(o.shape(x)) - 1 - place
        first, last = (max(0, -n) for n in counts)
        x = cut(i, x, axis, first, o.shape(x)[axis] - last)
    pad = [max(0, n) for n in pad]
    for place, counts in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        shape, axis = o.shape(x), len(o.shape(x)) - 1 - place
        number = i.builder.constant(_filling(node, value), o.dtype(x))
        before, behind = (
            [o.broadcast(number, shape=(*shape[:axis], n, *shape[axis + 1 :]))] if n else [] for n in counts
        )
        x = o.concatenate(*before, x, *behind, axis=axis) if any(counts) else x
    return x


@_known("slice_scatter")
def _slice_scatter(
    i: Importer, node: Any, x: int, part: int, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> int:  # fmt: skip
    """Replace lines that follow each other, or every n-th line, as the gradient of a slice does: a concatenation."""
    shape = i.ops.shape(x)
    axis = dim % len(shape)
    first, last, apart = slice(start, end, step).indices(shape[axis])
    if apart != 1:  # each n lines have one that is replaced, at the same place
        if shape[axis] % apart or len(range(first, last, apart)) != shape[axis] // apart:
            raise Stays("some of the lines that lie apart")
        ahead, behind = shape[:axis], shape[axis + 1 :]
        x = i.ops.reshape(x, shape=(*ahead, shape[axis] // apart, apart, *behind))
        part = i.ops.reshape(part, shape=(*ahead, shape[axis] // apart, 1, *behind))
        made = _replaced(i, x, part, axis + 1, first, first + 1)
        return i.ops.reshape(made, shape=shape)
    return _replaced(i, x, part, axis, first, last)


def _replaced(i: Importer, x: int, part: int, axis: int, first: int, last: int) -> int:
    """Replace the lines from the first to before the last along an axis."""
    size = i.ops.shape(x)[axis]
    parts = [cut(i, x, axis, 0, first)] if first else []
    parts += [part] if last > first else []
    parts += [cut(i, x, axis, max(first, last), size)] if max(first, last) < size else []
    return parts[0] if len(parts) == 1 else i.ops.concatenate(*parts, axis=axis)


@_known("cat")
def _cat(i: Importer, node: Any, arrays: tuple[int, ...], dim: int = 0) -> int:
    # torch accepts an empty 1-D array beside arrays of any rank.
    full = [x for x, n in zip(arrays, node.args[0], strict=True) if n.meta["val"].numel()]
    if not full:
        raise Stays("no elements")
    return full[0] if len(full) == 1 else i.ops.concatenate(*full, axis=dim % len(i.ops.shape(full[0])))


def _fold(op: str) -> Known:
    def call(
        i: Importer, node: Any, x: int, axes: Any = None, keepdim: bool = False, dtype: Any = None, **_: Any
    ) -> int:
        if dtype is not None and not dtype.is_floating_point and node.args[0].meta["val"].dtype.is_floating_point:
            raise Stays("elements that are converted first")
        wide = i.ops.wide(_wide(i, x) if dtype is not None or op == "mean" else x)
        if op == "sum" and node.meta["val"].dtype == torch.int64:
            wide = _summed(i, x)
        return getattr(i.ops, op)(wide, axes=_axes(i, x, axes), keepdims=keepdim)

    return call


def _summed(i: Importer, x: int) -> int:
    """Convert integers to the type in which they are summed: i32 for bytes whose sums fit, such as conditions."""
    o, source, nodes = i.ops, x, i.builder.nodes
    while nodes[source].op == "cast":
        given = nodes[source].inputs[0]
        if o.dtype(given).kind != "int" or not o.dtype(source).holds(o.dtype(given)):
            break
        source = given
    small = o.dtype(source).bits <= 8 and math.prod(o.shape(x)) <= MOST_NUMBER >> o.dtype(source).bits
    return o.cast(source, dtype=i32) if small else o.like(x, i64)


def _axes(i: Importer, x: int, axes: Any) -> tuple[int, ...]:
    """Return the axes of a fold, counted from 0; all axes for None and for a list of none, and none of a number."""
    rank = len(i.ops.shape(x))
    given = (axes,) if isinstance(axes, int) else axes or range(rank)
    return tuple(sorted(a % rank for a in given)) if rank else ()


for _name, _op in (("sum", "sum"), ("mean", "mean"), ("amax", "max"), ("amin", "min")):
    KNOWN[_name] = _fold(_op)


@_known("cumsum")
def _running(i: Importer, node: Any, x: int, dim: int, dtype: Any = None) -> int:
    """Compute running sums along a dim, which comes last in the kernel: others are turned first."""
    o, shape, result = i.ops, i.ops.shape(x), node.meta["val"].dtype
    if not math.prod(shape) or not shape or shape[dim] < 2:
        raise Stays("one element, or none")
    if node.args[0].meta["val"].dtype.is_floating_point and not result.is_floating_point:
        raise Stays("elements that are converted first")
    if shape[dim] > MOST_RUNNING and math.prod(shape) < LEAST_ROWS * shape[dim]:
        raise Stays("a few long rows, each of which one block would sum")
    x, rank = o.like(x, torch_kind(result)), len(shape)
    axes = [a for a in range(rank) if a != dim % rank] + [dim % rank]
    if axes != list(range(rank)):
        x = o.transpose(x, axes=tuple(axes))
    given = i.builder.nodes[x]
    if given.op == "transpose" and given["axes"][-1] != rank - 1:  # kernels read a row side by side
        x = o.copy(x)
    found = o.cumsum(x, axis=rank - 1)
    return found if axes == list(range(rank)) else o.transpose(found, axes=tuple(axes.index(a) for a in range(rank)))


def _of_truths(op: str) -> Known:
    def call(i: Importer, node: Any, x: int, axes: Any = None, keepdim: bool = False) -> int:
        """Say whether any element, or each, is other than zero."""
        if not math.prod(i.ops.shape(x)):
            raise Stays("no elements")
        truths = x if node.args[0].meta["val"].dtype == torch.bool else i.ops.eq(i.ops.eq(x, i.constant(0, x)), 0.0)
        return getattr(i.ops, op)(truths, axes=_axes(i, x, axes), keepdims=keepdim)

    return call


KNOWN["any"], KNOWN["all"] = _of_truths("max"), _of_truths("min")


def _place(op: str) -> Known:
    def call(i: Importer, node: Any, x: int, axis: int | None = None, keepdim: bool = False) -> int:
        """Find the index of the largest or smallest element along an axis, or among all elements."""
        o, x, shape = i.ops, i.ops.wide(x), i.ops.shape(x)
        if axis is None:
            x, axis, keepdim = o.reshape(x, shape=(math.prod(shape),)), 0, False
        rank = max(1, len(i.ops.shape(x)))
        if not shape or i.ops.shape(x)[axis] < 2 or not math.prod(shape):
            raise Stays("one element")
        if i.ops.shape(x)[axis] > MOST_NUMBER:
            raise Stays("indices of 64 bits")
        return getattr(o, op)(x, axes=(axis % rank,), keepdims=keepdim)

    return call


def _with_place(op: str) -> Known:
    def call(i: Importer, node: Any, x: int, axis: int | None = None, keepdim: bool = False) -> Any:
        """Find the largest or smallest elements along an axis, with their indices."""
        x = i.ops.wide(x)
        if axis is None:
            return getattr(i.ops, op)(x, axes=_axes(i, x, None), keepdims=False)
        value = getattr(i.ops, op)(x, axes=_axes(i, x, axis), keepdims=keepdim)
        return value, _place(f"arg{op}")(i, node, x, axis, keepdim)

    return call


for _name in ("max", "min"):
    KNOWN[f"arg{_name}"] = _place(f"arg{_name}")
    KNOWN[_name] = _with_place(_name)


@_known("linalg_vector_norm")
def _vector_norm(
    i: Importer, node: Any, x: int, ord: float = 2, axes: Any = None, keepdim: bool = False, **_: Any
) -> int:
    """Compute the norms of order 1, 2 and infinity."""
    o, wide, over = i.ops, i.ops.wide(x), {"axes": _axes(i, x, axes), "keepdims": keepdim}
    if ord == 2:
        return o.sqrt(o.sum(o.mul(wide, wide), **over))
    if ord not in (1, math.inf):
        raise Stays(f"norms of order {ord}")
    return (o.sum if ord == 1 else o.max)(o.abs(wide), **over)


@_known("var")
def _var(i: Importer, node: Any, x: int, axes: Any = None, correction: float | None = 1, keepdim: bool = False) -> int:
    found = 1 if correction is None else correction
    return i.ops.variance(i.ops.wide(x), axes=_axes(i, x, axes), keepdims=keepdim, correction=found)


@_known("var_mean")
def _var_mean(
    i: Importer, node: Any, x: int, axes: Any = None, correction: float | None = 1, keepdim: bool = False
) -> Any:
    mean = _fold("mean")(i, node, x, axes, keepdim)
    return _var(i, node, x, axes, correction, keepdim), mean


@_known("mm", "bmm", "matmul")
def _matmul(i: Importer, node: Any, a: int, b: int) -> int:
    return i.ops.matmul(a, b)


@_known("addmm", "baddbmm")
def _addmm(i: Importer, node: Any, c: int, a: int, b: int, beta: float = 1, alpha: float = 1) -> int:
    product = i.ops.matmul(a, b)
    product = product if alpha == 1 else i.ops.mul(product, i.constant(alpha, product))
    return i.ops.add(product, c if beta == 1 else i.ops.mul(c, i.constant(beta, c)))


@_known("_softmax", "softmax", "_safe_softmax")
def _softmax(i: Importer, node: Any, x: int, dim: int, *_: Any) -> int:
    return _along(i, "softmax", x, dim)


@_known("_log_softmax")
def _log_softmax(i: Importer, node: Any, x: int, dim: int, *_: Any) -> int:
    return _along(i, "log_softmax", x, dim)


def _along(i: Importer, op: str, x: int, dim: int) -> int:
    """Apply an operation along a dim; a number is a row of one element."""
    o, shape = i.ops, i.ops.shape(x)
    if shape:
        return getattr(o, op)(x, axis=dim % len(shape))
    return o.reshape(getattr(o, op)(o.reshape(x, shape=(1,)), axis=0), shape=())


@_known("native_layer_norm")
def _layer_norm(i: Importer, node: Any, x: int, shape: Sequence[int], gain: Any, bias: Any, eps: float) -> Any:
    o, rank = i.ops, len(i.ops.shape(x))
    axes = tuple(range(rank - len(shape), rank))
    wide = o.wide(x)
    number = math.prod(shape)
    mean = o.mul(o.sum(wide, axes=axes, keepdims=True), 1.0 / number)
    away = o.sub(wide, mean)
    deviation = o.rsqrt(o.add(o.mul(o.sum(o.mul(away, away), axes=axes, keepdims=True), 1.0 / number), float(eps)))
    y = o.mul(away, deviation)
    y = y if gain is None else o.mul(y, gain)
    y = y if bias is None else o.add(y, bias)
    return o.like(y, o.dtype(x)), mean, deviation


@_known("native_group_norm")
def _group_norm(
    i: Importer, node: Any, x: int, gain: Any, bias: Any, images: int, channels: int, pixels: int, groups: int,
    eps: float,
) -> Any:  # fmt: skip
    o, (n, c, *sides) = i.ops, i.ops.shape(x)
    part, place = c // groups, math.prod(sides)
    parted, axes, number = o.wide(o.reshape(x, shape=(n, groups, part, place))), (2, 3), part * place
    mean = o.mul(o.sum(parted, axes=axes, keepdims=True), 1.0 / number)
    away = o.sub(parted, mean)
    deviation = o.rsqrt(o.add(o.mul(o.sum(o.mul(away, away), axes=axes, keepdims=True), 1.0 / number), float(eps)))
    y, lead = o.mul(away, deviation), (groups, part, 1)
    y = y if gain is None else o.mul(y, o.reshape(gain, shape=lead))
    y = y if bias is None else o.add(y, o.reshape(bias, shape=lead))
    y = o.like(o.reshape(y, shape=(n, c, *sides)), o.dtype(x))
    return y, *(o.reshape(each, shape=(n, groups)) for each in (mean, deviation))


@_known("_native_batch_norm_legit_no_training")
def _batch_norm(
    i: Importer, node: Any, x: int, gain: Any, bias: Any, mean: int, variance: int, momentum: float, eps: float
) -> Any:
    o = i.ops
    lead = (o.shape(x)[1], *(1,) * (len(o.shape(x)) - 2))
    scale = o.rsqrt(o.add(o.wide(variance), float(eps)))
    scale = scale if gain is None else o.mul(scale, o.wide(gain))
    shift = o.neg(o.mul(o.wide(mean), scale))
    shift = shift if bias is None else o.add(shift, o.wide(bias))
    y = o.add(o.mul(o.wide(x), o.reshape(scale, shape=lead)), o.reshape(shift, shape=lead))
    return o.like(y, o.dtype(x)), None, None


@_known("full", "zeros", "ones", "full_like", "zeros_like", "ones_like", "new_full", "new_zeros", "new_ones")
def _filled(i: Importer, node: Any, *given: Any, fill_value: Any = None, **_: Any) -> int:
    """Repeat a number over a shape, without memory: readers use the number."""
    value, name = node.meta["val"], name_of(node)
    number = {"zeros": 0, "ones": 1}.get(name.removeprefix("new_").removesuffix("_like"), fill_value)
    number = given[-1] if number is None else number
    if not isinstance(number, int | float | bool):
        raise Stays("a number that is not known")
    made = i.builder.constant(_filling(node, number), torch_kind(value.dtype))
    return i.ops.broadcast(made, shape=tuple(value.shape)) if value.shape else made


@_known("fireiron.kept_attention")
def _kept_attention(
    i: Importer, node: Any, q: int, k: int, v: int, mask: Any, dropout: float, causal: bool, scale: Any, grouped: bool
) -> tuple[int, int]:
    if dropout:
        raise Stays("dropout")
    scale = 1 / math.sqrt(i.ops.shape(q)[-1]) if scale is None else float(scale)
    return _attended(i, q, k, v, mask, scale, bool(causal))


def _attended(i: Importer, q: int, k: int, v: int, mask: int | None, scale: float, causal: bool) -> tuple[int, int]:
    """Add attention and the logarithm of each row's sum.

    Heads of queries that share a head of keys and values get an axis of their own.
    """
    o = i.ops
    one, other = _unrepeated(o, k), _unrepeated(o, v)
    if one is not None and other is not None and o.shape(one)[:-1] == o.shape(other)[:-1]:
        k, v = one, other
    shape, keys, values = o.shape(q), o.shape(k), o.shape(v)
    given = () if mask is None else (mask,)
    how: dict[str, Any] = {"scale": scale, "causal": causal}
    if shape[:-2] == keys[:-2] == values[:-2]:
        return o.attention(q, k, v, *given, **how), o.attention_sums(q, k, *given, **how)
    heads = keys[1] if len(shape) == len(keys) == 4 else 0
    if not heads or shape[0] != keys[0] or keys[:-1] != values[:-1] or shape[1] % heads:
        raise Stays(f"queries {shape}, keys {keys} and values {values}")
    group = shape[1] // heads
    parted = o.reshape(q, shape=(shape[0], heads, group, *shape[2:]))
    pairs = [o.reshape(x, shape=(s[0], heads, 1, *s[2:])) for x, s in ((k, keys), (v, values))]
    masks = [o.reshape(x, shape=_mask_of_groups(o.shape(x), heads, group)) for x in given]
    made, sums = o.attention(parted, *pairs, *masks, **how), o.attention_sums(parted, pairs[0], *masks, **how)
    return o.reshape(made, shape=(*shape[:-1], values[-1])), o.reshape(sums, shape=shape[:-1])


def _unrepeated(o: Ops, x: int) -> int | None:
    """Return the array each of whose heads is repeated for several heads of queries; None where none is repeated."""
    nodes = o.builder.nodes
    repeated = nodes[nodes[x].inputs[0]] if nodes[x].op == "reshape" else nodes[x]
    if repeated.op != "broadcast" or len(repeated.shape) != 5 or len(nodes[x].shape) != 4:
        return None
    batch, heads, _, *rest = repeated.shape
    single = nodes[repeated.inputs[0]].shape == (batch, heads, 1, *rest)
    alike = nodes[x].shape[0] == batch and nodes[x].shape[2:] == tuple(rest)
    return o.reshape(repeated.inputs[0], shape=(batch, heads, *rest)) if single and alike else None


def _mask_of_groups(shape: Shape, heads: int, group: int) -> Shape:
    if len(shape) < 3:
        return shape
    return (*shape[:-3], *((1, 1) if shape[-3] == 1 else (heads, group)), *shape[-2:])


@_known(
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable", "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math_for_mps",
)  # fmt: skip
def _attention(i: Importer, node: Any, q: int, k: int, v: int, *rest: Any, **named: Any) -> Any:
    target = node.target
    known = dict(zip([a.name for a in target._schema.arguments][3:], rest, strict=False)) | named
    used = {n.args[1] for n in node.users if n.target is operator.getitem}
    several = isinstance(node.meta["val"], list | tuple)
    if known.get("dropout_p", 0.0) or known.get("return_debug_mask") or (several and used - {0}):
        raise Stays("what the gradient of torch's attention needs")
    mask = known.get("attn_mask")
    mask = known.get("attn_bias") if mask is None else mask
    scale = known.get("scale")
    scale = 1 / math.sqrt(i.ops.shape(q)[-1]) if scale is None else scale
    made, _ = _attended(i, q, k, v, mask, float(scale), bool(known.get("is_causal")))
    return (made, *[None] * (len(node.meta["val"]) - 1)) if several else made

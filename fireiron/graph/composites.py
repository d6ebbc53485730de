"""Composite operations: their expansions, and for tests an independent definition in NumPy.

Sums, exponentials and quotients of 16-bit floats are computed in f32, and the result is converted back.
"""
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# Arrays of NumPy and traced ones go through these functions alike.

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from fireiron.algebra.dtypes import DType, f32
from fireiron.graph.operations import Attributes, Operation, Shape, broadcast, misfit, numpy

if TYPE_CHECKING:
    from fireiron.graph.nodes import Builder, Node

Expand: TypeAlias = "Callable[[Ops, Node, tuple[int, ...]], int]"
STEEPEST = 80.0  # exp overflows f32 beyond 88; sigmoid is below 2e-35 there


class Ops:
    """Add operations to a graph by calling them: `ops.exp(x)`. Inputs of type `int` are nodes, floats become constants.

    Args:
        builder: the graph to which operations are added.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def __getattr__(self, op: str) -> Callable[..., int]:
        """Return the function that adds an operation."""

        def add(*inputs: int | float, **attributes: Any) -> int:
            kinds = [self.builder.nodes[i].dtype for i in inputs if isinstance(i, int)]
            kind = kinds[-1] if kinds else f32
            found = [i if isinstance(i, int) else self.builder.constant(i, kind) for i in inputs]
            return self.builder.add(op, *found, **attributes)

        return add

    def shape(self, x: int) -> Shape:
        """Return a node's shape."""
        return self.builder.nodes[x].shape

    def dtype(self, x: int) -> DType:
        """Return a node's element type."""
        return self.builder.nodes[x].dtype

    def wide(self, x: int) -> int:
        """Convert floats of fewer than 32 bits to f32."""
        kind = self.dtype(x)
        return self.cast(x, dtype=f32) if kind.kind == "float" and kind.bits < 32 else x

    def like(self, x: int, dtype: DType) -> int:
        """Convert to a type, unless the node has it."""
        return x if self.dtype(x) == dtype else self.cast(x, dtype=dtype)


def _last(node: Node, count: int) -> tuple[int, ...]:
    rank = len(node.shape)
    return tuple(range(rank - count, rank))


def _relu(o: Ops, node: Node, x: tuple[int, ...]) -> int:
    return o.maximum(x[0], 0.0)


def _sigmoid(o: Ops, node: Node, x: tuple[int, ...]) -> int:
    down = o.minimum(o.neg(o.wide(x[0])), STEEPEST)
    return o.like(o.div(1.0, o.add(o.exp(down), 1.0)), node.dtype)


def _silu(o: Ops, node: Node, x: tuple[int, ...]) -> int:
    wide = o.wide(x[0])
    return o.like(o.div(wide, o.add(o.exp(o.minimum(o.neg(wide), STEEPEST)), 1.0)), node.dtype)


def _gelu(o: Ops, node: Node, x: tuple[int, ...]) -> int:
    wide = o.wide(x[0])
    if node["approximate"] != "tanh":
        return o.like(o.mul(wide, o.normcdf(wide)), node.dtype)
    cube = o.mul(o.mul(wide, wide), wide)
    inner = o.tanh(o.mul(o.add(wide, o.mul(cube, 0.044715)), math.sqrt(2 / math.pi)))
    return o.like(o.mul(o.mul(wide, 0.5), o.add(inner, 1.0)), node.dtype)


def _mean_of(o: Ops, x: int, axes: Sequence[int], keepdims: bool = True) -> int:
    number = math.prod(o.shape(x)[a] for a in axes)
    return o.mul(o.sum(x, axes=tuple(axes), keepdims=keepdims), _share(number))


def _share(count: float) -> float:
    """Return 1 / count; infinity for no element, by which 0 gives NaN, as in NumPy and torch."""
    return 1.0 / count if count > 0 else math.inf


def _mean(o: Ops, node: Node, x: tuple[int, ...]) -> int:
    return o.like(_mean_of(o, o.wide(x[0]), node["axes"], node["keepdims"]), node.dtype)


def _variance(o: Ops, node: Node, x: tuple[int, ...]) -> int:
    wide, axes = o.wide(x[0]), node["axes"]
    away = o.sub(wide, _mean_of(o, wide, axes))
    number = math.prod(o.shape(wide)[a] for a in axes) - node["correction"]
    total = o.sum(o.mul(away, away), axes=axes, keepdims=node["keepdims"])
    return o.like(o.mul(total, _share(number)), node.dtype)


def _weights(o: Ops, x: int, axis: int, seen: int | None = None) -> tuple[int, int]:
    """Return exp(x - max) along an axis, 0 where a condition does not hold, and its sum."""
    part = o.exp(o.sub(x, o.max(x, axes=(axis,), keepdims=True)))
    part = part if seen is None else o.select(seen, part, o.builder.constant(0.0, o.dtype(part)))
    return part, o.sum(part, axes=(axis,), keepdims=True)


def _softmax(o: Ops, node: Node, x: tuple[int, ...]) -> int:
    part, total = _weights(o, o.wide(x[0]), node["axis"])
    return o.like(o.mul(part, o.div(1.0, total)), node.dtype)


def _log_softmax(o: Ops, node: Node, x: tuple[int, ...]) -> int:
    wide, axes = o.wide(x[0]), (node["axis"],)
    away = o.sub(wide, o.max(wide, axes=axes, keepdims=True))
    return o.like(o.sub(away, o.log(o.sum(o.exp(away), axes=axes, keepdims=True))), node.dtype)


def _layer_norm(o: Ops, node: Node, x: tuple[int, ...]) -> int:
    wide = o.wide(x[0])
    axes = _last(node, node["dims"])
    away = o.sub(wide, _mean_of(o, wide, axes))
    y = o.mul(away, o.rsqrt(o.add(_mean_of(o, o.mul(away, away), axes), node["eps"])))
    rest = list(x[1:])
    y = o.mul(y, rest.pop(0)) if node["gain"] else y
    y = o.add(y, rest.pop(0)) if node["bias"] else y
    return o.like(y, node.dtype)


def _rms_norm(o: Ops, node: Node, x: tuple[int, ...]) -> int:
    wide = o.wide(x[0])
    y = o.mul(wide, o.rsqrt(o.add(_mean_of(o, o.mul(wide, wide), _last(node, node["dims"])), node["eps"])))
    return o.like(o.mul(y, x[1]) if len(x) > 1 else y, node.dtype)


def _attention(o: Ops, node: Node, x: tuple[int, ...]) -> int:
    q, k, v, *mask = x
    score, seen = _scores(o, node, q, k, mask)
    part, total = _weights(o, score, len(o.shape(score)) - 1, seen if mask else None)
    inverse = o.div(1.0, total)
    # A query that sees no key has zeros, as torch's attention gives.
    inverse = o.select(o.le(total, 0.0), o.builder.constant(0.0, o.dtype(total)), inverse) if mask else inverse
    return o.like(o.matmul(o.like(o.mul(part, inverse), o.dtype(v)), v), node.dtype)


def _attention_sums(o: Ops, node: Node, x: tuple[int, ...]) -> int:
    """Expand the second result of attention, the logarithm of each row's sum, by the folds of the first."""
    q, k, *mask = x
    score, seen = _scores(o, node, q, k, mask)
    axis = len(o.shape(score)) - 1
    top = o.max(score, axes=(axis,), keepdims=True)
    _, total = _weights(o, score, axis, seen if mask else None)
    return o.reshape(o.add(o.log(total), top), shape=node.shape)


def _scores(o: Ops, node: Node, q: int, k: int, mask: Sequence[int]) -> tuple[int, int | None]:
    """Return the scores of queries and keys, -inf where a query does not see a key, and the condition that it does.

    The condition is None where all are seen. Keys to whose scores -inf is added are not seen.
    """
    rank = len(o.shape(k))
    turned = o.transpose(k, axes=(*range(rank - 2), rank - 1, rank - 2))
    score = o.mul(o.wide(o.matmul(q, turned)), node["scale"])
    nothing, seen = o.builder.constant(-math.inf, o.dtype(score)), list[int]()
    numbers = bool(mask) and o.dtype(mask[0]).kind != "int"
    if numbers:
        score = o.add(score, mask[0])
    elif mask:
        seen.append(mask[0])
    if node["causal"]:
        two = o.shape(score)[-2:]
        seen.append(o.le(o.iota(shape=two, axis=1), o.iota(shape=two, axis=0)))
    for condition in seen:
        score = o.select(condition, score, nothing)
    if numbers or len(seen) > 1:
        return score, o.lt(nothing, score)
    return score, seen[0] if seen else None


def _cross_entropy(o: Ops, node: Node, x: tuple[int, ...]) -> int:
    wide = o.wide(x[0])
    axes = (len(o.shape(wide)) - 1,)
    away = o.sub(wide, o.max(wide, axes=axes, keepdims=True))
    every = o.log(o.sum(o.exp(away), axes=axes, keepdims=False))
    shape = o.shape(wide)
    target = o.reshape(x[1], shape=(*shape[:-1], 1))
    here = o.eq(o.iota(shape=shape, axis=axes[0]), target)
    picked = o.sum(o.select(here, away, o.builder.constant(0.0, o.dtype(away))), axes=axes, keepdims=False)
    return o.like(o.sub(every, picked), node.dtype)


def column(o: Ops, node: Node, x: tuple[int, ...]) -> int | None:
    """Write a product with one column as sums of rows, since tiles of products are wider."""
    if node.op != "matmul" or node.shape[-1] != 1 or node.dtype.kind != "float":
        return None
    left, right = x
    rank = len(o.shape(right))
    line = o.transpose(right, axes=(*range(rank - 2), rank - 1, rank - 2))
    made = o.mul(o.wide(left), o.wide(line))
    return o.like(o.sum(made, axes=(len(o.shape(made)) - 1,), keepdims=True), node.dtype)


EXPANSIONS: Mapping[str, Expand] = {
    "relu": _relu, "sigmoid": _sigmoid, "silu": _silu, "gelu": _gelu, "mean": _mean, "variance": _variance,
    "softmax": _softmax, "log_softmax": _log_softmax, "layer_norm": _layer_norm, "rms_norm": _rms_norm,
    "attention": _attention, "attention_sums": _attention_sums, "cross_entropy": _cross_entropy,
}  # fmt: skip


def _same(shapes: Sequence[Shape], _: Attributes) -> Shape:
    return shapes[0]


def _first(kinds: Sequence[DType], _: Attributes) -> DType:
    return kinds[0]


def _folded(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    axes, keep = attributes["axes"], attributes["keepdims"]
    return tuple(1 if i in axes else n for i, n in enumerate(shapes[0]) if keep or i not in axes)


def _normed(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    dims = attributes["dims"]
    if any(s != shapes[0][len(shapes[0]) - dims :] for s in shapes[1:]):
        given = " and ".join(map(str, shapes[1:]))
        raise misfit(
            f"a norm over the last {dims} axes of {shapes[0]}, and gain or bias of {given}", "give them these axes"
        )
    return shapes[0]


def _attended(shapes: Sequence[Shape], _: Attributes) -> Shape:
    q, k, v, *mask = shapes
    if min(map(len, (q, k, v))) < 2 or q[-1] != k[-1] or k[-2] != v[-2]:
        raise misfit(f"queries {q}, keys {k} and values {v}", "give (..., I, D), (..., J, D) and (..., J, E)")
    lead = broadcast([q[:-2], k[:-2], v[:-2]])
    if mask:
        broadcast([(*lead, q[-2], k[-2]), mask[0]])
    return (*lead, q[-2], v[-1])


def _sums_of(shapes: Sequence[Shape], _: Attributes) -> Shape:
    q, k, *mask = shapes
    return _attended([q, k, (*k[:-1], 1), *mask], _)[:-1]


def _a_row(shapes: Sequence[Shape], _: Attributes) -> Shape:
    if shapes[1] != shapes[0][:-1]:
        raise misfit(f"rows {shapes[0]} and targets {shapes[1]}", "give a class for each row")
    return shapes[0][:-1]


def _exactly_gelu(x: Any, approximate: str) -> Any:
    np = numpy()
    if approximate == "tanh":
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return np.vectorize(lambda t: t / 2 * math.erfc(-t / math.sqrt(2)), otypes=[float])(x)


def _exactly_softmax(x: Any, axis: int) -> Any:
    np = numpy()
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)


def _exactly_layer_norm(x: Any, *rest: Any, dims: int, eps: float, gain: bool, bias: bool) -> Any:
    np = numpy()
    axes, given = tuple(range(x.ndim - dims, x.ndim)), list(rest)
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    y = y * given.pop(0) if gain else y
    return y + given.pop(0) if bias else y


def _exactly_rms_norm(x: Any, *gain: Any, dims: int, eps: float) -> Any:
    np = numpy()
    y = x / np.sqrt((x**2).mean(tuple(range(x.ndim - dims, x.ndim)), keepdims=True) + eps)
    return y * gain[0] if gain else y


def _exact_scores(q: Any, k: Any, mask: Sequence[Any], scale: float, causal: bool) -> Any:
    np = numpy()
    score = np.einsum("...id,...jd->...ij", q, k) * scale
    if causal:
        score = np.where(np.tri(*score.shape[-2:]) > 0, score, -np.inf)
    if mask:
        score = np.where(mask[0] != 0, score, -np.inf) if mask[0].dtype.kind in "iu" else score + mask[0]
    return score


def _exactly_attention(q: Any, k: Any, v: Any, *mask: Any, scale: float, causal: bool) -> Any:
    np = numpy()
    score = _exact_scores(q, k, mask, scale, causal)
    seen = score.max(-1, keepdims=True) > -np.inf
    weight = np.where(seen, _exactly_softmax(np.where(seen, score, 0.0), -1), 0.0)
    return np.einsum("...ij,...je->...ie", weight, v)


def _exact_sums(q: Any, k: Any, *mask: Any, scale: float, causal: bool) -> Any:
    np = numpy()
    with np.errstate(divide="ignore"):
        return np.logaddexp.reduce(_exact_scores(q, k, mask, scale, causal), -1)


def _exactly_cross_entropy(x: Any, target: Any) -> Any:
    np = numpy()
    p = _exactly_softmax(x, -1)
    return -np.log(np.take_along_axis(p, target.astype("int64")[..., None], -1))[..., 0]


COMPOSITES: tuple[Operation, ...] = (
    Operation("relu", "composite", _same, lambda x: x * (x > 0)),
    Operation("sigmoid", "composite", _same, lambda x: (1 + numpy().tanh(x / 2)) / 2),
    Operation("silu", "composite", _same, lambda x: x * (1 + numpy().tanh(x / 2)) / 2),
    Operation("gelu", "composite", _same, _exactly_gelu),
    Operation("mean", "composite", _folded, lambda x, axes, keepdims: x.mean(tuple(axes), keepdims=keepdims)),
    Operation(
        "variance", "composite", _folded,
        lambda x, axes, keepdims, correction: x.var(tuple(axes), keepdims=keepdims, ddof=correction),
    ),
    Operation("softmax", "composite", _same, _exactly_softmax),
    Operation("log_softmax", "composite", _same, lambda x, axis: numpy().log(_exactly_softmax(x, axis))),
    Operation("layer_norm", "composite", _normed, _exactly_layer_norm, _first, 1, 3),
    Operation("rms_norm", "composite", _normed, _exactly_rms_norm, _first, 1, 2),
    Operation("attention", "composite", _attended, _exactly_attention, _first, 3, 4),
    Operation("attention_sums", "composite", _sums_of, _exact_sums, lambda kinds, _: f32, 2, 3),
    Operation("cross_entropy", "composite", _a_row, _exactly_cross_entropy, _first, 2, 2),
)  # fmt: skip

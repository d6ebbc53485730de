"""Functions of networks for arrays: softmax, norms, activations, attention.

Called with NumPy arrays, they compute. In a function that `fireiron.trace_graph` traces, they become nodes of the
graph.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fireiron.graph.operations import axes_of, operations
from fireiron.graph.trace import Array, applied, lifted

__all__ = [
    "attention", "cross_entropy", "embedding", "erf", "gelu", "layer_norm", "log_softmax", "relu", "rms_norm", "rsqrt",
    "sigmoid", "silu", "softmax",
]  # fmt: skip


def _apply(op: str, *arrays: Any, **attributes: Any) -> Any:
    traced = next((x for x in arrays if isinstance(x, Array)), None)
    if traced is not None:
        builder = traced.builder
        return applied(builder, op, *(Array(builder, lifted(builder, x, traced.kind)) for x in arrays), **attributes)
    first = np.asarray(arrays[0])
    made = operations()[op].numpy(*(np.asarray(x) for x in arrays), **attributes)
    return made.astype(first.dtype)


def relu(x: Any) -> Any:
    """Replace negative values by zero."""
    return _apply("relu", x)


def sigmoid(x: Any) -> Any:
    """Compute 1 / (1 + exp(-x))."""
    return _apply("sigmoid", x)


def silu(x: Any) -> Any:
    """Compute x * sigmoid(x)."""
    return _apply("silu", x)


def erf(x: Any) -> Any:
    """Compute the error function of each element."""
    return _apply("erf", x)


def rsqrt(x: Any) -> Any:
    """Compute 1 / sqrt(x)."""
    return _apply("rsqrt", x)


def gelu(x: Any, approximate: str = "none") -> Any:
    """Compute x * P(N <= x), where N has the standard normal distribution.

    Args:
        x: an array.
        approximate: "none", or "tanh" for the approximation by tanh.
    """
    return _apply("gelu", x, approximate=approximate)


def softmax(x: Any, axis: int = -1) -> Any:
    """Compute exp(x) / sum(exp(x)) along an axis."""
    return _apply("softmax", x, axis=axes_of(axis, x.ndim)[0])


def log_softmax(x: Any, axis: int = -1) -> Any:
    """Compute log(softmax(x)) along an axis."""
    return _apply("log_softmax", x, axis=axes_of(axis, x.ndim)[0])


def layer_norm(x: Any, gain: Any = None, bias: Any = None, eps: float = 1e-5, dims: int = 1) -> Any:
    """Compute (x - mean) / sqrt(variance + eps) * gain + bias over the last axes.

    Args:
        x: an array.
        gain, bias: arrays of the shape of the last axes; None for none.
        eps: a number that is added to the variance.
        dims: number of axes, the last ones, over which x is normalised.
    """
    given = [a for a in (gain, bias) if a is not None]
    return _apply("layer_norm", x, *given, dims=dims, eps=eps, gain=gain is not None, bias=bias is not None)


def rms_norm(x: Any, gain: Any = None, eps: float = 1e-6, dims: int = 1) -> Any:
    """Compute x / sqrt(mean(x * x) + eps) * gain over the last axes; arguments as in `layer_norm`."""
    return _apply("rms_norm", x, *([] if gain is None else [gain]), dims=dims, eps=eps)


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, scale: float | None = None, causal: bool = False, lse: bool = False
) -> Any:
    """Compute softmax(q k' * scale + mask) v.

    Args:
        q, k, v: (..., I, D), (..., J, D), (..., J, E).
        mask: broadcast over (..., I, J). Floats are added to the scores; of integers or booleans, 0 or False hides a
            key from a query.
        scale: factor of the scores, 1 / sqrt(D) by default.
        causal: whether query i sees keys 0 to i only.
        lse: whether to return a second result in f32: for each query the logarithm of its sum of exponentials, -inf
            where the query sees no key.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    masks = [] if mask is None else [mask]
    made = _apply("attention", q, k, v, *masks, scale=scale, causal=causal)
    return (made, _apply("attention_sums", q, k, *masks, scale=scale, causal=causal)) if lse else made


def embedding(ids: Any, table: Any) -> Any:
    """Look up rows of a table by integers: `table[ids]`."""
    return _apply("gather", table, ids)


def cross_entropy(x: Any, target: Any) -> Any:
    """Compute -log(softmax(x)[target]) of each row, where target is the index of a column."""
    return _apply("cross_entropy", x, target)

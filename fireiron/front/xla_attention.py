"""Attention and its gradients as foreign functions of XLA: the Python functions of the handlers.

XLA's buffers are dense, and begin at multiples of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from fireiron.front import attention as programs
from fireiron.front.attention import Attention, facts_of, single
from fireiron.front.xla import Array, handler
from fireiron.jit.kernel import as_tuple

FORWARD, BACKWARD, ARRAY = "fireiron_attention", "fireiron_attention_backward", "fireiron_attention_array"


@attrs.frozen
class Told:
    """Hold a call's arguments that are no arrays.

    Args:
        functions: mask and score function as text; "" for neither.
        names: names of the arrays that these functions read.
        scale: factor of the scores.
        causal: whether query i sees keys 0 to i only.
    """

    functions: str
    names: tuple[str, ...]
    scale: float
    causal: bool

    def attributes(self) -> dict[str, str]:
        """Write the record as attributes of XLA, which are texts."""
        causal = "causal" if self.causal else ""
        return {"functions": self.functions, "names": ",".join(self.names), "scale": repr(self.scale), "causal": causal}


def _told(attributes: Mapping[str, str]) -> Told:
    names = tuple(attributes["names"].split(",")) if attributes["names"] else ()
    return Told(attributes["functions"], names, float(attributes["scale"]), bool(attributes["causal"]))


def _described(q: Array, k: Array, v: Array, beside: Sequence[Array], told: Told) -> Attention:
    arrays = tuple((name, facts_of(x)) for name, x in zip(told.names, beside, strict=True))
    return Attention(facts_of(q), facts_of(k), facts_of(v), told.functions, arrays, told.scale, told.causal)


def _parted(x: Array, heads: int) -> Array:
    """Give the heads of queries that share a head of keys a dim of their own."""
    batch, mine, *rest = x.shape
    return x if mine == heads else x.reshape((batch, heads, mine // heads, *rest))


def _called(kernel: Any, inputs: Sequence[Array], outputs: Sequence[Array], stream: int | None) -> None:
    if stream is not None:
        kernel(*inputs, out=single(outputs), stream=stream)
        return
    for array, result in zip(outputs, as_tuple(kernel(*inputs)), strict=True):
        np.copyto(array, result)


def forward(inputs: Sequence[Array], outputs: Sequence[Array], told: Mapping[str, str], stream: int | None) -> None:
    """Compute attention.

    Args:
        inputs: queries, keys, values, and the arrays that mask and score function read; NumPy arrays, or views of a
            GPU's memory.
        outputs: arrays to write: the result, and the logarithm of each row's sum.
        told: result of `Told.attributes`.
        stream: the GPU's stream; None on the CPU, where attention is simulated.
    """
    q, k, v, *beside = inputs
    heads = k.shape[1]
    q, *made = (_parted(x, heads) for x in (q, *outputs))
    what = _described(q, k, v, beside, _told(told))
    taken = (beside[n] for n in what.taken("forward"))
    _called(programs.forward(what, facts_of(made[0]), stream is None), (q, k, v, *taken), made, stream)


def backward(inputs: Sequence[Array], outputs: Sequence[Array], told: Mapping[str, str], stream: int | None) -> None:
    """Compute the gradients of queries, keys and values.

    Args:
        inputs: queries, keys, values, the gradient of the result, the logarithm of each row's sum, each row's `delta`
            (what is subtracted from the gradients of its weights), and the arrays that mask and score function read.
        outputs: the gradients of queries, keys and values.
        told: as `forward` takes it.
        stream: as `forward` takes it.
    """
    q, k, v, dy, sums, gains, *beside = inputs
    heads = k.shape[1]
    q, dy, sums, gains, by_q = (_parted(x, heads) for x in (q, dy, sums, gains, outputs[0]))
    what = _described(q, k, v, beside, _told(told))
    given, made = (q, k, v, dy, sums, gains), (by_q, *outputs[1:])
    for each in programs.gradients(what, facts_of(dy), tuple(map(facts_of, made)), stream is None):
        taken = (beside[n] for n in what.taken(each.role))
        _called(each.kernel, (*(given[n] for n in each.reads), *taken), tuple(made[n] for n in each.results), stream)


def of_array(inputs: Sequence[Array], outputs: Sequence[Array], told: Mapping[str, str], stream: int | None) -> None:
    """Compute the gradient of an array that the score function reads, at one place.

    Args:
        inputs: as `backward` takes them.
        outputs: the gradient, whose dims are the place's indices in the order b h i j.
        told: as `forward` takes it, with the array's name and the number of the place.
        stream: as `forward` takes it.
    """
    q, k, v, dy, sums, gains, *beside = inputs
    q, dy, sums, gains = (_parted(x, k.shape[1]) for x in (q, dy, sums, gains))
    what = _described(q, k, v, beside, _told(told))
    places = programs.places_of(what.functions, told["array"])
    assert places is not None
    at = places[int(told["place"])]
    kernel = programs.array_gradient(what, facts_of(dy), told["array"], at, stream is None)
    made = outputs[0].reshape(programs.extents_at(at, q.shape, k.shape) or (1,))
    taken = (beside[n] for n in what.taken("of_array"))
    _called(kernel, (q, k, v, dy, sums, gains, *taken), (made,), stream)


HANDLERS = {
    target: {"cpu": handler(function, device=False), "CUDA": handler(function, device=True)}
    for target, function in ((FORWARD, forward), (BACKWARD, backward), (ARRAY, of_array))
}

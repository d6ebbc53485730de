"""References of fused programs: several products, and layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fireiron.front.bounded import Array, Bounded, broadcast, cast, evaluate, exact
from fireiron.front.sums import Summing, converted, product
from fireiron.language.decompositions import Decomposition, Epilog
from fireiron.language.programs import Layer, Layers, Products
from fireiron.language.residual import roles
from fireiron.language.tensor import Tensor

Read = Callable[[Tensor], Bounded]
SIGMAS = 8.0  # a right result of layers strays so far with a probability below 1e-14


def bound_of_program(spec: Products | Layers) -> str:
    """State the bound that a result is held to."""
    if isinstance(spec, Layers):
        return f"{SIGMAS:g} standard deviations of what independent roundings of every layer add up to"
    kind = spec.accumulator
    return f"(sum of K + 2) · 2^-{kind.mantissa + 1} · sum of |A|·|B| + each operation's rounding"


def of_products(
    spec: Products, links: Sequence[Decomposition], read: Read, numbers: Mapping[str, float], drawn: bool = False
) -> dict[str, Bounded]:
    """Compute sums of products, then each output from them."""
    parts = {t.name: role for letter, ts in (("A", spec.lefts), ("B", spec.rights)) for role, t in roles(letter, ts)}

    def operand(tensor: Tensor) -> Bounded:
        return converted(read(tensor), tensor.dtype, links, parts[tensor.name])

    how, sums = Summing(spec.accumulator, drawn=drawn), dict[str, Bounded]()
    for one in spec.sums:
        a, b = zip(*((operand(a), operand(b)) for a, b in one.products), strict=True)
        sums[one.name] = product(_joined(a, -1), _joined(b, -2), how)
    shape = next(iter(sums.values())).value.shape
    stores = next(((*(o.store for o in x.outputs), x.store) for x in links if isinstance(x, Epilog)), ((),))
    found: dict[str, Bounded] = {}
    for value, out, store in zip(spec.values, spec.outs, stores, strict=True):
        inputs = (sums[t.name] if t.memory.registers else read(t) for t in value.tensors)
        result = broadcast(evaluate(value.tree, (exact(np.zeros(())), *inputs), numbers), shape)
        found[out.name] = cast(converted(result, value.dtype, store, "src"), out.dtype)
    return found


def _joined(parts: tuple[Bounded, ...], axis: int) -> Bounded:
    """Put operands side by side along K: their product is the sum of products."""
    return Bounded(np.concatenate([x.value for x in parts], axis), np.concatenate([x.error for x in parts], axis))


def of_layers(spec: Layers, read: Read, numbers: Mapping[str, float]) -> Bounded:
    """Compute layers one after another.

    Worst cases would multiply from layer to layer beyond all use. Roundings are independent of each other: their
    variances add up, and `error` carries a standard deviation until the end.
    """
    x = read(spec.X)
    for layer in spec.layers:
        weights = read(layer.weights)
        for number in range(layer.count):
            stacked = len(layer.weights.shape) == 3
            w = weights.value[number] if stacked else weights.value
            x = _layer(spec, layer, x, w, [_at(read(t), number, stacked) for t in layer.value.tensors], numbers)
    x = cast(x, spec.Y.dtype, spec.X.dtype)
    return Bounded(x.value, SIGMAS * x.error)


def _at(x: Bounded, number: int, stacked: bool) -> Bounded:
    if not stacked or x.value.ndim < 3:
        return x
    row = number if x.value.shape[0] > 1 else 0
    return Bounded(x.value[row], x.error[row])


def _layer(
    spec: Layers, layer: Layer, x: Bounded, w: Array, tensors: Sequence[Bounded], numbers: Mapping[str, float]
) -> Bounded:
    weights = exact(w)
    total = product(exact(x.value), weights, Summing(spec.accumulator))
    spread = np.sqrt(np.matmul(x.error**2, w**2))
    total = Bounded(total.value, SIGMAS * (total.error + spread))  # what may happen decides which way ops go
    result = broadcast(evaluate(layer.value.tree, (total, *tensors), numbers), total.value.shape)
    return cast(Bounded(result.value, result.error / SIGMAS), spec.X.dtype)

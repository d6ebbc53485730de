"""Arrays for an exact run: small whole numbers of which every right kernel makes the same bits.

Each kind of spec has its own function. A new kind gets one here too: of a softmax, queries of 0 over 2^n keys give
weights of 2^-n, and keys of one 1 a row give scores that are elements of the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import numpy as np

from fireiron.algebra.dtypes import DType
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.elements import pack
from fireiron.algebra.exact import product, whole_numbers
from fireiron.front.bounded import Array
from fireiron.front.chain import Chain
from fireiron.front.reference import summing
from fireiron.front.simulation import random_arrays
from fireiron.jit.interface import Interface
from fireiron.language.decompositions import Decomposition, Epilog, Load, Prolog
from fireiron.language.pointwise import Value
from fireiron.language.programs import Layers, Products
from fireiron.language.specs import Init, MatMul, Move, Pointwise
from fireiron.language.steps import Program
from fireiron.language.tensor import Tensor

SCALAR = 2  # of scalars that are not given: twice a whole number is one, and has no more bits
FEW = (1, 2, 4)  # of all that epilogs read: what is multiplied by them has no more bits
FEWER = (1, 2)  # of all that prologs read: it multiplies terms, of which many are summed
COEFFICIENTS = 8  # what alpha and beta may multiply results by
SMALL = 3  # of inputs of steps
INPUTS = 16  # a layer's inputs are 0 to 15


def exact_arrays(schedule: Chain, interface: Interface, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
    """Make inputs of an exact run, and outputs as random_arrays does.

    Args:
        schedule: what runs.
        interface: its kernel's.
        sizes: symbols by name.
        seed: of the numbers.
    """
    arrays = random_arrays(interface, sizes, seed)
    rng = np.random.default_rng([seed, 1])
    before = {t.name for link in schedule.links for value in _prologs(link) for t in value.tensors}
    for pointer in interface.pointers:
        kind = find_dtype(pointer.dtype)
        if pointer.role != "output" and not pointer.shares and not kind.packed:
            few = [x for x in (FEWER if pointer.name in before else FEW) if x <= kind.limits[1]]
            arrays[pointer.name][...] = rng.choice(few, arrays[pointer.name].shape).astype(kind.numpy)
    match schedule.program.spec:
        case MatMul() as spec:
            sums, out = summing(schedule, spec).whole, whole_numbers(_narrowest(schedule, spec.C))
            if not (spec.alpha.is_one and spec.beta.is_zero):
                out /= COEFFICIENTS
            _operands(arrays, rng, [(spec.A, spec.B)], sums, out, spec.product)
        case Products() as spec:
            most = max(len(one.products) for one in spec.sums)
            sums, out = whole_numbers(spec.accumulator), min(whole_numbers(t.dtype) for t in spec.outs)
            _operands(arrays, rng, [(a, b) for a, b, _ in spec.pairs], sums / most, out / most)
        case Layers() as spec:
            _layers(arrays, rng, spec)
        case Move(src, _):
            _numbers(arrays, rng, [src])
        case Pointwise(ins=ins):
            _numbers(arrays, rng, ins)
        case Program(inputs=inputs):  # folds of small whole numbers: products and sums stay exact
            _numbers(arrays, rng, inputs, SMALL)
        case Init():
            pass
        case _ as never:
            assert_never(never)
    return arrays


def _prologs(link: Decomposition) -> tuple[Value, ...]:
    """List what a link makes of an operand's elements."""
    if isinstance(link, Prolog):
        return (link.value,)
    return (link.ops,) if isinstance(link, Load) and link.ops is not None else ()


def _narrowest(schedule: Chain, out: Tensor) -> DType:
    """Find the output that holds the fewest whole numbers."""
    stored = [o.tensor.dtype for x in schedule.links if isinstance(x, Epilog) for o in x.outputs if o.rows is None]
    return min([out.dtype, *stored], key=whole_numbers)


def _operands(
    arrays: dict[str, Array],
    rng: np.random.Generator,
    pairs: Sequence[tuple[Tensor, Tensor]],
    sums: float,
    out: float,
    kind: str = "mul",
) -> None:
    """Fill the operands of products: those of one depth fit each other, and each is drawn once."""
    done: set[str] = set()
    for a, b in pairs:
        left, right = (_shape(t, arrays[t.name]) for t in (a, b))
        made = product(left[-1], a.dtype, b.dtype, sums, out, kind=kind)
        for tensor, side, lines, turned in (
            (a, made.left, left[:-1], False),
            (b, made.right, (*right[:-2], right[-1]), True),
        ):
            if tensor.name not in done:
                drawn, _ = side.draw(rng, *lines)
                _put(tensor, arrays[tensor.name], drawn.swapaxes(-1, -2) if turned else drawn)
            done.add(tensor.name)


def _layers(arrays: dict[str, Array], rng: np.random.Generator, spec: Layers) -> None:
    """Let each column of weights subtract two of a layer's inputs: activations stay as small as they are."""
    x = arrays[spec.X.name]
    _put(spec.X, x, rng.integers(0, INPUTS, _shape(spec.X, x)))
    for layer in spec.layers:
        shape = _shape(layer.weights, arrays[layer.weights.name])
        weights = np.zeros(shape, np.int8)
        for matrix in weights.reshape(-1, *shape[-2:]):
            rows, columns = shape[-2:]
            order = np.concatenate([rng.permutation(rows) for _ in range(-(-2 * columns // rows))])
            matrix[order[columns : 2 * columns], np.arange(columns)] = -1
            matrix[order[:columns], np.arange(columns)] = 1
        _put(layer.weights, arrays[layer.weights.name], weights)


def _numbers(
    arrays: dict[str, Array], rng: np.random.Generator, tensors: Sequence[Tensor], largest: int = 1024
) -> None:
    for tensor in tensors:
        shape, most = _shape(tensor, arrays[tensor.name]), int(min(whole_numbers(tensor.dtype), largest))
        _put(tensor, arrays[tensor.name], rng.integers(-most if tensor.dtype.signed else 0, most + 1, shape))


def _shape(tensor: Tensor, array: Array) -> tuple[int, ...]:
    """Give the extents of a tensor's elements, in mathematical order."""
    stored = (*array.shape[:-1], array.shape[-1] * tensor.dtype.pack)
    return tuple(stored[i] for i in np.argsort(tensor.storage))


def _put(tensor: Tensor, array: Array, values: Any) -> None:
    """Store elements given in mathematical order."""
    stored = values.transpose(tensor.storage)
    array[...] = pack(stored, tensor.dtype) if tensor.dtype.packed else stored.astype(tensor.dtype.numpy)

"""Arrays for a run on random numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from fireiron.algebra.elements import strided
from fireiron.jit import bind
from fireiron.jit.arrays import random_ends
from fireiron.jit.expression import evaluate
from fireiron.jit.interface import Interface
from fireiron.language.specs import Task


def random_arrays(
    interface: Interface, sizes: Mapping[str, int], seed: int = 0, given: Collection[str] = ()
) -> dict[str, Any]:
    """Make random inputs, and outputs filled with NaN or an odd number so that unwritten elements show.

    Args:
        interface: the kernel's interface.
        sizes: values of the kernel's symbols.
        seed: of the numbers.
        given: names of arrays that the caller has, which are not made.

    Raises:
        CallError: `unknown-size`, `precondition` for sizes that the kernel does not take.
    """
    from fireiron.algebra.dtypes import dtype

    bind.solve(interface, {}, sizes)
    rng = np.random.default_rng(seed)
    arrays: dict[str, Any] = {}
    for pointer in interface.pointers:
        if pointer.name in given:
            continue
        kind = dtype(pointer.dtype)
        shape, strides = bind.concrete(pointer.shape, sizes), bind.concrete(pointer.strides, sizes)
        last = -1 if 0 in shape else sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        flat = np.empty(last + 1, kind.numpy)
        if pointer.shares:
            flat[...] = random_ends(rng, len(flat), evaluate(pointer.shares, sizes))
        elif pointer.below:
            flat[...] = rng.integers(0, min(evaluate(pointer.below, sizes), int(kind.limits[1]) + 1), flat.shape)
        elif kind.packed:
            flat[...] = rng.integers(0, 256, flat.shape)
        elif pointer.role == "output":
            flat[...] = np.asarray(np.nan if kind.kind == "float" else 85).astype(kind.numpy)
        elif kind.kind == "float":
            flat[...] = rng.standard_normal(flat.shape).astype(kind.numpy)
        else:
            low = -8 if kind.signed else 0
            flat[...] = rng.integers(low, 9, flat.shape).astype(kind.numpy)
        arrays[pointer.name] = strided(flat, shape, strides)
    return arrays


def scaled(program: Task, arrays: dict[str, Any]) -> dict[str, Any]:
    """Scale random weights of layers down, so that activations have the same magnitude in all layers."""
    for layer in program.spec.layers:
        array = arrays[layer.weights.name]
        array[...] = (array.astype(np.float32) * (2 / layer.depth) ** 0.5).astype(array.dtype)
    return arrays

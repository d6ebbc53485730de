"""Input arrays for an exact run: small whole numbers, from which all right kernels compute the same bits.

Operands of one sum of products are drawn together, so that the sum is exact. Inputs of other folds are small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.elements import pack
from fireiron.algebra.exact import product, whole_numbers
from fireiron.algebra.scalar import Constant, Parameter, parts
from fireiron.jit.interface import Interface
from fireiron.language.steps import Program, Ref, Step
from fireiron.language.tensor import Tensor
from fireiron.verify.bounded import Array
from fireiron.verify.level_data import level_arrays
from fireiron.verify.random_data import random_arrays
from fireiron.verify.reference import Meaning, as_seen, sum_type
from fireiron.verify.steps import joined_by
from fireiron.verify.sums import Rounding, Summing

SCALAR = 2  # of scalars that are not given: twice a whole number is one, and has no more bits
FEW = (1, 2, 4)  # of all that epilogs read: what is multiplied by them has no more bits
FEWER = (1, 2)  # of all that prologs read: it multiplies terms, of which many are summed
COEFFICIENTS = 8  # what alpha and beta may multiply results by
SMALL = 3  # of inputs of programs that fold other things than products
LARGE = 1024  # of inputs of programs without a fold
INPUTS = 16  # a layer's inputs are 0 to 15


def exact_arrays(meaning: Meaning, interface: Interface, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
    """Make the inputs of an exact run, and outputs as `random_arrays` does.

    Args:
        meaning: the program that runs.
        interface: the interface of the program's kernel.
        sizes: symbols by name.
        seed: seed of the drawn numbers.
    """
    arrays = random_arrays(interface, sizes, seed)
    rng = np.random.default_rng([seed, 1])
    program, facts = meaning.program, meaning.facts
    sums, before = _sums(program), _scales(program)
    kept = {p.name for p in interface.pointers if p.below}
    for pointer in interface.pointers:
        kind = find_dtype(pointer.dtype)
        if pointer.role != "output" and not (pointer.shares or pointer.below or kind.packed):
            few = [x for x in (FEWER if pointer.name in before else FEW) if x <= kind.limits[1]]
            arrays[pointer.name][...] = rng.choice(few, arrays[pointer.name].shape).astype(kind.numpy)
    if facts.independent:
        _layers(arrays, rng, program)
    elif sums:
        most = max(len(x.together) or 1 for x in (Rounding(), *facts.steps.values()))
        held = min(Summing.of(sum_type(step), facts.steps.get(step.name, Rounding()), False).whole for step, _ in sums)
        out = min(whole_numbers(t.dtype) for t in _stored(program)) / (COEFFICIENTS if _multiplies(program) else 1)
        # The spec's own tensors say how its operands are stored.
        _operands(arrays, rng, [pair for _, pair in sums], held / most, out / most, joined_by(sums[0][0]) or "mul")
    else:  # folds of small whole numbers: products and sums stay exact
        folds = any(step.fold is not None for step in program.steps)
        _numbers(
            arrays,
            rng,
            [t for t in program.inputs if t not in program.outputs and t.name not in kept],
            SMALL if folds else LARGE,
        )
        shapes = {t.name: _shape(t, arrays[t.name]) for t in program.inputs}
        for name, values in level_arrays(program, shapes, rng).items():
            _put(next(t for t in program.inputs if t.name == name), arrays[name], values)
    return arrays


def _sums(program: Program) -> list[tuple[Step, tuple[Tensor, Tensor]]]:
    """List the sums of products, each with its two operands; none at all where a factor is no plain input."""
    found: list[tuple[Step, tuple[Tensor, Tensor]]] = []
    for step in program.steps:
        if joined_by(step) is not None:
            left, right = (_operand(program, ref) for ref in (step.reads[0], step.reads[-1]))
            inner = step.reads[0].index[-1], *step.reads[-1].index[-2:-1]
            if left is None or right is None or inner != (*step.over, *step.over):
                return []
            found.append((step, (left, right)))
    return found


def _operand(program: Program, ref: Ref) -> Tensor | None:
    """Return the input behind a factor: the factor itself, or the first operand of the prolog that computes it."""
    made = next((step for step in program.steps if any(out.name == ref.name for out in step.outs)), None)
    if made is None:
        return ref.tensor
    inputs = {t.name for t in program.inputs}
    plain = made.fold is None and made.kept == made.reads[0].dims and all(r.name in inputs for r in made.reads)
    return made.reads[0].tensor if plain else None


def _scales(program: Program) -> set[str]:
    """Name the arrays that prologs read beside the operands."""
    factors = {ref.name for step in program.steps if joined_by(step) is not None for ref in step.reads}
    prologs = [step for step in program.steps if step.fold is None and step.outs[0].name in factors]
    return {ref.name for step in prologs for ref in step.reads[1:]}


def _stored(program: Program) -> list[Tensor]:
    """List the outputs that hold single results, not folds of rows."""
    rows = {s.outs[0].name for s in program.steps if s.fold is not None and joined_by(s) is None}
    return [t for t in program.outputs if t.name not in rows]


def _multiplies(program: Program) -> bool:
    """Say whether results may grow: by a scalar of the call, by a constant above 1, or by an output's old value."""
    trees = [part for step in program.steps for part in parts(step.body)]
    numbers = any(isinstance(x, Parameter) or (isinstance(x, Constant) and abs(x.value) > 1) for x in trees)
    return numbers or any(t in program.inputs for t in program.outputs)


def _operands(
    arrays: dict[str, Array],
    rng: np.random.Generator,
    pairs: Sequence[tuple[Tensor, Tensor]],
    sums: float,
    out: float,
    kind: str = "mul",
) -> None:
    """Fill the operands of products; operands of one sum fit each other, and each array is drawn once."""
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


def _layers(arrays: dict[str, Array], rng: np.random.Generator, program: Program) -> None:
    """Fill weights so that each output of a layer is the difference of two inputs: activations stay small."""
    x = program.inputs[0]
    _put(x, arrays[x.name], rng.integers(0, INPUTS, _shape(x, arrays[x.name])))
    for tensor in dict.fromkeys(step.reads[1].tensor for step in program.steps if joined_by(step) is not None):
        shape = _shape(tensor, arrays[tensor.name])
        weights = np.zeros(shape, np.int8)
        for matrix in weights.reshape(-1, *shape[-2:]):
            rows, columns = shape[-2:]
            order = np.concatenate([rng.permutation(rows) for _ in range(-(-2 * columns // rows))])
            matrix[order[columns : 2 * columns], np.arange(columns)] = -1
            matrix[order[:columns], np.arange(columns)] = 1
        _put(tensor, arrays[tensor.name], weights)


def _numbers(arrays: dict[str, Array], rng: np.random.Generator, tensors: Sequence[Tensor], largest: int) -> None:
    for tensor in tensors:
        shape, most = _shape(tensor, arrays[tensor.name]), int(min(whole_numbers(tensor.dtype), largest))
        _put(tensor, arrays[tensor.name], rng.integers(-most if tensor.dtype.signed else 0, most + 1, shape))


def _shape(tensor: Tensor, array: Array) -> tuple[int, ...]:
    """Return a tensor's extents, in mathematical order."""
    shape = as_seen(tensor, array).shape
    stored = (*shape[:-1], shape[-1] * tensor.dtype.pack)
    return tuple(stored[i] for i in np.argsort(tensor.storage))


def _put(tensor: Tensor, array: Array, values: Any) -> None:
    """Store elements given in mathematical order."""
    stored, array = values.transpose(tensor.storage), as_seen(tensor, array)
    array[...] = pack(stored, tensor.dtype) if tensor.dtype.packed else stored.astype(tensor.dtype.numpy)

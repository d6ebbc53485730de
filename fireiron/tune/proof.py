"""Exact runs of a tuner's candidates: operands of whole numbers, and the outputs that every right kernel computes.

The result of a plain product is known without computing it. For products with ops, scalars, prologs or groups, the
reference computes the outputs; of large outputs, only some blocks of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import attrs
import numpy as np

from fireiron.algebra.expr import as_int
from fireiron.algebra.scalar import Arg, Cast, Scalar
from fireiron.jit.interface import Interface
from fireiron.language.folds import Dim
from fireiron.language.specs import MatMul
from fireiron.language.steps import Ragged
from fireiron.language.tensor import Tensor
from fireiron.tune.verify import exact_product
from fireiron.verify.bounded import Array, Bounded
from fireiron.verify.comparison import compare
from fireiron.verify.exact_data import SCALAR, exact_arrays
from fireiron.verify.reference import Meaning, mathematical, outputs_of
from fireiron.verify.steps import Part, parted_by
from fireiron.verify.sums import Rounding, Summing

MOST_OPERATIONS = 1e11  # of products on the host: seconds
MOST_ELEMENTS = 1 << 22  # that are compared on the host
BLOCK = 64  # rows that are computed at a time where not all are
SEED = 11

Place: TypeAlias = "tuple[slice, ...]"


@attrs.frozen(eq=False)
class Wanted:
    """Hold the expected values of a part of an output.

    Args:
        tensor: the output.
        place: slices of the part, in mathematical order.
        values: the expected values, with their errors.
    """

    tensor: Tensor
    place: Place
    values: Bounded


@attrs.frozen(eq=False)
class Proof:
    """Hold the inputs and the expected outputs of an exact run.

    Args:
        arrays: the arrays that a kernel reads, by name; those of updated outputs hold the contents before the run.
        whole: by name, outputs of which every bit is known, as the arrays store them.
        parts: for other outputs, the parts whose values are known.
    """

    arrays: Mapping[str, Array]
    whole: Mapping[str, Array]
    parts: tuple[Wanted, ...]

    def wrong(self, written: Mapping[str, Array]) -> str:
        """Describe the first wrong part of outputs; "" where all known parts are right.

        Args:
            written: the outputs of `parts`, by name.
        """
        for part in self.parts:
            tensor = part.tensor
            got = mathematical(tensor, written[tensor.name])[part.place]
            found = compare(tensor.name, got, part.values, tensor.dtype)
            if not found.passed:
                return f"a run on whole numbers is wrong in {_in_words(part)}: {found}"
        return ""


def is_plain(meaning: Meaning) -> bool:
    """Say whether kernels compute a product of their inputs alone: without scalars, prologs, ops or groups."""
    program = meaning.program
    inputs = {t.name for t in program.inputs}
    product, *after = program.steps
    alone = [product.factors is not None and {ref.name for ref in product.reads} == inputs, len(program.inputs) == 2]
    trees = [*(product.factors or ()), *(step.body for step in after)]
    return all(alone) and len(after) <= 1 and all(_converts(tree) for tree in trees)


def _converts(tree: Scalar) -> bool:
    while isinstance(tree, Cast):
        tree = tree.x
    return isinstance(tree, Arg)


def proof(meaning: Meaning, interface: Interface, spec: MatMul) -> Proof:
    """Make an exact run for the kernels of one meaning.

    Args:
        meaning: the program, and how its sums are rounded.
        interface: the interface of one of the kernels.
        spec: the product.
    """
    if is_plain(meaning) and (made := exact_product(spec, _held(meaning), SEED)) is not None:
        return Proof({n: x for n, x in made.items() if n != spec.C.name}, {spec.C.name: made[spec.C.name]}, ())
    arrays = exact_arrays(meaning, interface, {}, SEED)
    numbers = {p.name: SCALAR if p.default is None else p.default for p in interface.numbers}
    wanted: list[Wanted] = []
    for part in _parts(meaning):
        found = outputs_of(meaning, arrays, numbers, drawn=True, part=part)
        for tensor in meaning.program.outputs:
            (index,) = {out.index for step in meaning.program.steps for out in step.outs if out.name == tensor.name}
            place = (slice(None),) * len(index) if part is None else part.place(index)
            wanted.append(Wanted(tensor, place, found[tensor.name]))
    read = {p.name for p in interface.pointers if p.role != "output"}
    return Proof({name: array for name, array in arrays.items() if name in read}, {}, tuple(wanted))


def _held(meaning: Meaning) -> float:
    """Return the number up to which whole sums of products are exact."""
    found: list[float] = []
    for step in meaning.program.steps:
        if step.is_product and step.fold is not None:
            rounding = meaning.facts.steps.get(step.name, Rounding())
            found.append(Summing.of(step.fold.dtypes[0], rounding, False).whole)
    return min(found)


def _parts(meaning: Meaning) -> list[Part | None]:
    """Choose parts of the outputs: all, or blocks of rows that the host computes within seconds, spread at random."""
    program = meaning.program
    dims = parted_by(program)
    if not dims:
        return [None]
    rows = max(dims, key=_extent)
    groups = {d.of for step in program.steps for d in step.dims if isinstance(d, Ragged)}
    points = [[d for d in step.dims if d not in groups] for step in program.steps if step.is_product]
    operations = 2.0 * sum(math.prod(map(_extent, dims)) for dims in points)
    elements = sum(math.prod(int(n) for n in t.shape) for t in program.outputs)  # pyright: ignore[reportArgumentType]
    share = min(1.0, MOST_OPERATIONS / max(1.0, operations), MOST_ELEMENTS / max(1, elements))
    extent = _extent(rows)
    count = int(share * extent / BLOCK)
    if share == 1:
        return [None]
    blocks = -(-extent // BLOCK)
    rng = np.random.default_rng(SEED)
    some = {0, blocks - 1, *rng.permutation(blocks)[: max(0, count - 2)].tolist()}
    return [Part(rows, range(i * BLOCK, min((i + 1) * BLOCK, extent))) for i in sorted(some)]


def _extent(dim: Dim) -> int:
    found = None if dim.extent is None else as_int(dim.extent)
    assert found is not None, f"{dim.name} is a symbol"
    return found


def _in_words(part: Wanted) -> str:
    cut = [at for at in part.place if at != slice(None)]
    return f"{part.tensor.name}" if not cut else f"rows {cut[0].start} to {cut[0].stop - 1} of {part.tensor.name}"

"""Specs of several MatMuls in one kernel: `Products` of one shape side by side, and `Layers` one after another."""

from __future__ import annotations

import attrs

from fireiron.algebra.dtypes import DType, b1, default_accumulator
from fireiron.algebra.expr import Index
from fireiron.base.errors import SpecError
from fireiron.language.levels import FR
from fireiron.language.pointwise import Value
from fireiron.language.steps import Stated
from fireiron.language.tensor import Tensor

BATCH = "batch"


@attrs.frozen
class Sum:
    """Describe one accumulator, the sum of products A @ B; the products' extents of K may differ."""

    name: str
    products: tuple[tuple[Tensor, Tensor], ...]


@attrs.frozen
class Products(Stated):
    """Compute outputs element by element from sums of products. All outputs and sums have the same shape.

    Args:
        sums: the accumulators.
        values: for each output the expression of its elements, which reads accumulators (tensors in registers, by name)
            and other tensors.
        outs: the outputs.
        acc: the accumulators' element type, None for the default of the first product's.
    """

    sums: tuple[Sum, ...]
    values: tuple[Value, ...]
    outs: tuple[Tensor, ...]
    acc: DType | None = None

    @property
    def accumulator(self) -> DType:
        """Return the accumulators' element type."""
        return self.acc or default_accumulator(self.sums[0].products[0][0].dtype)

    @property
    def pairs(self) -> tuple[tuple[Tensor, Tensor, str], ...]:
        """List all products as triples of A, B and the accumulator."""
        return tuple((a, b, one.name) for one in self.sums for a, b in one.products)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """List the tensors that are read, in the order in which a call takes them."""
        return tuple(dict.fromkeys(t for a, b, _ in self.pairs for t in (a, b)))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """List the tensors that are written."""
        return self.outs

    @property
    def lefts(self) -> tuple[Tensor, ...]:
        """List the first operands, each once."""
        return tuple(dict.fromkeys(a for a, _, _ in self.pairs))

    @property
    def rights(self) -> tuple[Tensor, ...]:
        """List the second operands, each once."""
        return tuple(dict.fromkeys(b for _, b, _ in self.pairs))

    @property
    def held(self) -> tuple[Tensor, ...]:
        """List the accumulators as tensors."""
        return tuple(accumulator_of(one.name, self.outs[0], self.accumulator) for one in self.sums)

    @property
    def sizes(self) -> tuple[tuple[str, Index], ...]:
        """Name the extents that all products share."""
        *batch, rows, cols = self.outs[0].shape
        return (*((BATCH, n) for n in batch), ("M", rows), ("N", cols))

    @property
    def phases(self) -> tuple[tuple[tuple[Tensor, Tensor, str], ...], ...]:
        """Group the products that share an operand: one loop over K loads it for all of them."""
        found: list[list[tuple[Tensor, Tensor, str]]] = []
        for pair in self.pairs:
            mine = [group for group in found if any({*pair[:2]} & {*other[:2]} for other in group)]
            merged = [p for group in mine for p in group] + [pair]
            place = found.index(mine[0]) if mine else len(found)
            found = [group for group in found if group not in mine]
            found.insert(place, merged)
        return tuple(tuple(group) for group in found)


@attrs.frozen
class Layer:
    """Describe one layer, or a stack of equal ones that follow each other.

    Args:
        weights: K x N, or a batch of them: one for each layer of the stack.
        value: the layer's result, an expression of its accumulator and of other tensors; a tensor with a batch has one
            entry for each layer of the stack.
    """

    weights: Tensor
    value: Value

    @property
    def count(self) -> int:
        """Count the layers."""
        return _known(self.weights.shape[0]) if len(self.weights.shape) == 3 else 1

    @property
    def depth(self) -> int:
        """Return the number of columns of the layer's input (K)."""
        return _known(self.weights.shape[-2])

    @property
    def width(self) -> int:
        """Return the number of columns of the layer's result (N)."""
        return _known(self.weights.shape[-1])


def _known(extent: Index) -> int:
    if not isinstance(extent, int):
        raise SpecError(
            "symbolic-width", f"a layer's width {extent} is not known", fix="give layers numbers; rows may be symbols"
        )
    return extent


@attrs.frozen
class Layers(Stated):
    """Compute Y from X by layers one after another: the result of each layer is A of the next.

    Args:
        X, Y: the first layer's input and the last layer's output; each row is a sample.
        layers: the layers, in execution order.
        acc: the accumulators' element type, None for the default of X's.
    """

    X: Tensor
    layers: tuple[Layer, ...]
    Y: Tensor
    acc: DType | None = None

    @property
    def accumulator(self) -> DType:
        """Return the accumulators' element type."""
        return self.acc or default_accumulator(self.X.dtype)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """List the tensors that are read, in the order in which a call takes them."""
        return (self.X, *(layer.weights for layer in self.layers))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """List the tensors that are written."""
        return (self.Y,)


def accumulator_of(name: str, like: Tensor, dtype: DType) -> Tensor:
    """Describe an accumulator of an output: a tensor that a block's registers hold."""
    return attrs.evolve(like, name=name, dtype=dtype, memory=FR)


def different_names(*tensors: Tensor) -> None:
    """Refuse operands of one name.

    Raises:
        SpecError: `same-name`.
    """
    for i, tensor in enumerate(tensors):
        if any(tensor.name == other.name for other in tensors[:i]):
            raise SpecError(
                "same-name", f"two operands are named {tensor.name}", fix="name each differently: Matrix(..., name='X')"
            )


def broadcasts(tensor: Tensor, out: Tensor) -> None:
    """Refuse a tensor that does not repeat over another.

    Raises:
        SpecError: `shape-mismatch`.
    """
    tail = out.shape[len(out.shape) - len(tensor.shape) :]
    if len(tensor.shape) > len(out.shape) or any(x not in (1, y) for x, y in zip(tensor.shape, tail, strict=True)):
        raise SpecError(
            "shape-mismatch",
            f"{tensor} does not broadcast over {out}",
            fix="extents must be equal, or 1 where a value repeats",
        )


def check_products(spec: Products) -> None:
    """Refuse products and outputs whose shapes or names do not fit each other.

    Raises:
        SpecError: `shape-mismatch`, `same-name`, `unknown-product`.
    """
    first, *others = spec.outs
    for out in others:
        if out.shape != first.shape:
            raise SpecError(
                "shape-mismatch", f"outputs differ: {first} and {out}", fix="give all outputs the same shape"
            )
    own = {tensor.name for tensor in spec.held}
    extra = {t.name: t for value in spec.values for t in value.tensors if not t.memory.registers}
    different_names(*spec.lefts, *(b for b in spec.rights if b not in spec.lefts), *spec.outs, *spec.held)
    for a, b, _ in spec.pairs:
        _check_pair(a, b, first)
        if b1 in (a.dtype, b.dtype):
            raise SpecError(
                "unknown-product", "products of bits have no sum with others", fix="use MatMul(..., product='xor')"
            )
    for tensor in extra.values():
        broadcasts(tensor, first)
        if tensor.name in own:
            raise SpecError(
                "same-name", f"a tensor and an accumulator are named {tensor.name}", fix="rename one of them"
            )


def check_layers(spec: Layers) -> None:
    """Refuse layers that do not fit each other.

    Raises:
        SpecError: `shape-mismatch`, `same-name`, `symbolic-width`, `layer-rows`.
    """
    different_names(spec.X, *(layer.weights for layer in spec.layers), spec.Y)
    name, width = spec.X.name, spec.X.shape[-1]
    if len(spec.X.shape) != 2 or len(spec.Y.shape) != 2:
        raise SpecError("shape-mismatch", f"{spec.X} or {spec.Y} is no matrix", fix="give layers matrices, rows first")
    pairs = [(f"rows of {name} and {spec.Y.name}", spec.X.shape[0], spec.Y.shape[0])]
    for layer in spec.layers:
        pairs.append((f"width of {name} and rows of {layer.weights.name}", width, layer.depth))
        if layer.count > 1:
            pairs.append((f"rows and columns of the stack {layer.weights.name}", layer.depth, layer.width))
        name, width = layer.weights.name, layer.width
    pairs.append((f"columns of {name} and {spec.Y.name}", width, spec.Y.shape[-1]))
    for what, x, y in pairs:
        if x != y:
            raise SpecError("shape-mismatch", f"{what} differ: {x} and {y}", fix="give both the same extent")
    for layer in spec.layers:
        stack = layer.weights.shape[:-2]
        shape, strides = (*stack, spec.Y.shape[0], layer.width), (*(0 for _ in stack), *spec.Y.strides)
        like = attrs.evolve(spec.Y, shape=shape, strides=strides)
        for tensor in layer.value.tensors:
            if len(tensor.shape) > 1 and tensor.shape[-2] != 1:
                raise SpecError(
                    "layer-rows",
                    f"{tensor} has a value for each row, and a layer's op reads only tensors of one row",
                    fix="give ops tensors of one row: Matrix(1, N), with batch= for a stack",
                )
            broadcasts(tensor, like)


def _check_pair(a: Tensor, b: Tensor, c: Tensor) -> None:
    if not len(a.shape) == len(b.shape) == len(c.shape):
        raise SpecError("shape-mismatch", f"{a}, {b} and {c} differ in rank", fix="give all three a batch, or none")
    pairs = ((f"rows of {a.name} and {c.name}", a.shape[-2], c.shape[-2]),)
    pairs += ((f"columns of {b.name} and {c.name}", b.shape[-1], c.shape[-1]),)
    pairs += ((f"columns of {a.name} and rows of {b.name}", a.shape[-1], b.shape[-2]),)
    if len(a.shape) == 3:
        pairs += ((f"batches of {a.name} and {b.name}", a.shape[0], b.shape[0]),)
        pairs += ((f"batches of {a.name} and {c.name}", a.shape[0], c.shape[0]),)
    for what, x, y in pairs:
        if x != y:
            raise SpecError(
                "shape-mismatch", f"{what} differ: {x} and {y} in {a}, {b}, {c}", fix="give both the same extent"
            )

"""Specs: what is to be computed, never how."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from fireiron.algebra.dtypes import DType, b1, default_accumulator
from fireiron.algebra.expr import Index
from fireiron.algebra.scalar import Scalar
from fireiron.base.errors import SpecError
from fireiron.language.atom import Product
from fireiron.language.levels import FR
from fireiron.language.pointwise import Value
from fireiron.language.tensor import Tensor

BATCH = "batch"


@attrs.frozen
class Coefficient:
    """Scale by a number that is baked in, or by a kernel parameter of this name given at the call."""

    name: str = ""
    value: float = 1.0

    @property
    def is_one(self) -> bool:
        """Tell whether scaling changes nothing."""
        return not self.name and self.value == 1.0

    @property
    def is_zero(self) -> bool:
        """Tell whether what it scales need not be read."""
        return not self.name and self.value == 0.0


@attrs.frozen
class MatMul:
    """Compute C = alpha * A @ B + beta * C, accumulating in `acc` (None: the default of A's element type).

    `swapped`: A and B are the caller's second and first operand, transposed, and C the transpose of the caller's.
    Of bits, `product` says what is summed over K instead of products: those of `a ^ b` or of `a & b`.
    """

    A: Tensor
    B: Tensor
    C: Tensor
    alpha: Coefficient = Coefficient()
    beta: Coefficient = Coefficient(value=0.0)
    acc: DType | None = None
    product: Product = "mul"
    swapped: bool = False

    @property
    def accumulator(self) -> DType:
        """Give the accumulator's element type."""
        return self.acc or default_accumulator(self.A.dtype)

    @property
    def sizes(self) -> tuple[tuple[str, Index], ...]:
        """Name the problem's extents."""
        batch = ((BATCH, self.C.shape[0]),) if len(self.C.shape) == 3 else ()
        return (*batch, ("M", self.C.shape[-2]), ("N", self.C.shape[-1]), ("K", self.A.shape[-1]))


@attrs.frozen
class Move:
    """Copy `src` to `dst`, converting the element type where they differ."""

    src: Tensor
    dst: Tensor


@attrs.frozen
class Init:
    """Set every element of `dst`."""

    dst: Tensor
    value: float = 0.0


@attrs.frozen
class Pointwise:
    """Compute `out` element by element: `Arg(i)` of `op` reads `ins[i]`, which may broadcast."""

    op: Scalar
    ins: tuple[Tensor, ...]
    out: Tensor


@attrs.frozen
class Sum:
    """Name one accumulator, and the products A @ B that it adds; their depths (K) may differ."""

    name: str
    products: tuple[tuple[Tensor, Tensor], ...]


@attrs.frozen
class Products:
    """Compute outputs, element by element, from sums of products that all have their shape.

    Args:
        sums: one accumulator each.
        values: what each output holds: an expression of the accumulators (tensors in registers, by name) and of others.
        outs: the outputs.
        acc: the accumulators' element type, None for the default of the first product's.
    """

    sums: tuple[Sum, ...]
    values: tuple[Value, ...]
    outs: tuple[Tensor, ...]
    acc: DType | None = None

    @property
    def accumulator(self) -> DType:
        """Give the accumulators' element type."""
        return self.acc or default_accumulator(self.sums[0].products[0][0].dtype)

    @property
    def pairs(self) -> tuple[tuple[Tensor, Tensor, str], ...]:
        """List all products as A, B and the accumulator that adds them."""
        return tuple((a, b, one.name) for one in self.sums for a, b in one.products)

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
        value: what the layer gives, an expression of its accumulator and of other tensors, whose batch is the number
            of the layer.
    """

    weights: Tensor
    value: Value

    @property
    def count(self) -> int:
        """Count the layers."""
        return _known(self.weights.shape[0]) if len(self.weights.shape) == 3 else 1

    @property
    def depth(self) -> int:
        """Give the width of what the layer reads (K)."""
        return _known(self.weights.shape[-2])

    @property
    def width(self) -> int:
        """Give the width of what the layer gives (N)."""
        return _known(self.weights.shape[-1])


def _known(extent: Index) -> int:
    if not isinstance(extent, int):
        raise SpecError(
            "symbolic-width", f"a layer's width {extent} is not known", fix="give layers numbers; rows may be symbols"
        )
    return extent


@attrs.frozen
class Layers:
    """Compute Y from X by layers one after another: each one's result is the next one's A.

    Args:
        X, Y: the first layer's input and the last one's output, a row each sample.
        layers: in execution order.
        acc: the accumulators' element type, None for the default of X's.
    """

    X: Tensor
    layers: tuple[Layer, ...]
    Y: Tensor
    acc: DType | None = None

    @property
    def accumulator(self) -> DType:
        """Give the accumulators' element type."""
        return self.acc or default_accumulator(self.X.dtype)


def accumulator_of(name: str, like: Tensor, dtype: DType) -> Tensor:
    """Describe an accumulator of an output: a tensor that a block's registers hold."""
    return attrs.evolve(like, name=name, dtype=dtype, memory=FR)


Spec: TypeAlias = MatMul | Move | Init | Pointwise | Products | Layers


@attrs.frozen
class Step:
    """Name one step of a program."""

    name: str
    spec: Spec


@attrs.frozen
class Program:
    """Run specs one after another in one kernel; a MatMul is the one-step case.

    Args:
        steps: in execution order.
        temps: tensors that live between steps.
        arch: the architecture whose rules links must obey as they are written, None to leave that to `check(arch)`.
    """

    steps: tuple[Step, ...]
    temps: tuple[Tensor, ...] = ()
    arch: str | None = None


def one_step(spec: Spec, arch: str | None = None) -> Program:
    """Wrap a spec as a program of one step.

    Raises:
        SpecError: `shape-mismatch` where the operands' extents disagree; `unknown-product` where the element types have
            no such product; `packed-result` where elements that share a byte would be written.
    """
    _whole_bytes(spec)
    match spec:
        case MatMul():
            _check_matmul(spec)
            _check_product(spec)
        case Move():
            _same_shape(spec.src, spec.dst)
        case Init():
            pass
        case Pointwise():
            for tensor in spec.ins:
                _broadcasts(tensor, spec.out)
        case Products():
            _check_products(spec)
        case Layers():
            _check_layers(spec)
    return Program((Step(type(spec).__name__.lower(), spec),), arch=arch)


def _check_matmul(spec: MatMul) -> None:
    a, b, c = spec.A, spec.B, spec.C
    if not len(a.shape) == len(b.shape) == len(c.shape):
        raise SpecError("shape-mismatch", f"{a}, {b} and {c} differ in rank", fix="give all three a batch, or none")
    _different_names(a, b, c)
    pairs = (("rows of A and C", a.shape[-2], c.shape[-2]), ("columns of B and C", b.shape[-1], c.shape[-1]))
    pairs += (("columns of A and rows of B", a.shape[-1], b.shape[-2]),)
    if len(a.shape) == 3:
        pairs += (("batches of A and B", a.shape[0], b.shape[0]), ("batches of A and C", a.shape[0], c.shape[0]))
    for what, x, y in pairs:
        if x != y:
            raise SpecError(
                "shape-mismatch", f"{what} differ: {x} and {y} in {a}, {b}, {c}", fix="give both the same extent"
            )


def _check_products(spec: Products) -> None:
    first, *others = spec.outs
    for out in others:
        if out.shape != first.shape:
            raise SpecError(
                "shape-mismatch", f"outputs differ: {first} and {out}", fix="give all outputs the same shape"
            )
    own = {tensor.name for tensor in spec.held}
    extra = {t.name: t for value in spec.values for t in value.tensors if not t.memory.registers}
    _different_names(*spec.lefts, *(b for b in spec.rights if b not in spec.lefts), *spec.outs, *spec.held)
    for a, b, _ in spec.pairs:
        _check_pair(a, b, first)
        if b1 in (a.dtype, b.dtype):
            raise SpecError(
                "unknown-product", "products of bits have no sum with others", fix="use MatMul(..., product='xor')"
            )
    for tensor in extra.values():
        _broadcasts(tensor, first)
        if tensor.name in own:
            raise SpecError(
                "same-name", f"a tensor and an accumulator are named {tensor.name}", fix="rename one of them"
            )


def _check_layers(spec: Layers) -> None:
    _different_names(spec.X, *(layer.weights for layer in spec.layers), spec.Y)
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
        like = attrs.evolve(spec.Y, shape=(*layer.weights.shape[:-2], spec.Y.shape[0], layer.width))
        for tensor in layer.value.tensors:
            if len(tensor.shape) > 1 and tensor.shape[-2] != 1:
                raise SpecError(
                    "layer-rows",
                    f"{tensor} differs from row to row, and a layer's op sees columns alone",
                    fix="give ops tensors of one row: Matrix(1, N), with batch= for a stack",
                )
            _broadcasts(tensor, like)


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


def _check_product(spec: MatMul) -> None:
    known = ("xor", "and") if spec.A.dtype == b1 else ("mul",)
    if spec.product not in known:
        raise SpecError(
            "unknown-product",
            f"no product {spec.product!r} of {spec.A.dtype}",
            fix=f"use product={' or '.join(map(repr, known))}",
        )


def _whole_bytes(spec: Spec) -> None:
    """Refuse to write elements that share a byte: threads own single elements."""
    written = next((t for t in written_by(spec) if t.dtype.packed), None)
    if written is not None:
        raise SpecError(
            "packed-result",
            f"{written} is written, and {written.dtype.pack} elements of {written.dtype} share a byte",
            fix=f"write i8 or i32, and let the reader of {written.name} pack it",
        )


def _different_names(*tensors: Tensor) -> None:
    for i, tensor in enumerate(tensors):
        if any(tensor.name == other.name for other in tensors[:i]):
            raise SpecError(
                "same-name", f"two operands are named {tensor.name}", fix="name each differently: Matrix(..., name='X')"
            )


def _same_shape(src: Tensor, dst: Tensor) -> None:
    _different_names(src, dst)
    if src.shape != dst.shape:
        raise SpecError(
            "shape-mismatch", f"a Move keeps the shape, but {src} and {dst} differ", fix="give both the same shape"
        )


def _broadcasts(tensor: Tensor, out: Tensor) -> None:
    tail = out.shape[len(out.shape) - len(tensor.shape) :]
    if len(tensor.shape) > len(out.shape) or any(x not in (1, y) for x, y in zip(tensor.shape, tail, strict=True)):
        raise SpecError(
            "shape-mismatch",
            f"{tensor} does not broadcast over {out}",
            fix="extents must be equal, or 1 where a value repeats",
        )


def tensors_of(spec: Spec) -> tuple[Tensor, ...]:
    """List a spec's tensors in the order in which a call takes them."""
    match spec:
        case MatMul(A, B, C, swapped=swapped):
            return (B, A, C) if swapped else (A, B, C)
        case Move(src, dst):
            return src, dst
        case Init(dst):
            return (dst,)
        case Pointwise(_, ins, out):
            return *ins, out
        case Products(outs=outs):
            operands = dict.fromkeys(t for a, b, _ in spec.pairs for t in (a, b))
            return *operands, *outs
        case Layers(x, layers, y):
            return x, *(layer.weights for layer in layers), y


def written_by(spec: Spec) -> tuple[Tensor, ...]:
    """List a spec's outputs."""
    match spec:
        case MatMul(C=out) | Move(dst=out) | Init(dst=out) | Pointwise(out=out):
            return (out,)
        case Products(outs=outs):
            return outs
        case Layers(Y=out):
            return (out,)


def products_of(spec: Spec) -> tuple[tuple[Index, ...], ...]:
    """List the extents of each product that a spec computes: batch, M, N, K."""
    match spec:
        case MatMul():
            return (tuple(size for _, size in spec.sizes),)
        case Products():
            return tuple((*spec.outs[0].shape, a.shape[-1]) for a, _, _ in spec.pairs)
        case Layers(x, layers):
            return tuple((x.shape[0], layer.width, layer.depth) for layer in layers for _ in range(layer.count))
        case Move() | Init() | Pointwise():
            return ()


def dims_of(spec: Spec, role: str) -> tuple[str, ...]:
    """Name the dimensions of one operand (`A` of a MatMul: M, K)."""
    match spec:
        case MatMul():
            names = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}[role]
            return (BATCH, *names) if len(spec.C.shape) == 3 else names
        case Products():
            names = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}[role[0]]
            return (BATCH, *names) if len(spec.outs[0].shape) == 3 else names
        case Layers():
            return {"A": ("M", "K"), "C": ("M", "N")}[role]
        case Move():
            return _dims(spec.dst)
        case Init():
            return _dims(spec.dst)
        case Pointwise():
            return _dims(spec.out)


def _dims(tensor: Tensor) -> tuple[str, ...]:
    return (BATCH, "M", "N")[3 - len(tensor.shape) :] if len(tensor.shape) > 1 else ("N",)

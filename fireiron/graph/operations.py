"""The table of a graph's operations: one record each, with its kind, its result's shape and its definition in NumPy.

A new operation is added to this table only. Pointwise operations broadcast as in NumPy. The result of a view is memory
of its input. Convolutions and pooling are in `fireiron.graph.windows`. Composites are expanded into other operations
(`fireiron.graph.composites`).
"""
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# Arrays of NumPy and traced ones go through these functions alike.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, Literal, TypeAlias

import attrs

from fireiron.algebra.dtypes import DType, default_result, i32, u8
from fireiron.algebra.unary import FUNCTIONS
from fireiron.base.errors import SpecError

Shape: TypeAlias = tuple[int, ...]
Attributes: TypeAlias = Mapping[str, Any]
OpKind: TypeAlias = Literal[
    "source",
    "pointwise",
    "view",
    "fold",
    "scan",
    "product",
    "windows",
    "gather",
    "scatter",
    "copy",
    "composite",
    "foreign",
]


@attrs.frozen
class Operation:
    """Describe an operation.

    Args:
        name: the name in nodes.
        kind: class of operations that passes and the partition treat alike: pointwise, fold, view, ...
        shape: function from the inputs' shapes and the attributes to the result's shape.
        numpy: function from arrays and attributes, by name, to the result.
        dtype: function from the inputs' element types to the result's; the widest of these where None.
        least: least number of inputs.
        most: largest number of inputs.
    """

    name: str
    kind: OpKind
    shape: Callable[[Sequence[Shape], Attributes], Shape]
    numpy: Callable[..., Any] = attrs.field(eq=False, repr=False)
    dtype: Callable[[Sequence[DType], Attributes], DType] | None = attrs.field(default=None, eq=False, repr=False)
    least: int = 1
    most: int = 1


def misfit(message: str, fix: str) -> SpecError:
    """Make the error of inputs that do not fit an operation."""
    return SpecError("graph-shape", message, fix=fix)


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Return the shape to which shapes broadcast.

    Raises:
        SpecError: `graph-shape`.

    Example:
        >>> broadcast([(2, 1, 4), (3, 1), ()])
        (2, 3, 4)
    """
    rank = max((len(s) for s in shapes), default=0)
    found: list[int] = []
    for axis in range(rank):
        extents = {s[axis - rank + len(s)] for s in shapes if axis - rank + len(s) >= 0} - {1}
        if len(extents) > 1:
            raise misfit(
                f"{' and '.join(map(str, shapes))} do not broadcast",
                "give extents that are equal, or 1 where values repeat",
            )
        found.append(extents.pop() if extents else 1)
    return tuple(found)


def axes_of(axes: Any, rank: int) -> tuple[int, ...]:
    """Return axes as sorted numbers from 0; all axes for None.

    Raises:
        SpecError: `graph-axis`.

    Example:
        >>> axes_of(-1, 3), axes_of((0, -2), 3), axes_of(None, 2)
        ((2,), (0, 1), (0, 1))
    """
    given = range(rank) if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)
    wrong = [a for a in given if not -rank <= a < rank]
    if wrong:
        raise SpecError(
            "graph-axis", f"axis {wrong[0]} of an array of rank {rank}", fix=f"give axes from {-rank} to {rank - 1}"
        )
    return tuple(sorted({a % rank for a in given}))


def _same(shapes: Sequence[Shape], _: Attributes) -> Shape:
    return shapes[0]


def _widest(shapes: Sequence[Shape], _: Attributes) -> Shape:
    return broadcast(shapes)


def _given(_: Sequence[Shape], attributes: Attributes) -> Shape:
    return tuple(attributes["shape"])


def _shape_of_data(_: Sequence[Shape], attributes: Attributes) -> Shape:
    return attributes["data"].shape


def _reshaped(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    shape = tuple(attributes["shape"])
    if prod(shape) != prod(shapes[0]):
        raise misfit(f"{shapes[0]} cannot be seen as {shape}", "give a shape of as many elements")
    return shape


def _expanded(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    shape = tuple(attributes["shape"])
    if broadcast([shapes[0], shape]) != shape:
        raise misfit(
            f"{shapes[0]} does not broadcast to {shape}", "give extents that are equal, or 1 where values repeat"
        )
    return shape


def _transposed(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    axes = tuple(attributes["axes"])
    if sorted(axes) != list(range(len(shapes[0]))):
        raise misfit(f"{axes} does not order the axes of {shapes[0]}", "name each axis once")
    return tuple(shapes[0][a] for a in axes)


def _sliced(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    return tuple(
        len(range(start, stop, step))
        for start, stop, step in zip(attributes["starts"], attributes["stops"], attributes["steps"], strict=True)
    )


def _folded(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    axes, keep = attributes["axes"], attributes["keepdims"]
    return tuple(1 if i in axes else n for i, n in enumerate(shapes[0]) if keep or i not in axes)


def _multiplied(shapes: Sequence[Shape], _: Attributes) -> Shape:
    a, b = shapes
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise misfit(f"{a} @ {b} is no product of matrices", "give (..., M, K) and (..., K, N)")
    return (*broadcast([a[:-2], b[:-2]]), a[-2], b[-1])


def _gathered(shapes: Sequence[Shape], _: Attributes) -> Shape:
    table, ids = shapes
    return (*ids, *table[1:])


def _joined(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    axis, first = attributes["axis"], shapes[0]
    if any(s[:axis] + s[axis + 1 :] != first[:axis] + first[axis + 1 :] for s in shapes):
        raise misfit(
            f"{' and '.join(map(str, shapes))} do not join along axis {axis}", "give equal extents along the other axes"
        )
    return (*first[:axis], sum(s[axis] for s in shapes), *first[axis + 1 :])


def _condition(_: Sequence[DType], __: Attributes) -> DType:
    return u8


def promoted(kinds: Sequence[DType]) -> DType:
    """Return the element type of an operation on several types: the widest float, else the widest integer."""
    floats = [k for k in kinds if k.kind == "float"]
    widest = max(floats or kinds, key=lambda k: (k.bits, k.exponent))
    if len({k for k in floats if k.bits == widest.bits}) > 1:  # f16 with bf16
        from fireiron.algebra.dtypes import f32

        return f32
    return widest


def _second(kinds: Sequence[DType], _: Attributes) -> DType:
    return promoted(kinds[1:])


def _taken_along(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    (table, ids), axis = shapes, int(attributes["axis"])
    if len(ids) != len(table):
        raise misfit(f"numbers of the shape {ids} for an array of {table}", "give as many axes as the array has")
    return broadcast([(*table[:axis], 1, *table[axis + 1 :]), ids])


def _take_along(table: Any, ids: Any, axis: int) -> Any:
    """Read, at each place, the element whose coordinate along an axis is the number there."""
    shape = _taken_along([table.shape, ids.shape], {"axis": axis})
    table = numpy().broadcast_to(table, (*shape[:axis], table.shape[axis], *shape[axis + 1 :]))
    return numpy().take_along_axis(table, numpy().broadcast_to(ids, shape).astype("int64"), axis)


def _scattered(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Replace as many axes as the attribute `count` says, from `axis` on, by one of `size` lines."""
    (values, ids), axis = shapes, int(attributes["axis"])
    if len(ids) != len(values) or broadcast([values, ids]) != values:
        raise misfit(f"numbers of the shape {ids} for values of {values}", "give a number for each value, or 1 for all")
    return *values[:axis], int(attributes["size"]), *values[axis + int(attributes["count"]) :]


def _scatter_add(values: Any, ids: Any, axis: int, count: int, size: int) -> Any:
    """Add each value to zeros at its place, where the number in `ids` takes the place of some of its coordinates."""
    total = numpy().zeros(
        _scattered([values.shape, ids.shape], {"axis": axis, "count": count, "size": size}), values.dtype
    )
    numpy().add.at(total, _places(values, ids, axis, count), values)
    return total


def _scatter_set(values: Any, ids: Any, axis: int, count: int, size: int) -> Any:
    """Put each value in its place in zeros, where the number in `ids` takes the place of some of its coordinates."""
    shape = _scattered([values.shape, ids.shape], {"axis": axis, "count": count, "size": size})
    return _update(values, ids, numpy().zeros(shape, values.dtype), axis, count)


def _places(values: Any, ids: Any, axis: int, count: int) -> tuple[Any, ...]:
    places = list(numpy().indices(values.shape, sparse=True))
    places[axis : axis + count] = [numpy().broadcast_to(ids, values.shape).astype("int64")]
    return tuple(places)


def _updated(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    _scattered(shapes[:2], {**attributes, "size": shapes[2][int(attributes["axis"])]})
    return shapes[2]


def _update(values: Any, ids: Any, x: Any, axis: int, count: int) -> Any:
    """Put each value in its place in an array, where the number in `ids` takes the place of some of its coordinates."""
    made = x.copy()
    made[_places(values, ids, axis, count)] = values
    return made


def _third(kinds: Sequence[DType], _: Attributes) -> DType:
    return kinds[2]


def _first(kinds: Sequence[DType], _: Attributes) -> DType:
    return kinds[0]


def _said(_: Sequence[DType], attributes: Attributes) -> DType:
    return attributes["dtype"]


def _index(_: Sequence[DType], __: Attributes) -> DType:
    return i32


def _product(kinds: Sequence[DType], _: Attributes) -> DType:
    return default_result(promoted(kinds))


def numpy() -> Any:
    """Import NumPy at its first use."""
    import numpy

    return numpy


def _binary(name: str) -> Callable[[Any, Any], Any]:
    def call(x: Any, y: Any) -> Any:
        with numpy().errstate(all="ignore"):
            return getattr(numpy(), name)(x, y)

    return call


def _unary(name: str) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        with numpy().errstate(all="ignore"):
            return FUNCTIONS[name].numpy(x)

    return call


def _compared(name: str) -> Callable[[Any, Any], Any]:
    return lambda x, y: getattr(numpy(), name)(x, y).astype("uint8")


def _fold(name: str) -> Callable[..., Any]:
    return lambda x, axes, keepdims: getattr(numpy(), name)(x, axis=tuple(axes), keepdims=keepdims)


def _place(name: str) -> Callable[..., Any]:
    def call(x: Any, axes: Sequence[int], keepdims: bool) -> Any:
        return getattr(numpy(), name)(x, axis=int(axes[0]), keepdims=keepdims)

    return call


def _slice(x: Any, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int]) -> Any:
    return x[tuple(slice(*each) for each in zip(starts, stops, steps, strict=True))]


def _iota(shape: Shape, axis: int) -> Any:
    line = numpy().arange(shape[axis], dtype="int32")
    return numpy().broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "maximum": "maximum", "minimum": "minimum",
    "pow": "power", "floor_divide": "floor_divide", "remainder": "remainder",
}  # fmt: skip
PLACES = ("argmax", "argmin")  # folds that give an index along one axis
COMPARISONS = {"lt": "less", "le": "less_equal", "eq": "equal"}
COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum", "eq"})


@cache
def operations() -> Mapping[str, Operation]:
    """Return all operations by name."""
    from fireiron.graph.composites import COMPOSITES
    from fireiron.graph.windows import WINDOWS

    listed = (
        Operation("input", "source", _given, lambda **_: None, _said, 0, 0),
        Operation("constant", "source", lambda _, a: (), lambda value, **_: value, _said, 0, 0),
        Operation("array", "source", _shape_of_data, lambda data: data.array, lambda _, a: a["data"].dtype, 0, 0),
        Operation("iota", "source", _given, _iota, _index, 0, 0),
        *(Operation(name, "pointwise", _same, _unary(name)) for name in FUNCTIONS),
        *(Operation(name, "pointwise", _widest, _binary(called), None, 2, 2) for name, called in BINARY.items()),
        *(Operation(n, "pointwise", _widest, _compared(called), _condition, 2, 2) for n, called in COMPARISONS.items()),
        Operation("select", "pointwise", _widest, lambda c, x, y: numpy().where(c != 0, x, y), _second, 3, 3),
        Operation("cast", "pointwise", _same, lambda x, dtype: x, _said),
        Operation("copy", "pointwise", _same, lambda x: x),
        Operation("reshape", "view", _reshaped, lambda x, shape: x.reshape(shape)),
        Operation("transpose", "view", _transposed, lambda x, axes: x.transpose(axes)),
        Operation("broadcast", "view", _expanded, lambda x, shape: numpy().broadcast_to(x, shape)),
        Operation("slice", "view", _sliced, _slice),
        *(Operation(name, "fold", _folded, _fold(name)) for name in ("sum", "max", "min", "prod")),
        *(Operation(name, "fold", _folded, _place(name), _index) for name in PLACES),
        Operation("cumsum", "scan", _same, lambda x, axis: numpy().cumsum(x, axis)),
        Operation("matmul", "product", _multiplied, lambda a, b: a @ b, _product, 2, 2),
        *WINDOWS,
        Operation("gather", "gather", _gathered, lambda table, ids: table[ids.astype("int64")], _first, 2, 2),
        Operation("take_along_axis", "gather", _taken_along, _take_along, _first, 2, 2),
        Operation("scatter_add", "scatter", _scattered, _scatter_add, _first, 2, 2),
        Operation("scatter_set", "scatter", _scattered, _scatter_set, _first, 2, 2),
        Operation("scatter", "scatter", _updated, _update, _third, 3, 3),
        Operation("concatenate", "copy", _joined, lambda *x, axis: numpy().concatenate(x, axis), None, 1, 64),
        Operation("foreign", "foreign", _given, lambda *x, call, **_: call(*x), _said, 0, 1024),
        *COMPOSITES,
    )  # fmt: skip
    return {one.name: one for one in listed}

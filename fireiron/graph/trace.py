"""Trace Python functions: a function is called once, with stand-ins for arrays that record each operation.

The function is written for NumPy: operators, methods, ufuncs and functions such as `np.sum`, `np.where` and
`np.concatenate`. A NumPy function without an operation in the graph is kept as a call of NumPy (`foreign`).
"""
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# Arrays of NumPy and traced ones go through these functions alike.

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, cast

import numpy as np

from fireiron.algebra.dtypes import DType, f32, f64, i32, u8
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.contract import shown
from fireiron.base.errors import FireironError, SpecError
from fireiron.base.link import here
from fireiron.graph.nodes import Builder, Data, Graph
from fireiron.graph.operations import axes_of, i64, misfit
from fireiron.language.tensor import Tensor

_UNARY = {
    "negative": "neg", "absolute": "abs", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2",
    "floor": "floor", "ceil": "ceil", "sqrt": "sqrt", "tanh": "tanh",
}  # fmt: skip
_BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "maximum": "maximum",
    "minimum": "minimum", "power": "pow", "less": "lt", "less_equal": "le", "equal": "eq",
}  # fmt: skip
_TURNED = {"greater": "lt", "greater_equal": "le"}
_TRUTHS = ("bool", "bool_", "b1")
# Options that NumPy alone has.
_NUMPYS = {"where", "initial", "dtype", "out", "order", "casting", "mode", "subok", "correction"}


class Array:
    """Stand in for an array while a function is traced; operations on it become nodes of the graph."""

    __array_priority__ = 1000

    def __init__(self, builder: Builder, number: int) -> None:
        self.builder = builder
        self.number = number

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extents."""
        return self.builder.nodes[self.number].shape

    @property
    def dtype(self) -> Any:
        """Return NumPy's element type."""
        return self.kind.numpy

    @property
    def kind(self) -> DType:
        """Return the element type in the graph."""
        return self.builder.nodes[self.number].dtype

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)

    @property
    def T(self) -> Array:
        """Reverse the axes."""
        return self.transpose()

    @property
    def mT(self) -> Array:
        """Exchange the last two axes."""
        return self.swapaxes(-1, -2)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<traced {self.kind}[{', '.join(map(str, self.shape))}]>"

    def no_value(self, what: str) -> SpecError:
        """Make the error of a function that asks for elements."""
        return SpecError(
            "graph-value",
            f"{what} of a traced array, which has no elements yet",
            fix="choose between arrays by np.where; loops and conditions may depend on shapes",
            link=here(),
        )

    def __bool__(self) -> bool:
        raise self.no_value("the truth")

    def __float__(self) -> float:
        raise self.no_value("the value")

    def __int__(self) -> int:
        raise self.no_value("the value")

    def __index__(self) -> int:
        raise self.no_value("the value")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self.no_value("the elements")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        if any(isinstance(x, Array) for x in options.values()):
            raise self.no_value(f"an option of np.{name}")
        if method == "__call__" and not options:
            if name == "matmul":
                return matmul(*inputs)
            if name in _UNARY:
                return applied(self.builder, _UNARY[name], *inputs)
            if name in _BINARY:
                return applied(self.builder, _BINARY[name], *inputs)
            if name in _TURNED:
                return applied(self.builder, _TURNED[name], *reversed(inputs))
            if name == "not_equal":
                return applied(self.builder, "eq", applied(self.builder, "eq", *inputs), 0)
            if name == "square":
                return self * self
            if name == "reciprocal":
                return 1.0 / self
            if name in ("logical_and", "bitwise_and") and all(isinstance(x, Array) and x.kind == u8 for x in inputs):
                return applied(self.builder, "mul", *inputs)
        plain = options.keys() <= {"axis", "keepdims"}
        if method == "reduce" and plain and name in ("add", "maximum", "minimum", "multiply"):
            fold = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "prod"}[name]
            return _fold(self, fold, options.get("axis", 0), bool(options.get("keepdims", False)))
        return _foreign(self.builder, name, lambda *x: getattr(ufunc, method)(*x, **options), inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        ours = _FUNCTIONS.get(function.__name__)
        if ours is not None and (function.__name__.endswith("_like") or not _NUMPYS & named.keys()):
            return ours(*args, **named)
        return _foreign(self.builder, function.__name__, function, args, named)

    def __add__(self, other: Any) -> Array:
        return applied(self.builder, "add", self, other)

    def __radd__(self, other: Any) -> Array:
        return applied(self.builder, "add", other, self)

    def __sub__(self, other: Any) -> Array:
        return applied(self.builder, "sub", self, other)

    def __rsub__(self, other: Any) -> Array:
        return applied(self.builder, "sub", other, self)

    def __mul__(self, other: Any) -> Array:
        return applied(self.builder, "mul", self, other)

    def __rmul__(self, other: Any) -> Array:
        return applied(self.builder, "mul", other, self)

    def __truediv__(self, other: Any) -> Array:
        return applied(self.builder, "div", self, other)

    def __rtruediv__(self, other: Any) -> Array:
        return applied(self.builder, "div", other, self)

    def __pow__(self, other: Any) -> Array:
        return applied(self.builder, "pow", self, other)

    def __rpow__(self, other: Any) -> Array:
        return applied(self.builder, "pow", other, self)

    def __mod__(self, other: Any) -> Array:
        return _foreign(self.builder, "remainder", np.remainder, (self, other))

    def __floordiv__(self, other: Any) -> Array:
        return _foreign(self.builder, "floor_divide", np.floor_divide, (self, other))

    def __neg__(self) -> Array:
        return applied(self.builder, "neg", self)

    def __abs__(self) -> Array:
        return applied(self.builder, "abs", self)

    def __matmul__(self, other: Any) -> Array:
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Array:
        return matmul(other, self)

    def __lt__(self, other: Any) -> Array:
        return applied(self.builder, "lt", self, other)

    def __le__(self, other: Any) -> Array:
        return applied(self.builder, "le", self, other)

    def __gt__(self, other: Any) -> Array:
        return applied(self.builder, "lt", other, self)

    def __ge__(self, other: Any) -> Array:
        return applied(self.builder, "le", other, self)

    def __eq__(self, other: object) -> Any:
        return applied(self.builder, "eq", self, other)

    def __ne__(self, other: object) -> Any:
        return applied(self.builder, "eq", applied(self.builder, "eq", self, other), 0)

    def __and__(self, other: Any) -> Array:
        if _is_condition(self) and _is_condition(other):
            return applied(self.builder, "mul", self, other)
        return _foreign(self.builder, "bitwise_and", np.bitwise_and, (self, other))

    def __or__(self, other: Any) -> Array:
        if _is_condition(self) and _is_condition(other):
            return applied(self.builder, "maximum", self, other)
        return _foreign(self.builder, "bitwise_or", np.bitwise_or, (self, other))

    def __xor__(self, other: Any) -> Array:
        return _foreign(self.builder, "bitwise_xor", np.bitwise_xor, (self, other))

    def __invert__(self) -> Array:
        if _is_condition(self):
            return applied(self.builder, "eq", self, 0)
        return _foreign(self.builder, "invert", np.invert, (self,))

    def __hash__(self) -> int:
        return id(self)

    def __getitem__(self, subscripts: Any) -> Array:
        return _sliced(self, subscripts)

    def astype(self, dtype: Any, **_: Any) -> Array:
        """Convert to another element type.

        Floats become integers as in NumPy, without their fractions; those that the type does not hold become its least
        or largest.
        """
        kind = kind_of(dtype)
        if kind == self.kind:
            return self
        if kind == u8 and _type_name(dtype) in _TRUTHS:
            return self != 0
        x = self
        if kind.kind == "int" and self.kind.kind == "float":
            x = _where(self < 0, np.ceil(self), np.floor(self))
        return applied(self.builder, "cast", x, dtype=kind)

    def flatten(self) -> Array:
        """View the elements along one axis."""
        return self.reshape(-1)

    def ravel(self) -> Array:
        """View the elements along one axis."""
        return self.reshape(-1)

    def reshape(self, *shape: Any, order: str = "C") -> Array:
        """View the elements in another shape; one extent may be -1."""
        if order != "C":
            extents = shape[0] if len(shape) == 1 else shape
            return _foreign(self.builder, "reshape", np.reshape, (self, extents), {"order": order})
        given = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        extents = [operator.index(n) for n in given]
        if -1 in extents:
            rest = prod(n for n in extents if n != -1)
            extents[extents.index(-1)] = self.size // max(1, rest)
        return applied(self.builder, "reshape", self, shape=tuple(extents))

    def transpose(self, *axes: Any) -> Array:
        """Permute the axes; the default reverses them."""
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = (
            tuple(reversed(range(self.ndim))) if given is None or not given else tuple(_place(self, a) for a in given)
        )
        return applied(self.builder, "transpose", self, axes=order)

    def swapaxes(self, one: int, other: int) -> Array:
        """Exchange two axes."""
        order = list(range(self.ndim))
        one, other = _place(self, one), _place(self, other)
        order[one], order[other] = order[other], order[one]
        return self.transpose(order)

    def sum(self, axis: Any = None, keepdims: bool = False, **others: Any) -> Array:
        """Add up along axes."""
        return _fold(self, "sum", axis, keepdims, others)

    def prod(self, axis: Any = None, keepdims: bool = False, **others: Any) -> Array:
        """Multiply along axes."""
        return _fold(self, "prod", axis, keepdims, others)

    def max(self, axis: Any = None, keepdims: bool = False, **others: Any) -> Array:
        """Take the largest along axes."""
        return _fold(self, "max", axis, keepdims, others)

    def min(self, axis: Any = None, keepdims: bool = False, **others: Any) -> Array:
        """Take the smallest along axes."""
        return _fold(self, "min", axis, keepdims, others)

    def mean(self, axis: Any = None, keepdims: bool = False, **others: Any) -> Array:
        """Take the mean along axes."""
        return _fold(self, "mean", axis, keepdims, others)

    def std(self, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Array:
        """Take the standard deviation along axes."""
        return applied(self.builder, "sqrt", self.var(axis, keepdims, ddof))

    def var(self, axis: Any = None, keepdims: bool = False, ddof: int = 0, **others: Any) -> Array:
        """Take the variance along axes."""
        if others:
            named = {"axis": axis, "keepdims": keepdims, "ddof": ddof, **others}
            return _foreign(self.builder, "var", np.var, (self,), named)
        if self.kind.kind == "int":
            return self.astype(np.float32).var(axis, keepdims, ddof)
        axes = axes_of(axis, self.ndim)
        return applied(self.builder, "variance", self, axes=axes, keepdims=keepdims, correction=ddof)


def kind_of(dtype: object) -> DType:
    """Return the graph's element type for a NumPy type; graphs also have booleans (one byte) and 64-bit integers.

    Raises:
        SpecError: `unknown-dtype`.
    """
    name = _type_name(dtype)
    if name in ("int64", "long", "int"):
        return i64
    return u8 if name in _TRUTHS else find_dtype(dtype)


def _type_name(dtype: object) -> str:
    return str(getattr(dtype, "name", getattr(dtype, "__name__", dtype))).removeprefix("torch.")


def applied(builder: Builder, op: str, *inputs: Any, **attributes: Any) -> Array:
    """Add an operation to a graph; numbers get the type of the other operands."""
    kinds = [x.kind for x in inputs if isinstance(x, Array)]
    if op == "div" and all(kind.kind == "int" for kind in kinds):
        inputs = tuple(x.astype(np.float32) if isinstance(x, Array) else x for x in inputs)
        kinds = [f32]
    try:
        numbers = [lifted(builder, x, kinds[-1]) for x in inputs]
        return Array(builder, builder.add(op, *numbers, **attributes))
    except FireironError as error:
        raise error.located(here()) from None


def lifted(builder: Builder, value: Any, kind: DType) -> int:
    """Return the node of a traced array, a number or a constant array."""
    if isinstance(value, Array):
        return value.number
    if isinstance(value, bool | int | float):
        fraction = isinstance(value, float) and kind.kind == "int"
        if not fraction and kind.kind == "int":
            least = -(2 ** (kind.bits - 1)) if kind.name.startswith("i") else 0
            if not least <= value < least + 2**kind.bits:
                raise SpecError(
                    "graph-value", f"{value} is no number of {kind}", fix="convert the array: x.astype(np.float32)"
                )
        return builder.constant(value, f32 if fraction else kind)
    made = np.asarray(value)
    if made.dtype.kind not in "fiub" and made.dtype.name != "bfloat16":
        raise SpecError("graph-value", f"{shown(value)} is no array of numbers", fix="give arrays and numbers")
    if made.ndim == 0:
        return builder.constant(made.item(), kind)
    found = kind_of(made.dtype)
    return builder.array(Data.of(made, f32 if found == f64 else i32 if found == i64 else found))


def matmul(a: Any, b: Any) -> Array:
    """Multiply matrices, or a matrix and a vector, as `np.matmul` does."""
    builder = next(x.builder for x in (a, b) if isinstance(x, Array))
    kind = next(x.kind for x in (a, b) if isinstance(x, Array))
    left, right = (Array(builder, lifted(builder, x, kind)) for x in (a, b))
    one, other = left.ndim == 1, right.ndim == 1
    left = left.reshape(1, -1) if one else left
    right = right.reshape(-1, 1) if other else right
    made = applied(builder, "matmul", left, right)
    shape = list(made.shape)
    if other:
        shape.pop(-1)
    if one:
        shape.pop(-1 if other else -2)
    return made.reshape(shape) if one or other else made


def _is_condition(x: Any) -> bool:
    """Say whether a value is a truth: the graph's type of comparisons has one byte."""
    return x.kind == u8 if isinstance(x, Array) else isinstance(x, bool | np.bool_) or np.asarray(x).dtype == np.bool_


def _place(x: Any, axis: Any, more: int = 0) -> int:
    """Return an axis counted from 0, of an array that gets some more.

    Raises:
        SpecError: `graph-axis`.
    """
    try:
        (place,) = axes_of(operator.index(axis), x.ndim + more)
    except FireironError as error:
        raise error.located(here()) from None
    return place


def _fold(x: Any, op: str, axis: Any, keepdims: bool, others: Mapping[str, Any] | None = None) -> Array:
    if others:
        return _foreign(x.builder, op, getattr(np, op), (x,), {"axis": axis, "keepdims": keepdims, **others})
    if x.kind.kind == "int" and op == "mean":
        x = x.astype(np.float32)
    try:
        axes = axes_of(axis, x.ndim)
    except FireironError as error:
        raise error.located(here()) from None
    return applied(x.builder, op, x, axes=axes, keepdims=bool(keepdims))


def _sliced(x: Array, subscripts: Any) -> Array:
    given = subscripts if isinstance(subscripts, tuple) else (subscripts,)
    if any(isinstance(s, Array) and s.kind == u8 for s in given):
        raise x.no_value("the number of elements that a condition selects")
    if len(given) == 1 and isinstance(given[0], Array):
        return applied(x.builder, "gather", x, given[0])
    if any(isinstance(s, bool | np.bool_) for s in given) or not all(
        s is None or s is Ellipsis or isinstance(s, slice | int | np.integer) for s in given
    ):
        return _foreign(x.builder, "getitem", lambda a: a[subscripts], (x,))
    plain = [s for s in given if s is not None and s is not Ellipsis]
    rest = x.ndim - len(plain)
    if rest < 0 or sum(s is Ellipsis for s in given) > 1:
        error = misfit(f"{len(plain)} subscripts of an array of rank {x.ndim}", "give one for each axis")
        raise error.located(here())
    if Ellipsis not in given:
        given = (*given, Ellipsis)
    starts, stops, steps, shape = [0] * x.ndim, list(x.shape), [1] * x.ndim, list[int]()
    axis = 0
    for s in given:
        if s is None:
            shape.append(1)
        elif s is Ellipsis:
            shape += x.shape[axis : axis + rest]
            axis += rest
        elif isinstance(s, slice):
            starts[axis], stops[axis], steps[axis] = s.indices(x.shape[axis])
            shape.append(len(range(*s.indices(x.shape[axis]))))
            axis += 1
        else:
            at, extent = operator.index(cast(Any, s)), x.shape[axis]
            if not -extent <= at < extent:
                raise misfit(f"subscript {at} of {extent} elements", "count from 0, or from -1 at the end").located(
                    here()
                )
            at %= extent
            starts[axis], stops[axis] = at, at + 1
            axis += 1
    if any(step < 0 for step in steps) or 0 in shape:
        return _foreign(x.builder, "getitem", lambda a: a[subscripts], (x,))
    whole = starts == [0] * x.ndim and stops == list(x.shape) and steps == [1] * x.ndim
    cut = x if whole else applied(x.builder, "slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))
    return cut if tuple(shape) == cut.shape else cut.reshape(shape)


def _foreign(builder: Builder, label: str, call: Callable[..., Any], args: Sequence[Any], named: Any = None) -> Array:
    """Keep a call of a NumPy function; it is called with zeros to find the result's shape."""
    arrays: list[Array] = []

    def opened(value: Any, take: Callable[[Array], Any]) -> Any:
        if isinstance(value, Array):
            return take(value)
        if isinstance(value, tuple | list):
            return type(value)(opened(x, take) for x in cast("Sequence[Any]", value))
        return value

    def noted(x: Array) -> Any:
        arrays.append(x)
        return np.zeros(x.shape, x.kind.numpy)

    options = dict(named or {})
    given = [opened(x, noted) for x in args]
    made = np.asarray(call(*given, **options))

    def run(*values: Any) -> Any:
        rest = iter(values)
        return call(*[opened(x, lambda _: next(rest)) for x in args], **options)

    numbers = [x.number for x in arrays]
    shape, kind = tuple(made.shape), kind_of(made.dtype)
    return Array(builder, builder.add("foreign", *numbers, label=label, call=run, shape=shape, dtype=kind))


def _where(condition: Any, x: Any = None, y: Any = None) -> Array:
    if x is None or y is None:
        raise condition.no_value("the number of elements where a condition holds")
    known = [v for v in (condition, x, y) if isinstance(v, Array)]
    kind = next((v.kind for v in (x, y) if isinstance(v, Array)), f32)
    builder = known[0].builder
    return applied(
        builder, "select", *(Array(builder, lifted(builder, v, k)) for v, k in ((condition, u8), (x, kind), (y, kind)))
    )


def _clip(x: Any, low: Any = None, high: Any = None, **named: Any) -> Array:
    low, high = (named.get(f"a_{word}", named.get(word, value)) for word, value in (("min", low), ("max", high)))
    x = x if low is None else applied(x.builder, "maximum", x, low)
    return x if high is None else applied(x.builder, "minimum", x, high)


def _concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Array:
    known = next(x for x in arrays if isinstance(x, Array))
    if axis is None:
        return _concatenate([x.reshape(-1) for x in arrays])
    return applied(known.builder, "concatenate", *arrays, axis=_place(known, axis))


def _stack(arrays: Sequence[Any], axis: int = 0) -> Array:
    known = next(x for x in arrays if isinstance(x, Array))
    place = _place(known, axis, 1)
    shape = (*known.shape[:place], 1, *known.shape[place:])
    return _concatenate([x.reshape(shape) for x in arrays], place)


def _expand_dims(x: Any, axis: int | Sequence[int]) -> Array:
    if not isinstance(axis, int):
        for place in sorted(_place(x, a, len(axis)) for a in axis):
            x = _expand_dims(x, place)
        return x
    place = _place(x, axis, 1)
    return x.reshape(*x.shape[:place], 1, *x.shape[place:])


def _squeeze(x: Any, axis: Any = None) -> Array:
    gone = axes_of(axis, x.ndim) if axis is not None else tuple(i for i, n in enumerate(x.shape) if n == 1)
    return x.reshape([n for i, n in enumerate(x.shape) if i not in gone])


def _split(x: Any, parts: Any, axis: int = 0) -> list[Array]:
    axis = _place(x, axis)
    extent = x.shape[axis]
    if isinstance(parts, int) and extent % parts:
        raise misfit(f"{extent} elements do not split into {parts} equal parts", "give a divisor").located(here())
    ends = [i * extent // parts for i in range(1, parts)] if isinstance(parts, int) else list(parts)
    bounds = [0, *ends, extent]
    lead = (slice(None),) * axis
    return [x[(*lead, slice(a, b))] for a, b in pairwise(bounds)]


def _folding(op: str) -> Callable[..., Array]:
    def fold(x: Any, axis: Any = None, *positions: Any, keepdims: bool = False, **others: Any) -> Array:
        if positions:  # NumPy's dtype, out, ...
            return _foreign(x.builder, op, getattr(np, op), (x, axis, *positions), {"keepdims": keepdims, **others})
        return _fold(x, op, axis, keepdims, others)

    return fold


def _take(x: Any, ids: Any, axis: int | None = None) -> Array:
    if axis is None:
        return applied(x.builder, "gather", x.reshape(-1), ids)
    if _place(x, axis) == 0:
        return applied(x.builder, "gather", x, ids)
    return _foreign(x.builder, "take", np.take, (x, ids), {"axis": axis})


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{op: _folding(op) for op in ("sum", "prod", "max", "min", "mean")},
    "amax": _folding("max"),
    "amin": _folding("min"),
    "var": lambda x, axis=None, **named: x.var(axis, **named),
    "std": lambda x, axis=None, **named: x.std(axis, **named),
    "where": _where,
    "clip": _clip,
    "reshape": lambda x, shape=None, **named: x.reshape(shape if shape is not None else named["newshape"]),
    "transpose": lambda x, axes=None: x.transpose(axes),
    "swapaxes": lambda x, one, other: x.swapaxes(one, other),
    "broadcast_to": lambda x, shape, **_: applied(x.builder, "broadcast", x, shape=tuple(shape)),
    "concatenate": _concatenate,
    "stack": _stack,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "split": _split,
    "take": _take,
    "zeros_like": lambda x, dtype=None, **_: np.zeros(x.shape, dtype or x.dtype),
    "ones_like": lambda x, dtype=None, **_: np.ones(x.shape, dtype or x.dtype),
}


def trace_graph(function: Callable[..., Any], *arrays: Any, name: str = "", fixed: Sequence[str] = ()) -> Graph:
    """Trace a function of arrays that is written for NumPy, and return its graph.

    Args:
        function: a function of arrays that returns one array or a tuple. `fireiron.nn` has softmax, norms and
            attention.
        arrays: for each parameter a description: `tensor(2, 3, dtype="f16")`, a shape (of f32), or an array.
        name: name of the graph; the function's by default.
        fixed: names of arrays that seldom change, such as weights. Values that depend on them alone are computed once,
            and again after they change, if the library counts writes (torch). Products of one array with several of
            them are merged.

    Raises:
        SpecError: `graph-fixed`, `graph-shape`, `graph-axis`, `graph-value` where the function reads elements,
            `graph-output`, `graph-arrays` where `arrays` has no array.

    Example:
        >>> import numpy as np
        >>> def layer(x, w, b):
        ...     return np.maximum(x @ w + b, 0)
        >>> print(trace_graph(layer, (64, 32), (32, 16), (16,)))
        layer(x[64, 32].f32, w[32, 16].f32, b[16].f32)
          %1 = x @ w           [64, 16].f32
          %2 = %1 + b          [64, 16].f32
          %3 = maximum(%2, 0)  [64, 16].f32
          return %3
    """
    builder = Builder()
    called = name or getattr(function, "__name__", "graph")
    given: list[Array] = []
    labels = _labels(function, len(arrays))
    if unknown := [label for label in fixed if label not in labels]:
        raise SpecError(
            "graph-fixed", f"{called} has no array {unknown[0]!r}", fix="arrays: " + ", ".join(labels), link=here()
        )
    for label, each in zip(labels, arrays, strict=True):
        shape, kind = _described(each)
        given.append(Array(builder, builder.input(label, shape, kind, label in fixed)))
    made = function(*given)
    results = cast("tuple[object, ...]", tuple(made) if isinstance(made, tuple | list) else (made,))
    if not results or not all(isinstance(x, Array) for x in results):
        raise SpecError(
            "graph-output",
            f"{called} returned {shown(made)}",
            fix="return an array that is computed from its arguments, or a tuple of them",
            link=here(),
        )
    return builder.graph(
        called if called.isidentifier() else "graph", [x.number for x in results if isinstance(x, Array)]
    )


def _described(each: Any) -> tuple[tuple[int, ...], DType]:
    if isinstance(each, Tensor) and all(isinstance(n, int) for n in each.shape):
        return cast("tuple[int, ...]", each.shape), each.dtype
    if isinstance(each, tuple) and all(isinstance(n, int) and n > 0 for n in cast("tuple[object, ...]", each)):
        return cast("tuple[int, ...]", each), f32
    if hasattr(each, "shape") and hasattr(each, "dtype") and not isinstance(each, Tensor):
        given: Any = each
        return tuple(given.shape), kind_of(given.dtype)
    raise SpecError(
        "graph-arrays",
        f"{shown(each)} describes no array of known extents",
        fix='give a shape, tensor(2, 3, dtype="f16"), or an array',
        link=here(),
    )


def _labels(function: Callable[..., Any], number: int) -> list[str]:
    """Name the inputs after the function's parameters."""
    try:
        known = [p for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    except (TypeError, ValueError):
        known = []
    names = [p.name for p in known][:number]
    return names + [f"x{i}" for i in range(len(names), number)]

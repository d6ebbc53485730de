"""Trace Python functions: a function is called once, with stand-ins for arrays that record each operation.

The function is written for NumPy: operators, methods, ufuncs and functions such as `np.sum`, `np.where` and
`np.concatenate`. A NumPy function without an operation in the graph is kept as a call of NumPy (`foreign`).
"""
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# Arrays of NumPy and traced ones go through these functions alike.

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fireiron.algebra.dtypes import DType, f32, f64, i32, u8
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.unary import FUNCTIONS
from fireiron.base.contract import shown
from fireiron.base.errors import FireironError, SpecError
from fireiron.base.link import here
from fireiron.graph.nodes import Builder, Data, Graph
from fireiron.graph.operations import BINARY, COMPARISONS, axes_of, i64, misfit
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
# Operations whose results on integers are integers; NumPy computes the other functions of one array in floats.
_WHOLE = {"neg", "abs", "floor", "ceil"}
# Methods of NumPy's arrays that do what the function of the same name does.
_METHODS = frozenset(
    {
        "all", "any", "argmax", "argmin", "argpartition", "argsort", "conj", "conjugate", "cumprod", "cumsum",
        "diagonal", "dot", "repeat", "round", "searchsorted", "squeeze", "take", "trace",
    }
)  # fmt: skip
# Operations that give a condition for conditions.
_TRUTHFUL = {
    "mul", "maximum", "minimum", "select", "reshape", "transpose", "broadcast", "slice", "max", "min", "gather",
    "concatenate",
}  # fmt: skip


class TracedError(SpecError, AttributeError):
    """Report an attribute that traced arrays do not have."""


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

    def __setitem__(self, subscripts: Any, value: Any) -> None:
        raise SpecError(
            "graph-value",
            "assignment to elements of a traced array, which stays as it is",
            fix="make another array: np.where, np.concatenate",
            link=here(),
        )

    if not TYPE_CHECKING:  # type checkers that see __getattr__ accept every attribute

        def __getattr__(self, name: str) -> Any:
            if name in _METHODS:
                return functools.partial(getattr(np, name), self)
            if name.startswith("_"):
                raise AttributeError(name)
            raise TracedError(
                "graph-value",
                f"traced arrays have no .{name}",
                fix=f"use a function of NumPy or of fireiron.nn{f', as np.{name}' if hasattr(np, name) else ''}",
                link=here(),
            )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        options = {option: x for option, x in options.items() if x is not None or option == "axis"}
        if any(isinstance(x, Array) for x in options.get("out", ())):
            raise self.no_value(f"out= of np.{name}")
        if method == "__call__" and "where" in options and "out" not in options:
            raise SpecError(
                "graph-value",
                f"np.{name} with where= gives no elements where the condition is false",
                fix="choose between arrays by np.where",
                link=here(),
            )
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
            if name == "reciprocal" and self.kind.kind == "float":
                return 1.0 / self
            if name in ("logical_and", "bitwise_and", "logical_or", "bitwise_or") and all(map(_is_condition, inputs)):
                return applied(self.builder, "mul" if name.endswith("and") else "maximum", *inputs)
            if name in ("logical_not", "invert") and _is_condition(self):
                return applied(self.builder, "eq", self, 0)
            if name == "divmod":
                return divmod(*inputs)
        plain = options.keys() <= {"axis", "keepdims"}
        if method == "reduce" and plain and name in ("add", "maximum", "minimum", "multiply"):
            fold = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "prod"}[name]
            return _fold(self, fold, options.get("axis", 0), bool(options.get("keepdims", False)))
        return _foreign(self.builder, name, lambda *x: getattr(ufunc, method)(*x, **options), inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        ours = _FUNCTIONS.get(function.__name__)
        given = {option: x for option, x in named.items() if x is not None or option not in ("dtype", "out")}
        if ours is not None and (function.__name__.endswith("_like") or not _NUMPYS & given.keys()):
            try:
                inspect.signature(ours).bind(*args, **given)
            except TypeError:  # arguments that NumPy alone has, by their places
                return _foreign(self.builder, function.__name__, function, args, named)
            return ours(*args, **given)
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

    def __rmod__(self, other: Any) -> Array:
        return _foreign(self.builder, "remainder", np.remainder, (other, self))

    def __rfloordiv__(self, other: Any) -> Array:
        return _foreign(self.builder, "floor_divide", np.floor_divide, (other, self))

    def __divmod__(self, other: Any) -> tuple[Array, Array]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Array, Array]:
        return other // self, other % self

    def __lshift__(self, other: Any) -> Array:
        return _foreign(self.builder, "left_shift", np.left_shift, (self, other))

    def __rlshift__(self, other: Any) -> Array:
        return _foreign(self.builder, "left_shift", np.left_shift, (other, self))

    def __rshift__(self, other: Any) -> Array:
        return _foreign(self.builder, "right_shift", np.right_shift, (self, other))

    def __rrshift__(self, other: Any) -> Array:
        return _foreign(self.builder, "right_shift", np.right_shift, (other, self))

    def __pos__(self) -> Array:
        return self

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
        return _bits("and", self, other)

    def __rand__(self, other: Any) -> Array:
        return _bits("and", other, self)

    def __or__(self, other: Any) -> Array:
        return _bits("or", self, other)

    def __ror__(self, other: Any) -> Array:
        return _bits("or", other, self)

    def __xor__(self, other: Any) -> Array:
        return _bits("xor", self, other)

    def __rxor__(self, other: Any) -> Array:
        return _bits("xor", other, self)

    def __invert__(self) -> Array:
        return (
            applied(self.builder, "eq", self, 0)
            if _is_condition(self)
            else _foreign(self.builder, "invert", np.invert, (self,))
        )

    def __hash__(self) -> int:
        return id(self)

    def __getitem__(self, subscripts: Any) -> Array:
        return _sliced(self, subscripts)

    def astype(self, dtype: Any, **_: Any) -> Array:
        """Convert to another element type.

        Floats become integers as in NumPy, without their fractions; those that the type does not hold become its least
        or largest.
        """
        kind, truth = kind_of(dtype), _is_condition(self)
        if kind == u8 and _type_name(dtype) in _TRUTHS:
            return self if truth else self != 0
        if kind == self.kind:
            return Array(self.builder, self.builder.add("cast", self.number, dtype=kind)) if truth else self
        x = self
        if kind.kind == "int" and self.kind.kind == "float":
            x = _where(self < 0, np.ceil(self), np.floor(self))
        return applied(self.builder, "cast", x, dtype=kind)

    def flatten(self, order: str = "C") -> Array:
        """View the elements along one axis."""
        return self.reshape(-1, order=order)

    def ravel(self, order: str = "C") -> Array:
        """View the elements along one axis."""
        return self.reshape(-1, order=order)

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

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Array:
        """Add up along axes."""
        return _fold(self, "sum", axis, keepdims, {"dtype": dtype, "out": out, **others})

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Array:
        """Multiply along axes."""
        return _fold(self, "prod", axis, keepdims, {"dtype": dtype, "out": out, **others})

    def max(self, axis: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Array:
        """Take the largest along axes."""
        return _fold(self, "max", axis, keepdims, {"out": out, **others})

    def min(self, axis: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Array:
        """Take the smallest along axes."""
        return _fold(self, "min", axis, keepdims, {"out": out, **others})

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Array:
        """Take the mean along axes."""
        return _fold(self, "mean", axis, keepdims, {"dtype": dtype, "out": out, **others})

    def std(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: Any = False, **others: Any
    ) -> Array:
        """Take the standard deviation along axes."""
        others = {"dtype": dtype, "out": out, **others}
        if any(x is not None for x in others.values()):
            named = {"axis": axis, "ddof": ddof, "keepdims": keepdims, **others}
            return _foreign(self.builder, "std", np.std, (self,), named)
        return applied(self.builder, "sqrt", self.var(axis, ddof=ddof, keepdims=keepdims))

    def var(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: Any = False, **others: Any
    ) -> Array:
        """Take the variance along axes."""
        others = {"dtype": dtype, "out": out, **others}
        if any(x is not None for x in others.values()):
            named = {"axis": axis, "ddof": ddof, "keepdims": keepdims, **others}
            return _foreign(self.builder, "var", np.var, (self,), named)
        x = self.astype(np.float32) if self.kind.kind == "int" else self
        return applied(self.builder, "variance", x, axes=_axes(x, axis), keepdims=bool(keepdims), correction=ddof)

    def copy(self, order: str = "C") -> Array:
        """Return the array, whose elements never change."""
        return self

    def clip(self, min: Any = None, max: Any = None) -> Array:
        """Limit the elements to a least and a largest number."""
        return _clip(self, min, max)


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
    try:
        op, inputs = _as_in_numpy(op, inputs)
        kinds = [x.kind for x in inputs if isinstance(x, Array)]
        numbers = [lifted(builder, x, kinds[-1]) for x in inputs]
        made = builder.add(op, *numbers, **attributes)
    except FireironError as error:
        raise error.located(here()) from None
    chosen = numbers[1:] if op == "select" else numbers[:1] if op == "gather" else numbers
    if op in COMPARISONS or (op in _TRUTHFUL and builder.truths.issuperset(chosen)):
        builder.truths.add(made)
    return Array(builder, made)


def _as_in_numpy(op: str, inputs: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Convert integers and conditions to the types in which NumPy computes with them."""
    kinds = [x.kind for x in inputs if isinstance(x, Array)]
    if any(kind.kind != "int" for kind in kinds):
        return op, inputs
    if op == "div" or (op in FUNCTIONS and op not in _WHOLE):
        return op, tuple(x.astype(np.float32) if isinstance(x, Array) else x for x in inputs)
    if op == "gather" or (op not in BINARY and op not in COMPARISONS and op not in ("neg", "concatenate", "select")):
        return op, inputs
    if op == "pow" and isinstance(inputs[1], int) and inputs[1] < 0:
        raise SpecError("graph-value", "integers to a negative power", fix="convert the array: x.astype(np.float32)")
    truths = [_is_condition(x) for x in inputs]
    if all(truths) and op in ("sub", "neg"):
        raise SpecError("graph-value", "NumPy subtracts no conditions", fix="use ^ or ~, or x.astype(np.int32)")
    if all(truths) and op == "add":
        return "maximum", inputs
    first = 1 if op == "select" else 0
    arrays = [(x.kind.name, truth) for x, truth in zip(inputs, truths, strict=True) if isinstance(x, Array)][first:]
    if op in BINARY and all(truth for _, truth in arrays) and not all(truths):  # with a number
        return op, tuple(x.astype(np.int32) if isinstance(x, Array) else x for x in inputs)
    if {"u8", "i8"} <= {name for name, _ in arrays}:
        kind = np.int32 if ("u8", False) in arrays else np.int8
        rest = tuple(x.astype(kind) if isinstance(x, Array) else x for x in inputs[first:])
        return op, (*inputs[:first], *rest)
    return op, inputs


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
        made = builder.constant(value, f32 if fraction else kind)
        if isinstance(value, bool) and kind == u8:
            builder.truths.add(made)
        return made
    made = np.asarray(value)
    if made.dtype.kind not in "fiub" and made.dtype.name != "bfloat16":
        raise SpecError("graph-value", f"{shown(value)} is no array of numbers", fix="give arrays and numbers")
    if made.ndim == 0:
        return lifted(builder, made.item(), kind)
    found = kind_of(made.dtype)
    if found == i64 and made.size and not -(2**31) <= made.min() <= made.max() < 2**31:
        raise SpecError("graph-value", f"{shown(value)} has numbers that i32 does not hold", fix="give floats")
    number = builder.array(Data.of(made, f32 if found == f64 else i32 if found == i64 else found))
    if made.dtype == np.bool_:
        builder.truths.add(number)
    return number


def matmul(a: Any, b: Any) -> Array:
    """Multiply matrices, or a matrix and a vector, as `np.matmul` does."""
    builder = next(x.builder for x in (a, b) if isinstance(x, Array))
    kind = next(x.kind for x in (a, b) if isinstance(x, Array))
    left, right = (Array(builder, lifted(builder, x, kind)) for x in (a, b))
    one, other = left.ndim == 1, right.ndim == 1
    left = left.reshape(1, -1) if one else left
    right = right.reshape(-1, 1) if other else right
    made = applied(builder, "matmul", left, right)
    made = made != 0 if _is_condition(left) and _is_condition(right) else made
    shape = list(made.shape)
    if other:
        shape.pop(-1)
    if one:
        shape.pop(-1 if other else -2)
    return made.reshape(shape) if one or other else made


def _is_condition(x: Any) -> bool:
    """Say whether a value is a truth in NumPy: u8 in the graph is the type of truths and of bytes."""
    return x.number in x.builder.truths if isinstance(x, Array) else np.asarray(x).dtype == np.bool_


def _bits(name: str, x: Any, y: Any) -> Array:
    """Combine conditions, or the bits of integers."""
    builder = next(v.builder for v in (x, y) if isinstance(v, Array))
    if name != "xor" and _is_condition(x) and _is_condition(y):
        return applied(builder, "mul" if name == "and" else "maximum", x, y)
    return _foreign(builder, f"bitwise_{name}", getattr(np, f"bitwise_{name}"), (x, y))


def _place(x: Any, axis: Any, more: int = 0) -> int:
    """Return an axis counted from 0, of an array that gets some more.

    Raises:
        SpecError: `graph-axis`.
    """
    try:
        (place,) = axes_of(operator.index(axis), x.ndim + more)
    except FireironError as error:
        raise error.located(here()) from None
    except TypeError:
        raise SpecError("graph-axis", f"axis {shown(axis)}", fix="give an integer", link=here()) from None
    return place


def _axes(x: Any, axis: Any) -> tuple[int, ...]:
    """Return axes counted from 0, all for None.

    Raises:
        SpecError: `graph-axis`.
    """
    if axis is None:
        return tuple(range(x.ndim))
    given = [_place(x, a) for a in (axis if isinstance(axis, tuple) else (axis,))]
    if len(set(given)) < len(given):
        raise SpecError("graph-axis", f"the axes {axis} repeat one", fix="name each axis once", link=here())
    return tuple(sorted(given))


def _fold(x: Any, op: str, axis: Any, keepdims: Any, others: Mapping[str, Any] | None = None) -> Array:
    others = {option: value for option, value in (others or {}).items() if value is not None}
    if others:
        return _foreign(x.builder, op, getattr(np, op), (x,), {"axis": axis, "keepdims": keepdims, **others})
    if x.kind.kind == "int" and op == "mean":
        x = x.astype(np.float32)
    if x.kind.kind == "int" and x.kind.bits < i32.bits and op in ("sum", "prod"):
        x = x.astype(np.int32)
    return applied(x.builder, op, x, axes=_axes(x, axis), keepdims=bool(keepdims))


def _sliced(x: Array, subscripts: Any) -> Array:
    given = subscripts if isinstance(subscripts, tuple) else (subscripts,)
    if any(isinstance(s, Array) and _is_condition(s) for s in given):
        raise x.no_value("the number of elements that a condition selects")
    if len(given) == 1 and isinstance(given[0], Array):
        return _gathered(x, given[0])
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


def _gathered(x: Array, ids: Any) -> Array:
    """Take lines along the first axis."""
    if isinstance(ids, Array) and ids.kind.kind != "int":
        raise SpecError("graph-value", f"subscripts of {ids.kind}", fix="convert them: i.astype(np.int32)", link=here())
    if not isinstance(ids, Array):
        ids = np.asarray(ids)
        if ids.dtype.kind not in "iu" or (ids.size and not -len(x) <= ids.min() <= ids.max() < len(x)):
            raise misfit(
                f"subscripts {shown(ids)} of {len(x)} elements", "give integers from 0, or from -1 at the end"
            ).located(here())
        ids = ids.astype(np.int32)
    return applied(x.builder, "gather", x, ids)


def _foreign(builder: Builder, label: str, call: Callable[..., Any], args: Sequence[Any], named: Any = None) -> Any:
    """Keep a call of a NumPy function, one for each of its results; it is called with zeros to find their shapes.

    Raises:
        SpecError: `graph-value` where NumPy refuses the arguments, and where the shapes depend on elements.
    """
    arrays: list[Array] = []

    def opened(value: Any, take: Callable[[Array], Any]) -> Any:
        if isinstance(value, Array):
            return take(value)
        if isinstance(value, tuple | list):
            return type(value)(opened(x, take) for x in cast("Sequence[Any]", value))
        return value

    def noted(x: Array) -> Any:
        arrays.append(x)
        return np.zeros(x.shape, bool if _is_condition(x) else x.kind.numpy)

    options = dict(named or {})
    opened(tuple(options.values()), noted)
    if arrays:
        raise arrays[0].no_value(f"an option of np.{label}")
    given = [opened(x, noted) for x in args]
    truths = [_is_condition(x) for x in arrays]
    try:
        with np.errstate(all="ignore"):
            made = call(*given, **options)
            parts = [np.asarray(x) for x in (made if isinstance(made, tuple | list) else (made,))]
    except FireironError:
        raise
    except Exception as error:
        raise SpecError(
            "graph-value", f"np.{label}: {error}", fix="give arguments that NumPy takes", link=here()
        ) from error
    if _shapes_of_others(call, [opened(x, _counted) for x in args], options) not in (None, [x.shape for x in parts]):
        raise arrays[0].no_value(f"the number of elements that np.{label} gives")

    def run(place: int | None) -> Callable[..., Any]:
        def called(*values: Any) -> Any:
            rest = (x != 0 if truth else x for x, truth in zip(values, truths, strict=True))
            result = call(*[opened(x, lambda _: next(rest)) for x in args], **options)
            return result if place is None else result[place]

        return called

    def kept(part: Any, place: int | None) -> Array:
        numbers, shape = [x.number for x in arrays], tuple(part.shape)
        kind = kind_of(part.dtype)
        number = builder.add("foreign", *numbers, label=label, call=run(place), shape=shape, dtype=kind)
        if part.dtype == np.bool_:
            builder.truths.add(number)
        return Array(builder, number)

    if isinstance(made, tuple | list):
        return tuple(kept(part, place) for place, part in enumerate(parts))
    return kept(parts[0], None)


def _counted(x: Array) -> Any:
    """Make an array of a traced one's shape and type whose elements differ."""
    made = np.arange(x.size).reshape(x.shape)
    return made % 2 == 1 if _is_condition(x) else made.astype(x.kind.numpy)


def _shapes_of_others(call: Callable[..., Any], given: Sequence[Any], options: Any) -> list[Any] | None:
    """Return the shapes of a function's results for elements that differ; None where it refuses such elements."""
    try:
        with np.errstate(all="ignore"):
            made = call(*given, **options)
    except Exception:
        return None
    return [np.shape(x) for x in (made if isinstance(made, tuple | list) else (made,))]


def _where(condition: Any, x: Any = None, y: Any = None) -> Array:
    if x is None or y is None:
        raise condition.no_value("the number of elements where a condition holds")
    known = [v for v in (condition, x, y) if isinstance(v, Array)]
    if len({_is_condition(v) for v in (x, y)}) > 1:  # a condition beside a number is an integer
        x, y = (v.astype(np.int32) if isinstance(v, Array) and _is_condition(v) else v for v in (x, y))
    kind = next((v.kind for v in (x, y) if isinstance(v, Array)), None) or _kind_of_numbers(x, y)
    builder = known[0].builder
    return applied(
        builder, "select", *(Array(builder, lifted(builder, v, k)) for v, k in ((condition, u8), (x, kind), (y, kind)))
    )


def _kind_of_numbers(*values: Any) -> DType:
    """Return the type that NumPy gives numbers together; those of 64 bits have 32 in graphs."""
    kind = kind_of(np.result_type(*values))
    return {i64: i32, f64: f32}.get(kind, kind)


def _any(x: Any, axis: Any = None, keepdims: Any = False) -> Array:
    return _fold(x if _is_condition(x) else x != 0, "max", axis, keepdims)


def _all(x: Any, axis: Any = None, keepdims: Any = False) -> Array:
    return _fold(x if _is_condition(x) else x != 0, "min", axis, keepdims)


def _dot(x: Any, y: Any) -> Array:
    builder = next(v.builder for v in (x, y) if isinstance(v, Array))
    ranks = {np.ndim(v) if not isinstance(v, Array) else v.ndim for v in (x, y)}
    return matmul(x, y) if ranks <= {1, 2} else _foreign(builder, "dot", np.dot, (x, y))


def _clip(x: Any, low: Any = None, high: Any = None, **named: Any) -> Array:
    low, high = (named.get(f"a_{word}", named.get(word, value)) for word, value in (("min", low), ("max", high)))
    builder = next(v.builder for v in (x, low, high) if isinstance(v, Array))
    x = x if low is None else applied(builder, "maximum", x, low)
    return x if high is None else applied(builder, "minimum", x, high)


def _concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Array:
    known = next(x for x in arrays if isinstance(x, Array))
    if axis is None:
        return _concatenate([x.reshape(-1) for x in arrays])
    return applied(known.builder, "concatenate", *arrays, axis=_place(known, axis))


def _stack(arrays: Sequence[Any], axis: int = 0) -> Array:
    known = next(x for x in arrays if isinstance(x, Array))
    place = _place(known, axis, 1)
    if shapes := [x.shape for x in arrays if x.shape != known.shape]:
        raise misfit(f"{known.shape} and {shapes[0]} do not stack", "give arrays of one shape").located(here())
    shape = (*known.shape[:place], 1, *known.shape[place:])
    return _concatenate([x.reshape(shape) for x in arrays], place)


def _expand_dims(x: Any, axis: int | Sequence[int]) -> Array:
    given = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
    places = [_place(x, a, len(given)) for a in given]
    if len(set(places)) < len(places):
        raise SpecError("graph-axis", f"the axes {axis} repeat one", fix="name each axis once", link=here())
    shape = list(x.shape)
    for place in sorted(places):
        shape.insert(place, 1)
    return x.reshape(shape)


def _squeeze(x: Any, axis: Any = None) -> Array:
    gone = _axes(x, axis) if axis is not None else tuple(i for i, n in enumerate(x.shape) if n == 1)
    return x.reshape([n for i, n in enumerate(x.shape) if i not in gone])


def _split(x: Any, parts: Any, axis: int = 0) -> list[Array]:
    axis = _place(x, axis)
    extent = x.shape[axis]
    parts = int(parts) if isinstance(parts, np.integer) else parts
    if isinstance(parts, int) and (parts < 1 or extent % parts):
        raise misfit(f"{extent} elements do not split into {parts} equal parts", "give a divisor").located(here())
    ends = [i * extent // parts for i in range(1, parts)] if isinstance(parts, int) else list(parts)
    bounds = [0, *ends, extent]
    lead = (slice(None),) * axis
    return [x[(*lead, slice(a, b))] for a, b in pairwise(bounds)]


def _folding(op: str) -> Callable[..., Array]:
    return lambda x, *given, **named: getattr(x, op)(*given, **named)


def _take(x: Any, ids: Any, axis: int | None = None) -> Array:
    if not isinstance(x, Array):
        return _foreign(ids.builder, "take", np.take, (x, ids), {"axis": axis})
    if axis is None:
        return _gathered(x.reshape(-1), ids)
    if _place(x, axis) == 0:
        return _gathered(x, ids)
    return _foreign(x.builder, "take", np.take, (x, ids), {"axis": axis})


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{op: _folding(op) for op in ("sum", "prod", "max", "min", "mean")},
    "amax": _folding("max"),
    "amin": _folding("min"),
    "var": _folding("var"),
    "std": _folding("std"),
    "where": _where,
    "clip": _clip,
    "reshape": lambda x, shape=None, **named: x.reshape(shape if shape is not None else named["newshape"]),
    "transpose": lambda x, axes=None: x.transpose(axes),
    "swapaxes": lambda x, one, other: x.swapaxes(one, other),
    "broadcast_to": lambda x, shape, **_: applied(x.builder, "broadcast", x, shape=tuple(np.broadcast_shapes(shape))),
    "concatenate": _concatenate,
    "stack": _stack,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "split": _split,
    "take": _take,
    "any": _any,
    "all": _all,
    "dot": _dot,
    "copy": lambda x: x.copy(),
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
        if kind == u8 and _type_name(getattr(each, "dtype", "")) in _TRUTHS:
            builder.truths.add(given[-1].number)
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

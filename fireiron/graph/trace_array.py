"""The stand-in for an array while a function is traced: its operators, methods and NumPy's calls become nodes."""
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# Arrays of NumPy and traced ones go through these functions alike.

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from fireiron.algebra.dtypes import DType, u8
from fireiron.base.errors import SpecError
from fireiron.base.later import Later
from fireiron.base.link import here

if TYPE_CHECKING:
    from fireiron.graph import trace_foreign as foreign_calls
    from fireiron.graph import trace_functions as functions
    from fireiron.graph import trace_subscripts as reading
    from fireiron.graph import trace_types as types
    from fireiron.graph.trace_types import Tracing
else:  # functions make arrays, and arrays call functions
    functions, reading = Later("fireiron.graph.trace_functions"), Later("fireiron.graph.trace_subscripts")
    foreign_calls, types = Later("fireiron.graph.trace_foreign"), Later("fireiron.graph.trace_types")


_UNARY = {
    "negative": "neg", "absolute": "abs", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2",
    "expm1": "expm1", "log1p": "log1p",
    "floor": "floor", "ceil": "ceil", "sqrt": "sqrt", "tanh": "tanh",
}  # fmt: skip
_BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "maximum": "maximum",
    "minimum": "minimum", "power": "pow", "less": "lt", "less_equal": "le", "equal": "eq",
}  # fmt: skip
_TURNED = {"greater": "lt", "greater_equal": "le"}
# Options that NumPy alone has.
_NUMPYS = {"where", "initial", "dtype", "out", "order", "casting", "mode", "subok", "correction"}
# Methods of NumPy's arrays that do what the function of the same name does.
_METHODS = frozenset(
    {
        "all", "any", "argmax", "argmin", "argpartition", "argsort", "conj", "conjugate", "cumprod", "cumsum",
        "diagonal", "dot", "repeat", "round", "searchsorted", "squeeze", "take", "trace",
    }
)  # fmt: skip


class TracedError(SpecError, AttributeError):
    """Report an attribute that traced arrays do not have."""


class Array:
    """Stand in for an array while a function is traced; operations on it become nodes of the graph."""

    __array_priority__ = 1000

    def __init__(self, builder: Tracing, number: int) -> None:
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
                return functions.matmul(*inputs)
            if name in _UNARY:
                return types.applied(self.builder, _UNARY[name], *inputs)
            if name in _BINARY:
                return types.applied(self.builder, _BINARY[name], *inputs)
            if name in _TURNED:
                return types.applied(self.builder, _TURNED[name], *reversed(inputs))
            if name == "not_equal":
                return types.applied(self.builder, "eq", types.applied(self.builder, "eq", *inputs), 0)
            if name == "square":
                return self * self
            if name == "reciprocal" and self.kind.kind == "float":
                return 1.0 / self
            if name in ("logical_and", "bitwise_and", "logical_or", "bitwise_or") and all(
                map(types.is_condition, inputs)
            ):
                return types.applied(self.builder, "mul" if name.endswith("and") else "maximum", *inputs)
            if name in ("logical_not", "invert") and types.is_condition(self):
                return types.applied(self.builder, "eq", self, 0)
            if name in ("floor_divide", "remainder", "mod"):
                return self._divided(name.replace("mod", "remainder"), *inputs)
            if name == "divmod":
                return divmod(*inputs)
        plain = options.keys() <= {"axis", "keepdims"}
        if method == "reduce" and plain and name in ("add", "maximum", "minimum", "multiply"):
            fold = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "prod"}[name]
            return functions.fold(self, fold, options.get("axis", 0), bool(options.get("keepdims", False)))
        return foreign_calls.foreign(self.builder, name, lambda *x: getattr(ufunc, method)(*x, **options), inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        ours = functions.FUNCTIONS.get(function.__name__)
        given = {option: x for option, x in named.items() if x is not None or option not in ("dtype", "out")}
        if ours is not None and (function.__name__.endswith("_like") or not _NUMPYS & given.keys()):
            try:
                inspect.signature(ours).bind(*args, **given)
            except TypeError:  # arguments that NumPy alone has, by their places
                return foreign_calls.foreign(self.builder, function.__name__, function, args, named)
            return ours(*args, **given)
        return foreign_calls.foreign(self.builder, function.__name__, function, args, named)

    def __add__(self, other: Any) -> Array:
        return types.applied(self.builder, "add", self, other)

    def __radd__(self, other: Any) -> Array:
        return types.applied(self.builder, "add", other, self)

    def __sub__(self, other: Any) -> Array:
        return types.applied(self.builder, "sub", self, other)

    def __rsub__(self, other: Any) -> Array:
        return types.applied(self.builder, "sub", other, self)

    def __mul__(self, other: Any) -> Array:
        return types.applied(self.builder, "mul", self, other)

    def __rmul__(self, other: Any) -> Array:
        return types.applied(self.builder, "mul", other, self)

    def __truediv__(self, other: Any) -> Array:
        return types.applied(self.builder, "div", self, other)

    def __rtruediv__(self, other: Any) -> Array:
        return types.applied(self.builder, "div", other, self)

    def __pow__(self, other: Any) -> Array:
        return types.applied(self.builder, "pow", self, other)

    def __rpow__(self, other: Any) -> Array:
        return types.applied(self.builder, "pow", other, self)

    def __mod__(self, other: Any) -> Array:
        return self._divided("remainder", self, other)

    def __floordiv__(self, other: Any) -> Array:
        return self._divided("floor_divide", self, other)

    def __rmod__(self, other: Any) -> Array:
        return self._divided("remainder", other, self)

    def __rfloordiv__(self, other: Any) -> Array:
        return self._divided("floor_divide", other, self)

    def _divided(self, op: str, x: Any, y: Any) -> Array:
        """Divide integers in a kernel, rounding down; NumPy divides floats and conditions."""
        if types.are_integers(x, y):
            return types.applied(self.builder, op, x, y)
        return foreign_calls.foreign(self.builder, op, getattr(np, op), (x, y))

    def __divmod__(self, other: Any) -> tuple[Array, Array]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Array, Array]:
        return other // self, other % self

    def __lshift__(self, other: Any) -> Array:
        return foreign_calls.foreign(self.builder, "left_shift", np.left_shift, (self, other))

    def __rlshift__(self, other: Any) -> Array:
        return foreign_calls.foreign(self.builder, "left_shift", np.left_shift, (other, self))

    def __rshift__(self, other: Any) -> Array:
        return foreign_calls.foreign(self.builder, "right_shift", np.right_shift, (self, other))

    def __rrshift__(self, other: Any) -> Array:
        return foreign_calls.foreign(self.builder, "right_shift", np.right_shift, (other, self))

    def __pos__(self) -> Array:
        return self

    def __neg__(self) -> Array:
        return types.applied(self.builder, "neg", self)

    def __abs__(self) -> Array:
        return types.applied(self.builder, "abs", self)

    def __matmul__(self, other: Any) -> Array:
        return functions.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Array:
        return functions.matmul(other, self)

    def __lt__(self, other: Any) -> Array:
        return types.applied(self.builder, "lt", self, other)

    def __le__(self, other: Any) -> Array:
        return types.applied(self.builder, "le", self, other)

    def __gt__(self, other: Any) -> Array:
        return types.applied(self.builder, "lt", other, self)

    def __ge__(self, other: Any) -> Array:
        return types.applied(self.builder, "le", other, self)

    def __eq__(self, other: object) -> Any:
        return types.applied(self.builder, "eq", self, other)

    def __ne__(self, other: object) -> Any:
        return types.applied(self.builder, "eq", types.applied(self.builder, "eq", self, other), 0)

    def __and__(self, other: Any) -> Array:
        return functions.bits("and", self, other)

    def __rand__(self, other: Any) -> Array:
        return functions.bits("and", other, self)

    def __or__(self, other: Any) -> Array:
        return functions.bits("or", self, other)

    def __ror__(self, other: Any) -> Array:
        return functions.bits("or", other, self)

    def __xor__(self, other: Any) -> Array:
        return functions.bits("xor", self, other)

    def __rxor__(self, other: Any) -> Array:
        return functions.bits("xor", other, self)

    def __invert__(self) -> Array:
        return (
            types.applied(self.builder, "eq", self, 0)
            if types.is_condition(self)
            else foreign_calls.foreign(self.builder, "invert", np.invert, (self,))
        )

    def __hash__(self) -> int:
        return id(self)

    def __getitem__(self, subscripts: Any) -> Array:
        return reading.sliced(self, subscripts)

    def astype(self, dtype: Any, **_: Any) -> Array:
        """Convert to another element type.

        Floats become integers as in NumPy, without their fractions; those that the type does not hold become its least
        or largest.
        """
        kind, truth = types.kind_of(dtype), types.is_condition(self)
        if kind == u8 and types.type_name(dtype) in types.TRUTHS:
            return self if truth else self != 0
        if kind == self.kind:
            return Array(self.builder, self.builder.add("cast", self.number, dtype=kind)) if truth else self
        x = self
        if kind.kind == "int" and self.kind.kind == "float":
            x = functions.where(self < 0, np.ceil(self), np.floor(self))
        return types.applied(self.builder, "cast", x, dtype=kind)

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
            return foreign_calls.foreign(self.builder, "reshape", np.reshape, (self, extents), {"order": order})
        given = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        extents = [operator.index(n) for n in given]
        if -1 in extents:
            rest = prod(n for n in extents if n != -1)
            extents[extents.index(-1)] = self.size // max(1, rest)
        return types.applied(self.builder, "reshape", self, shape=tuple(extents))

    def transpose(self, *axes: Any) -> Array:
        """Permute the axes; the default reverses them."""
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = (
            tuple(reversed(range(self.ndim)))
            if given is None or not given
            else tuple(reading.place_of(self, a) for a in given)
        )
        return types.applied(self.builder, "transpose", self, axes=order)

    def swapaxes(self, one: int, other: int) -> Array:
        """Exchange two axes."""
        order = list(range(self.ndim))
        one, other = reading.place_of(self, one), reading.place_of(self, other)
        order[one], order[other] = order[other], order[one]
        return self.transpose(order)

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Array:
        """Add up along axes."""
        return functions.fold(self, "sum", axis, keepdims, {"dtype": dtype, "out": out, **others})

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Array:
        """Multiply along axes."""
        return functions.fold(self, "prod", axis, keepdims, {"dtype": dtype, "out": out, **others})

    def max(self, axis: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Array:
        """Take the largest along axes."""
        return functions.fold(self, "max", axis, keepdims, {"out": out, **others})

    def min(self, axis: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Array:
        """Take the smallest along axes."""
        return functions.fold(self, "min", axis, keepdims, {"out": out, **others})

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **others: Any) -> Array:
        """Take the mean along axes."""
        return functions.fold(self, "mean", axis, keepdims, {"dtype": dtype, "out": out, **others})

    def std(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: Any = False, **others: Any
    ) -> Array:
        """Take the standard deviation along axes."""
        others = {"dtype": dtype, "out": out, **others}
        if any(x is not None for x in others.values()):
            named = {"axis": axis, "ddof": ddof, "keepdims": keepdims, **others}
            return foreign_calls.foreign(self.builder, "std", np.std, (self,), named)
        return types.applied(self.builder, "sqrt", self.var(axis, ddof=ddof, keepdims=keepdims))

    def var(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: Any = False, **others: Any
    ) -> Array:
        """Take the variance along axes."""
        others = {"dtype": dtype, "out": out, **others}
        if any(x is not None for x in others.values()):
            named = {"axis": axis, "ddof": ddof, "keepdims": keepdims, **others}
            return foreign_calls.foreign(self.builder, "var", np.var, (self,), named)
        x = self.astype(np.float32) if self.kind.kind == "int" else self
        return types.applied(
            self.builder, "variance", x, axes=reading.axes_in(x, axis), keepdims=bool(keepdims), correction=ddof
        )

    def copy(self, order: str = "C") -> Array:
        """Return the array, whose elements never change."""
        return self

    def clip(self, min: Any = None, max: Any = None) -> Array:
        """Limit the elements to a least and a largest number."""
        return functions.clip(self, min, max)

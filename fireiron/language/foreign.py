"""NumPy's and torch's functions on expressions, and errors for Python's operations that expressions do not have.

`np.exp(x)` and `torch.exp(x)` of an expression return `fireiron.exp(x)`; a function without a counterpart raises a
coded error. This file is imported when the first such function is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from fireiron.algebra.scalar import BinaryOp
from fireiron.base.contract import shown
from fireiron.base.errors import SpecError
from fireiron.language import functions as f
from fireiron.language.pointwise import Operand, Value, binary, both, either, lifted, power, where


def _clip(x: Operand, low: Operand | None = None, high: Operand | None = None) -> Value:
    (value,) = lifted(x)
    value = value if low is None else f.maximum(value, low)
    return value if high is None else f.minimum(value, high)


def _gelu(x: Operand, approximate: str = "none") -> Value:
    return f.gelu_tanh(x) if approximate == "tanh" else f.gelu(x)


def _not_equal(x: Operand, y: Operand) -> Value:
    return 1 - binary("eq", x, y)


def _binary(op: BinaryOp, turned: bool = False) -> Callable[[Operand, Operand], Value]:
    def apply(x: Operand, y: Operand) -> Value:
        return binary(op, y, x) if turned else binary(op, x, y)

    return apply


def _same(x: Operand) -> Value:
    return lifted(x)[0]


def _absolute(x: Operand) -> Value:
    return abs(_same(x))


def _negative(x: Operand) -> Value:
    return -_same(x)


def _reciprocal(x: Operand) -> Value:
    return 1 / _same(x)


def _square(x: Operand) -> Value:
    return power(x, 2)


def _zero(x: Operand) -> Value:
    return f.equal(x, 0)


# Keys are names of NumPy's or torch's functions; some exist in only one of the two.
FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "abs": _absolute,
    "absolute": _absolute,
    "add": _binary("add"),
    "ceil": f.ceil,
    "clamp": _clip,
    "clip": _clip,
    "div": _binary("div"),
    "divide": _binary("div"),
    "eq": f.equal,
    "equal": f.equal,
    "erf": f.erf,
    "exp": f.exp,
    "exp2": f.exp2,
    "expm1": f.expm1,
    "fabs": _absolute,
    "float_power": power,
    "floor": f.floor,
    "ge": _binary("le", turned=True),
    "gelu": _gelu,
    "greater": _binary("lt", turned=True),
    "greater_equal": _binary("le", turned=True),
    "gt": _binary("lt", turned=True),
    "le": _binary("le"),
    "less": _binary("lt"),
    "less_equal": _binary("le"),
    "log": f.log,
    "log1p": f.log1p,
    "log2": f.log2,
    "logical_and": both,
    "logical_not": _zero,
    "logical_or": either,
    "lt": _binary("lt"),
    "maximum": f.maximum,
    "minimum": f.minimum,
    "mul": _binary("mul"),
    "multiply": _binary("mul"),
    "ne": _not_equal,
    "neg": _negative,
    "negative": _negative,
    "not_equal": _not_equal,
    "positive": _same,
    "pow": power,
    "power": power,
    "reciprocal": _reciprocal,
    "relu": f.relu,
    "relu6": f.clamp_to(0, 6),
    "rsqrt": f.rsqrt,
    "sigmoid": f.sigmoid,
    "silu": f.silu,
    "sqrt": f.sqrt,
    "square": _square,
    "sub": _binary("sub"),
    "subtract": _binary("sub"),
    "tanh": f.tanh,
    "true_divide": _binary("div"),
    "where": where,
}


def called(library: str, name: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Value:
    """Call the counterpart of a foreign function.

    Args:
        library: `np` or `torch`, for messages.
        name: name of the function.
        inputs: arguments of the call.
        options: keyword arguments of the call; None means that the keyword was not given.

    Raises:
        SpecError: `bad-op` where there is no counterpart, or it takes other arguments; and the counterpart's own
            errors.

    Example:
        >>> from fireiron.algebra.dtypes import f32
        >>> from fireiron.language.pointwise import accumulator
        >>> called("np", "square", [accumulator(f32)], {})
        <Value acc * acc of f32>
    """
    function = FUNCTIONS.get(name.strip("_"))
    given = {key: value for key, value in options.items() if value is not None and value is not False}
    if function is None:
        raise SpecError(
            "bad-op",
            f"{library}.{name} has no counterpart on expressions",
            fix="use fireiron's functions, or write it: custom(name, source, numpy)",
        )
    try:
        return function(*inputs, **given)
    except TypeError as error:
        raise SpecError(
            "bad-op",
            f"{library}.{name} of expressions does not take these arguments: {error}",
            fix="give it expressions, tensors and numbers alone",
        ) from None


def of_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Value:
    """Call a ufunc of NumPy on expressions.

    Raises:
        SpecError: `bad-op` for `np.add.reduce` and its like; as `called` does.
    """
    if method != "__call__":
        raise SpecError(
            "bad-op",
            f"np.{ufunc.__name__}.{method} folds many elements, and an expression has one",
            fix="fold in a program: fireiron.sum(x, over='n'), or by row_sum(tensor) in an epilog",
        )
    return called("np", ufunc.__name__, inputs, options)


def as_array(value: Value) -> NoReturn:
    """Raise the error for an expression that NumPy would convert to an array."""
    raise SpecError(
        "bad-op",
        f"{value} is an expression of one element, and no array",
        fix="use fireiron's functions, NumPy's ufuncs and operators on it",
    )


_PYTHON: Mapping[str, tuple[str, str]] = {
    "__rfloordiv__": ("2 // x", "use floor(2 / x)"),
    "__rmod__": ("2 % x", "use 2 - floor(2 / x) * x"),
    "__divmod__": ("divmod(x, y)", "use floor(x / y)"),
    "__matmul__": ("x @ y", "an expression is one element: multiply matrices by a product of their own"),
    "__xor__": ("x ^ y", "use 1 - equal(x, y) of comparisons; a power is x ** y"),
    "__lshift__": ("x << y", "multiply by a power of two"),
    "__rshift__": ("x >> y", "multiply by a power of two, and take floor"),
    "__iter__": ("a loop over x", "an expression is one element: fold in a program, or by row_sum(tensor)"),
    "__len__": ("len(x)", "an expression is one element: sizes are known outside the op"),
    "__contains__": ("y in x", "an expression is one element: use equal(x, y)"),
    "__float__": ("float(x), as Python's math functions call it,", "use fireiron's: exp, log, sqrt, tanh, erf, ..."),
    "__int__": ("int(x)", "use floor(x), or cast(x, 'i32')"),
    "__index__": ("x as an index", "use cast(x, 'i32')"),
    "__complex__": ("complex(x)", "compute with real numbers"),
    "__round__": ("round(x)", "use floor(x + 0.5)"),
    "__trunc__": ("trunc(x)", "use where(x < 0, ceil(x), floor(x))"),
}
REVERSED = ("__divmod__", "__matmul__", "__xor__", "__lshift__", "__rshift__")
OPERATORS = (*_PYTHON, *(f"__r{name[2:]}" for name in REVERSED))


def refused_operator(name: str, value: Value) -> NoReturn:
    """Raise the error for an operator or conversion that expressions do not have, such as `x @ y` or `float(x)`."""
    words, fix = _PYTHON[name if name in _PYTHON else f"__{name[3:]}"]
    raise SpecError("bad-op", f"{words} has no meaning for expressions such as {shown(value)}", fix=fix)

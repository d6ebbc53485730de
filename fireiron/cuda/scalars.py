"""Scalar expressions as C, each operation rounded once.

Floats that C lacks (f16, bf16, ...) are computed in float and rounded after each operation. For + - * / and sqrt,
rounding twice then gives the same as rounding once, since f32 has enough more bits. Products are `__fmul_rn`, which the
compiler may not contract with a sum into an fma; `MultiplyAdd` is an fma.
"""

from __future__ import annotations

import json
import re
import textwrap
from math import frexp
from typing import Final, NamedTuple, assert_never

from fireiron.algebra.dtypes import DType, f32, f64, i32, i64
from fireiron.algebra.index.printing import (
    AND,
    ATOM,
    CHOICE,
    EITHER,
    EQUAL,
    LESS,
    OR,
    PLUS,
    TIMES,
    UNARY,
    Text,
)
from fireiron.algebra.scalar import (
    Arg,
    Binary,
    Cast,
    Constant,
    Coordinate,
    Custom,
    Debug,
    MultiplyAdd,
    Parameter,
    Scalar,
    Select,
    Unary,
    tells,
)
from fireiron.algebra.unary import FUNCTIONS, is_quick
from fireiron.base.errors import CheckError
from fireiron.base.text import count
from fireiron.cuda.types import bits_of, c_type, is_narrow, literal

_COMPARE: Final = {"lt": ("<", LESS), "le": ("<=", LESS), "eq": ("==", EQUAL)}
_WIDE: Final = {f64: "double", i64: "longlong", i32: "int"}  # types of which f32 holds not all numbers
_INFIX: Final = {"add": ("+", PLUS), "sub": ("-", PLUS), "mul": ("*", TIMES), "div": ("/", TIMES)}


class _Value(NamedTuple):
    """Hold two texts of an expression: `text` to compute with, and `stored` to store.

    In `text` floats that C lacks are `float`. `stored` leaves out a rounding or wrapping that the store does itself.
    """

    text: Text
    stored: Text


def scalar(tree: Scalar, args: tuple[str, ...]) -> str:
    """Print an expression that gives an element of the tree's dtype.

    Args:
        tree: what to compute.
        args: an lvalue in C for each `Arg`.

    Raises:
        CheckError: `float-operation` for exp, sqrt, ... of integers.

    Example:
        >>> scalar(Binary("max", Arg(0, f32), Constant(0, f32)), ("acc[0]",))
        'fmaxf_nan(acc[0], 0.0f)'
    """
    return _value(tree, args).stored.code


def custom(tree: Custom) -> str:
    """Print the device function of a user's own operation.

    Example:
        >>> print(custom(Custom("twice", "2 * x", ("x",), (Arg(0, f32),), f32, lambda x: 2 * x)), end="")
        // Operation twice
        __device__ __forceinline__ float custom_twice(float x) {
            return 2 * x;
        }
    """
    body = textwrap.dedent(tree.source).strip("\n")
    if not re.search(r"\breturn\b", body):
        body = f"return {body};"
    parameters = ", ".join(f"{_computed(x.dtype)} {name}" for x, name in zip(tree.args, tree.parameters, strict=True))
    head = f"__device__ __forceinline__ {_computed(tree.dtype)} custom_{tree.name}({parameters})"
    return f"// Operation {tree.name}\n{head} {{\n{textwrap.indent(body, '    ')}\n}}\n"


def printing(tree: Debug) -> str:
    r"""Print the device function that shows a value by `printf`, and returns it.

    Example:
        >>> print(printing(Debug("acc", Arg(0, f32), (Arg(1, i32),))), end="")
        // Debug of float at 1 coordinate
        __device__ __forceinline__ float debug_1(const char* name, bool shown, float x, int i0) {
            if (shown) {
                printf("%s: block %d, thread %d, [%d] = %g\n", name, (int)blockIdx.x, (int)threadIdx.x, i0, x);
            }
            return x;
        }
    """
    kind, rank = _computed(tree.dtype), len(tree.at)
    places = [f"i{axis}" for axis in range(rank)]
    form = "%s: block %d, thread %d" + (f", [{', '.join(['%d'] * rank)}]" if rank else "")
    form += " = %lld" if tree.dtype == i64 else " = %d" if tree.dtype.kind == "int" else " = %g"
    values = ", ".join(["name", "(int)blockIdx.x", "(int)threadIdx.x", *places, "x"])
    head = ", ".join(["const char* name", "bool shown", f"{kind} x", *(f"int {place}" for place in places)])
    return (
        f"// Debug of {kind} at {count(rank, 'coordinate')}\n"
        f"__device__ __forceinline__ {kind} debug_{rank}({head}) {{\n"
        f'    if (shown) {{\n        printf("{form}\\n", {values});\n    }}\n    return x;\n}}\n'
    )


def _debug(tree: Debug, args: tuple[str, ...]) -> _Value:
    """Call the function of `printing`, with the condition under which it shows the value."""
    places = [_value(place, args).text for place in tree.at]
    tests = [f"{place.within(EQUAL + 1)} == {only}" for place, only in zip(places, tree.only or (), strict=False)]
    name, shown = Text(json.dumps(tree.name), ATOM), Text(" && ".join(tests) or "true", EITHER)
    return _exact(_call(f"debug_{len(places)}", name, shown, _value(tree.x, args).text, *places), tree.dtype)


def _computed(dtype: DType) -> str:
    """Name the C type that values are computed in."""
    return "float" if is_narrow(dtype) else c_type(dtype)


def _value(tree: Scalar, args: tuple[str, ...]) -> _Value:
    match tree:
        case Arg(index=index, dtype=dtype):
            return _loaded(Text(args[index], ATOM), dtype)
        case Parameter(name=name, dtype=dtype):
            return _loaded(Text(name, ATOM), dtype)
        case Constant(value=value, dtype=dtype):
            return _constant(value, dtype)
        case Unary():
            return _unary(tree, _value(tree.x, args))
        case Binary(op=("lt" | "le" | "eq"), x=x):
            return _truth(_comparison(tree, args), x.dtype)
        case Binary():
            return _binary(tree, _value(tree.x, args), _value(tree.y, args))
        case MultiplyAdd(x=x, y=y, z=z):
            return _exact(_call("fmaf", *(_value(part, args).text for part in (x, y, z))), f32)
        case Select(condition=condition, x=x, y=y):
            return _select(_condition(condition, args), x.dtype, _value(x, args), _value(y, args))
        case Cast(x=x, dtype=dtype, wraps=wraps):
            value = _value(x, args)
            if wraps:
                return _inexact(Text(f"({c_type(dtype)}){value.text.within(UNARY)}", UNARY), dtype)
            return value if x.dtype == dtype else _cast(value, x.dtype, dtype)
        case Coordinate(value):
            raise AssertionError(f"{value} is an argument by now")
        case Debug():
            return _debug(tree, args)
        case Custom(name=name, args=operands, dtype=dtype):
            return _inexact(_call(f"custom_{name}", *(_value(x, args).text for x in operands)), dtype)
        case _ as never:
            assert_never(never)


def _loaded(text: Text, dtype: DType) -> _Value:
    """Take an element that was loaded; floats that C lacks are converted to float."""
    return _Value(_call(f"{c_type(dtype)}_to_float", text), text) if is_narrow(dtype) else _Value(text, text)


def _exact(text: Text, dtype: DType) -> _Value:
    """Take a result that needs no rounding and no wrapping."""
    return _Value(text, _call(f"float_to_{c_type(dtype)}", text)) if is_narrow(dtype) else _Value(text, text)


def _inexact(text: Text, dtype: DType) -> _Value:
    """Take a result that must be rounded (floats that C lacks) or wrapped (8-bit integers) to its dtype."""
    if is_narrow(dtype):
        return _loaded(_call(f"float_to_{c_type(dtype)}", text), dtype)
    if dtype.bits == 8:
        return _Value(Text(f"({c_type(dtype)}){text.within(ATOM)}", UNARY), text)
    return _Value(text, text)


def _call(function: str, *operands: Text) -> Text:
    return Text(f"{function}({', '.join(operand.code for operand in operands)})", ATOM)


def _constant(value: float, dtype: DType) -> _Value:
    code = literal(value, dtype)
    text = Text(code, UNARY if code.startswith("-") else ATOM)
    if not is_narrow(dtype):
        return _Value(text, text)
    return _Value(text, Text(f"{c_type(dtype)}{{{bits_of(value, dtype):#0{dtype.bits // 4 + 2}x}}}", ATOM))


def _unary(tree: Unary, x: _Value) -> _Value:
    dtype, function = tree.dtype, FUNCTIONS[tree.op]
    name = function.integers if dtype.kind == "int" else function.cuda
    if not name:
        raise CheckError(
            "float-operation",
            f"{tree.op} of {dtype}, which is no floating-point type",
            fix="cast the operand to a float first",
        )
    if not name.isidentifier():
        text = Text(f"{name}{x.text.within(ATOM)}", UNARY)
    else:
        text = _call(name if dtype == f64 or dtype.kind == "int" else function.single or f"{name}f", x.text)
    return _exact(text, dtype) if function.exact and dtype.kind == "float" else _inexact(text, dtype)


def _binary(tree: Binary, x: _Value, y: _Value) -> _Value:
    dtype, op = tree.dtype, tree.op
    if op in ("max", "min"):
        name = op if dtype.kind == "int" else f"f{op}_nan" if dtype == f64 else f"f{op}f_nan"
        return _exact(_call(name, x.text, y.text), dtype)
    if op == "mul" and dtype in (f32, f64):
        return _exact(_call("__dmul_rn" if dtype == f64 else "__fmul_rn", x.text, y.text), dtype)
    if op == "pow":
        if dtype.kind == "int":
            raise CheckError(
                "float-operation", f"pow of {dtype}, which is no floating-point type", fix="cast to a float first"
            )
        return _inexact(_call("pow" if dtype == f64 else "powf", x.text, y.text), dtype)
    if is_quick(tree) and tree.x == Constant(1, f32):
        return _exact(_call("inverse_quick", y.text), dtype)
    if is_quick(tree):
        return _exact(_call("divide_quick", x.text, y.text), dtype)
    if op == "div" and dtype == f32 and isinstance(tree.y, Constant) and _is_inverted(tree.y.value):
        inverse = _constant(1 / tree.y.value, f32)
        return _exact(_call("divide_by", x.text, y.text, inverse.text), dtype)
    sign, binding = _INFIX[op]
    return _inexact(Text(f"{x.text.within(binding)} {sign} {y.text.within(binding + 1)}", binding), dtype)


def _is_inverted(value: float) -> bool:
    """Say whether f32 are divided by a constant through its inverse; the compiler does so for powers of two."""
    return 2.0**-100 <= abs(value) <= 2.0**100 and abs(frexp(value)[0]) != 0.5


def _comparison(tree: Binary, args: tuple[str, ...]) -> Text:
    sign, binding = _COMPARE[tree.op]
    x, y = _value(tree.x, args).text, _value(tree.y, args).text
    return Text(f"{x.within(PLUS)} {sign} {y.within(PLUS)}", binding)


def _condition(tree: Scalar, args: tuple[str, ...]) -> Text:
    """Print a condition; comparisons are joined by `&` and `|`, which become no branches."""
    match tree:
        case Binary("eq", x, Constant(value=0)) if tells(x):
            return Text(f"!{_condition(x, args).within(UNARY)}", UNARY)
        case Binary(op=("lt" | "le" | "eq")):
            return _comparison(tree, args)
        case Cast(x=x) if tells(x):
            return _condition(x, args)
        case Select(condition=a, x=b, y=Constant(value=0)) if tells(a) and tells(b):
            return Text(f"{_condition(a, args).within(EQUAL)} & {_condition(b, args).within(EQUAL)}", AND)
        case Select(condition=a, x=Constant(value=1), y=b) if tells(a) and tells(b):
            return Text(f"{_condition(a, args).within(EQUAL)} | {_condition(b, args).within(EQUAL)}", OR)
        case _:
            pass
    return Text(f"{_value(tree, args).text.within(PLUS)} != {literal(0, tree.dtype)}", EQUAL)


def _truth(condition: Text, dtype: DType) -> _Value:
    return _select(condition, dtype, _constant(1, dtype), _constant(0, dtype))


def _select(condition: Text, dtype: DType, x: _Value, y: _Value) -> _Value:
    test = condition.within(EITHER)
    text = Text(f"{test} ? {x.text.within(EITHER)} : {y.text.within(CHOICE)}", CHOICE)
    if not is_narrow(dtype):
        return _Value(text, text)
    return _Value(text, Text(f"{test} ? {x.stored.within(EITHER)} : {y.stored.within(CHOICE)}", CHOICE))


def _cast(x: _Value, source: DType, target: DType) -> _Value:
    text = x.text
    if is_narrow(target):
        name = _WIDE.get(source, "float")
        return _loaded(_call(f"{name}_to_{c_type(target)}", text), target)
    if target.kind == "float":
        # A float that C lacks already is computed as float.
        converted = (
            text if is_narrow(source) and target == f32 else Text(f"({c_type(target)}){text.within(UNARY)}", UNARY)
        )
        return _Value(converted, converted)
    if target == i64:
        if source.kind == "float":
            text = _call("double_to_longlong" if source == f64 else "float_to_longlong", text)
        else:
            text = Text(f"(long long){text.within(UNARY)}", UNARY)
        return _Value(text, text)
    if source.kind == "float":
        text = _call("double_to_int" if source == f64 else "__float2int_rn", text)
    elif source == i64:
        text = _call("saturate_i32", text)
    if target.bits == 8:
        text = _call(f"saturate_{target.name}", text)
    return _Value(text, text)

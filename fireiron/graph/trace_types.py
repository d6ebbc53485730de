"""Types of traced arrays: the element types that NumPy computes in, and operations on numbers and arrays of these.

Graphs have no booleans: a condition has u8, as bytes have. While a function is traced, `Tracing` tells them apart.
"""
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false
# Arrays of NumPy and traced ones go through these functions alike.

from __future__ import annotations

from typing import Any

import numpy as np

from fireiron.algebra.dtypes import DType, f32, f64, i32, i64, u8
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.unary import FUNCTIONS as UNARY
from fireiron.base.contract import shown
from fireiron.base.errors import FireironError, SpecError
from fireiron.base.link import here
from fireiron.graph.nodes import Builder, Data
from fireiron.graph.operations import BINARY, COMPARISONS
from fireiron.graph.trace_array import Array

TRUTHS = ("bool", "bool_", "b1")
# Operations whose results on integers are integers; NumPy computes the other functions of one array in floats.
READING = ("gather", "take_along_axis")  # the second array has the numbers of what is read
_WHOLE = {"neg", "abs", "floor", "ceil"}
# Operations that give a condition for conditions.
_TRUTHFUL = {
    "mul", "maximum", "minimum", "select", "reshape", "transpose", "broadcast", "slice", "max", "min", "gather",
    "take_along_axis", "concatenate",
}  # fmt: skip


class Tracing(Builder):
    """Collect the nodes of a traced function, and note which of them stand for NumPy's bool."""

    def __init__(self) -> None:
        super().__init__()
        self.truths: set[int] = set()  # they have u8, as bytes have


def kind_of(dtype: object) -> DType:
    """Return the graph's element type for a NumPy type; graphs also have booleans, of one byte.

    Raises:
        SpecError: `unknown-dtype`.
    """
    name = type_name(dtype)
    return u8 if name in TRUTHS else i64 if name == "int" else find_dtype(dtype)


def type_name(dtype: object) -> str:
    """Return the name of an element type of NumPy or torch, or of a Python type."""
    return str(getattr(dtype, "name", getattr(dtype, "__name__", dtype))).removeprefix("torch.")


def applied(builder: Tracing, op: str, *inputs: Any, **attributes: Any) -> Array:
    """Add an operation to a graph; numbers get the type of the other operands."""
    try:
        op, inputs = _as_in_numpy(op, inputs)
        kinds = [x.kind for x in inputs if isinstance(x, Array)]
        numbers = [lifted(builder, x, kinds[-1]) for x in inputs]
        made = builder.add(op, *numbers, **attributes)
    except FireironError as error:
        raise error.located(here()) from None
    chosen = numbers[1:] if op == "select" else numbers[:1] if op in READING else numbers
    if op in COMPARISONS or (op in _TRUTHFUL and builder.truths.issuperset(chosen)):
        builder.truths.add(made)
    return Array(builder, made)


def _as_in_numpy(op: str, inputs: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Convert integers and conditions to the types in which NumPy computes with them."""
    kinds = [x.kind for x in inputs if isinstance(x, Array)]
    if any(kind.kind != "int" for kind in kinds):
        return op, inputs
    if op == "div" or (op in UNARY and op not in _WHOLE):
        return op, tuple(x.astype(np.float32) if isinstance(x, Array) else x for x in inputs)
    if op in READING or (op not in BINARY and op not in COMPARISONS and op not in ("neg", "concatenate", "select")):
        return op, inputs
    if op == "pow" and isinstance(inputs[1], int) and inputs[1] < 0:
        raise SpecError("graph-value", "integers to a negative power", fix="convert the array: x.astype(np.float32)")
    truths = [is_condition(x) for x in inputs]
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


def lifted(builder: Tracing, value: Any, kind: DType) -> int:
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
    small = found == i64 and (not made.size or -(2**31) <= made.min() <= made.max() < 2**31)
    number = builder.array(Data.of(made, f32 if found == f64 else i32 if small else found))
    if made.dtype == np.bool_:
        builder.truths.add(number)
    return number


def is_condition(x: Any) -> bool:
    """Say whether a value is a truth in NumPy: u8 in the graph is the type of truths and of bytes."""
    return x.number in x.builder.truths if isinstance(x, Array) else np.asarray(x).dtype == np.bool_


def are_integers(*values: Any) -> bool:
    """Say whether all values are integers of one type, or numbers beside them, and none is a condition."""
    arrays = {x.kind for x in values if isinstance(x, Array)}
    plain = all(isinstance(x, Array) or (isinstance(x, int) and not isinstance(x, bool)) for x in values)
    return plain and len(arrays) == 1 and arrays.pop().kind == "int" and not any(map(is_condition, values))


def kind_of_numbers(*values: Any) -> DType:
    """Return the type that NumPy gives numbers together; those of 64 bits have 32 in graphs."""
    kind = kind_of(np.result_type(*values))
    return {i64: i32, f64: f32}.get(kind, kind)

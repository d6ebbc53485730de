"""Pairs of 16-bit floats in one register: the text that computes both at once."""

from __future__ import annotations

from fireiron.algebra.dtypes import DType
from fireiron.algebra.scalar import Arg, Binary, Cast, Constant, Scalar, Unary
from fireiron.cuda.memory import Element, Numbers
from fireiron.cuda.scalars import scalar
from fireiron.cuda.types import bits_of, c_type
from fireiron.kernel.ir.statements import View
from fireiron.kernel.passes.pairs import Pair, beside, converts, of_bytes, packs


def pair_text(pair: Pair, number: Numbers) -> str:
    """Print the statement that computes and stores a pair.

    Args:
        pair: the elements.
        number: prints index expressions.
    """
    put = "put_bytes" if of_bytes(pair.tree) else "put_pair"
    return f"{put}(&{Element(pair.dst[0], number)}, {_value(pair.tree, pair.inputs, number)});"


def _value(tree: Scalar, inputs: tuple[tuple[View, View], ...], number: Numbers) -> str:
    match tree:
        case Unary(op=op, x=x) if packs(tree):
            return f"{_name(op, tree.dtype)}({_value(x, inputs, number)})"
        case Binary(op=op, x=x, y=y) if packs(tree):
            return f"{_name(op, tree.dtype)}({_value(x, inputs, number)}, {_value(y, inputs, number)})"
        case Cast(Arg(index=index), dtype) if converts(tree):
            low, high = (Element(view, number) for view in inputs[index])
            return f"floats_to_{c_type(dtype)}_pair({low}, {high})"
        case Constant(value=value, dtype=dtype):
            return f"{bits_of(value, dtype) * 0x10001:#010x}"
        case Arg(index=index) if beside(*inputs[index]):
            return f"pair_at(&{Element(inputs[index][0], number)})"
        case _:
            each = (scalar(tree, tuple(str(Element(views[i], number)) for views in inputs)) for i in range(2))
            return f"pack_pair({', '.join(each)})"


def _name(op: str, dtype: DType) -> str:
    """Name the function of an operation on pairs; `neg` and `abs` change the sign bit, so one serves both types."""
    return f"{op}_pair" if op in ("neg", "abs") else f"{op}_{c_type(dtype)}_pair"

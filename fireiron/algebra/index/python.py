"""Print index expressions as Python source, for integers or for NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from fireiron.algebra.index.nodes import (
    Bitwise,
    Compare,
    Const,
    Element,
    Expr,
    Extremum,
    FloorDiv,
    Index,
    Logic,
    Mod,
    Product,
    Select,
    Shift,
    Sum,
    Symbol,
    Var,
    as_expr,
    closed,
)
from fireiron.algebra.index.printing import Text, ordered_terms

ATOM, UNARY, TIMES, PLUS, SHIFT, AND, XOR, OR, LESS, CHOICE = range(10, 0, -1)


def to_python(value: Index, names: Mapping[str, str] | None = None, arrays: bool = True) -> str:
    """Print an expression as Python source.

    Args:
        value: the expression.
        names: names to print for leaves, instead of their own; any Python expression that binds as tightly as a name.
        arrays: whether leaves may be NumPy arrays (`np` must be in scope); else they are ints. A condition gives a
            bool.

    Example:
        >>> i = Var("i", 64)
        >>> to_python(i // 8 * 4 + i % 8)
        'i // 8 * 4 + i % 8'
    """
    return _Printer(names or {}, arrays).text(as_expr(value)).code


class _Printer:
    """Print expressions as Python, with given names."""

    def __init__(self, names: Mapping[str, str], arrays: bool) -> None:
        self.names = names
        self.arrays = arrays

    def text(self, e: Expr) -> Text:
        """Print a node; conditions give bools."""
        match closed(e):
            case Const(value=value):
                return Text(str(value), ATOM if value >= 0 else UNARY)
            case Var(name=name) | Symbol(name=name):
                return Text(self.names.get(name, name), ATOM)
            case Sum() as total:
                return self._sum(total)
            case Product(factors=factors):
                first, *rest = (self.number(factor) for factor in factors)
                return Text(" * ".join([first.within(TIMES), *(text.within(UNARY) for text in rest)]), TIMES)
            case FloorDiv(numerator=a, denominator=b):
                return Text(f"{self.number(a).within(TIMES)} // {self.number(b).within(UNARY)}", TIMES)
            case Mod(numerator=a, denominator=b):
                return Text(f"{self.number(a).within(TIMES)} % {self.number(b).within(UNARY)}", TIMES)
            case Bitwise(op=op, operands=found):
                binding = {"&": AND, "^": XOR, "|": OR}[op]
                return Text(f" {op} ".join(self.number(operand).within(PLUS) for operand in found), binding)
            case Shift(op=op, value=a, amount=b):
                return Text(f"{self.number(a).within(PLUS)} {op} {self.number(b).within(ATOM)}", SHIFT)
            case Extremum(op=op, operands=found):
                return self._extremum(op, [self.number(operand).code for operand in found])
            case Compare(op=op, left=left, right=right):
                return Text(f"{self.number(left).within(OR)} {op} {self.number(right).within(OR)}", LESS)
            case Logic(op=op, operands=found):
                return self._logic(op, found)
            case Select(condition=condition, then=then, otherwise=otherwise):
                truth, a, b = self.truth(condition), self.number(then), self.number(otherwise)
                if self.arrays:
                    return Text(f"np.where({truth.code}, {a.code}, {b.code})", ATOM)
                return Text(f"{a.within(LESS)} if {truth.within(LESS)} else {b.code}", CHOICE)
            case Element(array=array, index=found):
                return Text(f"{array}[{', '.join(self.number(operand).code for operand in found)}]", ATOM)
            case _ as never:
                assert_never(never)

    def number(self, e: Expr) -> Text:
        """Print a node as an integer, since the sum of two bool arrays would be their disjunction."""
        text = self.text(e)
        return Text(f"{text.within(UNARY)} * 1", TIMES) if isinstance(e, Compare | Logic) else text

    def truth(self, e: Expr) -> Text:
        """Print a node as a bool."""
        text = self.text(e)
        return text if isinstance(e, Compare | Logic) else Text(f"{text.within(OR)} != 0", LESS)

    def _logic(self, op: str, found: tuple[Expr, ...]) -> Text:
        if self.arrays:
            sign, binding = ("&", AND) if op == "&&" else ("|", OR)
            return Text(f" {sign} ".join(self.truth(operand).within(PLUS) for operand in found), binding)
        word = " and " if op == "&&" else " or "
        return Text(f"({word.join(self.truth(operand).within(LESS) for operand in found)})", ATOM)

    def _sum(self, e: Sum) -> Text:
        code = ""
        terms = ordered_terms(e)
        for number, (monomial, coefficient) in enumerate(terms):
            size = abs(coefficient)
            if isinstance(monomial, Const):
                text = Text(str(size), ATOM)
            else:
                text = self.number(monomial)
                text = text if size == 1 else Text(f"{text.within(TIMES)} * {size}", TIMES)
            if number == 0:
                code = text.within(TIMES) if coefficient > 0 else f"-{text.within(UNARY)}"
            else:
                code += f" {'+' if coefficient > 0 else '-'} {text.within(TIMES)}"
        return Text(code, PLUS if len(terms) > 1 or terms[0][1] < 0 else TIMES)

    def _extremum(self, op: str, codes: list[str]) -> Text:
        if not self.arrays:
            return Text(f"{op}({', '.join(codes)})", ATOM)
        code = codes[0]
        for other in codes[1:]:
            code = f"np.{op}imum({code}, {other})"
        return Text(code, ATOM)

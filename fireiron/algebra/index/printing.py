"""Printing index expressions as C, with only the parentheses that are needed."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final, NamedTuple, assert_never

from fireiron.algebra.index.nodes import (
    Bitwise,
    Compare,
    Const,
    Element,
    Expr,
    Extremum,
    FloorDiv,
    Index,
    Interval,
    Logic,
    Mod,
    Product,
    Select,
    Shift,
    Sum,
    Symbol,
    Term,
    Var,
    as_expr,
    closed,
    const,
    operands,
)
from fireiron.algebra.index.ranges import is_power_of_two
from fireiron.algebra.index.sums import build

INT32: Final = (-(2**31), 2**31 - 1)
UNBOUNDED: Final = 2**63
ATOM, UNARY, TIMES, PLUS, SHIFT, LESS, EQUAL, AND, XOR, OR, BOTH, EITHER, CHOICE = range(13, 0, -1)


class Text(NamedTuple):
    """A printed expression, how tightly it binds, and whether it is a `long long`."""

    code: str
    binding: int
    wide: bool = False

    def within(self, binding: int) -> str:
        """Return the code, in parentheses unless it binds at least so tightly."""
        return self.code if self.binding >= binding else f"({self.code})"


def to_c(value: Index, names: Mapping[str, str] | None = None, wide: bool = False) -> str:
    """Print an expression as CUDA C.

    Args:
        value: the expression.
        names: names to print for leaves, instead of their own.
        wide: whether values that might exceed an int are computed in `long long`, with one cast for each product.

    Example:
        >>> row, lda = Var("row", 64), Symbol("lda")
        >>> to_c(row * lda + 3, wide=True)
        '(long long)row * lda + 3'
    """
    return _Printer(names or {}, wide).text(as_expr(value)).code


def fits(interval: Interval) -> bool:
    """Tell whether an interval lies within a 32-bit int."""
    low, high = interval
    return low is not None and high is not None and low >= INT32[0] and high <= INT32[1]


def ordered_terms(e: Sum) -> list[Term]:
    """List terms in the order of printing: a positive term or constant first; the constant c is the term (1, c)."""
    terms = list(e.terms)
    if terms[0][1] < 0:
        lead = next((n for n, (_, coefficient) in enumerate(terms) if coefficient > 0), None)
        if lead is not None:
            terms.insert(0, terms.pop(lead))
        elif e.constant > 0:
            return [(const(1), e.constant), *terms]
    return [*terms, (const(1), e.constant)] if e.constant else terms


def fits_int32(value: Index) -> bool:
    """Tell whether an expression, and all intermediate results as printed, fit a 32-bit int."""
    e = as_expr(value)
    if not fits(e.range):
        return False
    if isinstance(e, Sum):
        partial: Expr = const(0)
        for monomial, coefficient in ordered_terms(e):
            term = build({monomial: coefficient}, 0) if not isinstance(monomial, Const) else const(coefficient)
            partial = partial + term
            if not (fits(term.range) and fits(partial.range)):
                return False
    if isinstance(e, Product):
        for count in range(2, len(e.factors)):
            if not fits(Product(e.factors[:count]).range):
                return False
    return all(fits_int32(operand) for operand in operands(e))


class _Printer:
    """Print expressions as C, with given names and width."""

    def __init__(self, names: Mapping[str, str], wide: bool) -> None:
        self.names = names
        self.wide = wide

    def text(self, e: Expr) -> Text:
        match closed(e):
            case Const(value=value):
                return Text(str(value), ATOM if value >= 0 else UNARY, not fits((value, value)))
            case Var(name=name) | Symbol(name=name):
                return Text(self.names.get(name, name), ATOM)
            case Sum() as total:
                return self._sum(total)
            case Product():
                return self._term(e, 1)
            case FloorDiv(numerator=a, denominator=b):
                return self._quotient(a, b)
            case Mod(numerator=a, denominator=b):
                return self._remainder(a, b)
            case Bitwise(op=op, operands=found):
                binding = {"&": AND, "^": XOR, "|": OR}[op]
                texts = [self.text(operand) for operand in found]
                return Text(f" {op} ".join(text.within(PLUS) for text in texts), binding, any(t.wide for t in texts))
            case Shift(op=op, value=a, amount=b):
                value = self._cast(self.text(a)) if op == "<<" and self._grows(e) else self.text(a)
                return Text(f"{value.within(PLUS)} {op} {self.text(b).within(ATOM)}", SHIFT, value.wide)
            case Extremum(op=op, operands=found):
                return self._extremum(op, [self.text(operand) for operand in found])
            case Compare(op=op, left=left, right=right):
                return self._compare(op, left, right)
            case Logic(op=op, operands=found):
                joined = f" {op} ".join(self.text(operand).within(EQUAL) for operand in found)
                return Text(joined, BOTH if op == "&&" else EITHER)
            case Select(condition=condition, then=then, otherwise=otherwise):
                a, b = self.text(then), self.text(otherwise)
                code = f"{self.text(condition).within(EITHER)} ? {a.within(EITHER)} : {b.within(CHOICE)}"
                return Text(code, CHOICE, a.wide or b.wide)
            case Element(array=array, index=found):
                return Text(f"{array}[{', '.join(self.text(operand).code for operand in found)}]", ATOM)
            case _ as never:
                assert_never(never)

    def _grows(self, e: Expr) -> bool:
        return self.wide and not fits(e.range)

    def _cast(self, text: Text) -> Text:
        return text if text.wide else Text(f"(long long){text.within(ATOM)}", UNARY, True)

    def _sum(self, e: Sum) -> Text:
        terms = ordered_terms(e)
        code, wide = "", False
        partial: Expr = const(0)
        large = self.wide and not fits((0, sum(_most(x) * abs(coefficient) for x, coefficient in terms)))
        for number, (monomial, coefficient) in enumerate(terms):
            size = abs(coefficient)
            text = self.text(const(size)) if isinstance(monomial, Const) else self._term(monomial, size)
            if large:
                partial = partial + (coefficient if isinstance(monomial, Const) else build({monomial: coefficient}, 0))
            if large and not (wide or text.wide) and self._grows(partial):
                text = self._cast(text)  # casting the second addend makes the sum wide too
            wide = wide or text.wide
            if number == 0:
                code = text.within(TIMES) if coefficient > 0 else f"-{text.within(UNARY if size == 1 else ATOM)}"
            else:
                code += f" {'+' if coefficient > 0 else '-'} {text.within(TIMES)}"
        if len(terms) > 1:
            return Text(code, PLUS, wide)
        return Text(code, TIMES if terms[0][1] > 0 else UNARY, wide)

    def _term(self, monomial: Expr, size: int) -> Text:
        """Print a product; a factor that is a quotient or a remainder comes first, so that it needs no parentheses."""
        factors = list(monomial.factors) if isinstance(monomial, Product) else [monomial]
        texts = [self.text(factor) for factor in factors]
        if size != 1:
            texts.append(self.text(const(size)))
        if len(texts) == 1:
            return texts[0]
        wide = any(text.wide for text in texts)
        partial: Expr = const(1)
        grows = False
        if self.wide and not fits((0, prod(map(_most, factors)) * size)):
            for factor in [*factors, const(size)]:
                partial = partial * factor
                grows = grows or self._grows(partial)
        if grows and not texts[0].wide:
            texts[0] = self._cast(texts[0])
        code = " * ".join([texts[0].within(TIMES), *(text.within(UNARY) for text in texts[1:])])
        return Text(code, TIMES, wide or grows)

    def _quotient(self, a: Expr, b: Expr) -> Text:
        above, below = self.text(a), self.text(b)
        wide = above.wide or below.wide
        if _non_negative(a):
            return Text(f"{above.within(TIMES)} / {below.within(UNARY)}", TIMES, wide)
        if isinstance(b, Const) and is_power_of_two(b.value):  # an arithmetic shift rounds down; `/` would not
            return Text(f"{above.within(PLUS)} >> {b.value.bit_length() - 1}", SHIFT, wide)
        divide = f"{above.within(TIMES)} / {below.within(UNARY)}"
        negative = f"{above.within(TIMES)} % {below.within(UNARY)} < 0"
        return Text(f"{divide} - ({negative} ? 1 : 0)", PLUS, wide)

    def _remainder(self, a: Expr, b: Expr) -> Text:
        above, below = self.text(a), self.text(b)
        wide = above.wide or below.wide
        if _non_negative(a):
            return Text(f"{above.within(TIMES)} % {below.within(UNARY)}", TIMES, wide)
        if isinstance(b, Const) and is_power_of_two(b.value):  # in two's complement the low bits are the remainder
            return Text(f"{above.within(PLUS)} & {b.value - 1}", AND, wide)
        divisor = below.within(UNARY)
        return Text(f"({above.within(TIMES)} % {divisor} + {below.within(PLUS)}) % {divisor}", TIMES, wide)

    def _extremum(self, op: str, texts: list[Text]) -> Text:
        wide = any(text.wide for text in texts)
        if wide:  # the overloads need two arguments of one type
            texts = [self._cast(text) for text in texts]
        code = texts[0].code
        for text in texts[1:]:
            code = f"{op}({code}, {text.code})"
        return Text(code, ATOM, wide)

    def _compare(self, op: str, left: Expr, right: Expr) -> Text:
        if op == "<" and isinstance(left, Const):
            return Text(f"{self.text(right).within(PLUS)} > {self.text(left).within(PLUS)}", LESS)
        if op == "<" and isinstance(right, Sum) and right.constant == 1:
            return Text(f"{self.text(left).within(PLUS)} <= {self.text(right - 1).within(PLUS)}", LESS)
        binding = LESS if op == "<" else EQUAL
        if op != "<" and isinstance(left, Const):
            left, right = right, left
        return Text(f"{self.text(left).within(PLUS)} {op} {self.text(right).within(PLUS)}", binding)


def _most(e: Expr) -> int:
    """Return the largest magnitude of an expression; without bounds a number above any int."""
    low, high = e.range
    return UNBOUNDED if low is None or high is None else max(-low, high, 1)


def _non_negative(e: Expr) -> bool:
    from fireiron.algebra.index.prove import non_negative

    return non_negative(e)

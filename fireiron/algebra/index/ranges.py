"""Facts about an expression's values: the interval, the divisor, and the bits that may be set."""

from __future__ import annotations

from math import gcd
from typing import assert_never

from fireiron.algebra.index.nodes import (
    Bitwise,
    Compare,
    Const,
    Element,
    Expr,
    Extremum,
    FloorDiv,
    Interval,
    Logic,
    Mod,
    Product,
    Select,
    Shift,
    Sum,
    Symbol,
    Var,
    closed,
)

WIDEST_SHIFT = 64


def interval(e: Expr) -> Interval:
    """Return the bounds of the node from those of its operands."""
    match closed(e):
        case Const(value=value):
            return (value, value)
        case Var(extent=extent, lower=lower) | Element(extent=extent, lower=lower):
            high = None if extent is None else extent.range[1]
            return (lower, None if high is None else high - 1)
        case Symbol(multiple_of=step, minimum=low, maximum=high):
            return (-(-low // step) * step, high // step * step)
        case Sum(terms=terms, constant=constant):
            return _sum_interval(terms, constant)
        case Product(factors=factors):
            found = factors[0].range
            for factor in factors[1:]:
                found = _times(found, factor.range)
            return found
        case FloorDiv(numerator=a, denominator=b):
            return _quotient(a.range, b.range)
        case Mod(numerator=a, denominator=b):
            return _remainder(a.range, b.range)
        case Bitwise() as node:
            return _bitwise(node)
        case Shift(op=op, value=a, amount=b):
            return _shift(op, a.range, b.range)
        case Extremum(op=op, operands=operands):
            return _extremum(op, [operand.range for operand in operands])
        case Compare() | Logic():
            return (0, 1)
        case Select(then=a, otherwise=b):
            (a_low, a_high), (b_low, b_high) = a.range, b.range
            return (
                None if a_low is None or b_low is None else min(a_low, b_low),
                None if a_high is None or b_high is None else max(a_high, b_high),
            )
        case _ as never:
            assert_never(never)


def _sum_interval(terms: tuple[tuple[Expr, int], ...], constant: int) -> Interval:
    low: int | None = constant
    high: int | None = constant
    for monomial, coefficient in terms:
        first, last = monomial.range
        if coefficient < 0:
            first, last = last, first
        low = None if low is None or first is None else low + coefficient * first
        high = None if high is None or last is None else high + coefficient * last
    return (low, high)


def _times(a: Interval, b: Interval) -> Interval:
    (a_low, a_high), (b_low, b_high) = a, b
    if a_low is not None and a_low >= 0 and b_low is not None and b_low >= 0:
        if a_high == 0 or b_high == 0:
            return (0, 0)
        return (a_low * b_low, None if a_high is None or b_high is None else a_high * b_high)
    if a_low is None or a_high is None or b_low is None or b_high is None:
        return (None, None)
    corners = (a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high)
    return (min(corners), max(corners))


def _quotient(a: Interval, b: Interval) -> Interval:
    (low, high), (b_low, b_high) = a, b
    if b_low is None or b_low < 0:
        return (None, None)
    b_low = max(b_low, 1)  # zero divides nothing
    least = most = None
    if low is not None:
        least = low // b_low if low < 0 else (0 if b_high is None else low // max(b_high, 1))
    if high is not None:
        most = high // b_low if high >= 0 else (-1 if b_high is None else high // max(b_high, 1))
    return (least, most)


def _remainder(a: Interval, b: Interval) -> Interval:
    (low, high), (b_low, b_high) = a, b
    if b_low is None or b_low < 0:
        return (None, None)
    most = None if b_high is None else max(b_high - 1, 0)
    if low is not None and low >= 0 and high is not None:
        most = high if most is None else min(most, high)
    return (0, most)


def _bitwise(e: Bitwise) -> Interval:
    found = [operand.range for operand in e.operands]
    if e.op == "&":
        highs = [high for low, high in found if low is not None and low >= 0 and high is not None]
        if highs:
            return (0, min(highs))
        return (0 if any(low is not None and low >= 0 for low, _ in found) else None, None)
    mask = set_bits(e)
    if mask is None:
        return (0 if all(low is not None and low >= 0 for low, _ in found) else None, None)
    lows = [low for low, _ in found if low is not None]
    highs = [high for _, high in found if high is not None]
    return (max(lows) if e.op == "|" else 0, min(mask, sum(highs)))


def _shift(op: str, value: Interval, amount: Interval) -> Interval:
    (low, high), (near, far) = value, amount
    if near is None or near < 0 or far is None or far > WIDEST_SHIFT:
        return (0 if low is not None and low >= 0 else None, None if op == "<<" else high if (high or 0) >= 0 else -1)
    if op == "<<":
        return (
            None if low is None else min(low << near, low << far),
            None if high is None else max(high << near, high << far),
        )
    return (
        None if low is None else min(low >> near, low >> far),
        None if high is None else max(high >> near, high >> far),
    )


def _extremum(op: str, found: list[Interval]) -> Interval:
    lows = [low for low, _ in found if low is not None]
    highs = [high for _, high in found if high is not None]
    if op == "min":
        return (min(lows) if len(lows) == len(found) else None, min(highs) if highs else None)
    return (max(lows) if lows else None, max(highs) if len(highs) == len(found) else None)


def divisor(e: Expr) -> int:
    """Return the greatest integer known to divide the node."""
    match closed(e):
        case Const(value=value):
            return abs(value)
        case Symbol(multiple_of=step):
            return step
        case Sum(terms=terms, constant=constant):
            found = abs(constant)
            for monomial, coefficient in terms:
                found = gcd(found, coefficient * monomial.divisor)
            return found
        case Product(factors=factors):
            found = 1
            for factor in factors:
                found *= factor.divisor
            return found
        case FloorDiv(numerator=a, denominator=b, exact=exact):
            return a.divisor // b.divisor if exact else 1
        case Mod(numerator=a, denominator=b):
            return gcd(a.divisor, b.divisor)
        case Extremum(operands=operands):
            return gcd(*(operand.divisor for operand in operands))
        case Select(then=a, otherwise=b):
            return gcd(a.divisor, b.divisor)
        case Bitwise(op=op, operands=operands):
            powers = [_power_of_two(operand.divisor) for operand in operands]
            known = [power for power in powers if power]
            return 0 if not known else max(known) if op == "&" else min(known)
        case Shift(op=op, value=a):
            return a.divisor if op == "<<" else 1
        case Var() | Compare() | Logic() | Element():
            return 1
        case _ as never:
            assert_never(never)


def _power_of_two(value: int) -> int:
    return value & -value


def is_power_of_two(value: int) -> bool:
    """Tell whether a value is 1, 2, 4, ..."""
    return value > 0 and value & (value - 1) == 0


def set_bits(e: Expr) -> int | None:
    """Return a mask of the bits that may be set, None where the value may be negative or is unbounded."""
    if isinstance(e, Bitwise):
        masks = [set_bits(operand) for operand in e.operands]
        if e.op != "&":
            total = 0
            for mask in masks:
                if mask is None:
                    return None
                total |= mask
            return total
        known = [mask for mask in masks if mask is not None]
        total = known[0] if known else None
        for mask in known[1:]:
            total = mask if total is None else total & mask
        return total
    low, high = e.range
    if low is None or low < 0 or high is None:
        return None
    if isinstance(e, Const):
        return e.value
    coarse = ((1 << high.bit_length()) - 1) & -max(_power_of_two(e.divisor), 1)
    match e:
        case Sum(terms=terms, constant=constant):
            parts = disjoint_parts(e) if constant >= 0 and len(terms) > 1 - (constant > 0) else None
            if parts is None and len(terms) == 1 and constant == 0 and is_power_of_two(terms[0][1]):
                inner = set_bits(terms[0][0])
                return coarse if inner is None else inner * terms[0][1] & coarse
            if parts is None:
                return coarse
            total = 0
            for _, mask in parts:
                total |= mask
            return total & coarse
        case Mod(numerator=a, denominator=Const(value=size)) if is_power_of_two(size):
            inner = set_bits(a)
            return coarse if inner is None else inner & (size - 1) & coarse
        case FloorDiv(numerator=a, denominator=Const(value=size)) if is_power_of_two(size):
            inner = set_bits(a)
            return coarse if inner is None else inner // size & coarse
        case Select(then=a, otherwise=b):
            first, second = set_bits(a), set_bits(b)
            return coarse if first is None or second is None else (first | second) & coarse
        case _:
            return coarse


def disjoint_parts(e: Expr) -> list[tuple[Expr, int]] | None:
    """Split a sum into terms without common bits, each with its mask; None where carries are possible."""
    if not isinstance(e, Sum):
        mask = set_bits(e)
        return None if mask is None else [(e, mask)]
    parts: list[tuple[Expr, int]] = []
    taken = 0
    pieces: list[Expr] = [m if c == 1 else Sum(((m, c),), 0) for m, c in e.terms]
    if e.constant:
        pieces.append(Const(e.constant))
    for piece in pieces:
        low, high = piece.range
        if low is None or low < 0 or high is None:
            return None
        mask = set_bits(piece)
        if mask is None or mask & taken:
            return None
        taken |= mask
        parts.append((piece, mask))
    return parts

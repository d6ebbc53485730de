"""Shift and combine bits, as arithmetic wherever that is the same."""

from __future__ import annotations

from typing import Literal

from fireiron.algebra.index.division import floordiv, modulo
from fireiron.algebra.index.nodes import Bitwise, Const, Expr, Shift, const
from fireiron.algebra.index.ranges import disjoint_parts, is_power_of_two, set_bits
from fireiron.algebra.index.sums import add, scale


def shift_left(value: Expr, amount: Expr) -> Expr:
    """Return value << amount.

    Raises:
        ValueError: if the amount is a negative constant.
    """
    if type(amount) is Const:
        if amount.value < 0:
            raise ValueError(f"{value} << {amount}: the amount is negative")
        return scale(value, 1 << amount.value)
    return value if value == const(0) else Shift("<<", value, amount)


def shift_right(value: Expr, amount: Expr) -> Expr:
    """Return value >> amount, rounded down.

    Raises:
        ValueError: if the amount is a negative constant.
    """
    if type(amount) is Const:
        if amount.value < 0:
            raise ValueError(f"{value} >> {amount}: the amount is negative")
        return floordiv(value, const(1 << amount.value))
    return value if value == const(0) else Shift(">>", value, amount)


def bit_and(a: Expr, b: Expr) -> Expr:
    """Return a & b; a run of ones as a mask becomes a remainder of a quotient."""
    if type(a) is Const:
        a, b = b, a
    if type(a) is Const and type(b) is Const:
        return const(a.value & b.value)
    if a == b:
        return a
    if type(b) is Const:
        mask = b.value
        if mask == -1:
            return a
        if mask == 0:
            return b
        if mask > 0:
            known = set_bits(a)
            if known is not None:
                if known & ~mask == 0:
                    return a
                mask &= known
                if mask == 0:
                    return const(0)
                mask = _widest_run(mask, known)
            low = mask & -mask
            if is_power_of_two(mask + low):
                part = modulo(floordiv(a, const(low)), const((mask + low) // low))
                return scale(part, low)
    return _combine("&", a, b)


def _widest_run(mask: int, known: int) -> int:
    """Extend a mask by bits that the value never has, so that the mask becomes one run of ones if possible."""
    low, high = mask & -mask, 1 << mask.bit_length()
    run = high - low
    if run & known == mask:
        # A run up to the value's highest bit needs no remainder.
        return (1 << max(known.bit_length(), run.bit_length())) - low if known < high else run
    return mask


def bit_or(a: Expr, b: Expr) -> Expr:
    """Return a | b; operands without common bits are added."""
    if a == b:
        return a
    return _joined("|", a, b)


def bit_xor(a: Expr, b: Expr) -> Expr:
    """Return a ^ b; operands without common bits are added, and bits that only one operand can have are split off."""
    if a == b:
        return const(0)
    return _joined("^", a, b)


def _joined(op: Literal["|", "^"], a: Expr, b: Expr) -> Expr:
    if type(a) is Const and type(b) is Const:
        return const(a.value | b.value if op == "|" else a.value ^ b.value)
    if a == const(0):
        return b
    if b == const(0):
        return a
    first, second = disjoint_parts(a), disjoint_parts(b)
    if first is None or second is None:
        return _combine(op, a, b)
    apart: Expr = const(0)
    left: Expr = const(0)
    right: Expr = const(0)
    union_first = union_second = 0
    for _, mask in first:
        union_first |= mask
    for _, mask in second:
        union_second |= mask
    for part, mask in first:
        if mask & union_second:
            left = add(left, part)
        else:
            apart = add(apart, part)
    for part, mask in second:
        if mask & union_first:
            right = add(right, part)
        else:
            apart = add(apart, part)
    if left == const(0) or right == const(0):
        return add(add(apart, left), right)
    power = min(left.divisor & -left.divisor, right.divisor & -right.divisor)
    if power > 1:
        left, right = floordiv(left, const(power)), floordiv(right, const(power))
        return add(apart, scale(_joined(op, left, right), power))
    return add(apart, _combine(op, left, right))


def _combine(op: Literal["&", "|", "^"], a: Expr, b: Expr) -> Expr:
    """Flatten equal operations, fold their constants, and drop or cancel repeated operands."""
    constant = {"&": -1, "|": 0, "^": 0}[op]
    found: list[Expr] = []
    for e in (a, b):
        for operand in e.operands if type(e) is Bitwise and e.op == op else (e,):
            if type(operand) is Const:
                value = operand.value
                constant = constant & value if op == "&" else constant | value if op == "|" else constant ^ value
            elif operand not in found:
                found.append(operand)
            elif op == "^":
                found.remove(operand)
    if op == "&" and constant == 0:
        return const(0)
    if constant != (-1 if op == "&" else 0) or not found:
        found.append(const(constant))
    return found[0] if len(found) == 1 else Bitwise(op, tuple(found))

"""The table of simplifications, as equations in text, and the parser of a rule.

A to D stand for any arrays, c and d for numbers. Operands of commutative operations match in either order. A fold on
the right side (`sum(...)`) has the axes of the fold on the left side.

Source: the arithmetic simplifications of MindSpore's graph-kernel fusion. `changes` is this project's own analysis.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import Literal, TypeAlias

import attrs

# What a rule may change: only the sign of zeros; roundings, where the left side cancels and the right side is nearer to
# the exact value; any roundings; or also overflow, NaN and values outside a domain. The first two are on by default.
Changes: TypeAlias = Literal["", "nearer", "rounding", "range"]


@attrs.frozen
class Rule:
    """Hold a rule: one expression may be replaced by another.

    Args:
        left: the expression to find.
        right: its replacement.
        changes: differences in results that the rule may cause: none, `nearer`, `rounding` or `range`.
    """

    left: str
    right: str
    changes: Changes = ""

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


@attrs.frozen
class Term:
    """Hold a part of a rule: an operation of terms, a variable, or a number.

    Args:
        op: the operation; "any" for A to D, "number" for c and d, "value" for a number written in the rule.
        parts: operands of an operation.
        name: name of a variable.
        value: value of a number.
    """

    op: str
    parts: tuple[Term, ...] = ()
    name: str = ""
    value: float = 0.0


RULES: tuple[Rule, ...] = (
    # add, sub
    Rule("A + 0", "A"),
    Rule("A - 0", "A"),
    Rule("A - c", "A + (-c)"),
    Rule("0 - A", "-A"),
    Rule("A + (-B)", "A - B"),
    Rule("A * B + A * C", "A * (B + C)", "rounding"),
    Rule("A * C - A * B", "A * (C - B)", "rounding"),
    Rule("(A + c) + d", "A + (c + d)", "rounding"),
    Rule("A - A", "0", "range"),
    Rule("(A + B) - A", "B", "range"),
    Rule("(A + B) + (C - A)", "B + C", "range"),
    # As in GELU by tanh: near -1 tanh cancels, and its instructions are several times those of exp2.
    Rule("(A * 0.5) * (tanh(B) + 1)", "A / (exp2(B * -2.8853900817779268) + 1)", "nearer"),
    Rule("tanh(A) + 1", "2 / (exp2(A * -2.8853900817779268) + 1)", "nearer"),
    # log
    Rule("log(exp(A))", "A", "range"),
    Rule("log(A ** B)", "B * log(abs(A))", "range"),
    Rule("log(sqrt(A))", "log(A) * 0.5", "rounding"),
    Rule("log(rsqrt(A))", "log(A) * -0.5", "rounding"),
    # pow, roots
    Rule("A ** 1", "A"),
    Rule("A ** 2", "A * A"),
    Rule("A ** -1", "1 / A"),
    Rule("A ** 0.5", "sqrt(A)", "range"),
    Rule("A ** -0.5", "rsqrt(A)", "range"),
    Rule("exp(A) ** B", "exp(A * B)", "range"),
    Rule("sqrt(A * A)", "abs(A)", "range"),
    Rule("rsqrt(A ** -2)", "abs(A)", "range"),
    Rule("rsqrt(1 / A)", "sqrt(A)", "range"),
    # select, neg, abs
    Rule("select(A, B, B)", "B"),
    Rule("select(1, A, B)", "A"),
    Rule("select(0, A, B)", "B"),
    Rule("-(-A)", "A"),
    Rule("abs(-A)", "abs(A)"),
    Rule("abs(abs(A))", "abs(A)"),
    Rule("maximum(A, A)", "A"),
    Rule("minimum(A, A)", "A"),
    Rule("maximum(maximum(A, c), d)", "maximum(A, maximum(c, d))"),
    Rule("minimum(minimum(A, c), d)", "minimum(A, minimum(c, d))"),
    # mul
    Rule("A * 1", "A"),
    Rule("A * -1", "-A"),
    Rule("A * 0", "0", "range"),
    Rule("(-A) * c", "A * (-c)"),
    Rule("(-A) * (-B)", "A * B"),
    Rule("(A * c) * d", "A * (c * d)", "rounding"),
    Rule("(A * c) * (B * d)", "(A * B) * (c * d)", "rounding"),
    Rule("exp(A) * exp(B)", "exp(A + B)", "range"),
    Rule("(exp(A) * C) * exp(B)", "exp(A + B) * C", "range"),
    Rule("sqrt(A) * sqrt(A)", "A", "range"),
    Rule("sqrt(A) * sqrt(B)", "sqrt(A * B)", "range"),
    Rule("(A * sqrt(B)) * sqrt(B)", "A * B", "range"),
    Rule("rsqrt(A) * rsqrt(A)", "1 / A", "range"),
    Rule("rsqrt(A) * rsqrt(B)", "rsqrt(A * B)", "range"),
    Rule("(A * rsqrt(B)) * rsqrt(B)", "A / B", "range"),
    Rule("A * rsqrt(A)", "sqrt(A)", "range"),
    Rule("abs(A) * abs(B)", "abs(A * B)"),
    Rule("(abs(A) * C) * abs(B)", "abs(A * B) * C", "rounding"),
    # div
    Rule("A / 1", "A"),
    Rule("(-A) / c", "A / (-c)"),
    Rule("(-A) / (-B)", "A / B"),
    Rule("A / c", "A * (1 / c)", "rounding"),
    Rule("exp(A) / exp(B)", "exp(A - B)", "range"),
    Rule("A / exp(B)", "A * exp(-B)", "range"),
    Rule("A / (B ** c)", "A * (B ** (-c))", "range"),
    Rule("A / sqrt(A)", "sqrt(A)", "range"),
    Rule("A / sqrt(B)", "A * rsqrt(B)", "rounding"),
    Rule("A / rsqrt(B)", "A * sqrt(B)", "range"),
    Rule("(A / B) / (C / D)", "(A * D) / (B * C)", "range"),
    Rule("(A / B) / C", "A / (B * C)", "range"),
    Rule("A / (B / C)", "(A * C) / B", "range"),
    # folds
    Rule("sum(sum(A))", "sum(A)"),
    Rule("max(max(A))", "max(A)"),
    Rule("min(min(A))", "min(A)"),
    Rule("prod(prod(A))", "prod(A)", "rounding"),
    Rule("sum(-A)", "-sum(A)"),
    Rule("sum(A * c)", "sum(A) * c", "rounding"),
    Rule("sum(A / c)", "sum(A) / c", "rounding"),
    Rule("max(-A)", "-min(A)"),
    Rule("min(-A)", "-max(A)"),
)

_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow",
}  # fmt: skip
FOLDS = ("sum", "max", "min", "prod")


@cache
def term(text: str) -> Term:
    """Read one side of a rule.

    Example:
        >>> term("A * 2").parts[1]
        Term(op='value', parts=(), name='', value=2.0)
    """
    return _term(ast.parse(text, mode="eval").body)


def _term(tree: ast.expr) -> Term:
    match tree:
        case ast.Name(id=name):
            return Term("number" if name.islower() else "any", (), name)
        case ast.Constant(value=int() | float() as value):
            return Term("value", value=float(value))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return Term("value", value=-float(value))
        case ast.UnaryOp(op=ast.USub(), operand=part):
            return Term("neg", (_term(part),))
        case ast.BinOp(left=left, op=op, right=right):
            return Term(_SIGNS[type(op)], (_term(left), _term(right)))
        case ast.Call(func=ast.Name(id=name), args=args):
            return Term(name, tuple(map(_term, args)))
        case _:
            raise AssertionError(ast.dump(tree))

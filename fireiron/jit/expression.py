"""Index expressions as Python text, in which a cached kernel keeps its grid and shapes."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from types import CodeType
from typing import assert_never

from fireiron.algebra.index.nodes import (
    Bitwise,
    Compare,
    Const,
    Element,
    Expr,
    Extremum,
    FloorDiv,
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


def text_of(e: Expr) -> str:
    """Write an expression as Python over the names of its symbols.

    Example:
        >>> from fireiron.algebra.expr import ceil_div, symbol
        >>> evaluate(text_of(ceil_div(symbol("M"), 128) * 3), {"M": 200})
        6
    """
    match closed(e):
        case Const(value=value):
            return str(value)
        case Var(name=name) | Symbol(name=name):
            return name
        case Sum(terms=terms, constant=constant):
            parts = [_term(monomial, coefficient) for monomial, coefficient in terms]
            return f"({' + '.join([*parts, str(constant)] if constant else parts)})".replace("+ -", "- ")
        case Product(factors=factors):
            return f"({' * '.join(map(text_of, factors))})"
        case FloorDiv(numerator=a, denominator=b):
            return f"({text_of(a)} // {text_of(b)})"
        case Mod(numerator=a, denominator=b):
            return f"({text_of(a)} % {text_of(b)})"
        case Bitwise(op=op, operands=operands):
            return f"({f' {op} '.join(map(text_of, operands))})"
        case Shift(op=op, value=a, amount=b):
            return f"({text_of(a)} {op} {text_of(b)})"
        case Extremum(op=op, operands=operands):
            return f"{op}({', '.join(map(text_of, operands))})"
        case Compare(op=op, left=a, right=b):
            return f"({text_of(a)} {op} {text_of(b)})"
        case Logic(op=op, operands=operands):
            return f"({(' and ' if op == '&&' else ' or ').join(map(text_of, operands))})"
        case Select(condition=c, then=a, otherwise=b):
            return f"({text_of(a)} if {text_of(c)} else {text_of(b)})"
        case Element():
            raise AssertionError(f"a launch cannot depend on {e}: arrays are read by kernels alone")
        case _ as never:
            assert_never(never)


def _term(monomial: Expr, coefficient: int) -> str:
    if coefficient == 1:
        return text_of(monomial)
    return f"-{text_of(monomial)}" if coefficient == -1 else f"{coefficient} * {text_of(monomial)}"


def evaluate(text: str, sizes: Mapping[str, int]) -> int:
    """Compute an expression's text.

    Raises:
        KeyError: for a name that `sizes` lacks.
        ValueError: for text that is not such an expression.
    """
    code, names = _compiled(text)
    for name in names:
        if name not in sizes:
            raise KeyError(name)
    return int(eval(code, {"__builtins__": {}, "min": min, "max": max}, dict(sizes)))  # only nodes in _ALLOWED get here


def names_in(text: str) -> tuple[str, ...]:
    """List the names of an expression's text, each once, in order.

    Example:
        >>> names_in("((M + 127) // 128)")
        ('M',)
    """
    return _compiled(text)[1]


_ALLOWED = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.USub, ast.Add, ast.Sub, ast.Mult,
    ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift, ast.Compare, ast.Lt, ast.LtE,
    ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.BoolOp, ast.And, ast.Or, ast.IfExp, ast.Call,
)  # fmt: skip


@lru_cache(maxsize=4096)
def _compiled(text: str) -> tuple[CodeType, tuple[str, ...]]:
    """Compile text that holds integer arithmetic alone: a cache file is data, and must not be able to run anything."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise ValueError(f"{text!r} is not an index expression") from error
    called: set[int] = set()
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        allowed = isinstance(node, _ALLOWED) and (not isinstance(node, ast.Constant) or type(node.value) is int)
        if isinstance(node, ast.Call):
            allowed = isinstance(node.func, ast.Name) and node.func.id in ("min", "max") and not node.keywords
            called.add(id(node.func))
        if not allowed:
            raise ValueError(f"{text!r} is not an index expression: it holds {type(node).__name__}")
        if isinstance(node, ast.Name) and id(node) not in called:
            names[node.id] = None
    return compile(tree, "<index expression>", "eval"), tuple(names)

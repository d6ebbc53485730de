"""Make a failing chain smaller: drop links and arguments, lower numbers, as long as the same thing goes wrong."""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable, Iterator

from tests.fuzz.judge import PRESETS

LINE = 100


def shrunk(source: str, fails: Callable[[str], bool], seconds: float = 60) -> str:
    """Shrink a chain's text while it fails.

    Args:
        source: one expression.
        fails: whether a text still fails in the same way.
        seconds: when to stop.
    """
    end = time.monotonic() + seconds
    tried = {source}
    better = True
    while better and time.monotonic() < end:
        better = False
        for smaller in smaller_texts(source):
            if smaller in tried or time.monotonic() > end:
                continue
            tried.add(smaller)
            if fails(smaller):
                source, better = smaller, True
                break
    return source


def smaller_texts(source: str) -> Iterator[str]:
    """List texts that say less, those that say least first."""
    tree = ast.parse(source, mode="eval")
    for run in (6, 4, 3, 2, 1):
        yield from _edited(tree, lambda node, run=run: _without_links(node, run))
    yield from _edited(tree, _without_arguments)
    yield from _edited(tree, _lower)


def _edited(tree: ast.Expression, edit: Callable[[ast.expr], Iterator[ast.expr]]) -> Iterator[str]:
    """Replace one node by each of what an edit makes of it."""
    count = sum(isinstance(node, ast.expr) for node in ast.walk(tree))
    for i in range(count):
        original = [node for node in ast.walk(tree) if isinstance(node, ast.expr)][i]
        for new in edit(original):
            whole = copy.deepcopy(tree)
            old = [node for node in ast.walk(whole) if isinstance(node, ast.expr)][i]
            yield ast.unparse(_Replace(old, new).visit(whole))


class _Replace(ast.NodeTransformer):
    """Replace one node of a tree."""

    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else super().visit(node)


def _without_links(node: ast.expr, run: int) -> Iterator[ast.expr]:
    """Leave a run of a chain's links out."""
    inner: ast.expr = node
    for _ in range(run):
        if not (isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute)):
            return
        inner = inner.func.value
    if isinstance(inner, ast.Call):
        yield copy.deepcopy(inner)


def _without_arguments(node: ast.expr) -> Iterator[ast.expr]:
    """Leave an argument of a call out, or take what a call is given for the call."""
    if not isinstance(node, ast.Call):
        return
    for i in range(len(node.keywords)):
        new = copy.deepcopy(node)
        del new.keywords[i]
        yield new
    for i in reversed(range(len(node.args))):
        new = copy.deepcopy(node)
        del new.args[i]
        yield new


def _lower(node: ast.expr) -> Iterator[ast.expr]:
    """Lower a number, or take a plainer element type."""
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool) and value > 1:
        power = 1 << (value.bit_length() - 1)
        for less in dict.fromkeys((1, 2, 4, 8, 16, power, value // 2, value - 1)):
            if less < value:
                yield ast.Constant(less)
    elif isinstance(value, str) and value in ("f16", "bf16", "f64", "i32", "i8", "u8", "tf32", "e4m3", "e5m2"):
        yield ast.Constant("f32")
    elif isinstance(value, str) and value.startswith("sm_") and value != "sm_90":
        yield ast.Constant("sm_90")


def snippet(source: str) -> str:
    """Write a chain as a file that runs, a link a line where it is long."""
    tree = ast.parse(source, mode="eval").body
    parts: list[str] = []
    while isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute) and isinstance(tree.func.value, ast.Call):
        arguments = ", ".join(
            [*map(ast.unparse, tree.args), *(f"{k.arg}={ast.unparse(k.value)}" for k in tree.keywords)]
        )
        parts.append(f".{tree.func.attr}({arguments})")
        tree = tree.func.value
    lines = [ast.unparse(tree)]
    for part in reversed(parts):
        refines = part.startswith(
            (".to(", ".unroll(", ".pipeline(", ".done(", ".pad(", ".layout(", ".storage_layout(", ".swizzle(")
        )
        if refines and len(lines[-1] + part) < LINE:
            lines[-1] += part
        else:
            lines.append(part)
    body = "\n".join(f"    {line}" for line in lines)
    return (
        "import fireiron as fi\nfrom fireiron import *\n"
        f"from fireiron.schedules import {', '.join(PRESETS)}\n"
        f"from tests.fuzz.judge import judge\n\nprint(judge(lambda: (\n{body}\n)))\n"
    )

"""What specs state of themselves: every kind answers, and rules of the compiler do not ask for the kind."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fireiron
from fireiron.algebra.dtypes import f32
from fireiron.language.pointwise import accumulator
from fireiron.language.programs import Layer, Layers, Products, Sum
from fireiron.language.specs import Init, MatMul, Move, Pointwise, Spec
from fireiron.language.steps import Program
from fireiron.language.tensor import Matrix, Tensor, Vector

ROOT = Path(fireiron.__file__).parent
KINDS = {"MatMul", "Move", "Init", "Pointwise", "Products", "Layers"}
# What is left: a chain of one product is what `best` and `tune` take, an epilog is closed by what kind it is, and rows
# beyond a tile of a product enter sums alone.
LEFT = ["estimate/partial.py: Products", "kernel/lower/bulk.py: MatMul", "tune/problem.py: MatMul"]


def matrix(name: str) -> Tensor:
    return Matrix(16, 16, "f16", name=name)


a, b, c = map(matrix, "ABC")
product = MatMul(a, b, c)
ends = Vector(2, "i32", name="ends")
grouped = MatMul(a, Matrix(16, 16, "f16", batch=2, name="B"), c, groups=ends)
products = Products((Sum("s", ((a, b),)), Sum("t", ((a, c),))), (), (matrix("y"),))
stack = Layers(a, (Layer(b, accumulator(f32)),), c)
OTHERS: list[Spec] = [Move(a, c), Init(c), Pointwise(accumulator(f32).tree, (a,), c), Program("none", (), (), ())]


@pytest.mark.parametrize("spec", [product, grouped, products, stack, *OTHERS], ids=lambda spec: type(spec).__name__)
def test_every_kind_answers(spec: Spec) -> None:
    assert (spec.product, spec.swapped) == ("mul", False)
    assert (spec.groups, spec.ragged) == ((ends, "M") if spec is grouped else (None, None))
    assert [layer.weights for layer in spec.layers] == ([b] if spec is stack else [])
    assert len(spec.phases) == (1 if spec is products else 0)
    assert spec.accumulator == (None if spec in OTHERS else f32)
    assert spec.inplace == ()


def test_the_columns_of_a_swapped_product_are_ragged() -> None:
    swapped = MatMul(a, b, c, swapped=True, groups=ends)
    assert (swapped.swapped, swapped.ragged) == (True, "N")


def test_no_rule_asks_for_the_kind_of_a_spec() -> None:
    found: list[str] = []
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT)
        if place.parts[0] in ("front", "language", "schedules") or place.parts == ("show", "diff.py"):
            continue  # show/diff.py compares two specs of each kind, field by field
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                names = {x.id for x in ast.walk(node.args[1]) if isinstance(x, ast.Name)} & KINDS
                found += [f"{place.as_posix()}: {name}" for name in sorted(names)]
            if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name) and node.cls.id in KINDS:
                found.append(f"{place.as_posix()}: {node.cls.id}")
    assert found == LEFT

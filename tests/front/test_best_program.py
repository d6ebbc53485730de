"""best() of programs: the preset for each form, and what no preset takes."""

from __future__ import annotations

from typing import Any

import pytest

import fireiron as fi
from fireiron import FireironError, Matrix, Vector, best, program, tensor
from fireiron.schedules import pointwise, reductions, rows

x = Matrix(64, 512, "bf16")
FORMS: dict[str, tuple[Any, Any, Any]] = {
    "pointwise": (lambda x: fi.exp(x), x, pointwise.pointwise),
    "softmax": (lambda x: fi.softmax(x, "n"), x, rows.row),
    "sum": (lambda x: fi.sum(x, "m"), x, reductions.reduction),
    "two sums": (lambda x: (fi.sum(x, "n"), fi.max(x, "n")), x, reductions.reduction),
    "a value of rows that are folded twice": (lambda x: fi.logsumexp(x, "n"), x, rows.row),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_preset_for_each_form(form: str) -> None:
    function, given, preset = FORMS[form]
    spec = program(x="m n")(function)(given)
    assert best(spec) == preset(spec)
    assert best(spec, "sm_80").program.arch == "sm_80"


def test_presets_are_found_once() -> None:
    spec = rows.softmax(x)
    assert best(spec) is best(spec)


def test_what_no_preset_takes() -> None:
    product = program(a="m k", b="k n")(lambda a, b: fi.einsum("mk,kn->mn", a, b))
    with pytest.raises(FireironError, match=r"no preset takes .*: it multiplies matrices") as caught:
        best(product(Matrix(8, 8), Matrix(8, 8)))
    assert caught.value.code == "nothing-legal"
    outer = program(x="m", y="n")(lambda x, y: x + y)
    with pytest.raises(FireironError, match="has no input with all its dims"):
        best(outer(Vector(8, name="x"), Vector(8, name="y")))
    with pytest.raises(FireironError) as caught:
        best(tensor(8, 8))  # type: ignore[arg-type]
    assert caught.value.code == "argument-kind"

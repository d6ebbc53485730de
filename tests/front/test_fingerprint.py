"""Fingerprints: equal only where two functions always do the same, and absent where that is not certain."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from functools import partial, wraps
from types import ModuleType
from typing import Any

import attrs
import pytest

import fireiron
from fireiron import Matrix, add, cast, clamp_to, f16, relu, silu
from fireiron.front.fingerprint import fingerprint
from fireiron.schedules import simt
from fireiron.schedules.hopper import Plan

FACTOR: Any = 2.0
LISTED = [2.0]
SETTINGS = ModuleType("settings")
INNER = ModuleType("inner")


class Config:
    factor = 2.0


def helper(x: Any) -> Any:
    return x * FACTOR


def counted(x: Any) -> Any:
    global FACTOR
    FACTOR += 1
    return x * FACTOR


def recursive(x: Any) -> Any:
    return recursive(x) if x is None else x


def imports(x: Any) -> Any:
    from math import pi

    return x * pi


def stores(x: Any) -> Any:
    Config.factor = 3.0
    return x


def given(factor: Any) -> Callable[[Any], Any]:
    return lambda acc: acc * factor


def by_default(value: Any) -> Callable[[Any], Any]:
    return lambda acc, factor=value: acc * factor


def by_keyword(value: Any) -> Callable[[Any], Any]:
    return lambda acc, *, factor=value: acc * factor


def counter() -> Callable[[Any], Any]:
    n = 0

    def count(x: Any) -> Any:
        nonlocal n
        n += 1
        return x * n

    return count


def marked(x: Any) -> Any:
    return x * marked.factor  # type: ignore[attr-defined]


marked.factor = 2.0  # type: ignore[attr-defined]


@wraps(relu)
def wrapper(x: Any) -> Any:
    return relu(x) * FACTOR


@pytest.mark.parametrize("make", [given, by_default, by_keyword])
def test_values_that_a_function_holds_tell_it_apart(make: Any) -> None:
    values = (2, 2.0, True, 1, 1.0, 0.0, -0.0, 3.0, "2", None, (1, 2), (1, 2.0), f16, relu, given(1), given(2), Plan())
    found = [fingerprint(make(value)) for value in values]
    assert None not in found
    assert len(set(found)) == len(values)
    assert [fingerprint(make(value)) for value in values] == found


def test_code_tells_functions_apart() -> None:
    first, second = (lambda acc: relu(acc)), (lambda acc: silu(acc))
    assert fingerprint(first) == fingerprint(first) != fingerprint(second)
    assert fingerprint(clamp_to(0, 6)) == fingerprint(clamp_to(0, 6)) != fingerprint(clamp_to(0, 7))
    assert fingerprint(add(Matrix(4, 4, name="x"))) != fingerprint(add(Matrix(4, 5, name="x")))
    assert fingerprint(relu) is relu


def changes(monkeypatch: pytest.MonkeyPatch, function: Any, holder: Any, name: str, value: Any) -> None:
    """Look at a function before and after a value elsewhere changes."""
    before = fingerprint(function)
    assert before is not None
    assert before == fingerprint(function)
    monkeypatch.setitem(holder, name, value)
    assert fingerprint(function) not in (before, None)
    monkeypatch.undo()
    assert fingerprint(function) == before


def test_globals_that_change_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    here = globals()
    changes(monkeypatch, lambda acc: acc * FACTOR, here, "FACTOR", 3.0)
    changes(monkeypatch, lambda acc: acc * FACTOR, here, "FACTOR", 2)
    changes(monkeypatch, lambda acc: helper(acc) + 1, here, "FACTOR", 3.0)  # read by what the function calls
    changes(monkeypatch, lambda acc: [x * FACTOR for x in (acc,)][0], here, "FACTOR", 3.0)  # noqa: RUF015
    changes(monkeypatch, lambda acc: relu(acc), here, "relu", silu)
    changes(monkeypatch, lambda acc: max(acc, 1), here, "max", min)  # a builtin that a global now hides
    changes(monkeypatch, partial(helper), here, "FACTOR", 3.0)


def test_attributes_of_modules_that_change_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SETTINGS, "factor", 2.0, raising=False)
    monkeypatch.setattr(SETTINGS, "inner", INNER, raising=False)
    monkeypatch.setattr(INNER, "factor", 2.0, raising=False)
    for function, holder in (
        (lambda acc: acc * SETTINGS.factor, SETTINGS),
        (lambda x: x * SETTINGS.inner.factor, INNER),
    ):
        before = fingerprint(function)
        assert before is not None
        vars(holder)["factor"] = 3.0
        assert fingerprint(function) not in (before, None)
        vars(holder)["factor"] = 2.0
        assert fingerprint(function) == before


CERTAIN: dict[str, Any] = {
    "math": lambda acc: acc * math.sqrt(math.pi),
    "dtype": lambda acc: cast(acc, f16),
    "library": lambda acc: fireiron.relu(acc),
    "schedule": lambda spec: simt.listing2(spec, 32, 32),
    "partial": partial(simt.listing2, m=32),
    "preset": simt.sgemm,
    "pure": lambda acc: acc * float(max(1, 2)),
}


@pytest.mark.parametrize("name", CERTAIN)
def test_common_functions_have_one(name: str) -> None:
    assert fingerprint(CERTAIN[name]) is not None
    assert fingerprint(CERTAIN[name]) == fingerprint(CERTAIN[name])


UNCERTAIN: dict[str, Any] = {
    "a list": given(LISTED),
    "a list among globals": lambda acc: acc * LISTED[0],
    "a list in a tuple": given((LISTED,)),
    "a user's class": lambda acc: acc * Config.factor,
    "a user's object": given(Config()),
    "a method": Config().__init__,
    "random": lambda acc: acc * random.random(),
    "the time": lambda acc: acc * time.time(),
    "a module passed on": lambda acc: helper(acc) * len(vars(SETTINGS)),
    "a module in a closure": given(SETTINGS),
    "a missing attribute": lambda acc: acc * SETTINGS.nowhere,
    "a missing global": lambda acc: acc * nowhere,  # type: ignore[name-defined]  # noqa: F821
    "a global that it writes": counted,
    "a nonlocal that it writes": counter(),
    "an attribute that it writes": stores,
    "an import": imports,
    "itself": recursive,
    "attributes of functions": marked,
    "what wraps() makes look like the library's": wrapper,
    "getattr": lambda acc: acc * getattr(math, "pi"),  # noqa: B009
    "globals": lambda acc: acc * globals()["FACTOR"],
    "a partial of a list": partial(helper, LISTED),
}


def test_records_of_the_library_that_may_change_have_none() -> None:
    fields = {"factor": attrs.field(default=2.0)}
    frozen, changing = (attrs.make_class("Record", fields, frozen=x) for x in (True, False))
    for record in (frozen, changing):
        record.__module__ = "fireiron.records"
    assert fingerprint(frozen()) is not None
    assert fingerprint(changing()) is None


def test_attributes_of_a_partial_leave_it_none() -> None:
    made = partial(simt.listing2, m=32)
    assert fingerprint(made) is not None
    made.n = 32  # type: ignore[attr-defined]
    assert fingerprint(made) is None


@pytest.mark.parametrize("name", UNCERTAIN)
def test_what_is_not_certain_has_none(name: str) -> None:
    assert fingerprint(UNCERTAIN[name]) is None


def test_an_empty_cell_has_none() -> None:
    function = given(1.0)
    del function.__closure__[0].cell_contents  # type: ignore[index]
    assert fingerprint(function) is None


def test_code_is_kept_while_it_is_known() -> None:
    """Another function may take the address of code that is gone: its fingerprint must be another."""
    text = "f = lambda acc: acc * {}"
    seen: list[object] = []
    for i in range(50):
        space: dict[str, Any] = {}
        exec(text.format(i), space)
        seen.append(fingerprint(space["f"]))
    assert len(set(seen)) == 50

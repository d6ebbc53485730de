"""Spaces are plain data on the preset: drawn, walked, read from text, and checked against the signature."""

from __future__ import annotations

import pickle

import attrs
import pytest
from helpers import Plan, ranked

from fireiron import FireironError, matmul, space
from fireiron.schedules import ada, ampere, hopper, simt, turing, volta
from fireiron.tune.space import Declared, Space, arguments, checked, default_point, point, space_of, values_of


@space(m=(64, 128, 256), warp=((32, 32), (64, 64)))
def preset(spec, m=128, warp=(64, 64), other=None):
    """Do nothing."""


@attrs.frozen
class Anew:
    """Hold a default that is made anew each time."""

    sizes: tuple[int, ...] = attrs.field(factory=tuple)


def test_points_are_the_product() -> None:
    declared = space_of(preset)
    assert declared is not None
    found = declared.of()
    points = list(found.points())
    assert found.size == len(points) == len(set(points)) == 6
    assert str(points[0]) == "m=64, warp=(32, 32)"
    assert preset(None) is None  # the function itself is as it was


def test_a_large_space_is_drawn_from_without_repeats() -> None:
    big = Space((("a", tuple(range(100))), ("b", tuple(range(100))), ("c", tuple(range(100)))))
    drawn = list(big.points(50, seed=1))
    assert len(set(drawn)) == 50
    assert drawn == list(big.points(50, seed=1)) != list(big.points(50, seed=2))


def test_neighbours_differ_by_one_place() -> None:
    declared = space_of(preset)
    assert declared is not None
    found = declared.of()
    near = set(found.neighbours(point({"m": 128, "warp": (32, 32)})))
    assert near == {
        point({"m": 64, "warp": (32, 32)}),
        point({"m": 256, "warp": (32, 32)}),
        point({"m": 128, "warp": (64, 64)}),
    }
    assert default_point(preset, found) == point({"m": 128, "warp": (64, 64)})


def test_a_point_survives_json() -> None:
    import json

    made = point({"warp": (64, 32), "stages": 3, "name": "x", "on": True, "none": None})
    assert point(json.loads(json.dumps(made.to_json()))) == made


def test_objects_of_attrs_are_plain_data() -> None:
    import json

    made = point({"plan": Plan(n=16), "k": (1, Plan())})
    assert str(made) == "k=(1, Plan()), plan=Plan(n=16)"  # what differs from the defaults
    assert point(json.loads(json.dumps(made.to_json()))) == made
    assert arguments(ranked, made) == {"plan": Plan(n=16), "k": (1, Plan())}
    assert pickle.loads(pickle.dumps(made)) == made
    assert str(point({"x": Anew(), "y": Anew((1,))})) == "x=Anew(sizes=()), y=Anew(sizes=(1,))"
    with pytest.raises(FireironError) as raised:
        arguments(simt.sgemm, made)  # whose file knows no Plan
    assert raised.value.code == "unknown-class"


def test_a_function_ranks_the_values_for_a_spec() -> None:
    declared = space_of(ranked)
    assert declared is not None
    assert declared.ranked
    assert declared.since == "sm_80"
    found = declared.of(matmul(64, 64, 64))
    assert [p.keywords["plan"] for p in found.points(2)] == [m for p in found.points() for m in [p.keywords["plan"]]][
        :2
    ]
    assert str(next(found.points())) == str(default_point(ranked, found)) == "plan=Plan(m=7, n=7)"
    mixed = checked(ranked, {"plan": lambda spec: (Plan(1), Plan(2))}).of(None)
    assert [str(p) for p in mixed.neighbours(point({"plan": Plan(1)}))] == ["plan=Plan(m=2)"]


@pytest.mark.parametrize("ranking", [lambda spec: (), lambda spec: 1 // 0])
def test_a_function_that_lists_nothing_is_told(ranking: object) -> None:
    with pytest.raises(FireironError, match="plan") as raised:
        checked(ranked, {"plan": ranking}).of(None)
    assert raised.value.code == "no-candidates"
    assert raised.value.fix


@pytest.mark.parametrize(
    ("values", "code", "said"),
    [
        ({"m": ()}, "empty-space", "m of preset has no values"),
        ({}, "empty-space", "names no keyword"),
        ({"q": (1,)}, "unknown-parameter", "preset takes no q"),
        ({"m": 64}, "bad-space", "lists no values"),
        ({"m": "64"}, "bad-space", "lists no values"),
        ({"m": (object(),)}, "bad-space", "no plain data"),
    ],
)
def test_a_space_that_cannot_be_searched(values: dict, code: str, said: str) -> None:
    with pytest.raises(FireironError, match=said) as raised:
        checked(preset, values)
    assert raised.value.code == code
    assert raised.value.fix


def test_values_as_text() -> None:
    assert values_of("name=a,b") == ("name", ("a", "b"))
    assert values_of("x=None,1.5,True") == ("x", (None, 1.5, True))
    with pytest.raises(ValueError, match="NAME=VALUE"):
        values_of("64")


def test_plain_data_on_a_function_is_a_space_too() -> None:
    def other(spec, m=1): ...

    other.space = {"m": [1, 2]}  # type: ignore[attr-defined]
    assert space_of(other) == Declared((("m", (1, 2)),))
    assert space_of(lambda spec: None) is None


def test_presets_have_spaces() -> None:
    for function in (hopper.gemm, ada.gemm, ampere.gemm, turing.gemm, volta.gemm, simt.sgemm):
        assert space_of(function) is not None

"""Every verb takes programs of two steps: folds of rows, and a product with a normalised operand."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron.front.cli import RIGHT, main
from fireiron.front.cli.options import VERBS
from fireiron.front.digest import digest
from fireiron.front.verbs import Schedule
from fireiron.show import pictures

SOURCE = """
import fireiron as fi
from fireiron import *

@fi.program(x="m k", w="k n")
def normalised(x, w):
    size = fi.sum(x * x, over="k").named("size")
    return fi.einsum("mk,kn->mn", x * fi.rsqrt(size + 1.0), w, name="o")

@fi.program(x="m n")
def centred(x):
    return x - fi.max(x, over="n").named("top")

def product(rows=16):
    spec = normalised(Matrix(16, 24, name="x"), Matrix(24, 32, name="w")).tile(m=rows, n=16).to(Block)
    return spec.tile(m=1, n=1).to(Thread).split(k=1).done()

def rows(wide=1):
    return centred(Matrix(8, 96, name="x")).tile(m=wide).to(Block).tile(m=1).to(Warp).load("x", RF, vector()).done()
"""
HERE: dict[str, Any] = {}
exec(compile(SOURCE, __file__, "exec"), HERE)
SCHEDULES: dict[str, Callable[..., Any]] = {"product": HERE["product"], "rows": HERE["rows"]}


def arrays(name: str) -> tuple[tuple[Any, ...], Any]:
    """Make inputs, and what NumPy makes of them."""
    rng = np.random.default_rng(0)
    if name == "rows":
        x = rng.standard_normal((8, 96)).astype(np.float32)
        return (x,), x - x.max(1, keepdims=True)
    x, w = rng.standard_normal((16, 24)).astype(np.float32), rng.standard_normal((24, 32)).astype(np.float32)
    return (x, w), (x / np.sqrt((x * x).sum(1, keepdims=True) + 1)) @ w


def near(result: Any, expected: Any) -> bool:
    return bool(np.allclose(result, expected, rtol=1e-4, atol=1e-5))


# What each verb must say or give of a schedule.
SAID: dict[str, Callable[[Any, str], bool]] = {
    "name": lambda s, _: s.name.isidentifier(),
    "lowered": lambda s, _: s.lowered().threads > 0,
    "cuda": lambda s, _: "__global__" in s.cuda("sm_80"),
    "check": lambda s, _: all(f.severity != "error" for f in s.check("sm_80")),
    "facts": lambda s, _: s.facts("sm_80") is not None,
    "estimate": lambda s, _: s.estimate("sm_80").time_us > 0,
    "simulate": lambda s, name: near(s.simulate(*arrays(name)[0]).out, arrays(name)[1]),
    "compile": lambda s, _: s.compile("sm_80").resources.registers > 0,
    "export": lambda s, _: s.name in s.export(tempfile.mkdtemp(), ("sm_80",)).name,
    "flops": lambda s, name: s.flops() == (2 * 16 * 32 * 24 if name == "product" else 0),
    "explain": lambda s, _: "step by step" in str(s.explain("sm_80").rows[-1].sentences),
    "diff": lambda s, name: bool(s.diff(SCHEDULES[name](4))) and not s.diff(SCHEDULES[name]()),
    "studio": lambda s, _: s.name in s.studio("sm_80").html(),
    "tree": lambda s, name: (
        ("size[m] = add over k of x[m, k] * x[m, k]" if name == "product" else "top[m]  = max over n of x[m, n]")
        in s.tree()
    ),
}
CALLED = {"time"}  # on a GPU alone


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def test_every_verb_is_walked() -> None:
    verbs = {name for name in vars(Schedule) if not name.startswith("_")}
    assert verbs <= set(SAID) | CALLED, "a verb without a line here"


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("verb", SAID)
def test_a_verb(verb: str, name: str) -> None:
    assert SAID[verb](SCHEDULES[name](), name)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_call(name: str, here: None) -> None:
    inputs, expected = arrays(name)
    assert near(SCHEDULES[name]()(*inputs), expected)


@pytest.mark.parametrize("name", SCHEDULES)
def test_digests_tell_programs_apart(name: str) -> None:
    one, same, other = (SCHEDULES[name](*sizes) for sizes in ((), (), (4,)))
    digests = [digest(s.program, s.links, s.name) for s in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]
    assert pickle.loads(pickle.dumps(one.lowered())) == one.lowered()


PICTURES: dict[str, Callable[[Any], Any]] = {
    "decomposition": pictures.decomposition,
    "cuts": pictures.cuts,
    "banks": pictures.banks,
    "timeline": pictures.timeline,
    "roofline": lambda s: pictures.roofline(s, on="sm_80"),
    "compare": lambda s: pictures.compare(s, s),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_pictures(name: str) -> None:
    """A schedule without shared memory has no banks to show, and says so by a code."""
    assert {p for p in pictures.__all__ if p[0].islower()} - {"fragment", "values"} == set(PICTURES)
    refused: dict[str, str] = {}
    for what, draw in PICTURES.items():
        try:
            assert "<svg" in draw(SCHEDULES[name]()).svg(), what
        except fi.FireironError as error:
            refused[what] = error.code
    assert refused == {"banks": "no-such-buffer"}


# Schedule of schedules; the others choose presets, or time them on a GPU.
LOOKED = {"show", "check", "explain", "diff", "estimate", "emit", "compile", "simulate", "run"}


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_command_line(name: str, tmp_path: Path, here: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(VERBS) >= LOOKED
    file = tmp_path / "mine.py"
    file.write_text(SOURCE, encoding="utf-8")
    for verb in sorted(LOOKED):
        again = [f"{file}:{name}"] if verb == "diff" else []
        assert main([verb, f"{file}:{name}", *again]) == RIGHT, (verb, capsys.readouterr())

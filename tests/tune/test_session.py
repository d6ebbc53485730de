"""A session verifies each candidate against the first right one, and that one against f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver

from fireiron import b1, i4, matmul
from fireiron.algebra.elements import tf32_read, unpack
from fireiron.jit.cache import Entry
from fireiron.jit.kernel import CompiledKernel
from fireiron.schedules import ada, ampere
from fireiron.tune import session as sessions
from fireiron.tune.session import Session

SPEC = matmul(128, 128, 64, "f16", layout="TN")


def in_floats(a: Any, b: Any) -> Any:
    return (a.astype(np.float32) @ b.T.astype(np.float32)).astype(np.float16)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let kernels multiply with NumPy, spoiled as the test says."""
    driver: Any = FakeDriver()
    how: dict[str, Any] = {"spoil": None, "driver": driver}
    monkeypatch.setattr(sessions, "driver", lambda: driver)

    def prepare(self: Any, facts: Any, binding: Any, numbers: Any) -> Any:
        assert binding.device == 0
        a, b, c = (facts[name].owner for name in "ABC")

        def launch(stream: int) -> None:
            assert stream == 7
            host = [np.empty(x.shape, x.dtype) for x in (a, b)]
            for x, into in zip((a, b), host, strict=True):
                x.download(into)
            out = how.get("multiply", in_floats)(*host)
            if how["spoil"] == "element":
                out[3, 5] += 40
            if how["spoil"] == "unwritten":
                return
            c.upload(out)

        return launch

    monkeypatch.setattr(CompiledKernel, "prepare", prepare)
    return how


@pytest.fixture
def entry() -> Entry:
    kernel = ampere.gemm(SPEC).compile("sm_90a")
    return Entry(kernel.binary, kernel.interface)


def test_right_candidates_are_sampled_in_rounds(fake: dict[str, Any], entry: Entry) -> None:
    session = Session(SPEC)
    first = session.trial(0, entry, 3)
    assert (first.wrong, len(first.times_us)) == ("", 3)
    assert first.times_us[0] == pytest.approx(10.0)
    assert session.trial(1, entry, 2).wrong == ""
    found = session.sample([0, 1], 4)
    assert {i: len(times) for i, times in found.items()} == {0: 4, 1: 4}
    session.drop(0)
    with pytest.raises(KeyError):
        session.sample([0], 1)


@pytest.mark.parametrize("spoil", ["element", "unwritten"])
@pytest.mark.parametrize("plain", [True, False])
def test_wrong_candidates_are_out(fake: dict[str, Any], entry: Entry, spoil: str, plain: bool) -> None:
    session = Session(SPEC)
    fake["spoil"] = spoil
    if plain or spoil == "unwritten":
        assert session.trial(0, entry, 3, plain).wrong  # the first one: by f64, or by its NaNs
    fake["spoil"] = None
    assert session.trial(1, entry, 3, plain).wrong == ""
    fake["spoil"] = spoil
    found = session.trial(2, entry, 3, plain)  # a later one: by the first
    assert found.wrong
    assert found.times_us == ()
    fake["spoil"] = None
    assert session.trial(3, entry, 3, plain).wrong == ""


def test_what_c_held_before_takes_part(fake: dict[str, Any]) -> None:
    spec = matmul(128, 128, 64, "f16", layout="TN", beta="beta")
    kernel = ampere.gemm(spec).compile("sm_90a")
    session = Session(spec)
    assert session.trial(0, Entry(kernel.binary, kernel.interface), 1).wrong == ""
    assert session.trial(1, Entry(kernel.binary, kernel.interface), 1).wrong == ""


def in_bits(function: Any) -> Any:
    def multiply(a: Any, b: Any) -> Any:
        x, y = (unpack(array, b1).astype(np.int32) for array in (a, b))
        return function(x[:, None], y[None]).sum(-1).astype(np.int32)

    return multiply


@pytest.mark.parametrize("name", ["f16", "bf16", "e4m3"])
def test_one_term_of_thousands_is_noticed(fake: dict[str, Any], name: str) -> None:
    """Rounding of a row hides a lost term on random numbers, and nothing does on whole ones."""
    spec = matmul(32, 32, 4096, name, layout="TN")
    kernel = ada.gemm(spec).compile("sm_89")
    session, entry = Session(spec), Entry(kernel.binary, kernel.interface)
    kind = spec.matmul.C.dtype.numpy
    fake["driver"].result = kind.type

    def lossy(lost: int) -> Any:
        def multiply(a: Any, b: Any) -> Any:
            a, b = a.astype(np.float64), b.astype(np.float64)
            c = a @ b.T
            c[3, 5] -= (a[3, :lost] * b[5, :lost]).sum()
            return c.astype(np.float32).astype(kind)

        return multiply

    fake["multiply"] = lossy(0)
    assert session.trial(0, entry, 1).wrong == ""
    fake["multiply"] = lossy(1)
    said = session.trial(1, entry, 1).wrong
    assert said == "1 elements of a run on whole numbers differ from the exact product"
    fake["multiply"] = lossy(0)
    assert session.trial(2, entry, 1).wrong == ""


@pytest.mark.parametrize(
    ("name", "options", "multiply"),
    [
        ("b1", {}, in_bits(np.bitwise_xor)),
        ("b1", {"product": "and"}, in_bits(np.bitwise_and)),
        ("i4", {}, lambda a, b: unpack(a, i4).astype(np.int32) @ unpack(b, i4).astype(np.int32).T),
        ("e4m3", {}, lambda a, b: a.astype(np.float32) @ b.astype(np.float32).T),
        ("tf32", {}, lambda a, b: tf32_read(a) @ tf32_read(b).T),
    ],
)
def test_narrow_elements_are_verified(fake: dict[str, Any], name: str, options: dict[str, Any], multiply: Any) -> None:
    spec = matmul(128, 128, 128, name, layout="TN", **options)
    kernel = ada.gemm(spec).compile("sm_89")
    session = Session(spec)
    entry = Entry(kernel.binary, kernel.interface)
    fake["multiply"], fake["spoil"] = multiply, "element"
    fake["driver"].result = spec.matmul.C.dtype.numpy.type
    assert session.trial(0, entry, 1).wrong
    fake["spoil"] = None
    assert session.trial(1, entry, 1).wrong == ""
    fake["spoil"] = "element"
    assert session.trial(2, entry, 1).wrong

"""A session verifies each candidate on whole numbers bit by bit, and on random ones against the first or f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver

from fireiron import A, Matrix, Vector, add, b1, dequantise, gelu, i4, matmul, relu, row_sum, save
from fireiron.algebra.elements import tf32_read, unpack
from fireiron.jit.cache import Entry
from fireiron.jit.kernel import CompiledKernel
from fireiron.schedules import ada, ampere
from fireiron.simulate import simulate
from fireiron.tune import proof as proofs
from fireiron.tune import session as sessions
from fireiron.tune.proof import is_plain, proof
from fireiron.tune.session import Session
from fireiron.verify.reference import Meaning

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


def begun(spec: Any, schedule: Any, arch: str = "sm_90a") -> tuple[Session, Entry]:
    """Begin a session that holds the exact run of a schedule as 0; gives it, and the schedule's machine code."""
    kernel, session = schedule.compile(arch), Session(spec)
    session.prove(0, proof(Meaning.of(schedule), kernel.interface, spec.matmul))
    return session, Entry(kernel.binary, kernel.interface)


def test_right_candidates_are_sampled_in_rounds(fake: dict[str, Any]) -> None:
    session, entry = begun(SPEC, ampere.gemm(SPEC))
    first = session.trial(0, entry, 3, 0)
    assert (first.wrong, len(first.times_us)) == ("", 3)
    assert first.times_us[0] == pytest.approx(10.0)
    assert session.trial(1, entry, 2, 0).wrong == ""
    found = session.sample([0, 1], 4)
    assert {i: len(times) for i, times in found.items()} == {0: 4, 1: 4}
    session.drop(0)
    with pytest.raises(KeyError):
        session.sample([0], 1)


@pytest.mark.parametrize("spoil", ["element", "unwritten"])
@pytest.mark.parametrize("plain", [True, False])
def test_wrong_candidates_are_out(fake: dict[str, Any], spoil: str, plain: bool) -> None:
    session, entry = begun(SPEC, ampere.gemm(SPEC))
    fake["spoil"] = spoil
    assert session.trial(0, entry, 3, 0, plain).wrong
    fake["spoil"] = None
    assert session.trial(1, entry, 3, 0, plain).wrong == ""
    fake["spoil"] = spoil
    found = session.trial(2, entry, 3, 0, plain)  # a later one: by the first
    assert found.wrong
    assert found.times_us == ()
    fake["spoil"] = None
    assert session.trial(3, entry, 3, 0, plain).wrong == ""


def in_bits(function: Any) -> Any:
    def multiply(a: Any, b: Any) -> Any:
        x, y = (unpack(array, b1).astype(np.int32) for array in (a, b))
        return function(x[:, None], y[None]).sum(-1).astype(np.int32)

    return multiply


@pytest.mark.parametrize("name", ["f16", "bf16", "e4m3"])
def test_one_term_of_thousands_is_noticed(fake: dict[str, Any], name: str) -> None:
    """Rounding of a row hides a lost term on random numbers, and nothing does on whole ones."""
    spec = matmul(32, 32, 4096, name, layout="TN")
    session, entry = begun(spec, ada.gemm(spec), "sm_89")
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
    assert session.trial(0, entry, 1, 0).wrong == ""
    fake["multiply"] = lossy(1)
    said = session.trial(1, entry, 1, 0).wrong
    assert said == "1 elements of a run on whole numbers differ from the exact product"
    fake["multiply"] = lossy(0)
    assert session.trial(2, entry, 1, 0).wrong == ""


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
    session, entry = begun(spec, ada.gemm(spec), "sm_89")
    fake["multiply"], fake["spoil"] = multiply, "element"
    fake["driver"].result = spec.matmul.C.dtype.numpy.type
    assert session.trial(0, entry, 1, 0).wrong
    fake["spoil"] = None
    assert session.trial(1, entry, 1, 0).wrong == ""
    fake["spoil"] = "element"
    assert session.trial(2, entry, 1, 0).wrong


@pytest.fixture
def simulated(fake: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let kernels run on the simulator, and spoil what they write as the test says."""

    def prepare(self: Any, facts: Any, binding: Any, numbers: Any) -> Any:
        owners = {name: fact.owner for name, fact in facts.items()}

        def launch(stream: int) -> None:
            arrays = {name: np.empty(x.shape, x.dtype) for name, x in owners.items()}
            for name, owner in owners.items():
                owner.download(arrays[name])
            before = {name: array.copy() for name, array in arrays.items()}
            simulate(fake["schedule"].lowered(), arrays, {}, numbers)
            fake["spoil"] and fake["spoil"](arrays, before)
            for name, owner in owners.items():
                owner.upload(arrays[name])

        return launch

    monkeypatch.setattr(CompiledKernel, "prepare", prepare)
    return fake


def lacking(arrays: Any, before: Any) -> None:
    """Lose one term of one element of C."""
    arrays["C"][3, 5] -= before["A"][3, 7].astype(np.float32) * before["B"].T[7, 5].astype(np.float32)


def unscaled(arrays: Any, before: Any) -> None:
    """Forget what C held before."""
    arrays["C"][...] -= before["C"]


def unsaved(arrays: Any, before: Any) -> None:
    arrays["S"][9, 9] = 0


def another_group(arrays: Any, before: Any) -> None:
    """Multiply the last row by the weights of the group before its own."""
    arrays["C"][-1] = (before["A"][-1:].astype(np.float64) @ before["B"][0].astype(np.float64).T)[0]


SMALL = {"m": 32, "n": 32, "warp": (16, 16)}
BESIDE = {
    "ops": (lambda s: s.then(add(Vector(64, name="bias")), relu), lacking),
    "rounded ops": (lambda s: s.then(gelu), lambda arrays, before: arrays["C"].__setitem__((3, 5), 60)),
    "scalars": (lambda s: s, unscaled),
    "prolog": (lambda s: s.prolog(A, dequantise("f16", Matrix(64, 1, name="s"))), lacking),
    "saved": (lambda s: s.then(save(Matrix(64, 64, name="S")), row_sum(Matrix(64, 2, name="total"))), unsaved),
}


@pytest.mark.product
@pytest.mark.parametrize("case", BESIDE)
@pytest.mark.parametrize("first", [True, False])
def test_all_that_is_computed_is_verified_exactly(simulated: dict[str, Any], case: str, first: bool) -> None:
    """The first candidate too: it is not merely what later ones must agree with."""
    change, spoil = BESIDE[case]
    scalars = {"alpha": 2.0, "beta": "beta"} if case == "scalars" else {}
    spec = change(matmul(64, 64, 128, "f16", layout="TN", out="f32", **scalars))
    schedule = simulated["schedule"] = ampere.gemm(spec, **SMALL, k=32, stages=2)
    session, entry = begun(spec, schedule)
    simulated["driver"].result = np.float32
    assert not is_plain(Meaning.of(schedule))
    if not first:
        assert session.trial(0, entry, 1, 0, False).wrong == ""
    simulated["spoil"] = spoil
    assert session.trial(1, entry, 1, 0, False).wrong.startswith("a run on whole numbers is wrong in ")
    simulated["spoil"] = None
    assert session.trial(2, entry, 1, 0, False).wrong == ""


def test_groups_are_verified_exactly(simulated: dict[str, Any]) -> None:
    spec = matmul(96, 64, 128, "f16", layout="TN", out="f32", groups=3)
    schedule = simulated["schedule"] = ampere.gemm(spec, **SMALL, k=32, stages=2)
    session, entry = begun(spec, schedule)
    simulated["driver"].result = np.float32
    simulated["spoil"] = another_group
    assert session.trial(0, entry, 1, 0, False).wrong.startswith("a run on whole numbers is wrong in C")
    simulated["spoil"] = None
    assert session.trial(1, entry, 1, 0, False).wrong == ""


@pytest.mark.parametrize("groups", [None, 5])
def test_of_large_results_rows_are_computed(monkeypatch: pytest.MonkeyPatch, groups: int | None) -> None:
    spec = matmul(1000, 64, 64, "f16", layout="TN", out="f32", groups=groups).then(relu)
    schedule = ampere.gemm(spec, **SMALL, k=32, stages=2)
    made = Meaning.of(schedule), schedule.compile("sm_90a").interface, spec.matmul
    monkeypatch.setattr(proofs, "MOST_ELEMENTS", 1 << 24)
    whole = proof(*made)
    assert len(whole.parts) == 1
    monkeypatch.setattr(proofs, "MOST_OPERATIONS", 3 * 64 * 2 * 64 * 64)
    some = proof(*made)
    assert some.parts[0].place[-2] == slice(0, 64)
    assert 3 <= len(some.parts) <= 4
    for part in some.parts:
        np.testing.assert_array_equal(part.values.value, whole.parts[0].values.value[part.place])
        assert (part.values.error == 0).all()
    c = whole.parts[0].values.value.astype(np.float32)
    assert some.wrong({"C": c}) == ""
    c[-1, 3] += 1
    assert some.wrong({"C": c}).startswith("a run on whole numbers is wrong in rows 960 to 999 of C: C: 1 of ")

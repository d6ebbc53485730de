"""Calls with wrong values end well, or in an error with a code: a sample of `python -m tests.fuzz.calls`."""

from __future__ import annotations

import random

import numpy as np
import pytest

import fireiron as fi
from fireiron.schedules import ampere, hopper, simt

SECONDS = 2.5


@pytest.mark.parametrize("seed", [7, random.SystemRandom().randrange(2**32)], ids=["fixed", "fresh"])
def test_wrong_values_are_refused_with_a_code(seed: int) -> None:
    from tests.fuzz.calls import fuzz

    outcome = fuzz(seed, SECONDS)
    print(f"python -m tests.fuzz.calls --seed {seed}: {sum(outcome.counts.values())} programs")
    assert not outcome.sites, f"seed {seed}: {outcome}"
    assert outcome.counts["refused"] > outcome.counts["worked"] / 4  # what is drawn is wrong


def test_programs_work_as_they_stand() -> None:
    from tests.fuzz.calls import attempt
    from tests.fuzz.programs import REFUSED, programs

    ended = {name: attempt(tree)[0] for name, tree in programs().items()}
    assert {name: how for name, how in ended.items() if how != "worked"} == dict.fromkeys(REFUSED, "refused")


def test_a_raw_exception_is_a_finding() -> None:
    from tests.fuzz.calls import attempt
    from tests.fuzz.make import call

    assert attempt(call(fi.Strided)) == ("python", None)
    assert attempt(call(fi.symbol)) == ("refused", None)
    how, found = attempt(call(lambda: fi.matmul(64, 64, 64)._check(None)))
    assert how == "finding"
    assert found is not None
    assert "state.py" in found.site


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.int16, np.uint32])
def test_whole_numbers_of_numpy_are_python_s(kind: type) -> None:
    n = kind
    plain = fi.matmul(256, 128, 64, "f16", layout="TN")
    spec = fi.matmul(n(256), n(128), n(64), "f16", layout="TN")
    assert spec == plain
    assert ampere.gemm(spec, m=n(64), n=n(64), warp=(n(32), n(32))) == ampere.gemm(plain, m=64, n=64, warp=(32, 32))
    plan = hopper.Plan(n(128), n(128), cluster=(n(1), n(1)))
    assert plan == hopper.Plan(128, 128)
    assert {type(x) for x in (plan.m, *plan.cluster, *spec.matmul.A.shape, *spec.matmul.A.strides)} == {int}
    one, other = (simt.sgemm(fi.matmul(k(128), k(128), k(64))) for k in (n, int))
    assert one.cuda() == other.cuda()
    large = fi.Matrix(n(30000), n(30000), batch=n(4))  # 2.7e9 elements overflow 32 bits
    assert large.strides == (900_000_000, 30000, 1)
    assert fi.Layout((n(4), n(8)), (n(8), n(1))) == fi.Layout((4, 8), (8, 1))
    assert fi.Swizzle(n(3), n(3), n(3)) == fi.Swizzle(3, 3, 3)
    assert fi.symbol("M", multiple_of=n(8)) == fi.symbol("M", multiple_of=8)

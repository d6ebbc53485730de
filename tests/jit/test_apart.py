"""Compiling where a compiler that ends its process costs one kernel alone."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from fireiron import matmul
from fireiron.algebra.arch import arch
from fireiron.base.errors import CompileError
from fireiron.front.fallback import Fallback
from fireiron.jit import apart
from fireiron.jit.apart import compile_apart
from fireiron.jit.compile import compile_source
from fireiron.schedules import simt
from fireiron.tune.candidates import Candidate, compiled, preset
from fireiron.tune.space import point

SOURCE = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'


def dies(*_: Any, **__: Any) -> None:
    """Stand for a compiler that ends its process."""
    os.kill(os.getpid(), signal.SIGILL)


def test_a_binary_is_the_same_as_here() -> None:
    there, here = (attrs.evolve(f(SOURCE, "twice", arch("sm_80")), log="") for f in (compile_apart, compile_source))
    assert there == here


def test_errors_are_the_same_as_here() -> None:
    with pytest.raises(CompileError) as there:
        compile_apart("hello", "twice", arch("sm_80"))
    with pytest.raises(CompileError) as here:
        compile_source("hello", "twice", arch("sm_80"))
    assert str(there.value) == str(here.value)


def test_a_crash_is_an_error_of_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(apart, "compile_source", dies)
        with pytest.raises(CompileError, match="twice for sm_80: the process died of SIGILL") as error:
            compile_apart(SOURCE, "twice", arch("sm_80"))
    assert error.value.code == "compiler-crash"
    assert compile_apart(SOURCE, "twice", arch("sm_80")).cubin


def test_where_no_process_starts_it_is_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_apart", apart._Apart())
    monkeypatch.setattr("sys.executable", "/nothing/here")
    assert compile_apart(SOURCE, "twice", arch("sm_80")).cubin


def test_a_candidate_alone_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    candidate = Candidate(preset(simt.sgemm), point({}))
    monkeypatch.setattr(apart, "compile_source", dies)
    built = compiled(candidate, matmul(128, 128, 64), "sm_90")
    assert built.failure is not None
    assert (built.failure.stage, built.failure.code) == ("compile", "compiler-crash")


@pytest.mark.parametrize(("target", "crashes"), [("sm_100", True), ("sm_90", False)])
def test_what_a_search_chose_is_compiled_apart_where_compilers_have_crashed(
    target: str, crashes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another schedule takes the place of one that ends the compiler."""
    other = simt.sgemm(matmul(128, 128, 64), m=64, n=64, warp=(32, 32), thread=(8, 4))

    def refuse(*_: object) -> None:
        """Record nothing."""

    others = Fallback(lambda target: iter([SimpleNamespace(schedule=other)]), refuse)
    chosen = attrs.evolve(simt.sgemm(matmul(128, 128, 64)), fallback=others)
    monkeypatch.setattr(apart, "compile_source", dies)
    assert (chosen.compile(target).source == other.cuda(target)) is crashes

"""`debug(name)` prints the values that it is given, on the simulator as its CUDA would, and changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import debug, exp, gemm, matmul, relu, tensor
from fireiron.algebra.derivative import derivative
from fireiron.algebra.dtypes import f32
from fireiron.algebra.scalar import Debug
from fireiron.algebra.written import read, write
from fireiron.front import host
from fireiron.language.pointwise import accumulator
from fireiron.schedules import ampere, hopper, rows, simt

Captured = pytest.CaptureFixture[str]


def arrays(m: int, n: int, k: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.integers(-3, 4, (m, k)).astype(np.float32), rng.integers(-3, 4, (k, n)).astype(np.float32)


def test_each_element_of_the_tensor_is_printed_once(capsys: Captured) -> None:
    a, b = arrays(3, 2, 4)
    found = simt.sgemm(matmul(3, 2, 4), ops=(debug("100% of sums"), relu)).simulate(a, b)
    lines = capsys.readouterr().out.splitlines()
    values = a @ b
    wanted = [f"100% of sums: block 0, thread 0, [{i}, {j}] = {values[i, j]:g}" for i in range(3) for j in range(2)]
    assert sorted(lines) == sorted(wanted)
    assert (found.out == np.maximum(values, 0)).all()


def test_printing_changes_no_bit_on_tensor_cores(capsys: Captured) -> None:
    spec = matmul(128, 256, 64, "bf16")
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(spec.matmul.A.dtype.numpy) for shape in ((128, 64), (64, 256)))
    plain = ampere.gemm(spec, ops=(relu,)).simulate(a, b)
    told = ampere.gemm(spec, ops=(debug("sum", at=(9, 3)), relu)).simulate(a, b)
    assert (plain.out == told.out).all()
    (line,) = capsys.readouterr().out.splitlines()
    value = (a.astype(np.float32) @ b.astype(np.float32))[9, 3]
    assert line.startswith("sum: block 0, thread 5, [9, 3] = ")
    assert float(line.rpartition("= ")[2]) == pytest.approx(float(value), abs=1e-3)


def test_transposed_products_and_roles_print_the_authors_coordinates(capsys: Captured) -> None:
    a, b = arrays(64, 256, 64)
    spec = matmul(64, 256, 64, "f16", layout="TN", arch="sm_90").then(debug("v", at=(7, 200)))
    schedule = hopper.gemm(spec, hopper.Plan(128, 64, swapped=True))
    schedule.simulate(a.astype(np.float16), np.ascontiguousarray(b.T).astype(np.float16))
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith(f"[7, 200] = {(a @ b)[7, 200]:g}")
    assert 'debug_2("v", ' in schedule.cuda()
    assert schedule.compile("sm_90a", cache=False).findings == ()  # its stack and its serialised products are no errors


def test_programs_print_their_points(capsys: Captured) -> None:
    @fi.program(x="m n")
    def scaled(x: Any) -> Any:
        e = exp(x)
        return debug("share", at=(1, 3))(e / fi.sum(e, "n"))

    x = np.zeros((2, 64), np.float32)
    assert (rows.row(scaled(tensor(2, 64, name="x"))).simulate(x).out == 1 / 64).all()
    assert capsys.readouterr().out == "share: block 0, thread 16, [1, 3] = 0.015625\n"


def test_points_of_rows_that_do_not_exist_are_not_printed(capsys: Captured) -> None:
    """A block has more rows than there are, and folds what the others hold."""

    @fi.program(x="m n")
    def sums(x: Any) -> Any:
        return fi.sum(debug("v")(x), "n")

    schedule = sums(tensor(3, 8, name="x")).tile(m=4).to(fi.Block).tile(m=1).to(fi.Thread)
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    made = schedule.load("x", fi.RF, fi.vector()).epilog(memory=fi.RF).done()
    assert (made.simulate(x).out == x.sum(1)).all()
    lines = capsys.readouterr().out.splitlines()
    assert sorted(float(line.rpartition(" = ")[2]) for line in lines) == list(range(24))


def test_gemm_on_arrays_prints(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "without_gpu", lambda: True)
    ones = np.ones((4, 4), np.float32)
    assert (gemm(ones, ones, epilog=lambda acc: debug("g", at=(0, 1))(acc) + 1) == 5).all()
    assert capsys.readouterr().out == "g: block 0, thread 0, [0, 1] = 4\n"


@pytest.mark.parametrize("dtype", ["bf16", "f64", "i8"])
def test_it_compiles_for_each_type(dtype: str) -> None:
    schedule = simt.sgemm(matmul(64, 64, 8, dtype), ops=(debug("sum"),))
    source = schedule.cuda("sm_80")
    assert 'printf("%s: block %d, thread %d, [%d, %d] = ' in source
    assert schedule.compile("sm_80", cache=False).resources.registers


def test_it_is_an_identity_to_all_who_read_expressions() -> None:
    value = debug("x", at=(1, 2))(accumulator(f32)) * 3
    assert str(value) == "debug(x: acc) * 3"
    assert derivative(value.tree, 0) == derivative((accumulator(f32) * 3).tree, 0)
    (again,) = read(write((value.tree,)))
    assert again == value.tree
    assert isinstance(value.tree.x, Debug)  # pyright: ignore[reportAttributeAccessIssue]

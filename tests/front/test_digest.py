"""The structural digest tells apart all that lowers apart: it is the key under which kernels are kept."""

from __future__ import annotations

import copy
import pickle

import pytest

from fireiron import RF, SH, A, Block, ColMajor, MatMul, Matrix, Swizzle, Vector, add, matmul, relu, scale, symbol
from fireiron.front.digest import digest
from fireiron.schedules import ampere, simt


def of(schedule):
    return digest(schedule.program, schedule.links, schedule.name)


def sized(**known):
    return simt.sgemm(matmul(symbol("M", **known), 64, 64))


def test_equal_schedules_have_one_digest():
    assert of(simt.listing4(matmul(128, 128, 64))) == of(simt.listing4(matmul(128, 128, 64)))
    assert of(sized(multiple_of=8)) == of(sized(multiple_of=8))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (sized(), sized(multiple_of=8)),
        (sized(maximum=4096), sized(maximum=8192)),
        (sized(minimum=1), sized(minimum=2)),
        (
            simt.listing2(matmul(64, 64, 64)),
            simt.listing2(MatMul(Matrix(64, 64, ld=80), Matrix(64, 64), Matrix(64, 64))),
        ),
        (simt.listing2(matmul(64, 64, 64)), simt.listing2(matmul(64, 64, 64, layout="TN"))),
        (simt.listing2(matmul(64, 64, 64, alpha=2.0)), simt.listing2(matmul(64, 64, 64, alpha="alpha"))),
        (simt.sgemm(matmul(64, 64, 64), stages=2), simt.sgemm(matmul(64, 64, 64), stages=3)),
        (ampere.gemm(matmul(64, 64, 64, "f16")), ampere.gemm(matmul(64, 64, 64, "bf16"))),
    ],
)
def test_what_lowers_apart_is_told_apart(one, other):
    assert of(one) != of(other)


def test_functions_count_by_what_they_mean():
    block = matmul(64, 64, 64).tile(32, 32).to(Block)
    shifts = [block.permute(lambda i, n=n: i ^ n) for n in (1, 1, 2)]
    assert of(shifts[0]) == of(shifts[1]) != of(shifts[2])
    ops = [block.epilog(op, memory=RF) for op in (relu, relu, scale(2))]
    assert of(ops[0]) == of(ops[1]) != of(ops[2])
    loads = [block.split(8).load(A, SH).swizzle(Swizzle(1, 2, s)) for s in (1, 2)]
    assert of(loads[0]) != of(loads[1]) != of(block.split(8).load(A, SH).storage_layout(ColMajor))


def test_an_epilogue_operand_counts_too():
    biases = [Vector(64, name="bias"), Vector(64, "f16", name="bias"), Vector(64, name="other")]
    block = matmul(64, 64, 64).tile(32, 32).to(Block)
    assert len({of(block.epilog(add(bias), memory=RF)) for bias in biases}) == 3


def test_writing_a_schedule_starts_no_driver(monkeypatch):
    from fireiron.front import verbs

    def asked() -> int:
        raise AssertionError("the driver was asked for the GPU")

    monkeypatch.setattr(verbs, "_gpu", asked)
    schedule = simt.sgemm(matmul(96, 64, 48))
    assert schedule.tree()
    assert schedule.cuda()
    schedule.simulate()
    with pytest.raises(AssertionError, match="asked"):
        schedule.check()


@pytest.mark.parametrize(
    "make",
    [
        lambda: simt.sgemm(matmul(symbol("M", multiple_of=4), 64, 64)),
        lambda: ampere.gemm(matmul(256, 256, 64, "f16")),
        lambda: matmul(64, 64, 64).tile(32, 32).to(Block).epilog(relu, memory=RF),
    ],
)
def test_unpickled_and_copied_schedules_keep_their_digest(make):
    schedule = make()
    for other in (pickle.loads(pickle.dumps(schedule)), copy.deepcopy(schedule)):
        assert other.name == schedule.name
        assert of(other) == of(schedule)

"""What remains after each link, and what makes two schedules equal."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    Layout,
    Level,
    QuadPair,
    Strided,
    Thread,
    Warp,
    Warpgroup,
    matmul,
    microkernel,
    relu,
)
from fireiron.front.digest import digest
from fireiron.language.levels import Kernel


def texts(chain: Any) -> list[str]:
    return [str(chain._origin), *(str(residual) for residual in chain._trail)]


def test_residuals_link_by_link() -> None:
    chain = (
        matmul(256, 128, 64).tile(64, 32).to(Block).epilog(memory=FR).split(8).load(A, SH).tile(16, 16).to(Warp)
        .tile(Strided((2, 8), (1, 4))).to(Thread).split(1).unroll().load(A, RF).load(B, RF).tile(1, 1)
    )  # fmt: skip
    assert texts(chain) == [
        "MatMul(256, 128, 64)(GL, GL, GL)(Kernel)",
        "MatMul(64, 32, 64)(GL, GL, GL)(Block)",
        "MatMul(64, 32, 64)(GL, GL, FR)(Block)",
        "MatMul(64, 32, 8)(GL, GL, FR)(Block)",
        "MatMul(64, 32, 8)(SH, GL, FR)(Block)",
        "MatMul(16, 16, 8)(SH, GL, FR)(Warp)",
        "MatMul(4, 4, 8)(SH, GL, FR)(Thread)",
        "MatMul(4, 4, 1)(SH, GL, FR)(Thread)",
        "MatMul(4, 4, 1)(RF, GL, FR)(Thread)",
        "MatMul(4, 4, 1)(RF, RF, FR)(Thread)",
        "MatMul(1, 1, 1)(RF, RF, FR)(Thread)",
    ]


def test_chains_are_immutable() -> None:
    start = matmul(64, 64, 64).tile(32, 32).to(Block)
    one, two = start.split(8), start.split(16)
    assert (one.links[-1].size, two.links[-1].size) == (8, 16)
    assert len(start.links) == 1
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        start.links = ()  # type: ignore[misc]


def test_equal_chains_written_in_two_places() -> None:
    one = matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH)
    two = matmul(64, 64, 64).tile(32, 32).to(Block).split(8).load(A, SH)
    assert one == two
    assert hash(one) == hash(two)
    assert one != one.pad(4)


def test_digests_tell_kernels_apart() -> None:
    def make(permute: Any = None, source: str = "C[0] = 0;", k: int = 64) -> str:
        chain = matmul(64, 64, k).tile(16, 16).to(Block).tile(1, 1).to(Thread)
        chain = chain.permute(permute) if permute else chain
        closed = chain.done(microkernel(source, name="m"))
        return digest(closed.program, closed.links, "name")

    assert make() == make()
    assert make(lambda i: i ^ 1) == make(lambda j: j ^ 1)
    assert len({make(), make(lambda i: i ^ 1), make(lambda i: i ^ 2), make(source="C[0] = 1;"), make(k=32)}) == 5


def test_digests_see_the_epilog() -> None:
    def make(*ops: Any, **epilog: Any) -> str:
        chain = matmul(64, 64, 64).tile(32, 32).to(Block).epilog(*ops, memory=RF, **epilog)
        return digest(chain.program, chain.links, "name")

    assert len({make(), make(relu), make(init=1.0), make(dtype="f64")}) == 4


HALF = Level("Half", Warp, Layout(16, 1), 16)


@pytest.mark.parametrize(
    ("inner", "outer", "nests"),
    [
        (Block, Kernel, True), (Warp, Block, True), (Thread, Warp, True), (Thread, Kernel, True), (Block, Block, False),
        (Block, Warp, False), (Kernel, Thread, False), (Warp, Warpgroup, True), (QuadPair, Warp, True),
        (Warp, QuadPair, False), (Thread, Thread, False), (Thread, HALF, True), (HALF, Block, True),
        (HALF, QuadPair, False),
    ],
)  # fmt: skip
def test_nesting(inner: Level, outer: Level, nests: bool) -> None:
    assert inner.is_inside(outer) == nests

"""The benches of reductions and pointwise programs, on a machine without a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from bench import pointwise, reductions
from bench.main import main
from fireiron.algebra.dtypes import dtype as find_dtype


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["reductions", "columns", "all", "--shape", "4x64x128"], "all 4x64x128: "),
        (["pointwise", "six", "gelu_bias", "--shape", "64x1024", "--plan", "vectors=2"], "gelu_bias 64x1024: "),
    ],
)
def test_kernels_are_compiled_where_nothing_is_timed(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert line in printed
    assert "nothing was timed" in printed


def test_works_have_the_arrays_of_their_kernels() -> None:
    for work in (
        reductions.work("all", 4, 64, 128),
        reductions.work("middle", 4, 64, 128),
        pointwise.work("six", 64, 128),
        pointwise.work("rotary", 64, 256),
        pointwise.work("rotary_pairs", 64, 256),
    ):
        spec = work.schedule({}).computed
        assert [t.shape for t in spec.inputs] == [shape for shape, _ in work.inputs]
        assert [t.shape for t in spec.outputs] == [shape for shape, _ in work.outs]


def test_a_transpose_is_stored_by_its_own_lines() -> None:
    work = pointwise.work("transpose", 64, 128)
    x = np.arange(64 * 128, dtype=np.float32).reshape(64, 128).astype(find_dtype("bf16").numpy)
    made = np.zeros(work.outs[0][0], x.dtype)
    work.schedule({}).simulate(x, out=made)
    assert np.array_equal(made, x.T)


def test_drawn_shapes_follow_from_their_seed() -> None:
    assert reductions.drawn(5, 4) == reductions.drawn(5, 4) != reductions.drawn(6, 4)


def test_what_is_not_built_is_said_and_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rows", "softmax", "--shape", "64x1024", "64x2048", "--plan", "warps=64"]) == 1
    printed = capsys.readouterr().out
    assert printed.count("softmax 64x") == 2

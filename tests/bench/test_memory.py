"""The benches of reductions and pointwise programs, on a machine without a GPU."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from bench import memory, pointwise, reductions, rows
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
        reductions.work("max-columns", 4, 64, 128),
        reductions.work("and-all", 1, 1, 32786),
        pointwise.work("six", 64, 128),
        pointwise.work("rotary", 64, 256),
        pointwise.work("rotary_pairs", 64, 256),
    ):
        spec = work.schedule({}).computed
        callers = {t.name: t for t in spec.given}  # where several dims count as one
        assert [callers.get(t.name, t).shape for t in spec.inputs] == [shape for shape, _ in work.inputs]
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


@pytest.mark.parametrize(
    "made", [rows.work("add_rms_norm", 12, 64), rows.work("top", 12, 512), pointwise.work("two", 12, 64)]
)
def test_a_wrong_element_is_found_in_any_part(made: memory.Work, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(memory, "MOST_CHECKED", 256)
    given = [torch.randn(shape).bfloat16() for shape, _ in made.inputs]
    found = made.eager(torch)(*given)
    outs = list(found) if isinstance(found, tuple) else [found]
    if made.places is None:  # torch rounds where the kernels do not
        made = attrs.evolve(made, slack=2.0**-6)
    parts = list(memory._parts(made, given, outs))
    assert len(parts) == (1 if not made.by_rows else 3 if made.inputs[0][0][1] == 64 else 12)
    assert sum(memory._differing(torch, made, *some) for some in parts) == 0
    outs[-1][11, 5] += 1
    assert sum(memory._differing(torch, made, *some) for some in memory._parts(made, given, outs)) == 1


def test_folds_of_integers_are_compared_exactly() -> None:
    torch = pytest.importorskip("torch")
    made = reductions.work("and-rows", 1, 64, 64)
    x = torch.ones(1, 64, 64, dtype=torch.uint8)
    x[0, 3, 7] = 0
    y = made.eager(torch)(x)
    assert int(y.sum()) == 63
    assert memory._differing(torch, made, [x], [y]) == 0
    assert memory._differing(torch, made, [x], [torch.ones_like(y)]) == 1

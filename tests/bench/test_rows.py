"""The bench of row programs, on a machine without a GPU."""

from __future__ import annotations

import pytest

from bench.main import main
from bench.rows import GIVEN, drawn, schedule, work


def test_kernels_are_compiled_where_nothing_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rows", "softmax", "--shape", "64x1024"]) == 0
    printed = capsys.readouterr().out
    assert "softmax 64x1024: " in printed
    assert "nothing was timed" in printed


def test_unknown_names_are_refused() -> None:
    assert main(["rows", "nonsense"]) == 2


def test_drawn_shapes_follow_from_their_seed() -> None:
    assert drawn(5, 4) == drawn(5, 4) != drawn(6, 4)
    assert all(n % 8 == 0 and 64 <= n <= 1 << 18 and 1 << 22 < m * n <= 1 << 30 for m, n in drawn(5, 50))
    assert max(n for _, n in drawn(5, 50)) > 1 << 17


def test_programs_are_the_presets() -> None:
    assert schedule("layernorm", 8, 768, {"rows": 4}).computed.name == "layernorm"


@pytest.mark.parametrize("name", GIVEN)
def test_works_have_the_arrays_of_their_kernels(name: str) -> None:
    described = work(name, 8, 64)
    spec = described.schedule({}).computed
    kinds = {"bf16": "bfloat16", "f32": "float32", "i32": "int32"}
    assert [(t.shape, kinds[str(t.dtype)]) for t in spec.inputs] == list(described.inputs)
    assert [(t.shape, kinds[str(t.dtype)]) for t in spec.outputs] == list(described.outs)

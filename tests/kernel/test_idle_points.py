"""Points that some lanes lack: loads of zeros and folds without branches, and who keeps branches."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron.kernel.lower import idle_points
from fireiron.schedules import rows

LINES, WIDTH = 61, 936  # the lanes of a warp share 117 vectors, and a block has rows that are not there


def row(program: Any, *more: Any, width: int = WIDTH, dtype: str = "bf16", lines: int = LINES) -> Any:
    return rows.row(program(fi.Matrix(lines, width, dtype, name="x"), *more, arch="sm_90a"))


def folds(source: str) -> list[str]:
    """Return the text from the first load to the store."""
    return source[source.index("// load x") : source.index("// store")].splitlines()


@fi.program(x="m n")
def largest(x: fi.Value) -> tuple[fi.Value, fi.Value]:
    """Find the largest element of each row and its column."""
    return fi.max(x, "n"), fi.argmax(x, "n")


@fi.program(x="m n")
def spread(x: fi.Value) -> fi.Value:
    """Compute the logarithm of the sum of exponentials, a fold whose state has two numbers."""
    return fi.logsumexp(x, "n")


@fi.program(x="m n")
def quotients(x: fi.Value) -> fi.Value:
    """Sum quotients of integers, which zeros do not have."""
    return fi.sum(1000 / x, "n")


@pytest.mark.parametrize("program", [rows.softmax, rows.log_softmax])
def test_rows_of_one_array_have_no_branches(program: Any) -> None:
    text = folds(row(program).cuda())
    assert not [line for line in text if line.strip().startswith("if (")]
    (load,) = [line for line in text if "copy_or_zero_16B" in line]
    assert re.search(r"lane \+ r \* 32 < 117 && block \* 4 \+ warp < 61\)", load)
    assert len([line for line in text if re.search(r" \? next\d*\[0\] : ", line)]) == 2


@pytest.mark.parametrize("width", [936, 1000, 208, 100, 40, 24])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("program", [rows.softmax, rows.rms_norm, largest, spread])
def test_results_are_those_of_numpy(program: Any, dtype: str, width: int) -> None:
    found = row(program, width=width, dtype=dtype).simulate()
    assert found.comparison is not None
    assert found.comparison.passed


def test_a_fold_that_counts_zeros_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exponentials of zeros are 1."""
    monkeypatch.setattr(idle_points, "_chosen", lambda body, guard, states, context: body)
    found = row(spread, lines=62).simulate().comparison  # no other test lowers it
    assert found is not None
    assert not found.passed


def test_quotients_of_integers_keep_their_branch() -> None:
    schedule = row(quotients, dtype="i32", width=232)
    assert [line for line in folds(schedule.cuda()) if line.strip().startswith("if (lane")]
    x = np.random.default_rng(0).integers(1, 9, (LINES, 232)).astype(np.int32)
    np.testing.assert_array_equal(schedule.simulate(x).out, (1000 // x).sum(1))


def test_rows_of_two_arrays_keep_their_branches() -> None:
    given = fi.Matrix(LINES, WIDTH, "bf16", name="y"), fi.Matrix(LINES, WIDTH, "bf16", name="dy")
    source = rows.row(rows.softmax_backward(*given, arch="sm_90a")).cuda()
    assert re.search(r"if \(lane \+ r\d* \* 32 < 117\) \{", source[source.index("// load") : source.index("// store")])


def test_all_loads_of_a_ragged_row_start_before_one_is_needed() -> None:
    """In machine code the first addition or comparison stands behind the last load."""
    code = row(rows.softmax, lines=4001).compile("sm_90a").sass
    words = re.findall(r"/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\d+ )?([A-Z0-9]+)", code)
    loads = [i for i, word in enumerate(words) if word == "LDG"]
    assert len(loads) == 4
    assert loads[-1] < next(i for i, word in enumerate(words) if word == "FMNMX")
    assert "BRA" not in words[: words.index("SHFL")]

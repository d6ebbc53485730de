"""The bench of attention, on a machine without a GPU."""

from __future__ import annotations

from itertools import product

import pytest

import bench.attention
from bench.attention import Work, drawn_shapes, schedule
from bench.main import main


def test_kernels_are_compiled_where_nothing_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attention", "--shape", "1x2x256x64", "--plan", "warps=4", "keys=32"]) == 0
    printed = capsys.readouterr().out
    assert "attention 1x2x256x64: " in printed
    assert "nothing was timed" in printed


def test_shapes_have_four_sizes() -> None:
    assert main(["attention", "--shape", "64x64"]) == 2


def test_programs_are_the_presets() -> None:
    work = Work((1, 1, 64, 64, 64), "f16", causal=True, preset="simt")
    assert schedule(work, {"rows": 32}).computed.name == "attention"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--score", "soft-cap", "--preset", "mma"], "attention 1x2x256x64, soft-cap"),
        (["--score", "alibi", "--causal", "--preset", "mma"], "attention 1x2x256x64, causal, alibi"),
        (["--mask", "documents", "--times", "4"], "attention 1x2x256x64, documents, queries times 4"),
        (["--dtype", "e4m3", "--preset", "wgmma"], "attention 1x2x256x64"),
    ],
)
def test_score_functions_masks_and_data(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attention", "--shape", "1x2x256x64", *words]) == 0
    assert f"{named}: " in capsys.readouterr().out


def test_columns_of_values_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attention", "--shape", "1x1x128x96x64", "--preset", "mma", "--mask", "window"]) == 0
    assert "attention 1x1x128x96x64, window: " in capsys.readouterr().out


def test_rows_of_the_table_are_command_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Work] = []
    monkeypatch.setattr(
        bench.attention, "_planned", lambda work, *_: seen.append(work) or {"program": "", "registers": 0}
    )
    assert main(["attention", "--table"]) == 0
    assert len(seen) == len(set(seen)) == 25
    assert {work.preset for work in seen} == {"wgmma", "mma"}
    assert {work.score for work in seen} == {"", *bench.attention.SCORES}
    assert {work.mask for work in seen} == {"", *bench.attention.MASKS}


@pytest.mark.parametrize(
    "work",
    [
        Work((2, 2, 24, 16, 8), "bf16", causal=True, score="alibi"),
        Work((2, 2, 24, 16, 16), "f16", mask="documents", grow=0.1),
        Work((1, 2, 24, 16, 16), "bf16", mask="window", score="soft-cap", times=10),
        Work((1, 2, 24, 32, 16), "e4m3", causal=True),
    ],
)
def test_results_in_f64(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of scores one by one."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    monkeypatch.setattr(bench.attention, "WINDOW", 5)
    given = bench.attention.drawn(work, torch, "cpu")
    made = bench.attention.wanted(work, given, slice(3, 20), torch)
    scales = given.scales or torch.ones(3, 2)
    for b, h, i in product(range(work.shape[0]), range(2), range(3, 20)):
        q, k, v = (x[b, h].double() * s[h] for x, s in zip((given.q, given.k, given.v), scales, strict=True))
        keys = [
            j for j in range(24)
            if (not work.causal or j <= i) and (work.mask != "window" or abs(i - j) < 5)
            and (work.mask != "documents" or given.documents[b, i] == given.documents[b, j])
        ]  # fmt: skip
        scores = torch.stack([q[i] @ k[j] / work.shape[3] ** 0.5 for j in keys])
        scores = 20 * torch.tanh(scores / 20) if work.score == "soft-cap" else scores
        if work.score == "alibi":
            scores = scores - 2.0 ** (-8 * (h + 1) / 2) * (i - torch.tensor(keys))
        assert torch.allclose(made[b, h, i - 3], scores.softmax(-1) @ v[keys], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("suite", "shape"),
    [
        (["attention-decode"], "2x2x4x1x256x64"),
        (["attention-decode", "--pages", "64"], "2x2x4x1x256x64"),
        (["attention-bwd", "--preset", "mma", "--causal"], "1x2x256x64"),
    ],
)
def test_other_suites_compile_their_kernels(suite: list[str], shape: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*suite, "--shape", shape]) == 0
    printed = capsys.readouterr().out
    assert f"{suite[0]} {shape}: " in printed
    assert "nothing was timed" in printed


def test_pages_divide_the_keys() -> None:
    assert main(["attention-decode", "--pages", "48", "--shape", "2x2x4x1x256x64"]) == 2


def test_drawn_shapes_follow_the_seed() -> None:
    found = drawn_shapes("a", 40)
    assert found[:9] == drawn_shapes("a", 9) != drawn_shapes("b", 9)
    assert {shape[3] for shape in found} == {32, 64, 80, 96, 128}
    assert any(shape[2] % 64 for shape in found)
    assert any(shape[2] % 64 == 0 for shape in found)

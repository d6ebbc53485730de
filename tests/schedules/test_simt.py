"""Every preset for CUDA cores: right on the simulator, compiled without spills, and printed as golden files show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import matmul
from fireiron.schedules import simt
from tests.fuzz.judge import judge

Right = Callable[..., Any]
PRESETS = {"listing1": simt.listing1, "listing2": simt.listing2, "listing4": simt.listing4, "sgemm": simt.sgemm}
LAYOUTS = ("NN", "NT", "TN", "TT")
DTYPES = ("f64", "f32", "f16", "bf16", "i8", "u8", "i32")
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_103", "sm_120", "sm_121")
SIZES = ((128, 128, 32), (100, 90, 33), (131, 129, 10), (1, 1, 1), (127, 3, 9))


@pytest.mark.product
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PRESETS)
def test_right_in_every_layout(right: Right, name: str, layout: str) -> None:
    for size in SIZES:
        right(PRESETS[name](matmul(*size, layout=layout)))


# The listings load and compute every type by the same links: two types of two of them in every run.
OFTEN = [
    (name, dtype) for name in PRESETS for dtype in DTYPES if name in ("listing1", "sgemm") or dtype in ("f16", "i8")
]


@pytest.mark.product
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype) if (name, dtype) in OFTEN else pytest.param(name, dtype, marks=pytest.mark.exhaustive)
        for name in PRESETS
        for dtype in DTYPES
    ],
)
def test_right_for_every_dtype(right: Right, name: str, dtype: str) -> None:
    for size in ((128, 128, 16), (130, 67, 9)):
        right(PRESETS[name](matmul(*size, dtype)))


@pytest.mark.parametrize("out", ["f16", "bf16", "tf32", "e4m3", "e5m2", "i8", "u8", "i32"])
def test_listing1_converts_from_and_to_every_type(out: str) -> None:
    for dtype in ("f64", "i8", out):
        chain = f"simt.listing1(matmul(5, 6, 8, '{dtype}', arch='sm_89', out='{out}'))"
        verdict = judge(chain, compiled=True)
        assert (verdict.kind, verdict.compiled) == ("right", "yes"), f"{chain}: {verdict}"


@pytest.mark.product
@pytest.mark.parametrize(
    ("size", "stages", "ahead"),
    [
        *(((130, 67, 9), stages, ahead) for ahead in (1, 2) for stages in (1, 2, 3)),
        ((256, 256, 64), 2, 1),
        ((256, 256, 64), 3, 2),
        *(
            pytest.param((256, 256, 64), *other, marks=pytest.mark.exhaustive)
            for other in ((1, 1), (3, 1), (1, 2), (2, 2))
        ),
    ],
)
def test_keywords_of_sgemm(right: Right, size: Any, stages: int, ahead: int) -> None:
    right(simt.sgemm(matmul(*size), stages=stages, ahead=ahead))
    right(simt.sgemm(matmul(*size), m=64, n=64, k=16, warp=(32, 32), thread=(4, 8), stages=stages, ahead=ahead, pad=0))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(4, 4, 1), (1, 4, 4), (4, 1, 4), (1, 1, 4), (1, 4, 1)])
def test_extents_of_one_in_every_layout(size: tuple[int, int, int], layout: str) -> None:
    """Arrays come as layout says, also where strides alone do not tell rows from columns."""
    m, n, k = size
    a, b = np.arange(m * k, dtype=np.float32).reshape(m, k), np.arange(k * n, dtype=np.float32).reshape(k, n)
    given = (a.T.copy() if layout[1] == "T" else a, b.T.copy() if layout[0] == "T" else b)
    np.testing.assert_array_equal(simt.listing1(matmul(*size, layout=layout)).simulate(*given).out, a @ b)


@pytest.mark.parametrize(("dtype", "low", "high"), [("i8", -128, 127), ("u8", 0, 255)])
@pytest.mark.parametrize("name", PRESETS)
def test_results_of_eight_bits_saturate(name: str, dtype: str, low: int, high: int) -> None:
    a = np.full((8, 64), 100, dtype={"i8": np.int8, "u8": np.uint8}[dtype])
    b = a.reshape(64, 8).copy()
    if dtype == "i8":
        b[:, ::2] *= -1
    total = a.astype(np.int64) @ b.astype(np.int64)
    out = PRESETS[name](matmul(8, 8, 64, dtype, out=dtype)).simulate(a, b).out
    np.testing.assert_array_equal(out, np.clip(total, low, high))


def compiled(schedule: Any, arch: str) -> None:
    """Compile without a cache, and demand that nothing spills or lies on a stack."""
    resources = schedule.compile(arch, cache=False).resources
    assert (resources.stack, resources.spill_stores, resources.spill_loads, resources.warnings) == (0, 0, 0, ())
    assert 0 < resources.registers <= 255


@pytest.mark.product
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", PRESETS)
def test_compiles_without_spills(name: str, arch: str) -> None:
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    for size in ((512, 512, 64), (510, 509, 61)):
        compiled(PRESETS[name](matmul(*size)), arch)


@pytest.mark.exhaustive
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PRESETS)
def test_compiles_everywhere(name: str, dtype: str, layout: str, arch: str) -> None:
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    for size in ((512, 512, 64), (510, 509, 61)):
        compiled(PRESETS[name](matmul(*size, dtype, layout=layout)), arch)


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PRESETS)
def test_right_for_every_dtype_in_every_layout(right: Right, name: str, dtype: str, layout: str) -> None:
    for size in SIZES:
        right(PRESETS[name](matmul(*size, dtype, layout=layout)))


def test_listing1_as_printed(golden: Callable[[str, str], None]) -> None:
    golden(simt.listing1(matmul(512, 512, 512)).cuda(80), "schedules/simt_listing1.cu")


def test_listing2_as_printed(golden: Callable[[str, str], None]) -> None:
    golden(simt.listing2(matmul(512, 512, 512)).cuda(80), "schedules/simt_listing2.cu")


def test_listing4_as_printed(golden: Callable[[str, str], None]) -> None:
    golden(simt.listing4(matmul(512, 512, 512, layout="TT")).cuda(80), "schedules/simt_listing4.cu")


def test_sgemm_as_printed(golden: Callable[[str, str], None]) -> None:
    golden(simt.sgemm(matmul(512, 512, 512)).cuda(80), "schedules/simt_sgemm.cu")


def test_sgemm_of_any_size_as_printed(golden: Callable[[str, str], None]) -> None:
    from fireiron import symbol

    golden(simt.sgemm(matmul(symbol("M"), symbol("N"), symbol("K"))).cuda(80), "schedules/simt_sgemm_symbols.cu")


def test_the_listing_the_paper_tuned_has_few_conflicts() -> None:
    """Listing 4's permuted lanes read shared memory without conflicts; listing 2's read A eight rows apart."""
    degrees = {}
    for name in ("listing2", "listing4", "sgemm"):
        report = PRESETS[name](matmul(128, 128, 16, layout="TT" if name == "listing4" else "NN")).simulate().report
        degrees[name] = max(site.conflict_degree for site in report.sites if site.sh_read.requests)
    assert degrees["listing4"] == degrees["sgemm"] == 1
    assert degrees["listing2"] > 1


def test_names_for_profilers() -> None:
    names = [PRESETS[name](matmul(512, 512, 512, "f16")).name for name in PRESETS]
    assert names == [
        "listing1_16x16_f16",
        "listing2_128x128x8_f16_f32",
        "listing4_128x128x8_f16_f32",
        "sgemm_128x128x8_f16_f32",
    ]


def test_the_simulator_logs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    simt.listing2(matmul(128, 128, 8)).simulate()
    assert capsys.readouterr() == ("", "")

"""Gradients of convolutions of few channels, on tensor cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fireiron import best, tensor
from fireiron.language.decompositions import Split, Tile
from fireiron.schedules import conv, conv_gradients, conv_packed_gradients
from fireiron.verify.verification import Data, verify


def right(schedule: Any) -> Any:
    """Simulate on whole numbers and on random ones, with races looked for, and hold the output to the reference."""
    simulated: list[Any] = []

    def launch(data: Data) -> None:
        simulated.append(schedule.simulate(*data.inputs, out=data.out, **data.numbers))

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)
    return simulated[-1]


def programs(
    n: int, sides: tuple[int, int], c: int, k: int, taps: tuple[int, int], stride: tuple[int, int],
    pads: tuple[Any, Any], dtype: str = "f16",
) -> tuple[Any, Any]:  # fmt: skip
    """Give the gradients of images and of filters."""
    both = [(p, p) if isinstance(p, int) else p for p in pads]
    p, q = ((side + sum(b) - t) // s + 1 for side, b, t, s in zip(sides, both, taps, stride, strict=True))
    y = tensor(n, p, q, k, name="y", dtype=dtype)
    f = tensor(k, taps[0], taps[1] * c, name="f", dtype=dtype)
    x = tensor(n, sides[0], sides[1] * c, dtype=dtype)
    images = conv_packed_gradients.conv2d_packed_data_gradient(y, f, stride, pads, c, arch="sm_90a")
    return images, conv_packed_gradients.conv2d_packed_filter_gradient(y, x, taps, stride, pads, c, arch="sm_90a")


CASES: dict[str, tuple[Any, ...]] = {
    "stem": (2, (16, 24), 3, 32, (7, 7), (2, 2), (3, 3)),
    "unequal, bf16": (1, (9, 12), 5, 16, (3, 2), (3, 1), ((1, 0), (0, 1)), "bf16"),
    "strides above the taps": (2, (10, 9), 4, 24, (2, 2), (1, 3), (0, 1)),
}


@pytest.mark.product
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("halo", [True, False])
def test_gradient_of_images(case: str, halo: bool) -> None:
    images, _ = programs(*CASES[case])
    right(conv_packed_gradients.images_mma(images, rows=4, halo=halo))


@pytest.mark.product
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("form", [{}, {"rows": 1, "filters": 16, "ways": 1}, {"rows": 4, "filters": 32, "ways": 2}])
def test_gradient_of_filters(case: str, form: dict[str, int]) -> None:
    _, filters = programs(*CASES[case])
    report = right(conv_packed_gradients.filters_mma(filters, **form)).report
    assert max(site.conflict_degree for site in report.sites) <= 1.0


def test_best_takes_these_and_they_give_what_the_others_give() -> None:
    rng = np.random.default_rng(3)
    n, h, w, c, k = 1, 8, 10, 3, 16
    y, x, f = (rng.integers(-2, 3, s).astype(np.float16) for s in ((n, 4, 5, k), (n, h, w, c), (k, 3, 3, c)))
    images, filters = programs(n, (h, w), c, k, (3, 3), (2, 2), (1, 1))
    assert best(images).name.startswith("images_mma")
    assert best(filters).name.startswith("filters_mma")
    described = [tensor(*a.shape, dtype="f16", name=name) for name, a in (("y", y), ("f", f), ("x", x))]
    dx = np.empty((n, h, w, c), np.float16)
    for part in conv_gradients.data_gradients(*described, 2, 1):
        assert part.spec is not None
        conv.simt(part.spec).simulate(y, f[:, *part.taps], out=dx[:, *part.pixels])
    made = best(images).simulate(y, f.reshape(k, 3, -1)).out
    np.testing.assert_array_equal(made.reshape(n, h, w, c), dx)
    plain = conv_gradients.conv2d_filter_gradient(described[0], described[2], 3, 2, 1)
    wanted = conv_gradients.filters_simt(plain).simulate(y, x).out
    made = best(filters).simulate(y, x.reshape(n, h, -1)).out
    np.testing.assert_array_equal(made.reshape(k, 3, 3, c), wanted)


def test_nan_of_images_reaches_the_taps_that_read_it_alone() -> None:
    _, filters = programs(1, (8, 8), 3, 16, (3, 3), (2, 2), (1, 1))
    y, x = np.ones((1, 4, 4, 16), np.float16), np.ones((1, 8, 24), np.float16)
    x[:, 7, 21:] = np.nan  # the last pixel, which the last tap of the last window reads
    made = conv_packed_gradients.filters_mma(filters).simulate(y, x).out.reshape(16, 3, 3, 3)
    assert np.isnan(made[:, 2, 2]).all()
    assert not np.isnan(made[:, :2, :2]).any()


def test_the_stem_compiles(golden: Callable[[str, str], None]) -> None:
    images, filters = programs(32, (224, 224), 3, 64, (7, 7), (2, 2), (3, 3))
    schedules = conv_packed_gradients.images_mma(images), conv_packed_gradients.filters_mma(filters)
    for schedule in schedules:
        assert not schedule.compile("sm_90a").resources.spills
        assert not schedule.compile("sm_80").resources.spills
    golden(schedules[0].cuda("sm_90a"), "schedules/conv_packed_data_gradient.cu")
    golden(schedules[1].cuda("sm_90a"), "schedules/conv_packed_filter_gradient.cu")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((32, (224, 224), 3, 64, (7, 7), (2, 2), (3, 3)), (1, "p", 112)),
        ((32, (224, 224), 3, 32, (3, 3), (2, 2), (1, 1)), (2, "p", 112)),  # of one row each, too few warps
        ((128, (32, 32), 3, 64, (3, 3), (1, 1), (1, 1)), (2, "n", 128)),
    ],
)
def test_gradients_of_filters_have_enough_warps(shape: tuple[Any, ...], expected: tuple[int, str, int]) -> None:
    """On an H200 the first took 80 us for 116 with a third of the blocks, the second 42 us for 68."""
    _, filters = programs(*shape)
    schedule = conv_packed_gradients.filters_mma(filters)
    tile = next(dict(link.sizes) for link in schedule.links if isinstance(link, Tile))
    split = next(link for link in schedule.links if isinstance(link, Split))
    assert (tile["r"], split.dim, split.ways) == expected

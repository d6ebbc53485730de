"""Gradients of depthwise convolutions: against sums in NumPy, in every form on the simulator, and without spills."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from fireiron import tensor
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.front.best_program import best_program
from fireiron.language.decompositions import Split, Tile
from fireiron.schedules import conv_gradients, depthwise_gradients
from fireiron.schedules._boxes import Sums, divided
from fireiron.verify.verification import Data, verify


def right(schedule: Any) -> Any:
    """Simulate on whole numbers and on random ones, with races looked for, and hold the output to the reference."""
    simulated: list[Any] = []

    def launch(data: Data) -> None:
        simulated.append(schedule.simulate(*data.inputs, out=data.out, **data.numbers))

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)
    return simulated[-1]


class Case:
    """Describe a depthwise convolution and its arrays.

    Args:
        images, sides, channels: images (N, sides..., C).
        taps: taps of a filter along each side.
        stride, pad, dilation: as programs take them; pad as pairs.
        dtype: element type of all arrays.
    """

    def __init__(
        self, images: int, sides: tuple[int, ...], channels: int, taps: tuple[int, ...], stride: tuple[int, ...],
        pad: tuple[tuple[int, int], ...], dilation: tuple[int, ...], dtype: str = "f16",
    ) -> None:  # fmt: skip
        self.rank, self.taps, self.stride, self.pad, self.dilation = len(sides), taps, stride, pad, dilation
        each = zip(sides, taps, stride, pad, dilation, strict=True)
        made = tuple((n + sum(p) - (t - 1) * d - 1) // s + 1 for n, t, s, p, d in each)
        self.y = tensor(images, *made, channels, dtype=dtype, name="y")
        self.x = tensor(images, *sides, channels, dtype=dtype)
        self.f = tensor(channels, *taps, 1, dtype=dtype, name="f")

    def residues(self) -> Any:
        return conv_gradients.data_gradients(
            self.y, self.f, self.x, self.stride, self.pad, self.dilation, "sm_90a", depthwise=True
        )

    def whole(self) -> Any:
        """Give the program of all pixels; sides must be multiples of the strides, without dilation."""
        program = depthwise_gradients.DATA_GRADIENTS[self.rank]
        return program(self.y, self.f, self.stride, self.pad, arch="sm_90a")

    def filters(self, box: Any = None) -> Any:
        program = depthwise_gradients.FILTER_GRADIENTS[self.rank]
        return program(self.y, self.x, self.taps, self.stride, self.pad, self.dilation, box, arch="sm_90a")

    def drawn(self, *tensors: Any) -> list[Any]:
        rng = np.random.default_rng(4)
        return [rng.integers(-3, 4, size=t.shape).astype(find_dtype(t.dtype.name).numpy) for t in tensors]

    def summed(self, y: Any, f: Any, x: Any) -> tuple[Any, Any]:
        """Sum the gradients of images and of filters in NumPy, tap by tap."""
        by_x, by_f = np.zeros(x.shape), np.zeros(f.shape)
        ends = self.x.shape[1:-1]
        for tap in product(*(range(t) for t in self.taps)):
            for at in product(*(range(n) for n in self.y.shape[1:-1])):
                facts = zip(at, tap, self.stride, self.pad, self.dilation, strict=True)
                place = tuple(p * s + t * d - pad[0] for p, t, s, pad, d in facts)
                if all(0 <= i < n for i, n in zip(place, ends, strict=True)):
                    here = y[(slice(None), *at)].astype(float)
                    by_x[(slice(None), *place)] += here * f[(slice(None), *tap, 0)]
                    by_f[(slice(None), *tap, 0)] += (here * x[(slice(None), *place)]).sum(0)
        return by_x, by_f


SAME, ONE = ((1, 1), (1, 1)), (1, 1)
CASES: dict[str, Case] = {
    "same": Case(2, (6, 7), 16, (3, 3), ONE, SAME, ONE),
    "strided": Case(1, (8, 10), 12, (3, 3), (2, 2), SAME, ONE),
    "strided, odd sides": Case(2, (7, 9), 8, (3, 3), (2, 2), SAME, ONE),
    "strides above the taps, bf16": Case(1, (6, 9), 20, (2, 2), (2, 3), ((0, 0), (0, 0)), ONE, "bf16"),
    "unequal padding, dilation, odd channels": Case(1, (9, 8), 13, (3, 2), (2, 1), ((2, 1), (0, 3)), (1, 2)),
    "5 x 5": Case(1, (8, 8), 8, (5, 5), (2, 2), ((2, 2), (2, 2)), ONE, "f32"),
    "lines": Case(2, (16,), 24, (4,), (2,), ((1, 1),), (1,)),
    "volumes": Case(1, (4, 4, 6), 8, (3, 2, 3), (2, 1, 1), ((1, 1), (1, 0), (1, 1)), (1, 1, 1)),
}


def at_once(case: Case) -> bool:
    whole = all(n % s == 0 for n, s in zip(case.x.shape[1:-1], case.stride, strict=True))
    return whole and max(case.dilation) == 1 and max(case.stride) > 1 and case.rank < 3


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_that_numpy_sums(name: str) -> None:
    case = CASES[name]
    y, f, x = case.drawn(case.y, case.f, case.x)
    by_x, by_f = case.summed(y, f, x)
    made = np.zeros_like(x)
    for part in case.residues():
        if part.spec is not None:
            view = made[(slice(None), *part.pixels)]
            view[...] = best_program(part.spec).simulate(y, f[(slice(None), *part.taps)]).out
    np.testing.assert_array_equal(made.astype(float), by_x)
    if at_once(case):
        found = best_program(case.whole()).simulate(y, f).out
        np.testing.assert_array_equal(found.reshape(x.shape).astype(float), by_x)
    found = best_program(case.filters()).simulate(y, x).out
    np.testing.assert_array_equal(found.reshape(f.shape).astype(float), by_f)


@pytest.mark.parametrize("name", CASES)
def test_random_numbers_lie_within_bounds(name: str) -> None:
    case = CASES[name]
    for part in case.residues():
        if part.spec is not None:
            right(best_program(part.spec))
    if at_once(case):
        right(depthwise_gradients.images(case.whole()))
    right(depthwise_gradients.filters(case.filters()))


def test_gradients_of_images_take_the_strips_of_the_convolution() -> None:
    """Filters are read as they lie, by vectors of several taps, and from the last tap on: no copy is flipped."""
    case = Case(32, (56, 56), 144, (3, 3), ONE, SAME, ONE)
    (part,) = case.residues()
    schedule = best_program(part.spec)
    tile = [dict(x.sizes) for x in schedule.links if isinstance(x, Tile)][-1]
    assert (tile["h"], tile["w"], tile["k"]) == (7, 2, 4)
    source = schedule.cuda("sm_90a")
    assert "copy_8B(&f_rf[r2 * 4]" in source
    assert "f_rf[k * 9 - u * 3 - v + 8]" in source


def test_taps_of_a_residue_are_read_through_shared_memory() -> None:
    """Every second tap of a filter: threads would read them one by one, each from a line of its own."""
    case = Case(32, (55, 55), 144, (3, 3), (2, 2), SAME, ONE)
    for part in case.residues():
        schedule = best_program(part.spec, dependent=True)
        assert "load f to SH" in str(schedule)
        assert not schedule.compile("sm_90a").resources.spills
        assert "griddepcontrol.wait" in schedule.cuda("sm_90a")
    (part,) = Case(32, (56, 56), 144, (3, 3), ONE, SAME, ONE).residues()
    assert "load f to SH" not in str(best_program(part.spec))


@pytest.mark.parametrize("form", [{"rows": 1, "pixels": 2}, {"rows": 4, "pixels": 1, "channels": 2}, {"threads": 64}])
def test_forms_of_all_pixels_at_once(form: dict[str, int]) -> None:
    right(depthwise_gradients.images(CASES["strided"].whole(), **form))


def test_infinite_gradients_stay_in_their_windows() -> None:
    """A place visits more taps than a filter has; a product with a tap beyond it would be NaN."""
    case = CASES["strided"]
    y, f = case.drawn(case.y, case.f)
    f[...] = np.where(f == 0, 1, f)
    y[0, 1, 2] = np.inf
    found = depthwise_gradients.images(case.whole()).simulate(y, f).out.reshape(case.x.shape)
    assert not np.isnan(found).any()
    rows, columns = np.nonzero(np.isinf(found[0, :, :, 0]))
    assert {*rows} == {1, 2, 3}
    assert {*columns} == {3, 4, 5}


FORMS: dict[str, dict[str, Any]] = {
    "lanes of a vector": {"channels": 2, "lanes": 4, "threads": 64},
    "one channel, a warp along channels": {"channels": 1, "lanes": 32, "threads": 64},
    "several blocks": {"channels": 2, "lanes": 4, "threads": 32, "ways": 3},
    "blocks add shares": {"channels": 2, "lanes": 8, "threads": 64, "ways": 2, "shared": True},
}


@pytest.mark.product
@pytest.mark.parametrize("box", [pytest.param((1, 1), marks=pytest.mark.exhaustive), (2, 4), (4, 3)])
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_sums(form: str, box: tuple[int, int]) -> None:
    case = Case(2, (9, 11), 20, (3, 3), ONE, SAME, ONE)
    right(depthwise_gradients.filters(case.filters(box), **FORMS[form]))


def test_pixels_beyond_a_box_are_no_products() -> None:
    """Boxes of 2 x 4 reach beyond 5 x 6 pixels, where x has a row and columns, and y has zeros."""
    case = Case(1, (5, 6), 8, (3, 3), ONE, SAME, ONE)
    y, x = case.drawn(case.y, case.x)
    x[0, 4, 5] = np.inf
    y[...] = np.where(y == 0, 1, y)
    found = depthwise_gradients.filters(case.filters((2, 4))).simulate(y, x).out
    assert not np.isnan(found).any()
    assert np.isinf(found[:, 1:, 1:]).all()  # x[4, 5] meets y[5 - r, 6 - s]
    assert np.isfinite(found[:, 0]).all()
    assert np.isfinite(found[:, :, 0]).all()


def test_a_condition_of_all_points_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a condition for each point, each product would convert its elements again."""
    case = Case(32, (56, 56), 144, (3, 3), ONE, SAME, ONE)
    made = depthwise_gradients.filters(case.filters((4, 4)), channels=4, lanes=8)
    line = next(x for x in made.cuda("sm_90a").splitlines() if "fmaf(" in x)
    assert "if (" not in line
    monkeypatch.setattr("fireiron.kernel.lower.ranked_points.guarded_once", lambda body: body)
    again = depthwise_gradients.filters(case.filters((4, 4)), channels=4, lanes=16)
    assert "if (" in next(x for x in again.cuda("sm_90a").splitlines() if "fmaf(" in x)


def test_boxes_and_blocks_fill_the_gpu() -> None:
    case = Case(32, (56, 56), 144, (3, 3), ONE, SAME, ONE)
    ways = [x.ways for x in depthwise_gradients.filters(case.filters()).links if isinstance(x, Split) and x.level]
    assert 132 * 0.8 < ways[0] * 5 <= 132 * 3
    assert divided(Sums(4, 64, 9, 16, 36, 2, False))[1].ways == 1


def test_boxes_that_registers_do_not_hold_are_scheduled_where_they_are_asked_for() -> None:
    case = Case(2, (8, 8), 16, (9, 9), ONE, ((4, 4), (4, 4)), ONE)
    right(depthwise_gradients.filters(case.filters((2, 4))))


@pytest.mark.product
@pytest.mark.parametrize(
    "arch", [*(pytest.param(a, marks=pytest.mark.exhaustive) for a in ("sm_80", "sm_120")), "sm_90a"]
)
@pytest.mark.parametrize(
    ("side", "channels", "taps", "stride", "dtype"),
    [(56, 144, 3, 1, "f16"), (14, 384, 5, 1, "bf16"), (112, 32, 3, 2, "f16"), (28, 192, 5, 2, "f16"),
     (7, 960, 3, 1, "f16"), (14, 96, 3, 1, "f32"), (14, 64, 7, 1, "f16"), (14, 64, 9, 1, "f16")],
)  # fmt: skip
def test_gradients_spill_no_registers(side: int, channels: int, taps: int, stride: int, dtype: str, arch: str) -> None:
    pad = ((taps // 2, taps // 2),) * 2
    case = Case(32, (side, side), channels, (taps, taps), (stride, stride), pad, ONE, dtype)
    images = case.whole() if stride > 1 else case.residues()[0].spec
    for spec in (images, case.filters()):
        assert not best_program(spec, arch).compile(arch).resources.spills


def test_sources(golden: Callable[[str, str], None]) -> None:
    case = Case(32, (28, 28), 64, (3, 3), (2, 2), SAME, ONE)
    golden(depthwise_gradients.images(case.whole()).cuda("sm_90a"), "schedules/depthwise_gradients_images.cu")
    golden(depthwise_gradients.filters(case.filters()).cuda("sm_90a"), "schedules/depthwise_gradients_filters.cu")

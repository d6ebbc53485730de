"""AKG's convolution on Volta: right, without bank conflicts, and compiled at the sizes of its example."""

from __future__ import annotations

from collections.abc import Callable

from fireiron import relu, tensor
from fireiron.kernel.analysis.access import accesses
from fireiron.schedules import akg, conv
from fireiron.verify.verification import Data, verify


def test_right_without_bank_conflicts() -> None:
    spec = conv.conv2d(
        tensor(18, 2, 2, 24, dtype="f16"), tensor(40, 2, 2, 24, dtype="f16", name="f"), tensor(40, name="bias"),
        pad=((1, 0), (0, 1)), op=relu,
    )  # fmt: skip
    schedule = akg.conv(spec)
    simulated = []

    def launch(data: Data) -> None:
        simulated.append(schedule.simulate(*data.inputs, out=data.out))

    assert verify(schedule, launch, {}).passed
    assert {site.conflict_degree for site in simulated[-1].report.sites if site.conflict_degree} == {1.0}


def test_its_example(golden: Callable[[str, str], None]) -> None:
    """28 rows of 14 pairs of pixels, 256 threads, and quad-pairs."""
    schedule = akg.conv(conv.conv2d(tensor(32, 32, 32, 64, dtype="f16"), tensor(128, 5, 5, 64, dtype="f16", name="f")))
    kernel = schedule.lowered("sm_70")
    assert (str(kernel.grid), kernel.threads) == ("392", 256)
    assert not schedule.compile("sm_70").resources.spills
    stored = {row.lane_nbytes for row in accesses(kernel) if row.buffer == "y" and row.direction == "write"}
    assert stored == {16}
    golden(schedule.cuda("sm_70"), "schedules/akg_conv.cu")
